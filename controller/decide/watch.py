"""Following a machine that exists: what the account's list says of it."""

from datetime import timedelta

from controller.api.brevinstance import InstanceAttempt, InstancePhase, InstanceStatus, RejectedOffer
from controller.api.conditions import ConditionType
from controller.api.reasons import Reason
from controller.cost.accrual import closed, refreshed
from controller.decide.deadlines import contact_lost, next_deadline
from controller.decide.release import release
from controller.decide.scope import INVENTORY, VANISHED_AFTER, Scope
from controller.decide.types import Cancel, Operation, Plan

UP = frozenset({"RUNNING", "UNHEALTHY"})
"""UNHEALTHY is the CLI's word for a RUNNING machine with bad health (brev-cli v0.6.327)."""


def watch(scope: Scope) -> Plan[InstanceStatus] | None:
    """None while the list says that the machine is up; else the state to wait in, or the end of the attempt."""
    attempt = scope.attempt
    if attempt is None:
        return None
    if attempt.outcome == Reason.MACHINE_FAILED:
        return _replace(scope, attempt)
    inventory = scope.obs.inventory
    if inventory.lacks(scope.obs.process_started):
        return _missing(scope, attempt)
    if inventory.row is None:
        return scope.plan(requeue=next_deadline(scope), needs=INVENTORY)
    word = inventory.row.status
    if word in UP:
        _up(scope, attempt)
        return None
    if word == "FAILURE":
        return _failed(scope, attempt)
    if word in ("STOPPING", "STOPPED"):
        return _stopped(scope, word)
    if word == "DELETING":
        return _lost_contact(scope, Reason.DELETING, f"Machine {attempt.brev_name} is being deleted by somebody else.")
    if scope.status.running_at is None:
        message = f"Machine {attempt.brev_name} ({attempt.type}) is being deployed."
        scope.condition(ConditionType.PROVISIONED, "False", Reason.DEPLOYING, message)
        scope.progress(InstancePhase.PROVISIONING, Reason.DEPLOYING, message)
        return scope.plan(requeue=next_deadline(scope))
    return _lost_contact(scope, Reason.MACHINE_STOPPED, f'Machine {attempt.brev_name} is in the state "{word}".')


def _up(scope: Scope, attempt: InstanceAttempt) -> None:
    if scope.status.running_at is None:
        scope.status.running_at = scope.now
        if scope.status.cost is not None:
            scope.status.cost = refreshed(scope.status.cost, scope.now)
        scope.note(Reason.BOOTING, f"Machine {attempt.brev_name} is running; waiting until it answers.")
    message = f"Machine {attempt.brev_name} ({attempt.type}) runs."
    scope.condition(ConditionType.PROVISIONED, "True", Reason.PROVISIONED, message)


def _stopped(scope: Scope, word: str) -> Plan[InstanceStatus]:
    message = (
        f"Machine {scope.status.brev_name} is {word.lower()}; it is not started by the operator. Start it with "
        f'"brev start", or delete {scope.title}.'
    )
    scope.condition(ConditionType.REACHABLE, "False", Reason.MACHINE_STOPPED, message)
    scope.consumed.add(Operation.CONNECT)
    scope.status.unreachable_since = None
    scope.status.running_at = None if scope.status.ready_at is None else scope.status.running_at
    scope.stall(InstancePhase.STOPPED, Reason.MACHINE_STOPPED, message)
    return scope.plan(requeue=next_deadline(scope), hurry=False)


def _lost_contact(scope: Scope, reason: Reason, message: str) -> Plan[InstanceStatus]:
    scope.consumed.add(Operation.CONNECT)
    contact_lost(scope, reason, message)
    return scope.plan(requeue=next_deadline(scope))


def _missing(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus]:
    """A machine that had been ready is not given up by two lists: a list that is wrong for a while (`null` is also what
    the CLI prints for no machines) would end a run that goes on. Waiting costs nothing where it really is gone."""
    if scope.status.ready_at is None:
        return _vanished(scope, attempt)
    certain = (scope.status.unreachable_since or scope.now) + timedelta(seconds=VANISHED_AFTER * scope.timing.settle)
    if scope.now >= certain:
        return _vanished(scope, attempt)
    message = f"Machine {attempt.brev_name} is not in the account's list; waiting until that is certain."
    scope.consumed.add(Operation.CONNECT)
    contact_lost(scope, Reason.MACHINE_VANISHED, message)
    return scope.plan(requeue=certain - scope.now + timedelta(milliseconds=1))


def _vanished(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus]:
    """A verdict, and no release: nobody has asked for the machine's end, and it may come back into the list."""
    message = (
        f"Machine {attempt.brev_name} is no longer in the account's list and was not deleted by the operator; "
        "delete this object, or change its spec to get a new machine."
    )
    attempt.outcome, attempt.message = Reason.MACHINE_VANISHED, message
    if scope.status.cost is not None:
        scope.status.cost = closed(scope.status.cost, scope.now)
    scope.condition(ConditionType.PROVISIONED, "False", Reason.MACHINE_VANISHED, message)
    scope.condition(ConditionType.REACHABLE, "False", Reason.MACHINE_VANISHED, message)
    scope.stall(InstancePhase.FAILED, Reason.MACHINE_VANISHED, message)
    scope.consumed.add(Operation.CONNECT)
    probing = scope.running(Operation.CONNECT)
    return scope.plan(Cancel(frozenset({Operation.CONNECT})) if probing else None, hurry=False)


def came_back(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus] | None:
    """Hold the verdict while the machine stays away; None once a list has it again, and everything goes on."""
    row = scope.obs.inventory.row
    if row is None:
        return scope.plan(hurry=False)
    attempt.outcome = attempt.message = None
    status = scope.status
    status.unreachable_since = None
    if status.cost is not None:
        status.cost = refreshed(status.cost.model_copy(update={"ended_at": None}), scope.now)
    message = f"Machine {attempt.brev_name} is in the account's list again."
    scope.note(Reason.BOOTING, message)
    scope.progress(InstancePhase.STARTING, Reason.BOOTING, message)
    return None


def _failed(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus]:
    message = f"The provider reports that machine {attempt.brev_name} ({attempt.type}) failed; it will be deleted."
    attempt.outcome, attempt.message = Reason.MACHINE_FAILED, message
    scope.condition(ConditionType.PROVISIONED, "False", Reason.MACHINE_FAILED, message)
    scope.progress(InstancePhase.PROVISIONING, Reason.MACHINE_FAILED, message)
    scope.note(Reason.MACHINE_FAILED, message, warning=True)
    return scope.plan(requeue=timedelta(0))


def _replace(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus]:
    """A failed machine holds its name and perhaps bills: it goes first, and only then comes the next candidate.

    A machine that had been Ready is not replaced: what ran on it cannot be moved (vanish rules of the object).
    """
    plan = release(scope, Reason.MACHINE_FAILED, "its provider reports a failure", None)
    if plan is not None and attempt.released_at is None:
        return plan
    message = attempt.message or ""
    if scope.status.ready_at is not None:
        scope.stall(InstancePhase.FAILED, Reason.MACHINE_FAILED, message)
        return scope.plan(hurry=False)
    scope.status.rejected_offers = [
        *scope.status.rejected_offers[-15:],
        RejectedOffer(type=attempt.type, reason=Reason.MACHINE_FAILED, message=message),
    ]
    scope.status.running_at = None
    scope.progress(InstancePhase.PENDING, Reason.MACHINE_FAILED, message)
    return scope.plan(requeue=timedelta(0))
