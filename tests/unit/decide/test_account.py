"""The conditions of a BrevAccount: true, stable, and written only when they change."""

from datetime import timedelta

import pytest

from controller.api.brevaccount import AccountStatus, BrevAccount
from controller.api.conditions import get_condition
from controller.api.reasons import Reason
from controller.decide.account import decide_account, problem, view_account
from controller.decide.types import AccountObservation, AddFinalizer, Failure, Operation, Plan, RemoveFinalizer, Start
from controller.kube.status import merge_patch
from tests.builders import (
    NOW,
    STARTED,
    TIMING,
    FakeClock,
    account_obs,
    ended,
    failed,
    kstatus,
    make_account,
    message_of,
    reason_of,
    reread,
    stored,
)

CLOCK = FakeClock()
REFUSED = failed(STARTED, Reason.AUTHENTICATION_FAILED)


def decide(account: BrevAccount, obs: AccountObservation) -> Plan[AccountStatus]:
    return decide_account(account, obs, NOW, TIMING)


def settled(obs: AccountObservation) -> BrevAccount:
    """An account whose status says what `obs` shows."""
    account = make_account()
    plan = decide(account, obs)
    assert plan.status is not None
    account.status = reread(plan.status)
    return account


def test_a_new_account_is_verified_and_says_that_it_is_being_checked() -> None:
    plan = decide(make_account(), account_obs(CLOCK, verified=None, inventory_asked=None))
    assert plan.action == Start(Operation.VERIFY)
    assert plan.status is not None
    assert kstatus(plan.status.conditions) == ("Unknown", "True", "False")
    assert get_condition(plan.status.conditions, "CLISupported") is not None


def test_an_account_that_works_says_so_in_every_condition() -> None:
    account = settled(account_obs(CLOCK))
    assert kstatus(account.status.conditions) == ("True", "False", "False")
    for type_ in ("Authenticated", "CLISupported", "InventoryFresh"):
        condition = get_condition(account.status.conditions, type_)
        assert condition is not None
        assert condition.status == "True", type_
    assert (account.status.cli_version, account.status.credential_type) == ("v0.6.327", "APIKey")


@pytest.mark.parametrize(
    ("reason", "condition"),
    [
        (Reason.CLI_MISSING, "CLISupported"),
        (Reason.CLI_UNSUPPORTED, "CLISupported"),
        (Reason.AUTHENTICATION_FAILED, "Authenticated"),
        (Reason.ORGANIZATION_MISMATCH, "Authenticated"),
    ],
)
def test_a_failed_verification_is_told_in_the_condition_it_is_about(reason: Reason, condition: str) -> None:
    account = settled(account_obs(CLOCK, verified=failed(STARTED, reason), inventory_asked=None))
    assert kstatus(account.status.conditions) == ("False", "False", "True")
    assert reason_of(account.status) == reason
    assert reason_of(account.status, condition) == reason


@pytest.mark.parametrize("reason", [Reason.CREDENTIAL_SECRET_MISSING, Reason.CREDENTIAL_INVALID, Reason.FORBIDDEN])
def test_a_secret_that_is_no_login_is_told_and_nothing_is_verified(reason: Reason) -> None:
    obs = account_obs(CLOCK, credential=None, credential_failure=Failure(reason, "It is not."), verified=None)
    plan = decide(make_account(), obs)
    assert plan.action is None
    assert plan.status is not None
    assert reason_of(plan.status, "Authenticated") == reason
    assert plan.requeue == timedelta(seconds=TIMING.recheck), "a Secret announces nothing; it is read again"


def test_a_list_that_fails_is_stale_and_the_account_stays_ready() -> None:
    account = settled(account_obs(CLOCK, inventory_failure=Failure(Reason.API_UNAVAILABLE, "It is down.")))
    assert kstatus(account.status.conditions) == ("True", "False", "False")
    assert reason_of(account.status, "InventoryFresh") == Reason.INVENTORY_STALE
    assert "nothing is concluded" in message_of(account.status, "InventoryFresh")


def test_a_login_that_a_list_finds_refused_makes_the_account_unusable() -> None:
    failure = Failure(Reason.AUTHENTICATION_FAILED, "It expired.")
    account = settled(account_obs(CLOCK, inventory_failure=failure))
    assert reason_of(account.status) == Reason.AUTHENTICATION_FAILED


