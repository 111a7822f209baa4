"""Getting a machine: offer, intent, create, and the look-up that settles what a create really did."""

from datetime import timedelta

from controller.api.brevinstance import InstanceAttempt, InstanceOffer, InstancePhase, InstanceStatus, RejectedOffer
from controller.api.conditions import ConditionType, get_condition
from controller.api.duration import format_duration
from controller.api.money import format_usd
from controller.api.reasons import Family, Reason
from controller.cost.accrual import open_cost
from controller.cost.offers import Offer, choose_offer
from controller.decide.deadlines import next_deadline
from controller.decide.names import machine_name
from controller.decide.scope import CATALOG, INVENTORY, TERMINAL, Scope, settled_at
from controller.decide.types import Failure, MachineSeen, Operation, OperationView, Plan, Start


def acquire(scope: Scope) -> Plan[InstanceStatus] | None:
    """One machine whose id is known, or the next step towards it; None once there is one."""
    attempt = scope.attempt
    if attempt is not None and attempt.brev_id:
        return None
    if attempt is None:
        return _account_problem(scope) or _choose(scope)
    return _create(scope, attempt)


def _account_problem(scope: Scope) -> Plan[InstanceStatus] | None:
    account = scope.obs.account
    if account.usable:
        return None
    phase = InstancePhase.PENDING if scope.attempt is None else InstancePhase.PROVISIONING
    if account.reason is Reason.AWAITING_ACCOUNT:
        scope.progress(phase, Reason.AWAITING_ACCOUNT, account.message)
    else:
        scope.stall(phase, account.reason or Reason.ACCOUNT_NOT_FOUND, account.message)
    return scope.plan(requeue=_soon(scope, timedelta(seconds=scope.timing.recheck)), hurry=False)


def _choose(scope: Scope) -> Plan[InstanceStatus] | None:
    """Choose an offer and write the intent; the create itself starts in the same pass, after that write."""
    waiting = scope.wait_for_retry()
    if waiting is not None:
        return scope.plan(requeue=_soon(scope, waiting), hurry=False)
    catalog = scope.obs.catalog
    if catalog.offers is None:
        if catalog.failure is not None:
            scope.stall(InstancePhase.PENDING, catalog.failure.reason, catalog.failure.message)
            return scope.plan(requeue=_soon(scope, timedelta(seconds=scope.timing.retry_base)), needs=CATALOG)
        # Read in a moment, or failed within the time-out of the call: neither is worth a write of its own.
        return Plan(requeue=next_deadline(scope), needs=CATALOG)
    stalled = get_condition(scope.status.conditions, ConditionType.STALLED)
    new_round = stalled is not None and stalled.status == "True"
    refused = [] if new_round else scope.status.rejected_offers
    tried = frozenset(rejected.type for rejected in refused)
    offer, rejections = choose_offer(scope.instance.spec.candidates, catalog.offers, tried)
    passed_over = [RejectedOffer(type=r.type, reason=r.reason, message=r.message) for r in rejections]
    scope.status.rejected_offers = [*passed_over, *refused][-16:]
    return _intend(scope, offer) if offer is not None else _no_offer(scope, bool(refused))


def _no_offer(scope: Scope, refused_by_brev: bool) -> Plan[InstanceStatus]:
    """Every candidate is refused: say so, and try the whole list again after a back-off."""
    refused = scope.status.rejected_offers
    first = refused[0]
    others = f" (status.rejectedOffers has {len(refused) - 1} more)" if len(refused) > 1 else ""
    # A failed machine is a verdict only where it had been ready; here the whole list is tried again.
    reason = Reason.NO_CAPACITY if first.reason in TERMINAL else first.reason
    scope.stall(InstancePhase.PENDING, reason, f"{scope.title} has no usable candidate: {first.message}{others}")
    # What the catalog alone says costs a look; asking Brev again is a call, whose back-off outlives this process.
    delay = scope.failed_again() if refused_by_brev else scope.recheck()
    return scope.plan(requeue=_soon(scope, delay), needs=CATALOG, hurry=False)


def _intend(scope: Scope, offer: Offer) -> Plan[InstanceStatus]:
    number = scope.status.attempts[-1].number + 1 if scope.status.attempts else 1
    name = machine_name(scope.obs.cluster_id, scope.uid, scope.instance.metadata.name, number)
    price = offer.price_micros or 0
    status = scope.status
    status.attempts = [
        *status.attempts[-15:],
        InstanceAttempt(number=number, brev_name=name, type=offer.type, price_micros=price, intended_at=scope.now),
    ]
    status.offer = InstanceOffer(
        type=offer.type,
        provider=offer.provider,
        gpu=offer.gpu or None,
        count=offer.gpu_count,
        price_micros=price,
        stoppable=offer.stoppable,
        boot_time=format_duration(timedelta(seconds=offer.boot_time_seconds)) if offer.boot_time_seconds else None,
    )
    status.brev_name, status.brev_id, status.remote = name, None, None
    # The account that was observed for this object: a changed spec (an old CRD allows it) never moves a machine.
    status.account_name = status.account_name or scope.instance.spec.account_name
    status.org_id = scope.obs.account.org_id
    status.running_at = status.ready_at = status.unreachable_since = None
    status.cost = open_cost(price, scope.now)
    message = f"Creating machine {name} of type {offer.type} at {format_usd(price)} USD an hour."
    scope.condition(ConditionType.PROVISIONED, "False", Reason.CREATING, message)
    scope.condition(ConditionType.REACHABLE, "Unknown", Reason.CREATING, message)
    scope.progress(InstancePhase.PROVISIONING, Reason.CREATING, message)
    scope.note(Reason.CREATING, message)
    return scope.plan(_start(name, offer.type))


