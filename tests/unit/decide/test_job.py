"""A BrevJob from the finalizer to the run: one machine asked for, one script started at most once."""

from datetime import timedelta

import pytest

from controller.api.conditions import set_condition
from controller.api.reasons import Reason
from controller.decide.types import (
    AddFinalizer,
    ChildState,
    CreateChild,
    DeleteChild,
    Failure,
    Operation,
    Plan,
    RemoveFinalizer,
    RunWord,
    SourcesView,
    Start,
)
from tests.builders import (
    TIMING,
    failed,
    kstatus,
    message_of,
    reason_of,
    run_view,
)
from tests.unit.decide.joblife import ABSENT, RUNNING, Life, started_intent


def test_the_finalizer_comes_first_and_alone() -> None:
    life = Life(held=False)
    plan = life.step()
    assert isinstance(plan.action, AddFinalizer)
    assert plan.status is None


@pytest.mark.parametrize("reason", [Reason.SECRET_MISSING, Reason.CONFIG_MAP_KEY_MISSING, Reason.SECRET_FORBIDDEN])
def test_a_missing_source_stalls_with_back_off_and_asks_for_no_machine(reason: Reason) -> None:
    life = Life()
    life.more["sources"] = SourcesView(False, Failure(reason, "It is missing."))
    delays, statuses = [], []
    for _ in range(6):
        plan = life.step()
        assert plan.action is None
        assert not life.status.attempts
        assert (kstatus(life.status.conditions), reason_of(life.status)) == (("False", "False", "True"), reason)
        assert plan.requeue is not None
        delays.append(plan.requeue)
        statuses.append(plan.status)
        life.clock.advance(plan.requeue.total_seconds())
    assert delays == sorted(delays)
    assert delays[0] * 4 < delays[-1]
    assert all(status == statuses[0] for status in statuses), "a look that finds nothing new writes nothing"
    life.more.clear()
    assert isinstance(life.step().action, CreateChild)


def test_a_source_that_stays_missing_fails_the_job_at_the_startup_deadline() -> None:
    life = Life()
    life.more["sources"] = SourcesView(False, Failure(Reason.SECRET_MISSING, "It is missing."))
    for _ in range(30):
        plan = life.step()
        if plan.requeue is not None:
            life.clock.advance(plan.requeue.total_seconds())
    assert reason_of(life.status, "Failed") == Reason.STARTUP_DEADLINE_EXCEEDED
    assert "It is missing." in message_of(life.status)
    assert life.clock.seconds < 1300
    assert kstatus(life.status.conditions) == ("False", "False", "True")


def test_the_intent_is_in_the_status_of_the_plan_that_asks_for_the_machine() -> None:
    life = Life()
    plan = life.step()
    name = life.status.attempts[0].instance
    assert plan.action == CreateChild(name=name or "", attempt=1)
    assert life.status.instance is not None
    assert (life.status.instance.name, life.status.instance.uid) == (name, None)
    assert kstatus(life.status.conditions) == ("Unknown", "True", "False")


def test_a_request_whose_answer_was_lost_is_repeated_under_the_same_name() -> None:
    life = Life()
    first = life.step().action
    assert life.step().action == first


def test_a_refused_request_stalls_and_is_tried_again_with_back_off() -> None:
    life = Life()
    life.step()
    life.more["refused"] = Failure(Reason.FORBIDDEN, "A quota says no.")
    plan = life.step()
    assert isinstance(plan.action, CreateChild)
    assert (kstatus(life.status.conditions), reason_of(life.status)) == (("False", "False", "True"), Reason.FORBIDDEN)
    plan = life.step()
    assert plan.action is None
    assert plan.requeue is not None
    assert plan.requeue > timedelta(seconds=1)


def test_somebody_elses_object_under_the_name_stalls_and_is_never_touched() -> None:
    life = Life()
    life.step()
    life.more["child"] = ChildState.FOREIGN
    plan = life.step()
    assert plan.action is None
    assert reason_of(life.status) == Reason.INSTANCE_NAME_CONFLICT
    assert plan.requeue is not None


def test_a_machine_that_nobody_has_looked_for_is_not_absent() -> None:
    life = Life()
    life.step()
    life.more["child"] = None
    plan = life.step()
    assert plan.action is None
    assert plan.requeue is not None