def test_an_invalid_spec_is_a_condition_and_nothing_is_verified() -> None:
    plan = decide(make_account(), account_obs(CLOCK, spec_problem="spec.orgID: missing", verified=None))
    assert plan.action is None
    assert plan.status is not None
    assert reason_of(plan.status) == Reason.INVALID_SPEC


@pytest.mark.parametrize("verified", [ended(STARTED, result="v0.6.327"), REFUSED])
def test_a_pass_that_changes_nothing_writes_nothing(verified: object) -> None:
    obs = account_obs(CLOCK, verified=verified)
    account = settled(obs)
    plan = decide(account, obs)
    assert plan.status is not None
    assert merge_patch(stored(account.status), stored(plan.status)) == {}
    assert not plan.notes


def test_another_verification_never_flaps() -> None:
    account = settled(account_obs(CLOCK, verified=REFUSED))
    later = FakeClock(3600)
    again = decide(account, account_obs(later, verified=REFUSED))
    assert again.action == Start(Operation.VERIFY)
    under_way = decide(account, account_obs(later, verified=REFUSED, verifying=True))
    assert under_way.action is None
    for plan in (again, under_way):
        assert plan.status is not None
        assert merge_patch(stored(account.status), stored(plan.status)) == {}


def test_after_a_restart_an_account_that_was_judged_says_nothing_until_the_result_is_there() -> None:
    account = settled(account_obs(CLOCK))
    plan = decide(account, account_obs(CLOCK, verified=None, inventory_asked=None))
    assert plan.action == Start(Operation.VERIFY)
    assert plan.status is None
    plan = decide(account, account_obs(CLOCK, verified=None, verifying=True, inventory_asked=None))
    assert (plan.action, plan.status) == (None, None)
    assert decide(account, account_obs(CLOCK, inventory_asked=None)).status is None
    plan = decide(account, account_obs(CLOCK))
    assert plan.status is not None
    assert merge_patch(stored(account.status), stored(plan.status)) == {}


def test_an_account_whose_machines_were_never_listed_is_not_usable_and_says_why() -> None:
    obs = account_obs(CLOCK, inventory_asked=None)
    assert view_account(make_account(), True, obs).reason == Reason.AWAITING_ACCOUNT
    broken = account_obs(
        CLOCK, inventory_asked=None, inventory_failure=Failure(Reason.CLI_FAILED, "Brev printed unfinished JSON.")
    )
    assert view_account(make_account(), True, broken).reason == Reason.CLI_FAILED
    account = settled(broken)
    assert kstatus(account.status.conditions) == ("False", "False", "True")
    assert reason_of(account.status) == Reason.CLI_FAILED


def test_a_list_that_fails_later_leaves_the_account_usable() -> None:
    obs = account_obs(CLOCK, inventory_failure=Failure(Reason.API_UNAVAILABLE, "No answer."))
    assert view_account(make_account(), True, obs).usable
    account = settled(obs)
    assert kstatus(account.status.conditions) == ("True", "False", "False")
    assert reason_of(account.status, "InventoryFresh") == Reason.INVENTORY_STALE


def test_failed_verifications_back_off() -> None:
    account = settled(account_obs(CLOCK, verified=REFUSED))
    soon = decide(account, account_obs(FakeClock(1), verified=REFUSED))
    assert soon.action is None
    assert soon.requeue is not None
    assert timedelta(0) < soon.requeue <= timedelta(seconds=TIMING.retry_base * 1.1)
    many = failed(STARTED, Reason.AUTHENTICATION_FAILED, failures=10)
    patient = decide(account, account_obs(FakeClock(100), verified=many))
    assert patient.action is None


def test_a_change_is_told_in_one_event() -> None:
    account = settled(account_obs(CLOCK))
    plan = decide(account, account_obs(CLOCK, verified=REFUSED))
    assert [(note.type, note.reason) for note in plan.notes] == [("Warning", Reason.AUTHENTICATION_FAILED)]


DELETING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def test_the_finalizer_comes_first_and_alone() -> None:
    plan = decide(make_account(held=False), account_obs(CLOCK))
    assert plan == Plan(action=AddFinalizer())


