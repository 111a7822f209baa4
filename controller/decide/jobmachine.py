"""The machine of a job: a BrevInstance that the job owns, asked for once and waited for."""

from datetime import timedelta

from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import JobAttempt, JobInstance, JobMachine, JobPhase, JobStatus
from controller.api.conditions import ConditionType, get_condition
from controller.api.reasons import Reason
from controller.decide.jobscope import JobScope
from controller.decide.names import child_name
from controller.decide.scope import TERMINAL
from controller.decide.types import ChildState, CreateChild, Plan


def ensure_machine(scope: JobScope) -> Plan[JobStatus] | None:
    """None once the job's machine is Ready, or a run is under way on it (`follow` has its own view of trouble)."""
    attempt = scope.attempt
    if attempt is None:
        return _ask(scope)
    name = attempt.instance or ""
    child, instance = scope.obs.child, scope.obs.instance
    if child is None:
        return scope.plan(requeue=timedelta(seconds=scope.timing.retry_base))
    if child is ChildState.FOREIGN:
        message = (
            f'A BrevInstance "{name}" that does not belong to {scope.title} is in the way; delete it, or delete the '
            "job and create it under another name."
        )
        scope.stall(JobPhase.PENDING, Reason.INSTANCE_NAME_CONFLICT, message)
        return scope.plan(requeue=timedelta(seconds=scope.timing.recheck))
    if child is ChildState.ABSENT or instance is None:
        return _absent(scope, attempt, name)
    if instance.metadata.deletion_timestamp is not None:
        scope.end(Reason.INSTANCE_DELETED, f'BrevInstance "{name}" was deleted before the run of {scope.title} ended.')
        return scope.plan(requeue=timedelta(0))
    return _await_ready(scope, attempt, instance)


def _ask(scope: JobScope) -> Plan[JobStatus]:
    """Write the intent; the BrevInstance is created in the same pass, after that write."""
    name = child_name(scope.job.metadata.name, scope.uid, 1)
    scope.status.attempts = [JobAttempt(number=1, instance=name)]
    scope.status.instance = JobInstance(name=name)
    scope.succeeded_again()
    message = f'Waiting for BrevInstance "{name}" to become ready.'
    scope.progress(JobPhase.PROVISIONING, Reason.AWAITING_INSTANCE, message)
    return scope.plan(CreateChild(name=name, attempt=1), requeue=scope.startup_left())


def _absent(scope: JobScope, attempt: JobAttempt, name: str) -> Plan[JobStatus]:
    known = scope.status.instance is not None and scope.status.instance.uid is not None
    if known or attempt.start_intent_at is not None:
        scope.end(Reason.INSTANCE_DELETED, f'BrevInstance "{name}" of {scope.title} is gone, and its machine with it.')
        return scope.plan(requeue=timedelta(0))
    refused = scope.obs.refused
    if refused is None:
        return scope.plan(CreateChild(name=name, attempt=attempt.number), requeue=scope.startup_left())
    scope.stall(JobPhase.PENDING, refused.reason, refused.message)
    waiting = scope.wait_for_retry()
    if waiting is not None:
        return scope.plan(requeue=min(waiting, scope.startup_left()))
    delay = min(scope.failed_again(), scope.startup_left())
    return scope.plan(CreateChild(name=name, attempt=attempt.number), requeue=delay)


def _await_ready(scope: JobScope, attempt: JobAttempt, instance: BrevInstance) -> Plan[JobStatus] | None:
    ready = get_condition(instance.status.conditions, ConditionType.READY)
    stalled = get_condition(instance.status.conditions, ConditionType.STALLED)
    if stalled is not None and stalled.status == "True" and stalled.reason in TERMINAL:
        scope.end(Reason(stalled.reason), stalled.message)
        return scope.plan(requeue=timedelta(0))
    if attempt.started_at is not None:
        return None
    if ready is not None and ready.status == "True":
        if attempt.start_intent_at is None:
            _machine_known(scope, instance)
        return None
    if attempt.start_intent_at is not None:
        return None if scope.known_run() is not None else scope.plan(requeue=scope.startup_left())
    if stalled is not None and stalled.status == "True":
        scope.stall(JobPhase.PROVISIONING, stalled.reason, stalled.message)
    else:
        message = f'Waiting for BrevInstance "{instance.metadata.name}" to become ready.'
        scope.progress(JobPhase.PROVISIONING, Reason.AWAITING_INSTANCE, message)
    return scope.plan(requeue=scope.startup_left())


def _machine_known(scope: JobScope, instance: BrevInstance) -> None:
    offer = instance.status.offer
    scope.status.instance = JobInstance(name=instance.metadata.name, uid=instance.metadata.uid)
    scope.status.machine = JobMachine(
        type=offer.type if offer else None,
        brev_name=instance.status.brev_name,
        price_micros=offer.price_micros if offer else None,
    )
    scope.status.cost = instance.status.cost
