"""Following a run to its end, and tearing down."""

from datetime import timedelta
from typing import Any

import pytest

from controller.api.conditions import get_condition
from controller.api.cost import CostStatus
from controller.api.reasons import Reason
from controller.decide.types import (
    DeleteChild,
    Operation,
    RemoveFinalizer,
    RunView,
    RunWord,
    Start,
)
from tests.builders import TIMING, kstatus, message_of, reason_of, run_view
from tests.unit.decide.joblife import ABSENT, NO_ANSWER, RUNNING, Life, ask, exited, following, overdue, started_intent


@pytest.mark.parametrize(
    ("answer", "reason", "code", "signal"),
    [
        (exited(), Reason.SUCCEEDED, 0, None),
        (exited(exit_code=3), Reason.NON_ZERO_EXIT, 3, None),
        (exited(exit_code=255), Reason.NON_ZERO_EXIT, 255, None),
        (exited(exit_code=None, signal="SIGKILL"), Reason.KILLED_BY_SIGNAL, None, "SIGKILL"),
        (run_view(RunWord.LOST, detail="the machine was restarted"), Reason.RUN_LOST, None, None),
        (ABSENT, Reason.RUN_LOST, None, None),
    ],
)
def test_the_end_of_the_run_is_the_verdict_of_the_job(
    answer: RunView, reason: Reason, code: int | None, signal: str | None
) -> None:
    life = following()
    ask(life, answer)
    life.step()
    attempt = life.status.attempts[0]
    assert (attempt.reason, attempt.exit_code, attempt.signal) == (reason, code, signal)
    assert attempt.finished_at is not None
    assert not get_condition(life.status.conditions, "Complete"), "the machine is still there"
    assert isinstance(life.step().action, DeleteChild)
    life.child = None
    life.step()
    good = reason is Reason.SUCCEEDED
    assert kstatus(life.status.conditions) == (("True", "False", "False") if good else ("False", "False", "True"))
    assert reason_of(life.status, "Complete" if good else "Failed") == reason
    assert life.status.completion_time is not None
    assert isinstance(life.step().action, RemoveFinalizer)


def test_the_last_output_and_its_size_are_kept() -> None:
    life = following()
    ask(life, exited(tail="accuracy 0.97\n", truncated=True, log_bytes=9000))
    life.step()
    assert (life.status.log_tail, life.status.log_truncated, life.status.log_bytes) == ("accuracy 0.97\n", True, 9000)


def test_the_verdict_is_stored_before_the_machine_is_deleted_and_the_first_one_stands() -> None:
    life = following()
    ask(life, exited(exit_code=3))
    plan = life.step()
    assert plan.status is not None
    assert plan.status.attempts[0].reason == Reason.NON_ZERO_EXIT
    life.operations.clear()
    life.clock.advance(10**6)
    for _ in range(3):
        life.step()
    assert life.status.attempts[0].reason == Reason.NON_ZERO_EXIT


def test_a_job_is_over_only_when_its_machine_object_is_gone() -> None:
    life = following()
    ask(life, exited())
    life.step()
    assert life.child is not None
    life.child.metadata.deletion_timestamp = life.clock.now()
    for _ in range(5):
        plan = life.step()
        assert plan.action is None
        assert plan.requeue is not None, "an orphaned object announces nothing"
        assert plan.requeue >= timedelta(seconds=1)
        assert life.status.completion_time is None
    life.more["child"] = None
    life.step()
    assert life.status.completion_time is None, "nobody has looked"


@pytest.mark.parametrize("before_ready", [True, False])
def test_the_cost_is_that_of_the_machine_and_is_closed(before_ready: bool) -> None:
    life = Life()
    if before_ready:
        life.step()
        life.machine(ready="False", reachable="False", reason=Reason.MACHINE_FAILED)
        life.step()
    else:
        life.run()
        ask(life, exited())
        life.step()
    life.step()
    assert life.status.instance is not None
    assert life.status.instance.uid == "uid-of-child", "it leads to the cost"
    assert life.child is not None
    started = life.clock.now() - timedelta(hours=1)
    life.more["last_cost"] = CostStatus(
        price_micros=1_000_000, started_at=started, ended_at=life.clock.now(), accrued_micros=1_000_000
    )
    life.child = None
    life.clock.advance(500)
    life.step()
    assert life.status.cost is not None
    assert (life.status.cost.accrued_micros, life.status.attempts[0].cost_micros) == (1_000_000, 1_000_000)