def test_an_account_that_nothing_uses_is_let_go() -> None:
    assert decide(make_account(**DELETING), account_obs(CLOCK)) == Plan(action=RemoveFinalizer())
    assert decide(make_account(held=False, **DELETING), account_obs(CLOCK)) == Plan()


def test_an_account_in_use_stays_and_names_who_needs_it() -> None:
    plan = decide(make_account(**DELETING), account_obs(CLOCK, users=("team-a/one", "team-b/two")))
    assert plan.status is not None
    assert plan.action is None
    assert reason_of(plan.status) == Reason.ACCOUNT_DELETING
    assert "team-a/one, team-b/two" in message_of(plan.status)
    assert [note.reason for note in plan.notes] == [Reason.ACCOUNT_DELETING]
    assert plan.requeue is not None


def test_a_login_that_an_account_being_deleted_still_needs_is_verified_by_a_new_process() -> None:
    plan = decide(make_account(**DELETING), account_obs(CLOCK, users=("team-a/one",), verified=None))
    assert plan.action == Start(Operation.VERIFY)


@pytest.mark.parametrize(
    ("account", "reason", "can_delete"),
    [
        (make_account(**DELETING), Reason.ACCOUNT_DELETING, True),
        (make_account(held=False), Reason.AWAITING_ACCOUNT, True),
    ],
)
def test_an_account_that_goes_or_is_not_held_gives_no_machine_but_deletes(
    account: BrevAccount, reason: Reason, can_delete: bool
) -> None:
    view = view_account(account, True, account_obs(CLOCK))
    assert (view.usable, view.reason, view.can_delete) == (False, reason, can_delete)


def test_a_login_that_does_not_work_cannot_delete_whatever_else_is_wrong() -> None:
    view = view_account(make_account(), False, account_obs(CLOCK, verified=REFUSED))
    assert (view.reason, view.can_delete) == (Reason.AUTHENTICATION_FAILED, False)


def test_a_raw_jwt_creates_nothing_unless_the_account_allows_it() -> None:
    obs = account_obs(CLOCK, credential="JWT", expires_at=NOW + timedelta(hours=1))
    view = view_account(make_account(), True, obs)
    assert (view.usable, view.reason, view.can_delete) == (False, Reason.SHORT_SESSION, True)
    assert view_account(make_account(spec={"allowShortSession": True}), True, obs).usable
    plan = decide(make_account(), obs)
    assert plan.status is not None
    assert kstatus(plan.status.conditions) == ("False", "False", "True")
    assert reason_of(plan.status) == Reason.SHORT_SESSION
    assert plan.status.credential_expires_at == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("left", "reason"), [(timedelta(minutes=16), Reason.READY), (timedelta(minutes=14), Reason.CREDENTIAL_EXPIRING)]
)
def test_an_allowed_jwt_is_warned_about_before_it_dies(left: timedelta, reason: Reason) -> None:
    obs = account_obs(CLOCK, credential="JWT", expires_at=NOW + left)
    plan = decide(make_account(spec={"allowShortSession": True}), obs)
    assert plan.status is not None
    assert kstatus(plan.status.conditions) == ("True", "False", "False")
    assert reason_of(plan.status) == reason


@pytest.mark.parametrize(
    ("allowed", "obs", "usable", "reason"),
    [
        (True, account_obs(CLOCK), True, None),
        (False, account_obs(CLOCK), False, Reason.NAMESPACE_NOT_ALLOWED),
        (True, account_obs(CLOCK, verified=None), False, Reason.AWAITING_ACCOUNT),
        (True, account_obs(CLOCK, verified=REFUSED), False, Reason.AUTHENTICATION_FAILED),
    ],
)
def test_what_an_object_sees_of_its_account(
    allowed: bool, obs: AccountObservation, usable: bool, reason: Reason | None
) -> None:
    view = view_account(make_account(), allowed, obs)
    assert (view.usable, view.reason) == (usable, reason)
    assert usable or '"default"' in view.message


def test_the_secret_comes_before_the_verification_among_problems() -> None:
    failure = Failure(Reason.CREDENTIAL_INVALID, "No key.")
    found = problem(account_obs(CLOCK, credential_failure=failure, verified=REFUSED))
    assert found == failure
