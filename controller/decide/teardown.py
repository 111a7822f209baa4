"""After the verdict: the machine goes, and only then the job is told to be over."""

from datetime import timedelta

from controller.api.brevjob import JobAttempt, JobInstance, JobPhase, JobStatus
from controller.api.conditions import ConditionType
from controller.api.reasons import Reason
from controller.cost.accrual import closed
from controller.decide.jobscope import JobScope
from controller.decide.types import Cancel, ChildState, DeleteChild, Plan


def tear_down(scope: JobScope, attempt: JobAttempt) -> Plan[JobStatus]:
    """Delete the job's BrevInstance, wait until it is gone (its finalizer waits for the machine), then conclude.

    The verdict is in the status before the deletion: a plan writes its status first.
    """
    plan = _release(scope, attempt.instance, JobPhase.TEARING_DOWN, Reason.TEARING_DOWN)
    if plan is not None:
        return plan
    _close_cost(scope, attempt)
    scope.status.completion_time = scope.now
    message = attempt.message or ""
    if attempt.reason == Reason.SUCCEEDED:
        scope.status.phase = JobPhase.SUCCEEDED
        scope.condition(ConditionType.COMPLETE, "True", Reason.SUCCEEDED, message)
        scope.condition(ConditionType.READY, "True", Reason.SUCCEEDED, message)
        scope.condition(ConditionType.RECONCILING, "False", Reason.SUCCEEDED, message)
        scope.condition(ConditionType.STALLED, "False", Reason.SUCCEEDED, message)
        scope.note(Reason.COMPLETED, f"{scope.title} succeeded and its machine is gone.")
    else:
        reason = attempt.reason or Reason.RUN_LOST
        scope.stall(JobPhase.FAILED, reason, message)
        scope.notes = [note for note in scope.notes if note.reason != reason]
        scope.condition(ConditionType.FAILED, "True", reason, message)
        scope.note(Reason.COMPLETED, f"{scope.title} failed and its machine is gone.", warning=True)
    return scope.plan(requeue=timedelta(0))


def discard(scope: JobScope) -> Plan[JobStatus] | None:
    """The job object is being deleted: its machine goes first, in any phase. None once nothing is left."""
    attempt = scope.attempt
    if attempt is None:
        return None
    return _release(scope, attempt.instance, JobPhase.TEARING_DOWN, Reason.DELETING)


def _release(scope: JobScope, name: str | None, phase: JobPhase, reason: Reason) -> Plan[JobStatus] | None:
    running = scope.running()
    if running:
        return scope.plan(Cancel(running))
    if name is None or scope.obs.child in (ChildState.ABSENT, ChildState.FOREIGN):
        return None
    if scope.obs.child is None or scope.obs.instance is None:
        return scope.plan(requeue=timedelta(seconds=scope.timing.retry_base))
    message = f'Waiting until the machine of BrevInstance "{name}" is gone.'
    scope.progress(phase, reason, message)
    metadata = scope.obs.instance.metadata
    # Its uid leads to its last words once it is gone, the cost of the machine among them.
    scope.status.instance = JobInstance(name=metadata.name, uid=metadata.uid)
    if metadata.deletion_timestamp is None:
        return scope.plan(DeleteChild(name=name, uid=metadata.uid), requeue=_look_again(scope))
    return scope.plan(requeue=_look_again(scope))


def _look_again(scope: JobScope) -> timedelta:
    """The child's events bring the job back, except where an orphaning deletion has taken its owner reference away."""
    return timedelta(seconds=scope.timing.recheck)


def _close_cost(scope: JobScope, attempt: JobAttempt) -> None:
    """The final figure: the child's own if it was seen closed, else counted until now, an upper bound."""
    cost = scope.obs.last_cost or scope.status.cost
    if cost is None:
        return
    scope.status.cost = closed(cost, scope.now)
    attempt.cost_micros = scope.status.cost.accrued_micros
