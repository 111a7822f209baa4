"""Which login the CLI finds, for which organisation, and when it is renewed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from controller.brev import BrevSession, Credential, errors, process
from tests.unit.brev.support import (
    NOW,
    ORGS,
    REFRESH,
    ROW,
    FakeCli,
    Make,
    eventually,
    jwt,
    listing,
    refreshed,
)


async def test_api_keys_are_not_tried_on_a_release_without_them(make: Make, cli: FakeCli) -> None:
    cli.on("--version", stdout="Current Version: v0.6.323\n")
    with pytest.raises(errors.CliUnsupported, match="API keys"):
        await make().list()
    assert cli.calls("ls") == []


async def test_an_expired_jwt_is_told_without_a_call(make: Make, cli: FakeCli) -> None:
    credential = Credential("JWT", jwt(NOW), "org-a", NOW)
    with pytest.raises(errors.AuthRequired, match="expired at 2026-01-01T00:00:00Z"):
        await make(credential).list()
    assert cli.calls("ls") == []


async def test_a_token_login_checks_the_organisation_before_changes_and_after_lists(make: Make, cli: FakeCli) -> None:
    session = make(Credential("JWT", jwt(NOW + timedelta(hours=1)), "org-a", NOW + timedelta(hours=1)))
    cli.on("ls", stdout=listing(ROW))
    cli.on("ls orgs", stdout=ORGS)
    await session.list()
    await session.create("bo-1", "g5.xlarge")
    assert [call["argv"][:2] for call in cli.calls()[1:]] == [
        ["ls", "--json"],
        ["ls", "orgs"],
        ["ls", "orgs"],
        ["create", "bo-1"],
    ]
    cli.on("ls orgs", stdout=json.dumps([{"id": "org-b", "name": "b", "is_active": True}]))
    attempts: list[Callable[[], Awaitable[object]]] = [
        session.list,
        lambda: session.create("bo-2", "g5.xlarge"),
        lambda: session.delete("aaa000001"),
    ]
    for attempt in attempts:
        with pytest.raises(errors.OrganizationMismatch):
            await attempt()
    assert len(cli.calls("create")) == 1
    assert cli.calls("delete") == []


async def test_a_login_without_organisations_is_an_empty_answer(make: Make, cli: FakeCli) -> None:
    cli.on("ls orgs", code=1, stderr="no orgs exist\n")
    assert await make(REFRESH).organizations() == []


async def test_an_api_key_has_its_own_organisation_without_a_call(session: BrevSession, cli: FakeCli) -> None:
    [organization] = await session.organizations()
    assert (organization.id, organization.is_active) == ("org-a", True)
    assert cli.calls("ls") == []


async def test_a_refresh_credential_is_renewed_by_one_call_alone(make: Make, cli: FakeCli) -> None:
    session = make(REFRESH)
    renewed = {"access_token": jwt(NOW + timedelta(hours=1)), "refresh_token": REFRESH.secret}
    cli.on("ls", stdout=listing(), credentials=json.dumps(renewed))
    cli.on("ls orgs", stdout=ORGS)
    await asyncio.gather(*(session.list() for _ in range(3)))
    logins = [json.loads(call["login"])["access_token"] for call in cli.calls("ls")]
    assert logins == ["auto-login"] + [renewed["access_token"]] * 5


async def test_a_renewal_waits_for_calls_in_flight_and_is_done_once(
    make: Make, cli: FakeCli, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = state / "accounts/default/home/.brev/credentials.json"
    tokens: list[str] = []

    def look(argv: Sequence[str]) -> None:
        if argv[1] == "ls":
            tokens.append(json.loads(login.read_text())["access_token"])

    monkeypatch.setattr(process, "before_spawn", [look])
    clock = [NOW]
    session = make(REFRESH, now=lambda: clock[0])
    first = {"access_token": jwt(NOW + timedelta(hours=1)), "refresh_token": REFRESH.secret}
    second = {"access_token": jwt(NOW + timedelta(hours=2)), "refresh_token": REFRESH.secret}
    cli.on("ls orgs", stdout=ORGS, credentials=json.dumps(first))
    cli.on("delete", hang=True)
    in_flight = asyncio.ensure_future(session.delete("aaa000001"))
    await eventually(lambda: bool(cli.calls("delete")))
    clock[0] += timedelta(minutes=55)
    cli.on("ls", stdout=listing(), credentials=json.dumps(second))
    lists = [asyncio.ensure_future(session.list()) for _ in range(2)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert json.loads(login.read_text()) == first, "nothing is written beside a reader"
    in_flight.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_flight
    await asyncio.gather(*lists)
    assert tokens == ["auto-login", "auto-login"] + [second["access_token"]] * 3


async def test_a_refresh_credential_is_renewed_before_a_machine_borrows_it(make: Make, cli: FakeCli) -> None:
    session = make(REFRESH)
    renewed = {"access_token": jwt(NOW + timedelta(hours=1)), "refresh_token": REFRESH.secret}
    cli.on("ls orgs", stdout=ORGS, credentials=json.dumps(renewed))
    await refreshed(session, cli)
    assert json.loads(cli.calls("refresh")[0]["login"]) == renewed


async def test_a_new_credential_is_used_from_the_next_call(session: BrevSession, cli: FakeCli) -> None:
    cli.on("ls", stdout=listing())
    await session.list()
    session.use(Credential("APIKey", "bak-other", "org-a"))
    await session.list()
    assert [json.loads(call["login"])["api_key"] for call in cli.calls("ls")] == ["bak-secret-1", "bak-other"]
