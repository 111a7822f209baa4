"""exec, copy and refresh: replays, wakings, hangs, and texts that say something else."""

import asyncio
import shlex
from pathlib import Path
from typing import Any

import pytest

from controller.brev import errors
from tests.integration import lying
from tests.integration.lying import ALL, FOURTH, MEASURED, SEEDS, SENTINEL, TYPE, Stage, lie, under

backend, generation, stage = lying.backend, lying.generation, lying.stage

CERTIFICATES = tuple(each for each in FOURTH if each != "v0.6.334-b")
NO_LOGIN = (*MEASURED, "v0.6.334-b")
REPLAYS_WITH_LOGIN = {"v0.6.334-exec_replays,exec_wakes,exec_tells_code", "seeds"}


@lie("A13", "§5 #457", "§5 PR 459", "§5 PR 473", "§7 replay", "G4", "GS")
@under(*ALL)
async def test_a_failing_command_keeps_its_output_and_is_never_a_success(stage: Stage, generation: str) -> None:
    session = await stage.session()
    await stage.running(session)
    with pytest.raises(errors.UnknownFailure, match="exit status 3") as caught:
        await session.exec("bo-1", f"echo {SENTINEL}; exit 3", 60)
    assert SENTINEL in caught.value.stdout
    assert await stage.runs("exit 3") == (2 if generation in REPLAYS_WITH_LOGIN else 1)


@lie("§5 PR 473", "G4")
@under(*CERTIFICATES)
@pytest.mark.parametrize("code", [2, 127, 254])
async def test_an_exit_code_of_the_command_is_not_one_of_the_program(stage: Stage, code: int) -> None:
    session = await stage.session()
    await stage.running(session)
    with pytest.raises(errors.UnknownFailure, match=f"exit status {code}") as caught:
        await session.exec("bo-1", f"echo 'panic: not mine' >&2; exit {code}", 60)
    assert not isinstance(caught.value, errors.CliPanic)


@lie("§5 #457", "§7 drop after the command started")
@under(*NO_LOGIN)
async def test_a_connection_that_breaks_is_not_replayed(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.fault("drop", verb="exec", name="bo-1")
    with pytest.raises(errors.HostUnreachable):
        await session.exec("bo-1", "echo run >> count; sleep 1", 60)
    assert await stage.runs("count") == 1


@lie("A13", "§7 never on a stopped machine", "G4", "GS")
@under(*ALL)
async def test_a_stopped_machine_is_not_woken(stage: Stage, tmp_path: Path) -> None:
    session = await stage.session()
    await stage.stopped(session)
    with pytest.raises((errors.HostUnreachable, errors.NotRunning)):
        await session.exec("bo-1", "true", 60)
    with pytest.raises(errors.NotRunning):
        await session.copy("bo-1", tmp_path, "/x")
    with pytest.raises(errors.NotRunning):
        await session.refresh("bo-1")
    assert await stage.statuses() == ["STOPPED"]
    assert await stage.brev.commands() == []


@lie("A7", "A10", "A21", "§5 #448", "§7 exec faults")
@pytest.mark.parametrize("fault", ["ssh_refused", "ssh_denied", "ssh_silent", "ssh_unresolvable"])
@under("v0.6.320", "v0.6.327", *FOURTH, *SEEDS)
async def test_a_machine_that_does_not_answer_is_unreachable_and_the_text_is_clean(
    stage: Stage, fault: str, tmp_path: Path
) -> None:
    session = await stage.session()
    await stage.running(session)
    place = await stage.place()
    await stage.fault(fault, name="bo-1", every=True)
    for attempt in (lambda: session.exec("bo-1", "true", 60), lambda: session.copy("bo-1", tmp_path, place)):
        with pytest.raises((errors.HostUnreachable, errors.UnknownFailure)) as caught:
            await attempt()
        shown = caught.value.message + caught.value.detail
        assert not [letter for letter in shown if letter == "\x1b" or 0x2800 <= ord(letter) < 0x2900]
    await stage.brev.clear_faults()
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60)


