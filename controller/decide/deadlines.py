"""Deadlines of a BrevInstance: how long it may cost time or money without being usable."""

from datetime import datetime, timedelta

from controller.api.brevinstance import InstancePhase, InstanceStatus
from controller.api.conditions import ConditionType, get_condition
from controller.api.duration import format_duration
from controller.api.reasons import Reason
from controller.decide.scope import Scope
from controller.decide.types import Plan


def enforce_deadlines(scope: Scope) -> Plan[InstanceStatus] | None:
    """End the spec generation for good when a deadline has passed; the machine is released in the next pass."""
    verdict = _overdue(scope)
    if verdict is None:
        return None
    reason, message = verdict
    attempt = scope.attempt
    if attempt is not None:
        attempt.outcome = reason
        attempt.message = message
    scope.stall(InstancePhase.FAILED, reason, message)
    return scope.plan(requeue=timedelta(0))


def next_deadline(scope: Scope) -> timedelta | None:
    """The time until the deadline that is running now; None when none is, or when it has passed and been told.

    Passing `deadlines.unreachable` ends nothing, so it must not bring the object back for ever.
    """
    running = _running_deadline(scope)
    if running is None:
        return None
    start, limit, reason = running
    if reason is Reason.UNREACHABLE and scope.now >= start + limit:
        return None
    return max(start + limit - scope.now, timedelta(0)) + timedelta(milliseconds=1)


def _running_deadline(scope: Scope) -> tuple[datetime, timedelta, Reason] | None:
    deadlines = scope.instance.spec.deadlines
    status = scope.status
    if status.unreachable_since is not None:
        return status.unreachable_since, deadlines.unreachable, Reason.UNREACHABLE
    if scope.is_true(ConditionType.REACHABLE):
        return None
    if status.ready_at is not None:
        return None
    if status.running_at is not None and scope.is_true(ConditionType.PROVISIONED):
        return status.running_at, deadlines.ready, Reason.READY_DEADLINE_EXCEEDED
    if status.started_at is not None and status.running_at is None:
        return status.started_at, deadlines.provision, Reason.PROVISION_DEADLINE_EXCEEDED
    return None


def _overdue(scope: Scope) -> tuple[Reason, str] | None:
    running = _running_deadline(scope)
    if running is None:
        return None
    start, limit, reason = running
    if reason is Reason.UNREACHABLE or scope.now < start + limit:
        return None
    last = get_condition(scope.status.conditions, ConditionType.READY)
    because = f" The last state was: {last.message}" if last and last.message else ""
    what = {
        Reason.READY_DEADLINE_EXCEEDED: "has run without answering for",
        Reason.PROVISION_DEADLINE_EXCEEDED: "got no running machine within",
    }[reason]
    return reason, f"{scope.title} {what} {format_duration(limit)}.{because}"


def contact_lost(scope: Scope, reason: Reason, message: str) -> None:
    """A machine that had been ready does not answer: wait, and after `deadlines.unreachable` say that it is stalled.

    It is not deleted, since its disk may hold what nobody else has; the next answer ends the condition.
    """
    status = scope.status
    scope.condition(ConditionType.REACHABLE, "False", reason, message)
    if status.ready_at is None:
        scope.progress(InstancePhase.STARTING, reason, message)
        return
    if status.unreachable_since is None:
        status.unreachable_since = scope.now
        scope.note(reason, message, warning=True)
    limit = scope.instance.spec.deadlines.unreachable
    if scope.now < status.unreachable_since + limit:
        scope.progress(InstancePhase.UNREACHABLE, reason, message)
        return
    text = f"{scope.title} has not answered for {format_duration(limit)} and its machine is kept: {message}"
    scope.stall(InstancePhase.UNREACHABLE, Reason.UNREACHABLE, text)