def _start(name: str, machine_type: str) -> Start:
    return Start(Operation.CREATE, {"name": name, "machine_type": machine_type})


def _create(scope: Scope, attempt: InstanceAttempt) -> Plan[InstanceStatus] | None:
    view = scope.operation(Operation.CREATE)
    if view is not None and view.running:
        return scope.plan(requeue=next_deadline(scope))
    since = scope.since(Operation.CREATE)
    row = scope.obs.inventory.row
    if row is not None and scope.obs.inventory.shows(since):
        _found(scope, attempt, row)
        return None
    if not scope.obs.inventory.lacks(since, lists=1):
        known_problem = scope.obs.account.reason is not Reason.AWAITING_ACCOUNT
        plan = _account_problem(scope) if known_problem else None
        return plan or scope.plan(requeue=next_deadline(scope), needs=INVENTORY)
    if view is None:
        return _create_again(scope, attempt, Failure(Reason.CREATING, "", ambiguous=True))
    if view.failure is None:
        message = f"Machine {attempt.brev_name} was accepted and is not in the account's list yet."
        scope.condition(ConditionType.PROVISIONED, "False", Reason.DEPLOYING, message)
        return scope.plan(requeue=_soon(scope, timedelta(seconds=scope.timing.poll_floor)), needs=INVENTORY)
    return _create_failed(scope, attempt, view, view.failure)


def _found(scope: Scope, attempt: InstanceAttempt, row: MachineSeen) -> None:
    """The look-up by name found the machine, whatever the create said: go on with it."""
    attempt.brev_id = scope.status.brev_id = row.id
    attempt.created_at = scope.now
    scope.status.failures, scope.status.retry_at = 0, None
    scope.consumed.add(Operation.CREATE)


def _create_failed(
    scope: Scope, attempt: InstanceAttempt, view: OperationView, failure: Failure
) -> Plan[InstanceStatus]:
    """The create failed and a list asked for afterwards does not have the machine."""
    if failure.ambiguous:
        return _create_again(scope, attempt, failure, view)
    scope.consumed.add(Operation.CREATE)
    if failure.reason.family is Family.CAPACITY or failure.reason is Reason.UNKNOWN_MACHINE_TYPE:
        attempt.outcome, attempt.message, attempt.released_at = failure.reason, failure.message, scope.now
        scope.status.rejected_offers = [
            *scope.status.rejected_offers[-15:],
            RejectedOffer(type=attempt.type, reason=failure.reason, message=failure.message),
        ]
        scope.status.cost = None
        scope.status.brev_name = None
        scope.note(failure.reason, failure.message, warning=True)
        scope.progress(InstancePhase.PENDING, failure.reason, failure.message)
        return scope.plan(requeue=timedelta(0))
    scope.stall(InstancePhase.PROVISIONING, failure.reason, failure.message)
    return scope.plan(requeue=_soon(scope, scope.failed_again()))


def _create_again(
    scope: Scope, attempt: InstanceAttempt, failure: Failure, view: OperationView | None = None
) -> Plan[InstanceStatus]:
    """Nobody knows whether the create took effect (crash, time-out, EOF): wait until a late one must show, look again,
    and only then ask again under the same name, which the provider refuses if the first one did arrive."""
    waiting = scope.wait_for_retry()
    if waiting is not None:
        return scope.plan(requeue=_soon(scope, waiting))
    settled = settled_at(scope, attempt)
    if scope.obs.monotonic < settled:
        delay = timedelta(seconds=settled - scope.obs.monotonic + 0.001)
        return scope.plan(requeue=_soon(scope, delay), needs=INVENTORY)
    if not scope.obs.inventory.lacks(max(settled, scope.since(Operation.CREATE)), lists=1):
        return scope.plan(requeue=next_deadline(scope), needs=INVENTORY)
    problem = _account_problem(scope)
    if problem is not None:
        return problem
    if view is not None:
        scope.consumed.add(Operation.CREATE)
        scope.failed_again()
        scope.progress(
            InstancePhase.PROVISIONING, Reason.CREATING, f"Creating {attempt.brev_name} again: {failure.message}"
        )
        return scope.plan(requeue=_soon(scope, scope.wait_for_retry() or timedelta(0)))
    return scope.plan(_start(attempt.brev_name, attempt.type))


def _soon(scope: Scope, delay: timedelta) -> timedelta:
    """`delay`, or the time until the running deadline if that comes first."""
    deadline = next_deadline(scope)
    return delay if deadline is None else min(delay, deadline)
