"""Giving a machine back: deletion that counts only when the machine is observed gone. No time-out gives up."""

from datetime import datetime, timedelta

from controller.api.brevinstance import InstanceAttempt, InstancePhase, InstanceStatus
from controller.api.conditions import ConditionType, get_condition
from controller.api.reasons import Reason
from controller.cost.accrual import closed
from controller.decide.scope import INVENTORY, VANISHED_AFTER, Scope, settled_at
from controller.decide.types import Cancel, MachineSeen, Operation, OperationView, Plan, Start

_BUSY = frozenset({Operation.CREATE, Operation.CONNECT})


def release(scope: Scope, reason: Reason, why: str, since: datetime | None) -> Plan[InstanceStatus] | None:
    """The next step towards "gone"; None when no machine of this object can exist any more.

    Deletion goes by the recorded id, or while none is known by the name, which is a function of the object's uid.
    A machine is gone when Brev was told to delete it (or knew of none of that id), and two consecutive good lists,
    asked for after everything that could make or remove it had ended, do not have it; while no id is known they must
    also be later than the settle time of the last create.
    """
    attempt = scope.attempt
    if attempt is None:
        return None
    if scope.status.deleting_at is None:
        # A back-off that was counted for something else must not delay the end of what costs money.
        scope.status.failures, scope.status.retry_at = 0, None
    busy = frozenset(kind for kind in _BUSY if scope.running(kind))
    if busy:
        return _deleting(scope, attempt, reason, why, since, Cancel(busy))
    fresh = max(scope.since(Operation.CREATE, Operation.DELETE), _certain(scope, attempt))
    inventory = scope.obs.inventory
    if scope.running(Operation.DELETE):
        return scope.plan()
    if inventory.lacks(fresh) and _asked(scope, attempt):
        return _gone(scope, attempt)
    if inventory.row is None and attempt.brev_id:
        known = MachineSeen(attempt.brev_name, attempt.brev_id, status="")
        return _delete(scope, attempt, known, reason, why, since)
    if inventory.row is None:
        blocked = _account_blocks(scope, attempt)
        if blocked is not None:
            return blocked
        delay = max(fresh - scope.obs.monotonic, 0.0)
        plan = _deleting(scope, attempt, reason, why, since, None)
        return plan if delay <= 0 else _later(scope, delay)
    return _delete(scope, attempt, inventory.row, reason, why, since)


def _asked(scope: Scope, attempt: InstanceAttempt) -> bool:
    """Whether Brev itself was told to delete a machine whose id is known, and did, or knew of none.

    A list alone is not enough to let go of what may bill: it has been wrong for longer than two readings.
    """
    view = scope.operation(Operation.DELETE)
    if not attempt.brev_id:
        return True
    return view is not None and (view.failure is None or _unknown(view))


def _unknown(view: OperationView) -> bool:
    """Whether Brev answered that it knows no such machine."""
    return view.failure is not None and view.failure.reason is Reason.MACHINE_VANISHED


def _certain(scope: Scope, attempt: InstanceAttempt) -> float:
    """The monotonic second from which a list without the machine means that there is none."""
    view = scope.operation(Operation.CREATE)
    refused = view is not None and view.failure is not None and not view.failure.ambiguous
    if attempt.outcome == Reason.MACHINE_VANISHED:
        # The lists had lost it before; and `brev delete` looks a machine up in the same list that may be wrong.
        age = (scope.now - (scope.status.deleting_at or scope.now)).total_seconds()
        return scope.obs.monotonic - age + VANISHED_AFTER * scope.timing.settle
    return scope.obs.process_started if attempt.brev_id or refused else settled_at(scope, attempt)


def _later(scope: Scope, seconds: float) -> Plan[InstanceStatus]:
    return scope.plan(requeue=timedelta(seconds=seconds + 0.001), needs=INVENTORY)


def _deleting(
    scope: Scope,
    attempt: InstanceAttempt,
    reason: Reason,
    why: str,
    since: datetime | None,
    action: Cancel | Start | None,
) -> Plan[InstanceStatus]:
    _mark(scope, attempt, reason, why, since)
    return scope.plan(action, needs=INVENTORY)


