"""The session over an executable that answers as told."""

import asyncio
import base64
import json
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from controller.brev import BrevSession, Credential, Homes, Slots, errors, process

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = Credential("APIKey", "bak-secret-1", "org-a")
REFRESH = Credential("RefreshToken", "session:device", "org-a")
ROW = {"name": "bo-1", "id": "aaa000001", "status": "RUNNING"}
ORGS = json.dumps([{"id": "org-a", "name": "acme", "is_active": True}])
OFFER = {"type": "g5.xlarge", "gpu_name": "A10G", "gpu_count": 1, "price_per_hour": 1.006}


class FakeCli(Protocol):
    path: Path

    def on(self, verb: str, **rule: Any) -> None: ...
    def calls(self, verb: str = "") -> list[dict[str, Any]]: ...


class Make(Protocol):
    def __call__(self, credential: Credential = KEY, **options: Any) -> BrevSession: ...


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def make(cli: FakeCli, state: Path, tmp_path: Path) -> Make:
    homes = Homes(state, search_path=os.environ["PATH"])

    def session(credential: Credential = KEY, **options: Any) -> BrevSession:
        account = options.pop("account", "default")
        defaults: dict[str, Any] = {"homes": homes, "slots": Slots(), "executable": str(cli.path), "now": lambda: NOW}
        defaults["service_account_token"] = tmp_path / "no-token"
        return BrevSession(account, credential, **(defaults | options))

    return session


@pytest.fixture
def session(make: Make) -> BrevSession:
    return make()


def listing(*rows: object) -> str:
    return json.dumps({"workspaces": list(rows)}, indent=2)


