"""The session over an executable that answers as told: lists, changes, versions, and what a call is given."""

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest

from controller.brev import BrevSession, errors, process
from tests.unit.brev.support import (
    KEY,
    OFFER,
    ROW,
    FakeCli,
    Make,
    listing,
)


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
    assert len(cli.calls("delete")) == 1


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


async def test_a_mounted_service_account_token_stops_every_call(make: Make, cli: FakeCli, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("cluster credential")
    with pytest.raises(errors.CliUnsupported, match="automountServiceAccountToken"):
        await make(service_account_token=token).list()
    assert cli.calls() == []


async def test_a_lost_lease_starts_nothing(session: BrevSession, cli: FakeCli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argv: object) -> None:
        raise RuntimeError("the lease is lost")

    monkeypatch.setattr(process, "before_spawn", [refuse])
    with pytest.raises(RuntimeError, match="lease"):
        await session.list()
    assert cli.calls() == []