@lie("A7", "§5 #448")
@under(*ALL)
async def test_a_key_that_a_new_login_changed_is_unreachable_not_unauthorised(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.brev.settings(rotateKey="user-1")
    await session.refresh("bo-1")
    with pytest.raises(errors.HostUnreachable):
        await session.exec("bo-1", "true", 60)
    assert [row.shell_status for row in await session.list()] == ["READY"], "which proves nothing"


@lie("A11", "§7 stderr kept open after a kill")
@under("v0.6.322", "v0.6.327", "v0.6.334", "seeds")
async def test_a_killed_exec_returns_at_once_though_stderr_stays_open_and_the_command_goes_on(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.fault("linger", verb="exec")
    async with asyncio.timeout(60):
        with pytest.raises(errors.CallTimeout):
            await session.exec("bo-1", "sleep 500", 1.5)
    [machine] = await stage.brev.machines()
    assert machine["processes"] == 1, "what runs there is the runner's business"


@lie("A11", "§5 #429", "§5 #436")
async def test_an_exec_that_never_returns_is_a_time_out_and_a_cancelled_one_leaves_nothing(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.fault("hang", verb="exec", every=True)
    with pytest.raises(errors.CallTimeout):
        await session.exec("bo-1", "true", 0.5)
    task = asyncio.ensure_future(session.exec("bo-1", "true", 600))
    await stage.brev.wait_for_call(lambda call: call["argv"][0] == "exec" and call["rc"] is None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@lie("A9", "A25", "A27", "§5 #429", "§5 PR 468", "§7 argv rules")
@pytest.mark.parametrize(
    "command", ["-V", "--", "@/etc/passwd", "", "   ", "a\nb", "cat <<E\nx\nE", "x" * 130_900, "'" * 40_000]
)
async def test_a_command_that_would_not_arrive_as_one_starts_no_process(stage: Stage, command: str) -> None:
    session = await stage.session()
    await stage.running(session)
    with pytest.raises(ValueError, match="command"):
        await session.exec("bo-1", command, 60)
    assert await stage.calls("exec") == []


@lie("A8", "§7 argv rules", "GS")
@under(*ALL)
async def test_a_command_arrives_byte_for_byte_in_every_generation(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    words = ["it's", '"$HOME" `x` $(y)', "\\ *;|&<>", "é😀", "--", "--flag", "-x", ""]
    output = await session.exec("bo-1", f"printf '<%s>' {shlex.join(words)}", 60)
    assert output.startswith("".join(f"<{word}>" for word in words) + "bo-1\n")


@lie("A26")
@under("v0.6.327", "v0.6.334")
async def test_eight_at_once_on_one_machine_all_answer(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    outputs = await asyncio.gather(*(session.exec("bo-1", f"echo {number}", 60) for number in range(8)))
    assert outputs == [f"{number}\nbo-1\n" for number in range(8)]


@lie("A29")
@under(*ALL)
async def test_only_the_machines_own_blocks_are_kept_whatever_refresh_writes(stage: Stage) -> None:
    session = await stage.session()
    for name in ("bo-1", "bo-10", "bo-2"):
        await session.create(name, TYPE)
    await session.refresh("bo-1")
    home = stage.state / "machines/default/bo-1"
    kept = (home / ".brev/ssh_config").read_text()
    assert {line.split()[1] for line in kept.splitlines() if line.startswith("Host ")} == {"bo-1", "bo-1-host"}
    assert "bo-10" not in kept
    assert f"ControlPath {stage.rules.control_path}" in kept
    assert ("mint-cert" in kept) == stage.rules.ssh_certificates
    assert {path.name for path in home.iterdir()} == {".brev"}
    assert not (home / ".brev/credentials.json").exists()


@lie("A31")
@under("v0.6.322", "v0.6.327", "v0.6.334", "seeds")
async def test_anothers_missing_ssh_user_fails_the_refresh_of_all_and_no_exec(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.fault("no_ssh_user", verb="create", name="odd")
    await session.create("odd", TYPE)
    with pytest.raises(errors.NotRunning, match="empty SSH user"):
        await session.refresh("bo-1")
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60), "the address of before is kept"


@lie("§7 refresh", "§5 #8924")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"type": "hang"}, errors.CallTimeout),
        ({"type": "exit0", "stdout": "refreshing brev...\nbrev has been refreshed\n"}, errors.NotRunning),
        ({"type": "fail", "stderr": "Get x: dial tcp: network is unreachable\n"}, errors.UnknownFailure),
    ],
)
async def test_a_refresh_counts_only_with_an_address(
    stage: Stage, fault: dict[str, Any], error: type[errors.BrevError]
) -> None:
    await (await stage.session()).create("bo-1", TYPE)
    await stage.fault(fault, verb="refresh")
    session = await stage.session(time_scale=0.02 if fault["type"] == "hang" else 1)
    with pytest.raises(error):
        await session.refresh("bo-1")
    assert not session.refreshed("bo-1")
    with pytest.raises(errors.HostUnreachable, match="refreshed first"):
        await session.exec("bo-1", "true", 60)
    assert await stage.calls("exec") == []


@lie("§7 stale alias")
@under("v0.6.322", "v0.6.327", "v0.6.334-b")
async def test_an_address_that_is_another_machines_now_answers_as_that_one(stage: Stage) -> None:
    """Only a marker on the machine can tell; the client promises no identity, but never mixes its own names."""
    session = await stage.session()
    machine_id = await stage.running(session)
    await session.delete(machine_id)
    await stage.brev.wait_for(lambda rows: not rows)
    with pytest.raises(errors.HostUnreachable):
        await session.exec("bo-1", "true", 60)
    session.forget("bo-1")
    assert not session.refreshed("bo-1")


@lie("§5 #185", "§7 copy faults")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"type": "partial_copy"}, errors.BrevError),
        ({"type": "hang"}, errors.CallTimeout),
        ({"type": "fail", "rc": 2, "stderr": "panic: runtime error: index out of range\n"}, errors.CliPanic),
    ],
)
async def test_a_copy_that_did_not_end_well_is_an_error(
    stage: Stage, fault: dict[str, Any], error: type[errors.BrevError], tmp_path: Path
) -> None:
    session = await stage.session()
    await stage.running(session)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "file").write_bytes(bytes(100_000))
    await stage.fault(fault, verb="copy")
    if fault["type"] == "hang":
        session = await stage.session(time_scale=0.01)
    with pytest.raises(error):
        await session.copy("bo-1", bundle, await stage.place())


