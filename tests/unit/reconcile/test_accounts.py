"""Accounts: a login that follows its Secret, a catalog at a bounded pace, and dependents that hear of every change."""

import asyncio

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.brev.errors import AuthRequired, UnknownFailure
from controller.decide.types import CatalogView, Operation
from controller.kube.errors import Forbidden
from controller.logs import mask
from controller.reconcile.accounts import Account
from tests.builders import account_body, instance_body
from tests.unit.reconcile.fakes import LOGIN, Bench, yield_to_others

ACCOUNT = ObjectKey(Kind.ACCOUNT, "", "default")


def account(bench: Bench) -> Account:
    found = bench.engine.accounts.of("default")
    assert found is not None
    return found


async def ready(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").usable


async def test_a_new_account_becomes_usable_by_one_verification(bench: Bench) -> None:
    await ready(bench)
    assert bench.sessions[0].calls.count("version") == 1
    assert bench.body(ACCOUNT)["status"]["phase"] == "Ready"


async def test_an_account_is_claimed_before_it_gives_a_machine(bench: Bench) -> None:
    await ready(bench)
    assert bench.body(ACCOUNT)["status"]["servedBy"] == "test/brev-operator"


async def test_an_account_of_another_operator_and_what_uses_it_are_left_alone(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body(status={"servedBy": "other/brev-operator"}))
    bench.store(Kind.INSTANCE, instance_body(held=False))
    await bench.settle()
    assert bench.kube.log == [], "two operators that both took it would each see the other's machines as gone"
    assert bench.sessions == []


async def test_an_account_that_loses_the_race_for_its_claim_is_given_up(bench: Bench) -> None:
    await ready(bench)
    body = bench.body(ACCOUNT)
    body["status"]["servedBy"] = "other/brev-operator"
    bench.store(Kind.ACCOUNT, body)
    before = len(bench.kube.log)
    await bench.settle()
    await bench.run_pass(ACCOUNT)
    assert bench.kube.log[before:] == []
    assert bench.engine.accounts.foreign("default")


async def test_an_account_without_its_secret_becomes_usable_when_that_is_created(bench: Bench) -> None:
    bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    view = bench.engine.accounts.view("default", "team-a")
    assert (view.usable, view.reason) == (False, Reason.CREDENTIAL_SECRET_MISSING)
    bench.login()
    await bench.run_pass(ACCOUNT)
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").usable


async def test_a_rotated_secret_is_taken_over_without_a_restart_in_the_same_session(bench: Bench) -> None:
    await ready(bench)
    bench.kube.secrets["brev-operator", "brev-login"]["BREV_API_KEY"] = b"bak-another-key"
    await bench.run_pass(ACCOUNT)
    await bench.settle()
    assert len(bench.sessions) == 1
    assert bench.sessions[0].credential.secret == "bak-another-key"
    assert bench.sessions[0].calls.count("version") == 2, "a new login is verified"
    assert bench.engine.accounts.view("default", "team-a").usable


async def test_an_unchanged_secret_changes_nothing(bench: Bench) -> None:
    await ready(bench)
    before = len(bench.kube.log)
    for _ in range(5):
        await bench.run_pass(ACCOUNT)
        await bench.settle()
    assert bench.kube.log[before:] == []
    assert bench.sessions[0].calls.count("version") == 1


async def test_a_rotation_during_a_verification_does_not_tell_how_the_old_one_ended(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body())
    await bench.run_pass(ACCOUNT)
    session = bench.sessions[0]
    session.hold["version"] = asyncio.Event()
    await yield_to_others()
    bench.kube.secrets["brev-operator", "brev-login"]["BREV_API_KEY"] = b"bak-another-key"
    await bench.run_pass(ACCOUNT)
    session.hold["version"].set()
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").usable
    told = [line for line in bench.kube.log if line.startswith("event")]
    assert told == [f"event {ACCOUNT}: Ready"]


async def test_a_secret_that_goes_away_ends_the_login_and_its_return_brings_it_back(bench: Bench) -> None:
    await ready(bench)
    bench.kube.secrets.clear()
    await bench.run_pass(ACCOUNT)
    await bench.settle()
    assert bench.engine.session("default") is None
    assert bench.engine.accounts.view("default", "team-a").reason is Reason.CREDENTIAL_SECRET_MISSING
    bench.login()
    await bench.run_pass(ACCOUNT)
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").usable


async def test_a_secret_that_may_not_be_read_is_told_and_the_login_goes_on(bench: Bench) -> None:
    await ready(bench)
    bench.kube.refuse["get_secret"] = Forbidden("no")
    await bench.run_pass(ACCOUNT)
    assert bench.engine.accounts.view("default", "team-a").reason is Reason.FORBIDDEN
    assert bench.engine.session("default") is not None
    bench.kube.refuse.clear()
    await bench.run_pass(ACCOUNT)
    assert bench.engine.accounts.view("default", "team-a").usable


async def test_a_login_of_another_organization_is_refused(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body())
    await bench.run_pass(ACCOUNT)
    bench.sessions[0].active = "org-2"
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").reason is Reason.ORGANIZATION_MISMATCH


async def test_the_values_of_the_secret_are_masked_from_then_on(bench: Bench) -> None:
    await ready(bench)
    assert mask(f"the key is {LOGIN['BREV_API_KEY'].decode()}") == "the key is ****"


async def test_dependents_hear_of_every_change_of_the_account(bench: Bench) -> None:
    await ready(bench)
    waiting = bench.store(Kind.INSTANCE, instance_body(uid="uid-of-gpu", spec={"accountName": "default"}))
    other = bench.store(Kind.INSTANCE, instance_body("other", uid="uid-of-other", spec={"accountName": "second"}))
    await bench.settle()
    bench.kube.secrets.clear()
    await bench.run_pass(ACCOUNT)
    assert waits(bench, waiting)
    assert not waits(bench, other)
    await bench.settle()
    await bench.run_pass(ACCOUNT)
    assert not waits(bench, waiting), "the same news once"


def waits(bench: Bench, key: ObjectKey) -> bool:
    """Whether the object waits for a worker."""
    return key in bench.engine.queue._waiting


async def test_an_account_that_is_deleted_ends_what_ran_for_it_and_tells_its_dependents(bench: Bench) -> None:
    await ready(bench)
    instance = bench.store(Kind.INSTANCE, instance_body(uid="uid-of-gpu"))
    await bench.settle()
    poller = account(bench).poller
    assert poller is not None
    body = bench.kube.objects.pop(ACCOUNT)
    bench.operator.on_event(Kind.ACCOUNT, "DELETED", body)
    await bench.settle()
    assert poller.cancelled()
    assert bench.engine.accounts.view("default", "team-a").reason is Reason.ACCOUNT_NOT_FOUND
    assert bench.body(instance)["status"]["conditions"]


async def test_an_account_of_a_new_uid_starts_from_nothing(bench: Bench) -> None:
    await ready(bench)
    first = account(bench)
    bench.store(Kind.ACCOUNT, account_body(uid="uid-of-another"))
    second = account(bench)
    assert second is not first
    await bench.settle()
    assert bench.engine.accounts.view("default", "team-a").usable
    assert len(bench.sessions) == 2


async def test_the_catalog_is_read_once_for_all_that_want_it_and_they_are_told(bench: Bench) -> None:
    await ready(bench)
    keys = [ObjectKey(Kind.INSTANCE, "team-a", name) for name in ("one", "two")]
    for key in keys:
        bench.engine.accounts.need_catalog(account(bench), key)
    await yield_to_others()
    assert bench.sessions[0].calls.count("search") == 1
    view = bench.engine.accounts.catalog(account(bench))
    assert view.offers is not None
    assert [offer.type for offer in view.offers] == ["g5.xlarge"]
    assert bench.engine.queue.depth == 2


async def test_an_old_catalog_is_no_catalog(bench: Bench) -> None:
    await ready(bench)
    bench.engine.accounts.need_catalog(account(bench), ACCOUNT)
    await yield_to_others()
    bench.clock.advance(301)
    assert bench.engine.accounts.catalog(account(bench)).offers is None
    assert bench.engine.accounts.catalog(None) == CatalogView()


@pytest.mark.parametrize("error", [UnknownFailure("it is down"), OSError("no space"), ValueError("nobody knows")])
async def test_a_catalog_that_fails_tells_who_waits_and_is_not_asked_for_in_a_hot_loop(
    bench: Bench, error: Exception
) -> None:
    await ready(bench)
    bench.sessions[0].failures["search"] = error
    key = bench.store(Kind.INSTANCE, instance_body(uid="uid-of-gpu"))
    await bench.settle()
    assert bench.body(key)["status"]["conditions"]
    for _ in range(120):
        bench.clock.advance(1)
        await bench.run_pass(key)
        await bench.settle()
    assert 3 <= bench.sessions[0].calls.count("search") <= 8
    assert bench.engine.accounts.catalog(account(bench)).failure is not None
    bench.sessions[0].failures.clear()
    bench.clock.advance(61)
    await bench.run_pass(key)
    await bench.settle()
    assert bench.body(key)["status"]["brevName"]


async def test_a_list_that_finds_the_login_refused_takes_the_account_out_of_use_until_one_succeeds(
    bench: Bench,
) -> None:
    await ready(bench)
    bench.sessions[0].failures["list"] = AuthRequired("it expired")
    await account(bench).inventory._read()
    await bench.settle()
    assert bench.body(ACCOUNT)["status"]["phase"] == "NotReady"
    bench.sessions[0].failures.clear()
    await account(bench).inventory._read()
    await bench.settle()
    assert bench.body(ACCOUNT)["status"]["phase"] == "Ready"


async def test_draining_ends_pollers_and_calls(bench: Bench) -> None:
    await ready(bench)
    bench.sessions[0].hold["search"] = asyncio.Event()
    bench.engine.accounts.need_catalog(account(bench), ACCOUNT)
    tasks = [*account(bench).tasks, account(bench).poller]
    await bench.engine.accounts.drain()
    assert all(task is not None and task.done() for task in tasks)
    assert not bench.engine.operations.views("uid-of-default").get(Operation.VERIFY)