def test_a_cost_of_which_the_end_was_not_seen_is_counted_until_now() -> None:
    life = following()
    ask(life, exited())
    life.step()
    life.child = None
    life.clock.advance(3600)
    life.step()
    assert life.status.cost is not None
    assert life.status.cost.ended_at == life.clock.now()
    assert (life.status.cost.accrued_micros or 0) >= 1_000_000


def test_polls_back_off_to_five_per_cent_of_the_age_between_floor_and_ceiling() -> None:
    life = following()
    waits = []
    for _ in range(120):
        waits.append(ask(life).total_seconds())
        life.step()
    assert waits[1] == pytest.approx(TIMING.poll_floor, rel=0.11)
    assert waits[-1] == pytest.approx(TIMING.poll_ceiling, rel=0.11)
    middle = next(wait for wait in waits if 20 < wait < 40)
    assert middle
    assert len(waits) > 100


def test_a_poll_that_tells_nothing_new_writes_nothing() -> None:
    life = following()
    ask(life)
    life.step()
    writes = life.writes
    for _ in range(20):
        ask(life)
        life.step()
    assert life.writes == writes


@pytest.mark.parametrize("reason", [Reason.MACHINE_STOPPED, Reason.DELETING, Reason.MACHINE_VANISHED])
def test_a_poll_is_never_sent_to_a_machine_that_is_not_up(reason: Reason) -> None:
    life = following()
    ask(life)
    life.machine(ready="Unknown", reachable="False", reason=reason)
    for _ in range(10):
        plan = life.step()
        assert not isinstance(plan.action, Start)
        life.clock.advance(60)


def test_one_lost_answer_is_no_news_and_three_in_a_row_are() -> None:
    life = following()
    for failures in (1, 2):
        ask(life, None, failures)
        life.step()
        assert not get_condition(life.status.conditions, "Unreachable")
    ask(life, None, 3)
    life.step()
    assert reason_of(life.status, "Unreachable") == Reason.UNREACHABLE
    assert kstatus(life.status.conditions) == ("Unknown", "True", "False")
    ask(life)
    life.step()
    condition = get_condition(life.status.conditions, "Unreachable")
    assert condition is not None
    assert condition.status == "False"
    assert reason_of(life.status) == Reason.RUNNING


def test_a_run_that_cannot_be_observed_for_too_long_fails_as_unreachable() -> None:
    life = following()
    for failures in range(1, 400):
        if life.status.attempts[0].finished_at is not None:
            break
        ask(life, None, failures)
        life.step()
    assert life.status.attempts[0].reason == Reason.UNREACHABLE
    assert 1800 <= life.clock.seconds <= 2200


def test_an_old_answer_does_not_reset_the_time_that_a_lost_machine_has() -> None:
    life = following()
    ask(life, RUNNING)
    life.step()
    life.machine(ready="Unknown", reachable="False", reason=Reason.MACHINE_STOPPED)
    life.step()
    writes = life.writes
    for _ in range(29):
        life.clock.advance(60)
        life.step()
    assert life.writes == writes
    life.clock.advance(120)
    life.step()
    assert life.status.attempts[0].reason == Reason.UNREACHABLE


def test_a_run_whose_machine_comes_back_in_time_goes_on() -> None:
    life = following()
    ask(life)
    life.machine(ready="Unknown", reachable="False", reason=Reason.MACHINE_STOPPED)
    life.step()
    life.clock.advance(600)
    life.machine()
    ask(life, exited())
    life.step()
    assert life.status.attempts[0].reason == Reason.SUCCEEDED


