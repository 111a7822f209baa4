"""Whether a BrevAccount can be used, said in conditions. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.api.brevaccount import AccountPhase, AccountStatus, BrevAccount, CredentialType
from controller.api.conditions import ConditionStatus, ConditionType, get_condition, set_condition
from controller.api.reasons import Reason
from controller.decide.backoff import Timing, retry_delay
from controller.decide.types import (
    AccountObservation,
    AccountView,
    Action,
    Failure,
    Note,
    Operation,
    Plan,
    Start,
)

_AUTHENTICATION = frozenset({Reason.AUTHENTICATION_FAILED, Reason.ORGANIZATION_MISMATCH, Reason.CREDENTIAL_INVALID})
_CLI = frozenset({Reason.CLI_MISSING, Reason.CLI_UNSUPPORTED})


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
    if obs.inventory_failure is not None and obs.inventory_failure.reason in _AUTHENTICATION | _CLI:
        return obs.inventory_failure
    return None


def view_account(name: str, org_id: str, allowed: bool, obs: AccountObservation) -> AccountView:
    """The account as an object in a namespace that is, or is not, `allowed` sees it."""
    if not allowed:
        message = (
            f'BrevAccount "{name}" does not allow this namespace; whoever runs the operator can add it to '
            "spec.allowedNamespaces.names."
        )
        return AccountView(False, Reason.NAMESPACE_NOT_ALLOWED, message, org_id)
    failure = problem(obs)
    if failure is not None:
        return AccountView(False, failure.reason, f'BrevAccount "{name}": {failure.message}', org_id)
    if obs.verified is None:
        message = f'Waiting until BrevAccount "{name}" is verified.'
        return AccountView(False, Reason.AWAITING_ACCOUNT, message, org_id)
    return AccountView(True, org_id=org_id)


def decide_account(account: BrevAccount, obs: AccountObservation, now: datetime, timing: Timing) -> Plan[AccountStatus]:
    """Conditions of the account, and its verification when it is due. Writes nothing while nothing changes."""
    if account.metadata.deletion_timestamp is not None:
        return Plan()
    draft = _Draft(account, account.status.model_copy(deep=True), now)
    draft.status.credential_type = CredentialType(obs.credential) if obs.credential else None
    action, requeue = _verification(account, obs, timing)
    judged = get_condition(draft.status.conditions, ConditionType.READY) is not None
    if obs.verified is None and problem(obs) is None and judged:
        # Another look at an account that was judged before says nothing new until its result is there.
        return Plan(action=action, requeue=requeue)
    notes = _conditions(draft, obs)
    draft.status.observed_generation = account.metadata.generation
    return Plan(status=draft.status, action=action, notes=notes, requeue=requeue)


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
    pending = failure is None and obs.verified is None
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
    ready = failure is None
    reason = Reason.READY if failure is None else failure.reason
    message = "The account can be used." if failure is None else failure.message
    draft.status.phase = AccountPhase.READY if ready else AccountPhase.NOT_READY
    draft.set(ConditionType.READY, "True" if ready else "False", reason, message)
    draft.set(ConditionType.RECONCILING, "False", reason, message)
    draft.set(ConditionType.STALLED, "False" if ready else "True", reason, message)
    if before is not None and before.reason == reason:
        return ()
    return (Note("Normal" if ready else "Warning", reason, message),)


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
