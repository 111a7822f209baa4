"""From "the provider says RUNNING" to "it really answers": a nonce probe, never a status word."""

from datetime import timedelta

from controller.api.brevinstance import InstancePhase, InstanceStatus, RemoteFacts
from controller.api.conditions import ConditionType, get_condition
from controller.api.reasons import Reason
from controller.cost.accrual import refreshed
from controller.decide.deadlines import contact_lost, next_deadline
from controller.decide.scope import Scope
from controller.decide.types import Operation, Plan, Start

UNANSWERED_AFTER = 12
"""Failed probes of a machine that has never answered before the status says so: at the usual pace a minute, which
booting takes anyway. sshd answers some time after the provider's RUNNING."""


def reach(scope: Scope) -> Plan[InstanceStatus] | None:
    """None once a probe has come back from the machine in its present run; else the next probe."""
    row = scope.obs.inventory.row
    unhealthy = row is not None and row.status == "UNHEALTHY"
    if scope.is_true(ConditionType.REACHABLE) and not unhealthy:
        return None
    view = scope.operation(Operation.CONNECT)
    if view is None:
        return _probe(scope, first=True)
    if view.running:
        _waiting(scope)
        return scope.plan(requeue=next_deadline(scope), hurry=scope.status.ready_at is None)
    if view.failure is None:
        _answered(scope, view.result)
        return None
    due = (view.finished or 0.0) + scope.timing.poll_floor
    if scope.obs.monotonic < due:
        if view.failures >= UNANSWERED_AFTER or scope.status.ready_at is not None:
            _unanswered(scope, view.failure.message)
        else:
            _waiting(scope)
        delay = timedelta(seconds=due - scope.obs.monotonic + 0.001)
        deadline = next_deadline(scope)
        soonest = delay if deadline is None else min(delay, deadline)
        return scope.plan(requeue=soonest, hurry=scope.status.ready_at is None)
    return _probe(scope, first=False)


def _probe(scope: Scope, *, first: bool) -> Plan[InstanceStatus]:
    """The first probe of each run of the machine comes after a fresh `brev refresh`."""
    _waiting(scope)
    arguments = {"name": scope.status.brev_name, "first": first}
    start = Start(Operation.CONNECT, arguments)
    return scope.plan(start, requeue=next_deadline(scope), hurry=scope.status.ready_at is None)


def _known_unreachable(scope: Scope) -> bool:
    known = get_condition(scope.status.conditions, ConditionType.REACHABLE)
    return known is not None and known.status == "False" and known.reason == Reason.HOST_UNREACHABLE


def _waiting(scope: Scope) -> None:
    if not scope.is_true(ConditionType.REACHABLE) and not _known_unreachable(scope):
        message = f"Machine {scope.status.brev_name} runs; waiting until it answers."
        scope.progress(InstancePhase.STARTING, Reason.BOOTING, message)


def _unanswered(scope: Scope, why: str) -> None:
    """The message stays the same from probe to probe, so that a machine that boots slowly costs one write."""
    known = get_condition(scope.status.conditions, ConditionType.REACHABLE)
    message = f"Machine {scope.status.brev_name} runs but does not answer: {why}"
    if known is not None and _known_unreachable(scope):
        message = known.message
    contact_lost(scope, Reason.HOST_UNREACHABLE, message)


def _answered(scope: Scope, remote: RemoteFacts) -> None:
    scope.consumed.add(Operation.CONNECT)
    status = scope.status
    first = status.ready_at is None
    status.remote = remote
    status.unreachable_since = None
    if first:
        status.ready_at = scope.now
        if status.cost is not None:
            status.cost = refreshed(status.cost, scope.now)
    message = f"Machine {status.brev_name} answered a probe."
    scope.condition(ConditionType.REACHABLE, "True", Reason.REACHABLE, message)
    if first:
        scope.note(Reason.READY, f"{message} {scope.title} is ready.")
