"""The operator with a bomb: `python -m tests.integration.failing_operator`.

It counts the steps that change something (a write to our objects, the start and the end of a CLI call that is no poll),
writes each one's name to `STEPS`, and kills itself by SIGKILL before or after the one named by
`KILL_AT` (`before 3 patch brevinstances/status`). `MUTANT` breaks one of the rules that the operator lives by, to prove
that the suite would notice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller import __main__ as operator
from controller.api.base import status_dict
from controller.api.meta import FINALIZER
from controller.brev import process
from controller.decide import acquire
from controller.decide.instance import decide_instance
from controller.decide.types import Operation, Plan, Start
from controller.kube.client import KubernetesClient
from controller.kube.transport import Transport
from controller.reconcile import engine, instance

STEPS = Path(os.environ.pop("FAILING_OPERATOR_STEPS"))
KILL_AT = os.environ.pop("FAILING_OPERATOR_KILL_AT", "")
MUTANT = os.environ.pop("FAILING_OPERATOR_MUTANT", "")
WHOLE_GROUP = bool(os.environ.pop("FAILING_OPERATOR_GROUP", ""))

_counts: Counter[str] = Counter()


def begins(what: str) -> str:
    """A step is about to happen; returns its name for `ends`."""
    _counts[what] += 1
    name = f"{_counts[what]} {what}"
    _pass(f"before {name}")
    return name


def ends(name: str) -> None:
    """The step has happened."""
    _pass(f"after {name}")


def _pass(point: str) -> None:
    with STEPS.open("a", encoding="utf-8") as steps:
        steps.write(f"{point}\n")
    if point == KILL_AT:
        if WHOLE_GROUP:
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _is_poll(argv: Sequence[str]) -> bool:
    return argv[1] in ("ls", "search", "--version") or (argv[1] == "exec" and " start " not in argv[-1])


def watch_calls() -> None:
    open_steps: dict[int, str] = {}

    def before(argv: Sequence[str]) -> None:
        if not _is_poll(argv):
            open_steps[id(argv)] = begins(f"call {argv[1]}")

    def after(argv: Sequence[str]) -> None:
        if id(argv) in open_steps:
            ends(open_steps.pop(id(argv)))

    process.before_spawn.append(before)
    process.after_exit.append(after)


def watch_writes() -> None:
    send = Transport.request

    async def request(self: Transport, call: Any, method: str, path: str, **more: Any) -> Any:
        if not call.writes or not call.resource.startswith(("brevjobs", "brevinstances")):
            return await send(self, call, method, path, **more)
        name = begins(f"{call.verb} {call.resource}")
        answer = await send(self, call, method, path, **more)
        ends(name)
        return answer

    Transport.request = request  # type: ignore[method-assign]


def mutate() -> None:
    """The mistakes of which each has cost somebody a machine; see `test_operator_failpoints.py`."""
    if MUTANT == "no-write-ahead":
        _write_after_acting()
    elif MUTANT == "late-finalizer":
        _finalizer_after_the_machine()
    elif MUTANT == "no-look-up":
        _another_name_after_a_crash()
    elif MUTANT:
        sys.exit(f"no such mutant: {MUTANT}")


def _write_after_acting() -> None:
    """The status hears of the create only when the call has ended."""
    carry_out = engine.carry_out

    async def late(parts: Any, key: Any, body: Any, plan: Plan[Any], performer: Any) -> None:
        action = plan.action
        if isinstance(action, Start) and action.operation is Operation.CREATE and plan.status is not None:
            await performer.perform(key, {**body, "status": status_dict(plan.status)}, action)
            uid = body["metadata"]["uid"]
            while parts.operations.views(uid)[Operation.CREATE].running:  # noqa: ASYNC110 (nobody to be told by)
                await asyncio.sleep(0.01)
            plan = replace(plan, action=None)
        await carry_out(parts, key, body, plan, performer)

    vars(instance)["carry_out"] = late


def _finalizer_after_the_machine() -> None:
    """The object is held only once its machine is known."""
    create = KubernetesClient.create

    def late(resource: Any, obs: Any, now: Any, timing: Any) -> Any:
        metadata = resource.metadata
        if metadata.deletion_timestamp is None and not resource.status.brev_id:
            held = sorted({*metadata.finalizers, FINALIZER})
            resource.metadata = metadata.model_copy(update={"finalizers": held})
        return decide_instance(resource, obs, now, timing)

    async def unheld(self: Any, kind: Any, namespace: str, body: Any) -> Any:
        body["metadata"].pop("finalizers", None)
        return await create(self, kind, namespace, body)

    vars(instance)["decide_instance"] = late
    KubernetesClient.create = unheld  # type: ignore[method-assign]


def _another_name_after_a_crash() -> None:
    """A create whose end nobody saw is done again under a new name, without a look at the account's list."""
    create = acquire._create

    def blind(scope: Any, attempt: Any) -> Any:
        if scope.operation(Operation.CREATE) is not None:
            return create(scope, attempt)
        name = f"bo-{scope.obs.cluster_id}-{os.urandom(5).hex()}"
        attempt.brev_name = scope.status.brev_name = name
        return scope.plan(Start(Operation.CREATE, {"name": name, "machine_type": attempt.type}))

    acquire._create = blind


if __name__ == "__main__":
    watch_calls()
    watch_writes()
    mutate()
    operator.main()
