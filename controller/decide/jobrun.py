"""The run: delivered once, started at most once, followed to its end, whatever the CLI loses on the way."""

from datetime import datetime, timedelta

from controller.api.brevjob import JobAttempt, JobPhase, JobStatus
from controller.api.conditions import ConditionType, get_condition
from controller.api.duration import format_duration
from controller.api.reasons import Reason
from controller.cost.accrual import refreshed
from controller.decide.backoff import poll_delay
from controller.decide.jobscope import JobScope
from controller.decide.teardown import tear_down
from controller.decide.types import Operation, OperationView, Plan, RunView, RunWord, Start

UNREACHABLE_AFTER = 3
"""Consecutive failed polls after which the condition says so: one lost connection is no news."""


def start(scope: JobScope) -> Plan[JobStatus] | None:
    """None once the runner has said that the run exists.

    The intent to start is in the status before the first delivery. After that the machine's own lock decides: a
    delivery is repeated only when the runner has answered that it has no such run.
    """
    attempt = scope.attempt
    if attempt is None or attempt.started_at is not None:
        return None
    if attempt.start_intent_at is None:
        attempt.start_intent_at = scope.now
        message = f"Delivering script, environment and files of {scope.title} to the machine."
        scope.progress(JobPhase.STARTING, Reason.DELIVERING, message)
        return scope.plan(Start(Operation.DELIVER), requeue=scope.startup_left())
    view = scope.operation(Operation.DELIVER)
    if view is None:
        return _find_out(scope, attempt)
    if view.running:
        return scope.plan(requeue=scope.startup_left())
    if view.failure is not None:
        scope.consumed.update({Operation.DELIVER, Operation.POLL})
        scope.stall(JobPhase.STARTING, view.failure.reason, view.failure.message)
        return scope.plan(requeue=min(scope.failed_again(), scope.startup_left()))
    return _learn(scope, attempt, view.result, view)


def _find_out(scope: JobScope, attempt: JobAttempt) -> Plan[JobStatus] | None:
    """After a restart or a failed delivery nobody knows whether the run has begun: ask the machine first."""
    waiting = scope.wait_for_retry()
    if waiting is not None and not scope.startup_over():
        return scope.plan(requeue=min(waiting, scope.startup_left()))
    view = scope.operation(Operation.POLL)
    if view is None:
        return scope.plan(Start(Operation.POLL), requeue=scope.startup_left())
    if view.running:
        return scope.plan(requeue=scope.startup_left())
    if view.failure is not None:
        if scope.obs.monotonic >= (view.finished or 0.0) + scope.timing.poll_floor:
            return scope.plan(Start(Operation.POLL), requeue=scope.startup_left())
        return _after_floor(scope, view)
    if view.result.word is RunWord.STARTING and scope.obs.monotonic < (view.finished or 0.0) + scope.timing.poll_floor:
        return _after_floor(scope, view)
    if view.result.word in (RunWord.ABSENT, RunWord.STARTING):
        # Still starting after a while: its starter may have died before the gate. Starting again is safe.
        scope.consumed.add(Operation.POLL)
        return scope.plan(Start(Operation.DELIVER), requeue=scope.startup_left())
    return _learn(scope, attempt, view.result, view)


def _after_floor(scope: JobScope, view: OperationView) -> Plan[JobStatus]:
    due = (view.finished or 0.0) + scope.timing.poll_floor
    return scope.plan(requeue=timedelta(seconds=due - scope.obs.monotonic + 0.001))


def _learn(scope: JobScope, attempt: JobAttempt, run: RunView, view: OperationView) -> Plan[JobStatus] | None:
    """Take over what the runner says of a run that exists."""
    if run.word is RunWord.ABSENT:
        scope.consumed.add(Operation.DELIVER)
        scope.stall(JobPhase.STARTING, Reason.DELIVERY_FAILED, f"The machine has no complete delivery: {run.detail}")
        return scope.plan(requeue=min(scope.failed_again(), scope.startup_left()))
    if run.word is RunWord.STARTING:
        if scope.obs.monotonic < (view.finished or 0.0) + scope.timing.poll_floor:
            return _after_floor(scope, view)
        scope.consumed.add(Operation.DELIVER)
        return scope.plan(Start(Operation.POLL), requeue=scope.startup_left())
    scope.succeeded_again()
    attempt.started_at = run.started_at or scope.now
    scope.note(Reason.RUNNING, f"The script of {scope.title} runs on {_machine(scope)}.")
    _running(scope)
    return None