def test_past_the_run_deadline_the_verdict_to_be_is_stored_and_the_script_is_stopped() -> None:
    life = overdue()
    plan = life.step()
    assert plan.action == Start(Operation.STOP)
    assert plan.status is not None
    assert plan.status.attempts[0].reason == Reason.RUN_DEADLINE_EXCEEDED
    assert plan.status.attempts[0].finished_at is None
    life.end(Operation.STOP, RUNNING)
    finished = life.clock.now() + timedelta(seconds=5)
    ask(life, exited(exit_code=None, signal="SIGTERM", finished_at=finished))
    life.step()
    assert (life.status.attempts[0].reason, life.status.attempts[0].signal) == (
        Reason.RUN_DEADLINE_EXCEEDED,
        "SIGTERM",
    )


def test_a_script_that_ended_before_the_deadline_has_the_last_word() -> None:
    life = overdue()
    life.step()
    life.end(Operation.STOP, RUNNING)
    ask(life, exited(finished_at=life.clock.now() - timedelta(minutes=5)))
    life.step()
    assert life.status.attempts[0].reason == Reason.SUCCEEDED


def test_a_process_that_comes_long_after_the_deadline_asks_before_it_judges() -> None:
    life = overdue()
    life.operations.clear()
    life.clock.advance(36_000)
    ended_at = life.status.attempts[0].started_at
    assert ended_at is not None
    for _ in range(4):
        life.step()
        for kind in (Operation.STOP,):
            if kind in life.operations and life.operations[kind].running:
                life.end(kind, RUNNING)
    assert life.status.attempts[0].finished_at is None
    assert life.operations[Operation.POLL].running
    life.end(Operation.POLL, exited(finished_at=ended_at + timedelta(minutes=2)))
    life.step()
    assert life.status.attempts[0].reason == Reason.SUCCEEDED


@pytest.mark.parametrize("stop_works", [True, False])
def test_a_script_that_does_not_stop_is_given_up_after_a_bound_without_a_hot_loop(stop_works: bool) -> None:
    life = overdue()
    for _ in range(200):
        plan = life.step()
        if life.status.attempts[0].finished_at is not None:
            break
        for kind in list(life.operations):
            if life.operations[kind].running:
                life.clock.advance(1)
                busy = life.step()
                assert busy.requeue is None or busy.requeue > timedelta(milliseconds=500)
                failure = None if kind is Operation.POLL or stop_works else NO_ANSWER
                life.end(kind, None if failure else RUNNING, failure)
        if plan.action is None:
            assert plan.requeue is not None
            assert plan.requeue > timedelta(milliseconds=1), plan
            life.clock.advance(plan.requeue.total_seconds())
    assert life.status.attempts[0].reason == Reason.RUN_DEADLINE_EXCEEDED
    assert life.clock.seconds < 601 + 30 + 2 * 60 + 60
    assert "did not stop" in (life.status.attempts[0].message or "")


def test_a_stop_that_fails_is_repeated_while_polls_go_on() -> None:
    life = overdue()
    life.step()
    life.end(Operation.STOP, failure=NO_ANSWER)
    ask(life, RUNNING)
    life.clock.advance(TIMING.poll_floor)
    assert life.step().action == Start(Operation.STOP)


@pytest.mark.parametrize("skew", [timedelta(hours=-3), timedelta(hours=3)])
def test_a_wrong_clock_on_the_machine_moves_the_run_deadline_by_no_more_than_the_startup_time(skew: timedelta) -> None:
    life = started_intent()
    life.job = life.job.model_copy(
        update={"spec": life.job.spec.model_copy(update={"deadlines": following_deadlines("1h")})}
    )
    life.end(Operation.DELIVER, run_view(RunWord.RUNNING, started_at=life.clock.now() + skew))
    life.step()
    life.clock.advance(3500)
    life.step()
    assert life.status.attempts[0].reason is None
    life.clock.advance(1400)
    life.step()
    assert life.status.attempts[0].reason == Reason.RUN_DEADLINE_EXCEEDED


def following_deadlines(run: str) -> Any:
    return Life(spec={"deadlines": {"run": run}}).job.spec.deadlines


def test_every_message_is_a_sentence() -> None:
    life = following()
    assert message_of(life.status).endswith(".")