def _mark(scope: Scope, attempt: InstanceAttempt, reason: Reason, why: str, since: datetime | None) -> None:
    if scope.status.deleting_at is None:
        scope.status.deleting_at = since or scope.now
        scope.note(Reason.DELETING, f"Deleting machine {attempt.brev_name} because {why}.")
    message = f"Machine {attempt.brev_name} is being deleted; waiting until the account's list no longer has it."
    if scope.verdict() is not None:
        return
    scope.condition(ConditionType.REACHABLE, "False", reason, message)
    scope.progress(InstancePhase.DELETING, reason, message)


def _delete(
    scope: Scope, attempt: InstanceAttempt, row: MachineSeen, reason: Reason, why: str, since: datetime | None
) -> Plan[InstanceStatus]:
    attempt.brev_id = scope.status.brev_id = row.id
    if scope.status.cost is not None and attempt.created_at is None:
        attempt.created_at = scope.now
    start = Start(Operation.DELETE, {"machine_id": row.id, "name": row.name})
    view = scope.operation(Operation.DELETE)
    if view is None:
        waiting = scope.wait_for_retry()
        if waiting is not None:
            return scope.plan(requeue=waiting, needs=INVENTORY)
        blocked = _account_blocks(scope, attempt)
        if blocked is not None:
            return blocked
        if scope.obs.account.reason is Reason.AWAITING_ACCOUNT:
            return _deleting(scope, attempt, reason, why, since, None)
        if row.status == "DELETING":
            return _deleting(scope, attempt, reason, why, since, None)
        if scope.status.failures:
            # Still what the last refusal said; two writes for each try would tell nobody more.
            return scope.plan(start, needs=INVENTORY)
        return _deleting(scope, attempt, reason, why, since, start)
    if view.failure is not None and scope.obs.inventory.shows(view.finished or 0.0) and _unknown(view):
        scope.consumed.add(Operation.DELETE)
        return scope.plan(requeue=timedelta(0))
    if view.failure is not None and not _unknown(view):
        scope.consumed.add(Operation.DELETE)
        scope.failed_again()
        return _blocked(scope, attempt, view.failure.reason, view.failure.message)
    if row.status != "DELETING" and scope.obs.monotonic > (view.finished or 0.0) + 4 * scope.timing.settle:
        scope.consumed.add(Operation.DELETE)
        return scope.plan(requeue=timedelta(0))
    return _deleting(scope, attempt, reason, why, since, None)


def _account_blocks(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus] | None:
    """An account without a working login cannot delete; one that merely allows no new machines can."""
    account = scope.obs.account
    if account.can_delete:
        return None
    return _blocked(scope, attempt, account.reason or Reason.ACCOUNT_NOT_FOUND, account.message)


def _blocked(scope: Scope, attempt: InstanceAttempt, reason: Reason, message: str) -> Plan[InstanceStatus]:
    text = f"Machine {attempt.brev_name} could not be deleted and may still cost money: {message}"
    if scope.status.deleting_at is None:
        scope.status.deleting_at = scope.now
    verdict = scope.verdict()
    if verdict is None:
        scope.stall(InstancePhase.DELETING, reason, text)
    else:
        # `Stalled` keeps the verdict, which would otherwise be lost; `Ready` tells what is still to be done.
        ready = get_condition(scope.status.conditions, ConditionType.READY)
        if ready is None or ready.message != text:
            scope.note(reason, text, warning=True)
        scope.condition(ConditionType.READY, "False", verdict.reason, text)
    delay = scope.wait_for_retry() or timedelta(seconds=scope.timing.recheck)
    return scope.plan(requeue=delay, needs=INVENTORY)


def _gone(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus]:
    """Write down that the machine is gone; the finalizer goes in the next pass."""
    attempt.released_at = scope.now
    scope.consumed.update({Operation.CREATE, Operation.CONNECT, Operation.DELETE})
    status = scope.status
    status.failures, status.retry_at = 0, None
    status.deleting_at = scope.instance.metadata.deletion_timestamp
    if status.cost is not None:
        status.cost = closed(status.cost, scope.now)
    message = f"Machine {attempt.brev_name} is gone."
    scope.condition(ConditionType.PROVISIONED, "False", Reason.RELEASED, message)
    scope.condition(ConditionType.REACHABLE, "False", Reason.RELEASED, message)
    verdict = scope.verdict()
    if verdict is not None:
        scope.condition(ConditionType.READY, "False", verdict.reason, verdict.message)
    scope.note(Reason.RELEASED, message)
    return scope.plan(requeue=timedelta(0))
