"""The life of a BrevJob: from the finalizer over one run on one machine to a verdict and no machine. Pure."""

from datetime import datetime, timedelta

from controller.api.brevjob import BrevJob, JobPhase, JobStatus
from controller.api.conditions import ConditionType
from controller.api.duration import format_duration
from controller.api.meta import FINALIZER
from controller.api.reasons import Reason
from controller.decide.backoff import Timing
from controller.decide.jobmachine import ensure_machine
from controller.decide.jobrun import follow, start
from controller.decide.jobscope import JobScope
from controller.decide.teardown import discard, tear_down
from controller.decide.types import AddFinalizer, JobObservation, Operation, Plan, RemoveFinalizer


def decide_job(job: BrevJob, obs: JobObservation, now: datetime, timing: Timing) -> Plan[JobStatus]:
    """The next step of one BrevJob; idempotent, and the same answer for the same arguments."""
    scope = JobScope.of(job, obs, now, timing)
    held = FINALIZER in job.metadata.finalizers
    if scope.is_true(ConditionType.COMPLETE) or scope.is_true(ConditionType.FAILED):
        # The machine is observed gone: nothing is left that the object would have to be held for.
        return Plan(action=RemoveFinalizer()) if held else Plan()
    if job.metadata.deletion_timestamp is not None:
        return (discard(scope) or Plan(action=RemoveFinalizer())) if held else Plan()
    if not held and not obs.spec_problem:
        return Plan(action=AddFinalizer())
    for step in (_accept, _judge, _sources, ensure_machine, start, follow):
        plan = step(scope)
        if plan is not None:
            return plan
    return scope.plan()


def _accept(scope: JobScope) -> Plan[JobStatus] | None:
    status = scope.status
    if status.start_time is None:
        status.start_time = scope.now
    if scope.obs.spec_problem:
        scope.stall(JobPhase.PENDING, Reason.INVALID_SPEC, scope.obs.spec_problem)
        return scope.plan()
    if status.spec_hash is None:
        status.spec_hash = scope.obs.spec_hash
    elif status.spec_hash != scope.obs.spec_hash:
        scope.end(
            Reason.SPEC_CHANGED,
            f"The spec of {scope.title} is not the one that it began with; a job's spec is immutable. "
            "Delete the job and create it again.",
        )
    return None


def _judge(scope: JobScope) -> Plan[JobStatus] | None:
    """A verdict is torn down and told; before the run has begun, its startup deadline may be the verdict."""
    attempt = scope.attempt
    if attempt is None or attempt.started_at is None:
        limit = scope.startup_limit()
        unfinished = attempt is None or attempt.finished_at is None
        if unfinished and scope.startup_over() and not _may_run(scope):
            ready = next((c for c in scope.status.conditions if c.type == ConditionType.READY), None)
            because = f" The last state was: {ready.message}" if ready and ready.message else ""
            message = f"{scope.title} did not start its script within {format_duration(limit)}.{because}"
            scope.end(Reason.STARTUP_DEADLINE_EXCEEDED, message)
    attempt = scope.attempt
    if attempt is None or attempt.finished_at is None:
        return None
    return tear_down(scope, attempt)


def _may_run(scope: JobScope) -> bool:
    """Whether the script may have been started in time, and its machine has not been asked yet.

    A process that comes back after the deadline owes the run one question before it says that there was none.
    """
    attempt = scope.attempt
    if attempt is None or attempt.start_intent_at is None:
        return False
    if scope.known_run() is not None:
        return True
    delivery, poll = scope.operation(Operation.DELIVER), scope.operation(Operation.POLL)
    if (delivery is not None and delivery.failure is None) or (poll is not None and not poll.running):
        return False
    return scope.machine_ready()


def _sources(scope: JobScope) -> Plan[JobStatus] | None:
    """Every ConfigMap and Secret key exists before any machine is created."""
    if scope.attempt is not None or scope.obs.sources.ready:
        return None
    failure = scope.obs.sources.failure
    if failure is None:
        scope.progress(JobPhase.PENDING, Reason.PENDING, "Reading the ConfigMaps and Secrets that the job names.")
        return scope.plan(requeue=timedelta(seconds=scope.timing.retry_base))
    scope.stall(JobPhase.PENDING, failure.reason, failure.message)
    return scope.plan(requeue=min(scope.recheck(), scope.startup_left()))