def test_a_machine_object_that_somebody_deletes_fails_the_job() -> None:
    life = Life()
    life.step()
    life.machine(ready="Unknown", reachable="Unknown", reason=Reason.DEPLOYING)
    assert life.child is not None
    life.child.metadata.deletion_timestamp = life.clock.now()
    life.step()
    assert life.status.attempts[0].reason == Reason.INSTANCE_DELETED
    life.child = None
    life.step()
    assert reason_of(life.status, "Failed") == Reason.INSTANCE_DELETED


def test_a_machine_object_that_is_gone_after_the_start_was_intended_fails_the_job() -> None:
    life = started_intent()
    life.child = None
    life.step()
    assert life.status.attempts[0].reason == Reason.INSTANCE_DELETED


def test_a_stalled_machine_is_mirrored_and_its_recovery_too() -> None:
    life = Life()
    life.step()
    life.machine(ready="False", reachable="Unknown", reason=Reason.NO_CAPACITY)
    life.step()
    assert (kstatus(life.status.conditions), reason_of(life.status)) == (("False", "False", "True"), Reason.NO_CAPACITY)
    life.machine(ready="Unknown", reachable="Unknown", reason=Reason.DEPLOYING)
    life.step()
    assert reason_of(life.status) == Reason.AWAITING_INSTANCE
    assert kstatus(life.status.conditions) == ("Unknown", "True", "False")


@pytest.mark.parametrize("reason", [Reason.PROVISION_DEADLINE_EXCEEDED, Reason.MACHINE_FAILED])
@pytest.mark.parametrize("under_way", [True, False])
def test_a_machine_with_a_verdict_is_the_jobs_verdict(reason: Reason, under_way: bool) -> None:
    life = Life()
    if under_way:
        life.run()
    life.step()
    life.machine(ready="False", reachable="False", reason=reason)
    life.step()
    assert life.status.attempts[0].reason == reason
    assert isinstance(life.step().action, DeleteChild)


def test_the_start_is_intended_in_the_status_before_the_first_delivery() -> None:
    life = Life()
    life.step()
    life.machine()
    plan = life.step()
    assert plan.action == Start(Operation.DELIVER)
    assert life.status.attempts[0].start_intent_at == life.clock.now()
    assert life.status.attempts[0].started_at is None
    assert life.status.machine is not None
    assert life.status.machine.brev_name == "bo-test-iris"


def test_after_a_restart_the_machine_is_asked_and_a_delivery_follows_only_on_absent() -> None:
    life = started_intent()
    life.operations.clear()
    assert life.step().action == Start(Operation.POLL)
    life.end(Operation.POLL, ABSENT)
    assert life.step().action == Start(Operation.DELIVER)
    assert Operation.POLL not in life.operations


@pytest.mark.parametrize("word", [RunWord.RUNNING, RunWord.EXITED, RunWord.LOST])
def test_after_a_restart_a_run_that_exists_is_followed_and_never_delivered_again(word: RunWord) -> None:
    life = started_intent()
    life.operations.clear()
    life.step()
    life.end(Operation.POLL, run_view(word, exit_code=0, started_at=life.clock.now()))
    for _ in range(5):
        plan = life.step()
        assert plan.action != Start(Operation.DELIVER)
    assert life.status.attempts[0].started_at is not None


def test_after_a_restart_a_question_without_an_answer_is_asked_again_and_nothing_is_delivered() -> None:
    life = started_intent()
    life.operations.clear()
    for _ in range(5):
        assert life.step().action == Start(Operation.POLL)
        life.end(Operation.POLL, failure=Failure(Reason.HOST_UNREACHABLE, "No.", ambiguous=True))
        plan = life.step()
        assert plan.action is None
        assert plan.requeue is not None
        assert plan.requeue > timedelta(seconds=1)
        life.clock.advance(plan.requeue.total_seconds())


@pytest.mark.parametrize("ambiguous", [True, False])
def test_a_failed_delivery_backs_off_then_asks_first(ambiguous: bool) -> None:
    life = started_intent()
    life.end(Operation.DELIVER, failure=Failure(Reason.HOST_UNREACHABLE, "It broke.", ambiguous))
    plan = life.step()
    assert reason_of(life.status) == Reason.HOST_UNREACHABLE
    assert kstatus(life.status.conditions) == ("False", "False", "True")
    assert plan.requeue is not None
    life.clock.advance(plan.requeue.total_seconds())
    assert life.step().action == Start(Operation.POLL)