@lie("A14", "A21")
@under(*ALL)
async def test_the_name_after_the_output_is_glued_where_there_is_no_line_end(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    assert (await session.exec("bo-1", "printf ok", 60)).startswith("okbo-1\n")


@lie("G4")
@under(*CERTIFICATES)
async def test_a_login_is_lent_to_exec_only_where_ssh_asks_for_a_certificate(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    await session.exec("bo-1", "true", 60)
    [call] = await stage.calls("exec")
    assert call["hasCredentials"]
    home = stage.state / "machines/default/bo-1/.brev"
    assert not (home / "credentials.json").exists()
    assert not (home / "ssh-certs").exists()
    assert [each["argv"] for each in await stage.brev.calls()][-2] == ["ls", "--json"], "a fresh list said RUNNING"


@lie("G2", "§7 exec without a login")
@under(*NO_LOGIN)
async def test_exec_has_no_login_in_reach_and_asks_nobody(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    before = {request["path"] for request in await stage.brev.requests()}
    await stage.brev.settings(online=False)
    count = len(await stage.brev.requests())
    await session.exec("bo-1", "true", 60)
    [call] = await stage.calls("exec")
    assert not call["hasCredentials"]
    later = (await stage.brev.requests())[count:]
    assert before
    assert [request for request in later if request["authenticated"]] == []
