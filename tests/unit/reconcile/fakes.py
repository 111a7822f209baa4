"""A Kubernetes, a login and an engine in memory, with everything written down in order."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from controller.api.meta import Kind, ObjectKey
from controller.brev.model import Credential, MachineRow, OfferRow, Organization
from controller.brev.session import BrevSession
from controller.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from controller.kube.events import EventRecorder, EventType
from controller.kube.protocol import Body, EventApi
from controller.metrics import Metrics
from controller.reconcile.cache import key_of
from controller.reconcile.clock import Clock
from controller.reconcile.operator import Operator
from controller.settings import Settings
from tests.builders import FakeClock

LOGIN = {"BREV_API_KEY": b"bak-0123456789", "BREV_ORG_ID": b"org-1"}


class FakeKube:
    """Implements `KubeClient`. `log` has every write and what else happened, in order."""

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, Body] = {}
        self.secrets: dict[tuple[str, str], dict[str, bytes]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.config_maps: dict[tuple[str, str], dict[str, bytes]] = {}
        self.log: list[str] = []
        self.refuse: dict[str, KubeError] = {}
        """The error that the next call of a method ends in."""
        self.prune: set[str] = set()
        """Fields of a status that an old CRD drops."""
        self.version = 100

    def put(self, kind: Kind, body: Body) -> Body:
        """An object as somebody else stores it; the stored body."""
        self.version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key_of(kind, body)] = body
        return copy.deepcopy(body)

    async def list(self, kind: Kind, namespace: str = "") -> tuple[list[Body], str]:
        self._maybe_refuse("list")
        found = [body for key, body in self.objects.items() if key.kind is kind and namespace in ("", key.namespace)]
        return copy.deepcopy(found), str(self.version)

    async def get(self, key: ObjectKey) -> Body | None:
        self._maybe_refuse("get")
        return copy.deepcopy(self.objects.get(key))

    async def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        self._maybe_refuse("create")
        self.log.append(f"create {kind}/{body['metadata']['name']}")
        if key_of(kind, body) in self.objects:
            raise AlreadyExists("it exists")
        body = copy.deepcopy(body)
        body["metadata"] |= {"uid": f"uid-of-{body['metadata']['name']}", "generation": 1}
        return self.put(kind, body)

    async def patch_status(self, key: ObjectKey, patch: Body, resource_version: str) -> Body:
        self._maybe_refuse("patch_status")
        body = self._current(key, resource_version)
        self.log.append(f"status {key}: {', '.join(sorted(patch))}")
        body["status"] = _merged(body.get("status", {}), patch)
        body["status"] = {name: value for name, value in body["status"].items() if name not in self.prune}
        return self.put(key.kind, body)

    async def set_finalizers(self, key: ObjectKey, finalizers: Sequence[str], resource_version: str) -> Body:
        self._maybe_refuse("set_finalizers")
        body = self._current(key, resource_version)
        self.log.append(f"finalizers {key}: {', '.join(finalizers)}")
        body["metadata"]["finalizers"] = list(finalizers)
        stored = self.put(key.kind, body)
        if "deletionTimestamp" in body["metadata"] and not finalizers:
            del self.objects[key]
        return stored

    async def delete(self, key: ObjectKey, uid: str) -> None:
        self._maybe_refuse("delete")
        self.log.append(f"delete {key}")
        body = self.objects.get(key)
        if body is not None and body["metadata"]["uid"] == uid:
            body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.put(key.kind, body)

    async def get_secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        self._maybe_refuse("get_secret")
        return self.secrets.get((namespace, name))

    async def get_namespace_labels(self, namespace: str) -> dict[str, str] | None:
        self._maybe_refuse("get_namespace_labels")
        return self.namespaces.get(namespace)

    async def get_config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        self._maybe_refuse("get_config_map")
        return self.config_maps.get((namespace, name))

    def _current(self, key: ObjectKey, resource_version: str) -> Body:
        body = self.objects.get(key)
        if body is None:
            raise NotFound("it is gone")
        if body["metadata"]["resourceVersion"] != resource_version:
            raise Conflict("it has moved on")
        return copy.deepcopy(body)

    def _maybe_refuse(self, method: str) -> None:
        if method in self.refuse:
            raise self.refuse[method]


def _merged(old: Body, patch: Body) -> Body:
    merged = {**old}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged


class FakeSession:
    """A login; every call is in `calls`, and ends in `failure` while that is set."""

    def __init__(self, account: str, credential: Credential) -> None:
        self.account = account
        self.credential = credential
        self.machines: list[MachineRow] = []
        self.offers: list[OfferRow] = [offer_row("g5.xlarge")]
        self.calls: list[str] = []
        self.failures: dict[str, Exception] = {}
        self.active = "org-1"
        self.hold: dict[str, asyncio.Event] = {}
        """Calls that do not end before their event is set."""
        self.forgotten: list[str] = []

    def use(self, credential: Credential) -> None:
        self.credential = credential

    async def version(self) -> str:
        await self._call("version")
        return "v0.6.327"

    async def organizations(self) -> list[Organization]:
        await self._call("organizations")
        return [Organization(self.active, self.active, is_active=True)]

    async def list(self) -> list[MachineRow]:
        await self._call("list")
        return [*self.machines]

    async def search(self) -> Sequence[OfferRow]:
        await self._call("search")
        return [*self.offers]

    async def create(self, name: str, machine_type: str) -> None:
        await self._call(f"create {name} {machine_type}")

    async def delete(self, machine_id: str) -> None:
        await self._call(f"delete {machine_id}")

    async def refresh(self, name: str) -> None:
        await self._call(f"refresh {name}")

    async def copy(self, name: str, source: Path, destination: str) -> None:
        await self._call(f"copy {name}")

    async def exec(self, name: str, command: str, timeout: float) -> str:
        await self._call(f"exec {name}")
        return ""

    def refreshed(self, name: str) -> bool:
        return True

    def forget(self, name: str) -> None:
        self.forgotten.append(name)

    async def _call(self, call: str) -> None:
        self.calls.append(call)
        verb = call.split(" ", maxsplit=1)[0]
        if verb in self.hold:
            await self.hold[verb].wait()
        if verb in self.failures:
            raise self.failures[verb]


def offer_row(type_: str, price: int | None = 1_000_000) -> OfferRow:
    return OfferRow(type_, "aws", "aws", "A10G", 1, 24.0, price, True, 120, 10.0, 100.0, 4, "16GiB")


def machine_row(name: str, machine_id: str, status: str) -> MachineRow:
    return MachineRow(name, machine_id, status, "COMPLETED", "READY", "HEALTHY", "g5.xlarge", "gpu", "A10G")


class Told(EventRecorder):
    """Events as they are recorded; `log` is shared with the Kubernetes, so that the order is seen."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(cast("EventApi", None), "test")
        self.log = log

    def record(
        self, key: ObjectKey, uid: str, event_type: EventType, reason: str, message: str, *, discriminator: str = ""
    ) -> None:
        self.log.append(f"event {key}: {reason}")