def test_a_delivery_of_which_the_machine_knows_nothing_is_repeated_after_a_back_off() -> None:
    life = started_intent()
    life.end(Operation.DELIVER, ABSENT)
    plan = life.step()
    assert reason_of(life.status) == Reason.DELIVERY_FAILED
    assert plan.requeue is not None
    life.clock.advance(plan.requeue.total_seconds())
    assert life.step().action == Start(Operation.POLL)
    life.end(Operation.POLL, ABSENT)
    assert life.step().action == Start(Operation.DELIVER)


def test_a_run_that_is_starting_is_asked_again_after_a_while() -> None:
    life = started_intent()
    life.end(Operation.DELIVER, run_view(RunWord.STARTING))
    plan = life.step()
    assert plan.action is None
    assert plan.requeue is not None
    life.clock.advance(plan.requeue.total_seconds())
    assert life.step().action == Start(Operation.POLL)


def test_nothing_is_delivered_to_or_asked_of_a_machine_that_is_not_ready() -> None:
    life = started_intent()
    life.operations.clear()
    life.machine(ready="Unknown", reachable="False", reason=Reason.MACHINE_STOPPED)
    for _ in range(3):
        plan = life.step()
        assert plan.action is None
        assert plan.requeue is not None
        assert plan.requeue > timedelta(seconds=1)


def test_the_startup_deadline_is_a_verdict_where_the_machine_has_said_that_nothing_runs() -> None:
    life = started_intent()
    life.operations.clear()
    life.clock.advance(1201)
    assert life.step().action == Start(Operation.POLL), "the machine is owed one question"
    assert life.step().requeue == timedelta(seconds=TIMING.retry_base), "no hot loop meanwhile"
    life.end(Operation.POLL, ABSENT)
    assert isinstance(life.step().action, DeleteChild)
    assert life.status.attempts[0].reason == Reason.STARTUP_DEADLINE_EXCEEDED


def test_a_script_that_was_started_in_time_is_followed_by_a_process_that_comes_late() -> None:
    life = started_intent()
    life.operations.clear()
    life.clock.advance(4000)
    life.step()
    life.end(Operation.POLL, run_view(RunWord.EXITED, exit_code=0, started_at=life.clock.now()))
    life.step()
    assert life.status.attempts[0].reason == Reason.SUCCEEDED


def test_the_answer_to_a_delivery_counts_also_when_the_machine_was_lost_meanwhile() -> None:
    life = started_intent()
    life.end(Operation.DELIVER, RUNNING)
    life.machine(ready="Unknown", reachable="False", reason=Reason.MACHINE_STOPPED)
    life.step()
    assert life.status.attempts[0].started_at is not None


def test_a_machine_that_does_not_answer_in_time_fails_the_job_at_the_startup_deadline() -> None:
    life = started_intent()
    life.operations.clear()
    life.machine(ready="Unknown", reachable="False", reason=Reason.HOST_UNREACHABLE)
    life.clock.advance(1201)
    life.step()
    assert life.status.attempts[0].reason == Reason.STARTUP_DEADLINE_EXCEEDED


def test_a_changed_spec_ends_the_job() -> None:
    life = Life()
    life.step()
    life.more["spec_hash"] = "fedcba9876543210"
    life.step()
    assert life.status.attempts[0].reason == Reason.SPEC_CHANGED


def test_an_invalid_spec_is_a_condition() -> None:
    life = Life(held=False)
    life.more["spec_problem"] = "spec.script: missing"
    plan = life.step()
    assert plan.action is None
    assert (kstatus(life.status.conditions), reason_of(life.status)) == (
        ("False", "False", "True"),
        Reason.INVALID_SPEC,
    )


def test_a_finished_job_gives_its_finalizer_back_and_then_nothing_happens() -> None:
    life = Life()
    life.step()
    set_condition(life.status.conditions, "Complete", "True", "Succeeded", "Done.", life.clock.now(), 1)
    assert isinstance(life.step().action, RemoveFinalizer)
    life.job.metadata.finalizers = []
    assert life.step() == Plan()
    assert failed(1.0, Reason.CLI_FAILED).failure is not None
