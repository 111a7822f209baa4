"""Deleting a BrevJob in every phase."""

from collections.abc import Callable

import pytest

from controller.api.reasons import Reason
from controller.decide.types import (
    Cancel,
    ChildState,
    DeleteChild,
    RemoveFinalizer,
)
from tests.unit.decide.joblife import NO_ANSWER, Life, ask, exited, following, overdue, started_intent


def asked_for() -> Life:
    life = Life()
    life.step()
    return life


def provisioning() -> Life:
    life = asked_for()
    life.machine(ready="Unknown", reachable="Unknown", reason=Reason.DEPLOYING)
    life.step()
    return life


def polling() -> Life:
    life = following()
    for _ in range(3):
        plan = life.step()
        if plan.requeue is not None and plan.action is None:
            life.clock.advance(plan.requeue.total_seconds())
    return life


def judged() -> Life:
    life = following()
    ask(life, exited(exit_code=3))
    life.step()
    return life


PHASES: list[Callable[[], Life]] = [
    Life,
    asked_for,
    provisioning,
    started_intent,
    following,
    polling,
    overdue,
    judged,
]


@pytest.mark.parametrize("phase", PHASES)
def test_deletion_in_any_phase_ends_what_runs_deletes_the_machine_and_then_lets_go(phase: Callable[[], Life]) -> None:
    life = phase()
    life.job.metadata.deletion_timestamp = life.clock.now()
    had_machine = life.child is not None
    seen: list[object] = []
    for _ in range(20):
        plan = life.step()
        seen.append(type(plan.action))
        if isinstance(plan.action, RemoveFinalizer):
            break
        if isinstance(plan.action, Cancel):
            for kind in plan.action.operations:
                life.end(kind, failure=NO_ANSWER)
        elif isinstance(plan.action, DeleteChild):
            assert not any(view.running for view in life.operations.values())
            assert plan.action.uid == "uid-of-child"
            life.child = None
    assert seen[-1] is RemoveFinalizer
    assert (DeleteChild in seen) == had_machine
    assert life.child is None


def test_a_deleted_job_keeps_its_finalizer_while_its_machine_object_is_there() -> None:
    life = following()
    life.job.metadata.deletion_timestamp = life.clock.now()
    life.operations.clear()
    assert isinstance(life.step().action, DeleteChild)
    assert life.child is not None
    life.child.metadata.deletion_timestamp = life.clock.now()
    for _ in range(5):
        assert life.step().action is None
    life.more["child"] = None
    assert life.step().action is None, "nobody has looked"
    life.more["child"] = ChildState.ABSENT
    assert isinstance(life.step().action, RemoveFinalizer)


def test_a_deleted_job_with_an_invalid_spec_gives_its_machine_back() -> None:
    life = following()
    life.operations.clear()
    life.job.metadata.deletion_timestamp = life.clock.now()
    life.job.spec = None  # type: ignore[assignment]
    life.more["spec_problem"] = "spec.script: missing"
    assert isinstance(life.step().action, DeleteChild)
