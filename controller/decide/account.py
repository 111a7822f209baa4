"""Whether a BrevAccount can be used, said in conditions. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.api.brevaccount import AccountPhase, AccountStatus, BrevAccount, CredentialType
from controller.api.conditions import ConditionStatus, ConditionType, get_condition, set_condition
from controller.api.fields import format_timestamp
from controller.api.meta import FINALIZER
from controller.api.reasons import Reason
from controller.decide.backoff import Timing, retry_delay
from controller.decide.types import (
    AccountObservation,
    AccountView,
    Action,
    AddFinalizer,
    Failure,
    Note,
    Operation,
    Plan,
    RemoveFinalizer,
    Start,
)

_AUTHENTICATION = frozenset({Reason.AUTHENTICATION_FAILED, Reason.ORGANIZATION_MISMATCH, Reason.CREDENTIAL_INVALID})
_CLI = frozenset({Reason.CLI_MISSING, Reason.CLI_UNSUPPORTED})

EXPIRY_WARNING = timedelta(minutes=15)
"""How long before the death of a raw JWT the account says so: a quarter of such a token's life."""


@dataclass(slots=True)
class _Draft:
    account: BrevAccount
    status: AccountStatus
    now: datetime

    def set(self, type_: ConditionType, value: ConditionStatus, reason: str, message: str) -> None:
        generation = self.account.metadata.generation
        set_condition(self.status.conditions, type_, value, reason, message, self.now, generation)


def problem(obs: AccountObservation) -> Failure | None:
    """The first thing that keeps the account from being used; None when nothing does, or nothing is known yet."""
    if obs.spec_problem:
        return Failure(Reason.INVALID_SPEC, obs.spec_problem)
    if obs.credential_failure is not None:
        return obs.credential_failure
    if obs.verified is not None and obs.verified.failure is not None:
        return obs.verified.failure
    listing = obs.inventory_failure
    if listing is not None and (obs.inventory_asked is None or listing.reason in _AUTHENTICATION | _CLI):
        # A list that fails now and then is told by InventoryFresh; one that never succeeded is no ground to create on.
        return listing
    return None


def view_account(account: BrevAccount, allowed: bool, obs: AccountObservation) -> AccountView:
    """The account as an object in a namespace that is, or is not, `allowed` sees it.

    What keeps it from working at all comes first: it also keeps machines from being deleted. The account's finalizer
    and the claim of this operator are stored before anything that it alone could delete.
    """
    title, org_id = f'BrevAccount "{account.metadata.name}"', account.spec.org_id
    failure = problem(obs)
    if failure is not None:
        return AccountView(False, failure.reason, f"{title}: {failure.message}", org_id)
    if not allowed:
        message = (
            f"{title} does not allow this namespace; whoever runs the operator can add it to "
            "spec.allowedNamespaces.names."
        )
        return AccountView(False, Reason.NAMESPACE_NOT_ALLOWED, message, org_id)
    if account.metadata.deleting:
        message = f"{title} is being deleted and gives no new machines; name another one in a new object."
        return AccountView(False, Reason.ACCOUNT_DELETING, message, org_id)
    ours = FINALIZER in account.metadata.finalizers and (account.status.served_by or "") == obs.identity
    if obs.verified is None or obs.inventory_asked is None or not ours:
        message = f"Waiting until {title} is verified."
        return AccountView(False, Reason.AWAITING_ACCOUNT, message, org_id)
    short = _short_session(account, obs)
    if short is not None:
        return AccountView(False, short.reason, f"{title}: {short.message}", org_id)
    return AccountView(True, org_id=org_id)


def _short_session(account: BrevAccount, obs: AccountObservation) -> Failure | None:
    """A raw JWT cannot be renewed: a machine could outlive the only login that can delete it."""
    if obs.expires_at is None or account.spec.allow_short_session:
        return None
    message = (
        "The login is a raw JWT, which dies in about an hour and cannot be renewed, so no machine is created with it. "
        "Use an API key or a refresh credential, or set spec.allowShortSession."
    )
    return Failure(Reason.SHORT_SESSION, message)


def decide_account(account: BrevAccount, obs: AccountObservation, now: datetime, timing: Timing) -> Plan[AccountStatus]:
    """Conditions of the account, and its verification when it is due. Writes nothing while nothing changes."""
    held = FINALIZER in account.metadata.finalizers
    if account.metadata.deleting:
        return _let_go(account, obs, now, timing) if held else Plan()
    if not held and not obs.spec_problem:
        return Plan(action=AddFinalizer())
    draft = _Draft(account, account.status.model_copy(deep=True), now)
    draft.status.credential_type = CredentialType(obs.credential) if obs.credential else None
    draft.status.credential_expires_at = obs.expires_at
    draft.status.served_by = obs.identity or None
    action, requeue = _verification(account, obs, timing)
    judged = get_condition(draft.status.conditions, ConditionType.READY) is not None
    if (obs.verified is None or obs.inventory_asked is None) and problem(obs) is None and judged:
        # Another look at an account that was judged before says nothing new until its result is there.
        return Plan(action=action, requeue=requeue)
    notes = _conditions(draft, obs)
    draft.status.observed_generation = account.metadata.generation
    return Plan(status=draft.status, action=action, notes=notes, requeue=requeue)