def follow(scope: JobScope) -> Plan[JobStatus] | None:
    """Poll until the run has ended; the exit file outranks every other signal, and silence is never a verdict."""
    attempt = scope.attempt
    if attempt is None or attempt.started_at is None:
        return None
    view = scope.operation(Operation.POLL)
    if view is not None and view.result is not None:
        if _machine_up(scope):
            # Without its machine an old answer says nothing of now.
            _reached(scope)
        if _ended(scope, attempt, view.result):
            _reached(scope)
            return tear_down(scope, attempt)
    deadline = _run_deadline(scope, attempt)
    if deadline is not None:
        return deadline
    if not _machine_up(scope):
        return _no_contact(scope, "its machine is not running")
    if view is not None and view.failure is not None and view.failures >= UNREACHABLE_AFTER:
        lost = _no_contact(scope, view.failure.message)
        if attempt.finished_at is not None:
            return lost
    return _poll(scope, attempt, view)


def _ended(scope: JobScope, attempt: JobAttempt, run: RunView) -> bool:
    """Record the end of the run, if `run` tells one."""
    if run.word in (RunWord.LOST, RunWord.ABSENT):
        why = run.detail or "the machine has no trace of it"
        _keep_tail(scope, run)
        scope.end(Reason.RUN_LOST, f"The run of {scope.title} was lost: {why}.", run.finished_at)
        return True
    if run.word is not RunWord.EXITED:
        return False
    _keep_tail(scope, run)
    attempt.exit_code, attempt.signal = run.exit_code, run.signal
    limit_at = (attempt.started_at or scope.now) + scope.job.spec.deadlines.run
    if attempt.reason == Reason.RUN_DEADLINE_EXCEEDED and (run.finished_at or scope.now) >= limit_at:
        limit = format_duration(scope.job.spec.deadlines.run)
        scope.end(
            Reason.RUN_DEADLINE_EXCEEDED, f"The script was stopped after {limit} (deadlines.run).", run.finished_at
        )
    elif run.setup_failed:
        scope.end(Reason.INTERPRETER_MISSING, f"The script never ran: {run.detail}.", run.finished_at)
    elif run.signal:
        scope.end(Reason.KILLED_BY_SIGNAL, f"The script was killed by {run.signal}.", run.finished_at)
    elif run.exit_code == 0:
        message = f"The script ended with exit code 0.{_lost_output(run)}"
        scope.end(Reason.SUCCEEDED, message, run.finished_at)
    else:
        message = f"The script ended with exit code {run.exit_code}.{_lost_output(run)}"
        scope.end(Reason.NON_ZERO_EXIT, message, run.finished_at)
    return True


def _lost_output(run: RunView) -> str:
    """Trouble with the log is a warning, and neither success nor failure."""
    return f" {run.dropped_bytes} bytes of its output could not be stored on the machine." if run.dropped_bytes else ""


def _keep_tail(scope: JobScope, run: RunView) -> None:
    scope.status.log_tail = run.tail
    scope.status.log_truncated = run.truncated
    scope.status.log_bytes = run.log_bytes
    if scope.status.cost is not None:
        scope.status.cost = refreshed(scope.status.cost, scope.now)


def _began(scope: JobScope, attempt: JobAttempt) -> datetime:
    """When the run began by the operator's clock, as near as can be told.

    The machine's clock may be wrong; the run cannot have begun before its intent was written, nor after the startup
    deadline.
    """
    started = attempt.started_at or scope.now
    intent = attempt.start_intent_at or started
    return min(max(started, intent), intent + scope.startup_limit())


def _run_deadline(scope: JobScope, attempt: JobAttempt) -> Plan[JobStatus] | None:
    """Past `deadlines.run`: write the verdict-to-be, stop the script, and wait for its end within a bound.

    The last word is the machine's: while it can be asked, nothing is concluded before a poll of this process has ended.
    """
    if scope.now < _began(scope, attempt) + scope.job.spec.deadlines.run:
        return None
    view = scope.operation(Operation.POLL)
    up = _machine_up(scope)
    if attempt.reason is None:
        attempt.reason = Reason.RUN_DEADLINE_EXCEEDED
        scope.progress(
            JobPhase.RUNNING, Reason.STOPPING, f"Stopping the script: deadlines.run is over ({scope.title})."
        )
    elif scope.now >= _bound(scope, attempt) and (not up or (view is not None and not view.running)):
        limit = format_duration(scope.job.spec.deadlines.run)
        if view is not None and view.result is not None:
            _keep_tail(scope, view.result)
        scope.end(Reason.RUN_DEADLINE_EXCEEDED, f"The script ran longer than {limit} and did not stop when told to.")
        return scope.plan(requeue=timedelta(0))
    stop = scope.operation(Operation.STOP)
    again = scope.timing.poll_floor
    refused = stop is not None and stop.failure is not None and scope.obs.monotonic >= (stop.finished or 0.0) + again
    if up and (stop is None or refused):
        return scope.plan(Start(Operation.STOP), requeue=timedelta(seconds=again))
    return None