def jwt(expires: datetime) -> str:
    payload = base64.urlsafe_b64encode(json.dumps({"exp": expires.timestamp()}).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{payload}.c2ln"


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await asyncio.sleep(0.005)


async def refreshed(session: BrevSession, cli: FakeCli, name: str = "bo-1") -> None:
    cli.on("refresh", hosts=[name, "somebody-else"])
    await session.refresh(name)


async def test_a_list_is_read_and_a_bad_one_raises(session: BrevSession, cli: FakeCli) -> None:
    cli.on("ls", stdout=f"no oauth found for token\n{listing(ROW)}\n")
    [row] = await session.list()
    assert (row.name, row.id, row.status) == ("bo-1", "aaa000001", "RUNNING")
    cli.on("ls", stdout="")
    with pytest.raises(errors.Unparsable):
        await session.list()
    cli.on("ls", code=1, stderr="boom\n", stdout=listing())
    with pytest.raises(errors.UnknownFailure, match="boom"):
        await session.list()


async def test_every_call_has_a_minimal_environment_and_an_empty_directory(
    make: Make, cli: FakeCli, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUG_HTTP", "1")
    monkeypatch.setenv("VERSION", "9")
    cli.on("ls", stdout=listing())
    await make(extra_env={"BREV_API_URL": "http://127.0.0.1:1", "HOME": "/elsewhere"}).list()
    [call] = cli.calls("ls")
    ours = {name: value for name, value in call["env"].items() if name not in ("PATH", "PWD", "SHLVL", "_", "LC_CTYPE")}
    assert ours == {
        "HOME": str(state / "accounts/default/home"),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
        "BREV_NO_ANALYTICS": "1",
        "SSH_AUTH_SOCK": "/nonexistent",
        "BREV_API_URL": "http://127.0.0.1:1",
    }
    assert call["env"]["PATH"].startswith(f"{state}/bin:")
    assert (call["cwd"], os.listdir(call["cwd"]), call["stdin"]) == (str(state / "empty"), [], "/dev/null")


async def test_no_secret_is_in_arguments_environment_logs_or_errors(
    session: BrevSession, cli: FakeCli, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cli.on("ls", code=1, stderr=f"bad key {KEY.secret}\n")
    with pytest.raises(errors.BrevError) as caught:
        await session.list()
    shown = caught.value.message + caught.value.detail + caplog.text + repr(session)
    calls = json.dumps([call["argv"] for call in cli.calls()]) + json.dumps([call["env"] for call in cli.calls()])
    assert KEY.secret not in shown + calls
    assert json.loads(cli.calls("ls")[0]["login"])["api_key"] == KEY.secret


async def test_calls_are_observed_and_logged_with_fields(
    make: Make, cli: FakeCli, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="brev.cli")
    seen: list[tuple[str, str, float]] = []
    session = make(on_call=lambda *call: seen.append(call))
    await session.create("bo-1", "g5.xlarge")
    cli.on("delete", code=1, stderr="instance with id/name aaa000001 not found\n")
    with pytest.raises(errors.InstanceNotFound):
        await session.delete("aaa000001")
    assert [call[:2] for call in seen] == [("version", "ok"), ("create", "ok"), ("delete", "InstanceNotFound")]
    last = caplog.records[-1].__dict__
    assert (last["verb"], last["machine"], last["rc"], last["account"]) == ("delete", "aaa000001", 1, "default")
    assert last["seconds"] >= 0


async def test_search_joins_both_catalogs(session: BrevSession, cli: FakeCli) -> None:
    cli.on("search gpu", stdout=json.dumps([OFFER]))
    cli.on("search cpu", stdout=json.dumps([{"type": "n2", "gpu_name": "-", "price_per_hour": 0.1}]))
    assert [(row.type, row.gpu_name) for row in await session.search()] == [("g5.xlarge", "A10G"), ("n2", "-")]
    cli.on("search cpu", code=1, stderr="boom\n")
    with pytest.raises(errors.UnknownFailure):
        await session.search()


async def test_create_asks_for_one_machine_of_one_type_and_does_not_wait(session: BrevSession, cli: FakeCli) -> None:
    await session.create("bo-1", "g5.xlarge")
    assert [call["argv"] for call in cli.calls("create")] == [["create", "bo-1", "--type", "g5.xlarge", "--detached"]]


async def test_case_4_a_create_that_failed_with_eof_may_have_made_a_machine(session: BrevSession, cli: FakeCli) -> None:
    cli.on("create", code=1, stderr="EOF\n")
    with pytest.raises(errors.UnknownFailure) as caught:
        await session.create("bo-1", "g5.xlarge")
    assert caught.value.ambiguous
    assert len(cli.calls("create")) == 1


async def test_a_delete_of_a_machine_that_is_being_deleted_is_accepted(session: BrevSession, cli: FakeCli) -> None:
    cli.on("delete", code=1, stderr="1 error occurred:\n\t* workspace is already being deleted\n\n")
    await session.delete("aaa000001")


async def test_a_hanging_call_times_out_by_verb_and_scale(make: Make, cli: FakeCli) -> None:
    cli.on("create", hang=True, stderr="[Worker 1] Trying\n")
    with pytest.raises(errors.CallTimeout, match=r"brev create did not end within 0\.6 s") as caught:
        await make(time_scale=0.005).create("bo-1", "g5.xlarge")
    assert caught.value.ambiguous


async def test_a_missing_cli_is_told_and_found_again(make: Make, cli: FakeCli, tmp_path: Path) -> None:
    session = make(executable=str(tmp_path / "later"))
    with pytest.raises(errors.CliMissing):
        await session.list()
    with pytest.raises(errors.CliMissing, match="'brev-nowhere'"):
        await make(executable="brev-nowhere").version()
    (tmp_path / "later").symlink_to(cli.path)
    assert await session.version() == "v0.6.327"


async def test_the_version_is_asked_once_and_again_when_the_file_changes(session: BrevSession, cli: FakeCli) -> None:
    cli.on("ls", stdout=listing())
    await asyncio.gather(*(session.list() for _ in range(4)))
    assert len(cli.calls("--version")) == 1
    assert cli.calls("--version")[0]["login"] == ""
    cli.on("--version", stdout="Current Version: v0.6.316\n")
    cli.path.write_text(cli.path.read_text() + "\n# upgraded\n")
    with pytest.raises(errors.CliUnsupported, match=r"v0\.6\.316"):
        await session.list()
    assert len(cli.calls("--version")) == 2


async def test_api_keys_are_not_tried_on_a_release_without_them(make: Make, cli: FakeCli) -> None:
    cli.on("--version", stdout="Current Version: v0.6.323\n")
    with pytest.raises(errors.CliUnsupported, match="API keys"):
        await make().list()
    assert cli.calls("ls") == []


async def test_a_mounted_service_account_token_stops_every_call(make: Make, cli: FakeCli, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("cluster credential")
    with pytest.raises(errors.CliUnsupported, match="automountServiceAccountToken"):
        await make(service_account_token=token).list()
    assert cli.calls() == []


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


async def test_refresh_and_copy_see_credentials_and_exec_does_not(
    session: BrevSession, cli: FakeCli, state: Path, tmp_path: Path
) -> None:
    await refreshed(session, cli)
    cli.on("ls", stdout=listing(ROW))
    cli.on("copy", hosts=["bo-1", "x"])
    await session.copy("bo-1", tmp_path, "/home/u/in/1")
    cli.on("exec", stdout="hi\nbo-1\n")
    assert await session.exec("bo-1", "echo hi", 60) == "hi\nbo-1\n"
    assert [bool(cli.calls(verb)[0]["login"]) for verb in ("refresh", "copy", "exec")] == [True, True, False]
    home = state / "machines/default/bo-1/home"
    assert {call["home"] for verb in ("refresh", "copy", "exec") for call in cli.calls(verb)} == {str(home)}
    assert not (home / ".brev/credentials.json").exists()
    assert KEY.secret not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())


async def test_credentials_left_by_a_crash_are_gone_before_any_exec(
    session: BrevSession, cli: FakeCli, state: Path
) -> None:
    await refreshed(session, cli)
    brev = state / "machines/default/bo-1/home/.brev"
    for name in ("credentials.json", ".credentials.json.0a0b0c0d.tmp", ".invalid-refresh-token"):
        (brev / name).write_text(KEY.secret)
    await session.exec("bo-1", "true", 60)
    assert cli.calls("exec")[0]["login"] == ""
    assert KEY.secret not in "".join(path.read_text() for path in brev.iterdir())


async def test_credentials_go_when_a_refresh_fails_hangs_or_is_cancelled(make: Make, cli: FakeCli, state: Path) -> None:
    session = make(time_scale=0.005)
    login = state / "machines/default/bo-1/home/.brev/credentials.json"
    cli.on("refresh", code=1, stderr="boom\n")
    with pytest.raises(errors.UnknownFailure):
        await session.refresh("bo-1")
    assert not login.exists()
    cli.on("refresh", hang=True)
    with pytest.raises(errors.CallTimeout):
        await session.refresh("bo-1")
    assert not login.exists()
    task = asyncio.ensure_future(make().refresh("bo-1"))
    await eventually(login.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not login.exists()


async def test_a_refresh_that_gave_no_address_is_not_running(session: BrevSession, cli: FakeCli) -> None:
    cli.on("refresh", hosts=["bo-10", "other"])
    with pytest.raises(errors.NotRunning, match="bo-1"):
        await session.refresh("bo-1")
    assert not session.refreshed("bo-1")
    await refreshed(session, cli)
    assert session.refreshed("bo-1")


async def test_an_exec_on_a_machine_without_an_address_starts_no_process(session: BrevSession, cli: FakeCli) -> None:
    with pytest.raises(errors.HostUnreachable, match="refreshed first"):
        await session.exec("bo-1", "true", 60)
    assert cli.calls("exec") == []


@pytest.mark.parametrize("status", ["STOPPED", "STOPPING", "DEPLOYING", "FAILURE", "DELETING"])
async def test_a_copy_never_starts_a_machine_that_is_not_running(
    session: BrevSession, cli: FakeCli, tmp_path: Path, status: str
) -> None:
    cli.on("ls", stdout=listing(ROW | {"status": status}))
    with pytest.raises(errors.NotRunning, match=status):
        await session.copy("bo-1", tmp_path, "/x")
    cli.on("ls", stdout=listing())
    with pytest.raises(errors.InstanceNotFound):
        await session.copy("bo-1", tmp_path, "/x")
    assert cli.calls("copy") == []


async def test_a_copy_of_nothing_is_told_before_any_call(session: BrevSession, cli: FakeCli, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await session.copy("bo-1", tmp_path / "missing", "/x")
    assert cli.calls() == []


@pytest.mark.case(2)
async def test_case_2_every_exec_has_exactly_two_arguments_and_the_command_arrives_whole(
    session: BrevSession, cli: FakeCli
) -> None:
    words = ["run", "it's", 'a "b"', "$HOME `id` $(id)", "a;b|c&d>e", "*?[x]", "\\", "", "--flag", "@x", "é\t😀"]
    command = f"python3 runner start {shlex.join(words)}"
    await refreshed(session, cli)
    await session.exec("bo-1", command, 60)
    await session.exec("bo-1", "true -- docker run img", 60)
    for call in cli.calls("exec"):
        assert len(call["argv"]) == 3
        assert call["argv"][:2] == ["exec", "bo-1"]
    assert cli.calls("exec")[0]["argv"][2] == command
    assert shlex.split(cli.calls("exec")[0]["argv"][2])[3:] == words


async def test_a_failed_exec_is_not_repeated_and_its_output_is_kept(session: BrevSession, cli: FakeCli) -> None:
    await refreshed(session, cli)
    cli.on("exec", code=1, stdout="@@sentinel@@\n", stderr="exit status 3\n")
    with pytest.raises(errors.UnknownFailure) as caught:
        await session.exec("bo-1", "exit 3", 60)
    assert caught.value.stdout == "@@sentinel@@\n"
    assert len(cli.calls("exec")) == 1


async def test_an_exec_that_hangs_keeps_what_it_had_printed(session: BrevSession, cli: FakeCli) -> None:
    await refreshed(session, cli)
    cli.on("exec", hang=True, stdout="@@sentinel@@\n")
    with pytest.raises(errors.CallTimeout) as caught:
        await session.exec("bo-1", "sleep 300", 2)
    assert caught.value.stdout == "@@sentinel@@\n"


async def test_first_execs_use_the_slots_for_probes_and_later_ones_their_own(make: Make, cli: FakeCli) -> None:
    slots = Slots(probe=1, exec=1)
    session = make(slots=slots)
    await refreshed(session, cli)
    await session.exec("bo-1", "true", 60)
    async with asyncio.timeout(60), slots.probe:
        await session.exec("bo-1", "true", 60)
    cli.on("exec", code=1, stderr="exit status 255\n")
    with pytest.raises(errors.HostUnreachable):
        await session.exec("bo-1", "true", 60)
    cli.on("exec")
    async with asyncio.timeout(60), slots.exec:
        await session.exec("bo-1", "true", 60)


async def test_one_machine_that_hangs_delays_no_other_and_no_list(make: Make, cli: FakeCli) -> None:
    session = make()
    await refreshed(session, cli, "bo-1")
    await refreshed(session, cli, "bo-2")
    cli.on("exec bo-1", hang=True)
    cli.on("ls", stdout=listing())
    stuck = asyncio.ensure_future(session.exec("bo-1", "true", 300))
    await eventually(lambda: len(cli.calls("exec")) == 1)
    async with asyncio.timeout(60):
        await session.exec("bo-2", "true", 60)
        await session.list()
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck


async def test_two_accounts_with_a_machine_of_the_same_name_never_mix(make: Make, cli: FakeCli, state: Path) -> None:
    one, other = make(account="a"), make(Credential("APIKey", "bak-b", "org-b"), account="b")
    await refreshed(one, cli)
    with pytest.raises(errors.HostUnreachable):
        await other.exec("bo-1", "true", 60)
    await refreshed(other, cli)
    assert [json.loads(call["login"])["api_key_org_id"] for call in cli.calls("refresh")] == ["org-a", "org-b"]
    assert (one.remembered(), other.remembered()) == ({"bo-1"}, {"bo-1"})
    other.forget("bo-1")
    other.forget("bo-1")
    assert not other.refreshed("bo-1")
    assert other.remembered() == set()
    await one.exec("bo-1", "true", 60)
    assert cli.calls("exec")[0]["home"] == str(state / "machines/a/bo-1/home")


async def test_a_lost_lease_starts_nothing(session: BrevSession, cli: FakeCli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argv: object) -> None:
        raise RuntimeError("the lease is lost")

    monkeypatch.setattr(process, "before_spawn", [refuse])
    with pytest.raises(RuntimeError, match="lease"):
        await session.list()
    assert cli.calls() == []