def _let_go(account: BrevAccount, obs: AccountObservation, now: datetime, timing: Timing) -> Plan[AccountStatus]:
    """The account goes when nothing uses it any more: nobody else could delete the machines."""
    if not obs.users:
        return Plan(action=RemoveFinalizer())
    draft = _Draft(account, account.status.model_copy(deep=True), now)
    message = (
        f"The account is being deleted and is still needed to delete the machines of {', '.join(obs.users)}; "
        "delete those objects."
    )
    before = get_condition(draft.status.conditions, ConditionType.READY)
    draft.status.phase = AccountPhase.DELETING
    draft.set(ConditionType.READY, "False", Reason.ACCOUNT_DELETING, message)
    draft.set(ConditionType.RECONCILING, "True", Reason.ACCOUNT_DELETING, message)
    draft.set(ConditionType.STALLED, "False", Reason.ACCOUNT_DELETING, message)
    draft.status.observed_generation = account.metadata.generation
    told = before is not None and before.reason == Reason.ACCOUNT_DELETING
    notes = () if told else (Note("Warning", Reason.ACCOUNT_DELETING, message),)
    action, _ = _verification(account, obs, timing)
    return Plan(status=draft.status, action=action, notes=notes, requeue=timedelta(seconds=timing.recheck))


def _verification(
    account: BrevAccount, obs: AccountObservation, timing: Timing
) -> tuple[Action | None, timedelta | None]:
    recheck = timedelta(seconds=timing.recheck)
    if obs.spec_problem or obs.credential_failure is not None:
        return None, recheck
    view = obs.verified
    if obs.verifying:
        return None, recheck
    if view is None:
        return Start(Operation.VERIFY), recheck
    if view.failure is None:
        return None, recheck
    delay = retry_delay(timing, view.failures, account.metadata.uid)
    due = (view.finished or 0.0) + delay.total_seconds()
    if obs.monotonic >= due:
        return Start(Operation.VERIFY), recheck
    return None, min(recheck, timedelta(seconds=due - obs.monotonic + 0.001))


def _conditions(draft: _Draft, obs: AccountObservation) -> tuple[Note, ...]:
    before = get_condition(draft.status.conditions, ConditionType.READY)
    failure = problem(obs)
    pending = failure is None and (obs.verified is None or obs.inventory_asked is None)
    _cli(draft, obs, failure)
    _authenticated(draft, obs, failure)
    _inventory(draft, obs)
    if pending:
        message = "The credential and the CLI are being verified."
        draft.status.phase = AccountPhase.PENDING
        draft.set(ConditionType.READY, "Unknown", Reason.CHECKING, message)
        draft.set(ConditionType.RECONCILING, "True", Reason.CHECKING, message)
        draft.set(ConditionType.STALLED, "False", Reason.CHECKING, message)
        return ()
    failure = failure or _short_session(draft.account, obs)
    ready = failure is None
    reason, message = (failure.reason, failure.message) if failure is not None else _ready(draft, obs)
    draft.status.phase = AccountPhase.READY if ready else AccountPhase.NOT_READY
    draft.set(ConditionType.READY, "True" if ready else "False", reason, message)
    draft.set(ConditionType.RECONCILING, "False", reason, message)
    draft.set(ConditionType.STALLED, "False" if ready else "True", reason, message)
    if before is not None and before.reason == reason:
        return ()
    return (Note("Normal" if ready else "Warning", reason, message),)


def _ready(draft: _Draft, obs: AccountObservation) -> tuple[Reason, str]:
    if obs.expires_at is None or draft.now < obs.expires_at - EXPIRY_WARNING:
        return Reason.READY, "The account can be used."
    return Reason.CREDENTIAL_EXPIRING, (
        f"The account can be used until its JWT dies at {format_timestamp(obs.expires_at)}; put a new login into its "
        "Secret, or nothing can be deleted after that."
    )


def _cli(draft: _Draft, obs: AccountObservation, failure: Failure | None) -> None:
    if failure is not None and failure.reason in _CLI:
        draft.set(ConditionType.CLI_SUPPORTED, "False", failure.reason, failure.message)
        draft.status.cli_version = None
    elif obs.verified is not None and obs.verified.result is not None:
        draft.status.cli_version = str(obs.verified.result)
        message = f"brev {obs.verified.result} is supported."
        draft.set(ConditionType.CLI_SUPPORTED, "True", Reason.CLI_SUPPORTED, message)
    elif get_condition(draft.status.conditions, ConditionType.CLI_SUPPORTED) is None:
        draft.set(ConditionType.CLI_SUPPORTED, "Unknown", Reason.CHECKING, "The CLI has not been looked at yet.")


def _authenticated(draft: _Draft, obs: AccountObservation, failure: Failure | None) -> None:
    refused = failure is not None and (failure is obs.credential_failure or failure.reason in _AUTHENTICATION)
    if failure is not None and refused:
        draft.set(ConditionType.AUTHENTICATED, "False", failure.reason, failure.message)
    elif obs.inventory_asked is not None and failure is None:
        message = "Brev accepted the credential for the pinned organization."
        draft.set(ConditionType.AUTHENTICATED, "True", Reason.AUTHENTICATED, message)
    elif get_condition(draft.status.conditions, ConditionType.AUTHENTICATED) is None:
        draft.set(ConditionType.AUTHENTICATED, "Unknown", Reason.CHECKING, "The credential has not been used yet.")


def _inventory(draft: _Draft, obs: AccountObservation) -> None:
    if obs.inventory_failure is not None:
        message = (
            f"The list of machines could not be read; nothing is concluded from that: {obs.inventory_failure.message}"
        )
        draft.set(ConditionType.INVENTORY_FRESH, "False", Reason.INVENTORY_STALE, message)
    elif obs.inventory_asked is not None:
        message = "The list of machines was read lately."
        draft.set(ConditionType.INVENTORY_FRESH, "True", Reason.INVENTORY_FRESH, message)
    elif get_condition(draft.status.conditions, ConditionType.INVENTORY_FRESH) is None:
        draft.set(ConditionType.INVENTORY_FRESH, "Unknown", Reason.CHECKING, "No list of machines has been read yet.")