class Bench:
    """A whole operator without workers: the test runs the passes."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube()
        self.sessions: list[FakeSession] = []
        self.operator = Operator(
            Settings(cluster_id="test", state_directory=directory),
            self.kube,
            Told(self.kube.log),
            Metrics(),
            cast("Callable[[str, Credential], BrevSession]", self._session),
            cast("Clock", self.clock),
        )
        self.engine = self.operator.engine

    def _session(self, account: str, credential: Credential) -> FakeSession:
        self.sessions.append(FakeSession(account, credential))
        return self.sessions[-1]

    def store(self, kind: Kind, body: Body) -> ObjectKey:
        """Somebody stores an object, and the watch tells it."""
        stored = self.kube.put(kind, body)
        self.operator.on_event(kind, "MODIFIED", stored)
        return key_of(kind, stored)

    def login(self) -> None:
        """The Secret of the account `default`."""
        self.kube.secrets["brev-operator", "brev-login"] = dict(LOGIN)

    async def run_pass(self, key: ObjectKey) -> None:
        """One pass, as a worker makes it, errors included."""
        await self.operator.workers._pass(key)

    async def settle(self, limit: int = 300) -> int:
        """Run passes until nobody waits and nothing can happen without time; how many there were."""
        for passes in range(limit):
            await yield_to_others()
            if not self.engine.queue.depth:
                return passes
            key = await self.engine.queue.get()
            await self.run_pass(key)
            self.engine.queue.done(key)
        raise AssertionError(f"a hot loop: {self.kube.log[-20:]}")

    @property
    def writes(self) -> list[str]:
        return [line for line in self.kube.log if not line.startswith("event")]

    def body(self, key: ObjectKey) -> Any:
        return self.kube.objects[key]


async def yield_to_others(times: int = 20) -> None:
    """Let everything run that needs no time."""
    for _ in range(times):
        await asyncio.sleep(0)
