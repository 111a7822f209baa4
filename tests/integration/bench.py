"""What tests of the operator do all the time: apply, wait by watch, and look at what Brev was asked for."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.api.meta import API_VERSION, FINALIZER, Kind, ObjectKey
from controller.kube.events import event_name
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.operator import OperatorProcess
from tests.integration.deployment import Deployment, Wishes
from tests.integration.kubeapi import WAIT_SECONDS, Api, Body, StillWaitingError, Wanted

TYPE = "g5.xlarge"
"""It stands in the catalog once, at one price."""

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def condition(body: Body | None, type_: str) -> Body:
    """The condition of that type; empty when there is none."""
    conditions = ((body or {}).get("status") or {}).get("conditions") or []
    found: Body = next((each for each in conditions if each["type"] == type_), {})
    return found


def is_true(type_: str, reason: str = "") -> Callable[[Body | None], bool]:
    """Whether the condition is True, for `until`; with that reason, if one is given."""

    def wanted(body: Body | None) -> bool:
        found = condition(body, type_)
        return found.get("status") == "True" and reason in ("", found["reason"])

    return wanted


def status_of(body: Body | None) -> Body:
    found: Body = (body or {}).get("status") or {}
    return found


def attempt_of(body: Body | None) -> Body:
    """The newest attempt; empty while there is none."""
    attempts: list[Body] = status_of(body).get("attempts") or [{}]
    return attempts[-1]


def over(body: Body | None) -> bool:
    """Whether a job has ended, and the object is held for nothing any more."""
    return "completionTime" in status_of(body) and FINALIZER not in (body or {})["metadata"].get("finalizers", [])


def phase(word: str) -> Callable[[Body | None], bool]:
    return lambda body: status_of(body).get("phase") == word


def gone(body: Body | None) -> bool:
    return body is None


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of `/metrics`."""

    name: str
    labels: dict[str, str]
    value: float