def _bound(scope: JobScope, attempt: JobAttempt) -> datetime:
    """When a script that was told to stop counts as one that does not."""
    deadlines = scope.job.spec.deadlines
    last_polls = 2 * timedelta(seconds=scope.timing.poll_ceiling)
    return _began(scope, attempt) + deadlines.run + deadlines.stop_grace + last_polls


def _no_contact(scope: JobScope, why: str) -> Plan[JobStatus]:
    """Nobody knows how the run is: keep asking, and give up only after `deadlines.unreachable`."""
    attempt = scope.attempt
    known = get_condition(scope.status.conditions, ConditionType.UNREACHABLE)
    if known is None or known.status != "True":
        message = f"The run of {scope.title} cannot be observed: {why}"
        scope.condition(ConditionType.UNREACHABLE, "True", Reason.UNREACHABLE, message)
        scope.note(Reason.UNREACHABLE, message, warning=True)
        scope.progress(JobPhase.RUNNING, Reason.UNREACHABLE, message)
        known = get_condition(scope.status.conditions, ConditionType.UNREACHABLE)
    limit = scope.job.spec.deadlines.unreachable
    since = known.last_transition_time if known is not None else scope.now
    if attempt is not None and scope.now >= since + limit:
        message = f"The run of {scope.title} could not be observed for {format_duration(limit)}: {why}"
        scope.end(Reason.UNREACHABLE, message)
        return scope.plan(requeue=timedelta(0))
    return scope.plan(requeue=max(since + limit - scope.now, timedelta(0)) + timedelta(milliseconds=1))


def _reached(scope: JobScope) -> None:
    if scope.is_true(ConditionType.UNREACHABLE):
        message = f"The run of {scope.title} is observed again."
        scope.condition(ConditionType.UNREACHABLE, "False", Reason.REACHABLE, message)
        _running(scope)


def _running(scope: JobScope) -> None:
    scope.progress(JobPhase.RUNNING, Reason.RUNNING, f"The script runs on {_machine(scope)}.")


def _machine(scope: JobScope) -> str:
    machine = scope.status.machine
    return f"machine {machine.brev_name}" if machine and machine.brev_name else "its machine"


def _machine_up(scope: JobScope) -> bool:
    """Whether a poll may be sent: never to a machine that does not run, since the CLI would start it."""
    instance = scope.obs.instance
    if instance is None:
        return False
    reachable = get_condition(instance.status.conditions, ConditionType.REACHABLE)
    return reachable is not None and (reachable.status == "True" or reachable.reason == Reason.HOST_UNREACHABLE)


def _is_over(run: RunView | None) -> bool:
    """Whether the answer to `start` says that the run has ended; only a poll brings its last output."""
    return run is not None and run.word is RunWord.EXITED


def _poll(scope: JobScope, attempt: JobAttempt, view: OperationView | None) -> Plan[JobStatus]:
    limit = _next_limit(scope, attempt)
    if view is not None and view.running:
        return scope.plan(requeue=limit)
    if view is None:
        delivered = scope.operation(Operation.DELIVER)
        if delivered is None or delivered.finished is None or _is_over(delivered.result):
            return scope.plan(Start(Operation.POLL), requeue=limit)
        last = delivered.finished
    else:
        last = view.finished or 0.0
    stopping = scope.operation(Operation.STOP) is not None
    # The age at the last answer, so that the delay does not grow while it is waited for.
    age = (scope.now - _began(scope, attempt)).total_seconds() - (scope.obs.monotonic - last)
    elapsed = 0.0 if stopping else max(age, 0.0)
    due = last + poll_delay(scope.timing, elapsed, scope.uid).total_seconds()
    if scope.obs.monotonic >= due:
        return scope.plan(Start(Operation.POLL), requeue=limit)
    return scope.plan(requeue=min(timedelta(seconds=due - scope.obs.monotonic + 0.001), limit))


def _next_limit(scope: JobScope, attempt: JobAttempt) -> timedelta:
    """Time until the next thing that happens by itself: the run deadline, the end of patience, or another look."""
    for limit in (_began(scope, attempt) + scope.job.spec.deadlines.run, _bound(scope, attempt)):
        if scope.now < limit:
            return limit - scope.now + timedelta(milliseconds=1)
    return timedelta(seconds=scope.timing.poll_floor)
