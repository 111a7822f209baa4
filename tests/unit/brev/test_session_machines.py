"""`refresh`, `copy` and `exec`: one HOME for each machine, and credentials only where they must be."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest

from controller.brev import BrevSession, Credential, Slots, errors
from tests.unit.brev.support import (
    KEY,
    ROW,
    FakeCli,
    Make,
    eventually,
    listing,
    refreshed,
)


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
    home = state / "machines/default/bo-1"
    assert {call["home"] for verb in ("refresh", "copy", "exec") for call in cli.calls(verb)} == {str(home)}
    assert not (home / ".brev/credentials.json").exists()
    assert KEY.secret not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())


async def test_credentials_left_by_a_crash_are_gone_before_any_exec(
    session: BrevSession, cli: FakeCli, state: Path
) -> None:
    await refreshed(session, cli)
    brev = state / "machines/default/bo-1/.brev"
    for name in ("credentials.json", ".credentials.json.0a0b0c0d.tmp", ".invalid-refresh-token"):
        (brev / name).write_text(KEY.secret)
    await session.exec("bo-1", "true", 60)
    assert cli.calls("exec")[0]["login"] == ""
    assert KEY.secret not in "".join(path.read_text() for path in brev.iterdir())


async def test_credentials_go_when_a_refresh_fails_hangs_or_is_cancelled(make: Make, cli: FakeCli, state: Path) -> None:
    session = make(time_scale=0.005)
    login = state / "machines/default/bo-1/.brev/credentials.json"
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
    assert cli.calls("exec")[0]["home"] == str(state / "machines/a/bo-1")