class Bench:
    """One test's view of a deployment: `namespace` is the tenant namespace of this test alone."""

    def __init__(self, deployment: Deployment, api: Api, namespace: str) -> None:
        self.deployment, self.api, self.namespace = deployment, api, namespace

    @property
    def brev(self) -> Simulator:
        return self.deployment.brev

    @property
    def operator(self) -> OperatorProcess:
        return self.deployment.operator

    @property
    def account(self) -> str:
        return self.deployment.account

    def instance_spec(self, *types: str, **more: Any) -> Body:
        return {"accountName": self.account, "candidates": [{"type": each} for each in types or (TYPE,)], **more}

    def job(self, name: str, text: str | None = "echo hello", **spec: Any) -> Body:
        """A BrevJob; keywords replace fields of its spec."""
        base: Body = {"instanceTemplate": {"spec": self.instance_spec()}}
        if text is not None:
            base["script"] = {"text": text}
        return {
            "apiVersion": API_VERSION,
            "kind": str(Kind.JOB),
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": base | spec,
        }

    def instance(self, name: str, *types: str, **more: Any) -> Body:
        return {
            "apiVersion": API_VERSION,
            "kind": str(Kind.INSTANCE),
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": self.instance_spec(*types, **more),
        }

    async def apply(self, body: Body) -> Body:
        return await self.api.create(Kind(body["kind"]), self.namespace, body)

    async def create(self, plural: str, name: str, **fields: Any) -> Body:
        """A ConfigMap or Secret in the tenant namespace."""
        return await self.api.create(plural, self.namespace, {"metadata": {"name": name}, **fields})

    async def until(self, kind: Kind, name: str, wanted: Wanted, seconds: float = WAIT_SECONDS) -> Body:
        """By watch. A test that waits in vain shows the object and the last words of the operator."""
        namespace = self.namespace if kind.namespaced else ""
        try:
            return await self.api.until(kind, namespace, name, wanted, seconds)
        except StillWaitingError as error:
            raise StillWaitingError(f"{error}\n{self.operator.log_tail()}") from None

    async def ended(self, name: str) -> Body:
        """The job, once it is over."""
        return await self.until(Kind.JOB, name, over)

    async def run(self, body: Body) -> Body:
        await self.apply(body)
        return await self.ended(body["metadata"]["name"])

    async def delete(self, kind: Kind, name: str, propagation: str = "Background") -> None:
        await self.api.delete(kind, self.namespace, name, propagation)

    async def events(self, *names: str) -> list[Body]:
        """Of these objects (of all in the namespace, if none is named)."""
        found = await self.api.list("events", self.namespace)
        return [event for event in found if not names or event["involvedObject"]["name"] in names]

    async def told(self, body: Body, reason: str) -> Body:
        """The Event of that reason about an object, once it is there: Events come after the status that they tell."""
        metadata = body["metadata"]
        key = ObjectKey(Kind(body["kind"]), self.namespace, metadata["name"])
        name = event_name(key, metadata["uid"], reason)
        return await self.api.until("events", self.namespace, name, lambda event: event is not None)

    async def machines(self) -> list[dict[str, Any]]:
        """Of this deployment; the simulator may serve another one too."""
        prefix = f"bo-{self.deployment.cluster_id}-"
        return [row for row in await self.brev.machines() if row["name"].startswith(prefix)]

    async def bill(self, *machines: str) -> list[dict[str, Any]]:
        """Lines of the invoice by name of the machine; of this deployment, if none is named."""
        prefix = f"bo-{self.deployment.cluster_id}-"
        lines = (await self.brev.invoice())["lines"]
        return [line for line in lines if (line["name"] in machines if machines else line["name"].startswith(prefix))]

    async def calls(self, *verbs: str) -> list[dict[str, Any]]:
        return [call for call in await self.brev.calls() if not verbs or call["argv"][0] in verbs]

    async def called(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first call of the CLI, past or coming, that is as wanted."""
        return await self.brev.wait_for_call(wanted, WAIT_SECONDS)

    async def seen(self, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The machines of Brev, as soon as they are as wanted."""
        return await self.brev.wait_for(wanted, WAIT_SECONDS)

    async def samples(self) -> list[Sample]:
        text = await self.operator.metrics()
        return [
            Sample(name, dict(_LABEL.findall(labels or "")), float(value))
            for name, labels, value in _SAMPLE.findall(text)
        ]

    async def writes(self, *resources: str) -> float:
        """Write requests of the operator's process so far, leases excepted; of these resources, if any is named."""
        return sum(
            sample.value
            for sample in await self.samples()
            if sample.name == "brev_kubernetes_requests_total"
            and sample.labels["verb"] in ("create", "update", "patch", "delete")
            and sample.labels["resource"] != "leases"
            and (not resources or sample.labels["resource"] in resources)
        )

    async def versions(self) -> dict[str, str]:
        """resourceVersion of every object of ours."""
        found: dict[str, str] = {}
        for kind in (Kind.JOB, Kind.INSTANCE):
            for body in await self.api.list(kind, self.namespace):
                found[f"{kind}/{body['metadata']['name']}"] = body["metadata"]["resourceVersion"]
        account = await self.api.get(Kind.ACCOUNT, "", self.account)
        if account is not None:
            found["account"] = account["metadata"]["resourceVersion"]
        return found


Deploy = Callable[[Wishes], Bench]
"""Makes a deployment that nobody else uses; its operator is not started."""


async def logged(operator: OperatorProcess, text: str, seconds: float = WAIT_SECONDS) -> str:
    """The log of an operator, once it holds `text`; a file has no watch."""
    async with asyncio.timeout(seconds):
        while text not in (log := operator.log()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return log


def commands_of(calls: Sequence[dict[str, Any]]) -> list[str]:
    """The remote commands of `exec` calls."""
    return [call["argv"][-1] for call in calls if call["argv"][0] == "exec"]


class Gate:
    """A script that says that it has begun, and ends when the test says so. `runs` counts its beginnings."""

    def __init__(self, directory: Path) -> None:
        self._runs, self._go = directory / "runs", directory / "go"
        os.mkfifo(self._go)
        # Both ends in this process: what is written waits in the pipe until the script reads it.
        self._pipe = os.open(self._go, os.O_RDWR)

    @property
    def script(self) -> str:
        return f'echo begun >> {self._runs}\nread -r code < {self._go}\necho "leaving with $code"\nexit "$code"\n'

    @property
    def runs(self) -> int:
        return self._runs.read_text().count("begun\n") if self._runs.exists() else 0

    def open(self, code: int = 0) -> None:
        os.write(self._pipe, f"{code}\n".encode())

    def close(self) -> None:
        os.close(self._pipe)
