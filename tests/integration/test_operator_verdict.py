"""The script's own end is the verdict, whatever it prints and however it ends."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from controller.api.meta import Kind
from tests.integration.bench import Bench, Gate, attempt_of, commands_of, condition, phase, status_of

KSTATUS = ("Ready", "Reconciling", "Stalled")


@pytest.mark.case(1)
async def test_case_1_a_failing_script_runs_once_and_its_code_is_told(bench: Bench, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    job = await bench.run(bench.job("fails", f"echo ran >> {counter}\nexit 42\n"))
    assert counter.read_text() == "ran\n"
    assert (status_of(job)["phase"], attempt_of(job)["exitCode"]) == ("Failed", 42)
    assert (attempt_of(job)["reason"], attempt_of(job).get("signal")) == ("NonZeroExit", None)
    assert [condition(job, type_)["status"] for type_ in KSTATUS] == ["False", "False", "True"]
    assert condition(job, "Failed")["status"] == "True"
    assert "42" in condition(job, "Failed")["message"]
    [line] = await bench.bill(status_of(job)["machine"]["brevName"])
    assert line["closedAt"] is not None


async def test_no_command_of_the_operator_is_replayed_by_the_cli(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("held", gate.script))
    await own.until(Kind.JOB, "held", phase("Running"))
    gate.open(3)
    await own.ended("held")
    commands = await own.brev.commands()
    assert {(entry["count"], entry["attempt"], entry["exit"]) for entry in commands} == {(1, 1, 0)}
    assert gate.runs == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_a_script_that_is_killed_says_by_which_signal(bench: Bench, number: signal.Signals) -> None:
    job = await bench.run(bench.job("killed", f"echo before; kill -{int(number)} $$; echo after"))
    attempt = attempt_of(job)
    assert (status_of(job)["phase"], attempt["reason"]) == ("Failed", "KilledBySignal")
    assert attempt["signal"] == number.name
    assert number.name in condition(job, "Failed")["message"]
    assert status_of(job)["logTail"].startswith("before\n")


@pytest.mark.case(57)
async def test_case_57_output_that_is_not_utf8_harms_nothing(bench: Bench) -> None:
    script = r"""printf '\377\376\000\303\050\n'; printf 'caf\303'; python3 -c 'pass'; printf '\251\n'"""
    job = await bench.run(bench.job("bytes", script))
    assert status_of(job)["phase"] == "Succeeded"
    assert status_of(job)["logTail"] == "\ufffd\ufffd\ufffd(\ncafé\n"


@pytest.mark.case(62)
@pytest.mark.parametrize(
    ("script", "code", "killed_by"),
    [
        pytest.param("exec > >(tee copy) 2>&1; echo piped; exit 3", 3, None, id="behind-tee"),
        pytest.param("set -o pipefail; (echo piped; exit 3) | tee copy", 3, None, id="in-a-pipe"),
        pytest.param("exec >&- 2>&-; exit 3", 3, None, id="without-streams"),
        pytest.param("exec >/dev/full 2>&1; echo lost; exit 3", 3, None, id="full-disk"),
        pytest.param("rm -rf ~/.brev-operator/jobs/*/log; echo lost; exit 3", 3, None, id="log-removed"),
        pytest.param("rm -rf ~/.brev-operator/jobs/*/log; kill -9 $$", None, "SIGKILL", id="killed-without-log"),
    ],
)
async def test_case_62_the_exit_code_survives_pipes_and_trouble_with_the_log(
    bench: Bench, script: str, code: int | None, killed_by: str | None
) -> None:
    job = await bench.run(bench.job("piped", script))
    attempt = attempt_of(job)
    assert status_of(job)["phase"] == "Failed"
    assert attempt["reason"] == ("KilledBySignal" if killed_by else "NonZeroExit")
    assert attempt.get("signal") == killed_by
    assert code is None or attempt["exitCode"] == code


@pytest.mark.case(59)
async def test_case_59_two_hundred_megabytes_of_output_leave_a_tail_and_no_trace_in_memory(own: Bench) -> None:
    before = _peak_kilobytes(own.operator.pid)
    script = "yes 'a line of output that nobody reads' | head -c 200000000; echo; echo the very end"
    job = await own.run(own.job("loud", script, logs={"tailBytes": 16384}))
    status = status_of(job)
    assert status["phase"] == "Succeeded"
    assert status["logTail"].endswith("\nthe very end\n")
    assert 8192 < len(status["logTail"].encode()) <= 16384
    assert (status["logTruncated"], status["logBytes"]) == (True, 200_000_000 + len("\nthe very end\n"))
    assert _peak_kilobytes(own.operator.pid) - before < 32 * 1024


@pytest.mark.case(2)
async def test_case_2_every_exec_is_a_name_and_one_command_with_nothing_on_stdin(own: Bench) -> None:
    job = await own.run(own.job("words", 'printf "<%s>" "$@" "$A"', env=[{"name": "A", "value": "--gpus all; img"}]))
    assert status_of(job)["logTail"] == "<--gpus all; img>"
    calls = await own.calls()
    executed = [call for call in calls if call["argv"][0] == "exec"]
    assert len(executed) >= 3
    for call in executed:
        assert len(call["argv"]) == 3, "the name of the machine, and one command"
        assert call["argv"][1] == status_of(job)["machine"]["brevName"]
        assert len(call["argv"][2].split()) > 1, "a command of one word is read as a name by some releases"
        assert not call["hasCredentials"], "without credentials in reach it cannot wake a machine or run a thing twice"
    assert {call["stdin"] for call in calls} == {"chardev"}
    assert not any("--gpus" in command for command in commands_of(calls)), "user input is never part of a command"
    assert await own.brev.alarms() == []


def _peak_kilobytes(pid: int) -> int:
    """Peak of the resident memory of a process so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
