from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from controller.remote import commands
from controller.remote.protocol import RunState
from tests.unit.remote.machine import NONCE, Machine

HOMES = ["/home/ubuntu", "/root/", "/home/a b", "/home/o'neil", '/home/"$(touch /nope)"', "/home/ünï", "/home/-x@y"]


def all_commands(home: str) -> list[str]:
    return [
        commands.probe_command(NONCE),
        commands.start_command(home, "iris-1", "d-1", NONCE),
        commands.state_command(home, "iris-1", NONCE, 4096),
        commands.state_command(home, "iris-1", NONCE, 0, wipe=False),
        commands.log_command(home, "iris-1", NONCE, 0, 65536),
        commands.stop_command(home, "iris-1", NONCE, 30),
    ]


def sentinel(payload: str, nonce: str = NONCE) -> str:
    return f"@@BREV:{nonce}:{base64.b64encode(payload.encode()).decode()}@@"


@pytest.mark.parametrize("home", HOMES)
def test_every_command_is_one_line_of_several_words_that_no_tool_takes_for_something_else(home: str) -> None:
    for command in all_commands(home):
        assert command.isprintable()
        assert "<<" not in command
        assert len(command.split()) > 3
        assert command[0] not in "-@"
        assert len(command) < 4096


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_every_command_exits_zero_where_nothing_of_ours_exists(home: str, shell: str, tmp_path: Path) -> None:
    for command in all_commands(home):
        done = subprocess.run(
            [shell, "-c", command],
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0
    assert not Path("/nope").exists()


@pytest.mark.parametrize("home", HOMES)
def test_no_command_looks_like_its_own_report_when_a_shell_echoes_it(home: str) -> None:
    for command in all_commands(home):
        assert commands.parse_state(command, NONCE) is None
        assert commands.parse_probe(command, NONCE) is None


def test_a_probe_reports_the_home_the_python_and_the_boot_and_makes_private_directories(machine: Machine) -> None:
    shutil.rmtree(machine.root())
    found = commands.parse_probe(machine.exec(commands.probe_command(NONCE)), NONCE)
    assert found is not None
    assert found.home == str(machine.home)
    assert found.python_supported
    assert found.boot_id == "boot-1"
    assert found.writable
    assert [(machine.root() / name).stat().st_mode & 0o777 for name in (".", "in", "jobs")] == [0o700] * 3


def test_a_machine_without_python_says_so(machine: Machine, tmp_path: Path) -> None:
    tools = tmp_path / "few"
    tools.mkdir()
    for name in ("sh", "bash", "mkdir", "chmod", "cat", "tr", "base64"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    machine.env["PATH"] = str(tools)
    found = commands.parse_probe(machine.exec(commands.probe_command(NONCE)), NONCE)
    assert found is not None
    assert found.python == ""
    assert not found.python_supported
    assert found.home == str(machine.home)


def test_a_home_that_cannot_be_written_is_reported(machine: Machine) -> None:
    blocked = machine.home / "file"
    blocked.write_text("")
    machine.env["HOME"] = str(blocked)
    found = commands.parse_probe(machine.exec(commands.probe_command(NONCE)), NONCE)
    assert found is not None
    assert not found.writable


@pytest.mark.parametrize(("version", "supported"), [("3.8.0", True), ("3.13.1", True), ("3.7.9", False), ("", False)])
def test_the_runner_needs_python_3_8(version: str, supported: bool) -> None:
    found = commands.parse_probe(sentinel(f"probe\n/root\n{version}\nb\nyes\n"), NONCE)
    assert found is not None
    assert found.python_supported is supported


RUNNING = json.dumps({"state": "running"})
EXITED = json.dumps({"state": "exited", "exitCode": 3})


@pytest.mark.parametrize(
    ("name", "stdout", "expected"),
    [
        ("the name of the machine follows on its own line", f"{sentinel(RUNNING)}\ninst-1\n", RunState.RUNNING),
        ("the name of the machine is glued to the report", f"{sentinel(RUNNING)}inst-1\n", RunState.RUNNING),
        ("noise stands before it, glued", f"Welcome to Ubuntu!{sentinel(RUNNING)}\n", RunState.RUNNING),
        (
            "carriage returns and a login prompt",
            f"\r\n{sentinel(RUNNING)}\r\nwould you like to log in? ",
            RunState.RUNNING,
        ),
        ("the command was replayed", f"{sentinel(RUNNING)}\n{sentinel(EXITED)}\n", RunState.EXITED),
        ("the replay was cut off", f"{sentinel(RUNNING)}\n{sentinel(EXITED)[:-4]}\n", RunState.RUNNING),
        ("the replay is not JSON", f"{sentinel(RUNNING)}\n{sentinel('hello')}\n", RunState.RUNNING),
        ("another nonce", sentinel(RUNNING, "ffffffffffffffff"), None),
        ("a nonce that ours begins", sentinel(RUNNING, NONCE + "0"), None),
        ("nothing", "", None),
        ("cut in the middle", sentinel(RUNNING)[:40], None),
        ("not base64", f"@@BREV:{NONCE}:abc@@", None),
        ("not a state we know", sentinel('{"state": "asleep"}'), None),
        ("a list", sentinel("[]"), None),
        ("an exit code that is no number", sentinel('{"state": "exited", "exitCode": "x"}'), None),
        ("a probe's report", sentinel("probe\n/root\n3.11.2\nb\nyes\n"), None),
        ("the runner's complaint", sentinel('{"error": "state: Input/output error"}'), None),
    ],
)
def test_case_1_only_a_complete_report_with_our_nonce_is_an_answer(
    name: str, stdout: str, expected: RunState | None
) -> None:
    found = commands.parse_state(stdout, NONCE)
    assert (found.state if found else None) == expected


def test_a_complaint_is_readable_beside_an_unknown_outcome() -> None:
    stdout = sentinel('{"error": "state: Input/output error"}')
    assert commands.parse_complaint(stdout, NONCE) == "state: Input/output error"
    assert commands.parse_complaint(sentinel(RUNNING), NONCE) == ""


def test_a_machine_without_the_job_answers_absent(machine: Machine) -> None:
    assert machine.state().state is RunState.ABSENT
    assert machine.stop().state is RunState.ABSENT


def test_a_job_directory_without_its_runner_is_unknown_and_not_absent(machine: Machine) -> None:
    machine.place().mkdir()
    for command in all_commands(str(machine.home))[1:]:
        assert commands.parse_state(machine.exec(command.replace("iris-1", "job")), NONCE) is None


@pytest.mark.parametrize("home", ["relative", "/a\nb", ""])
def test_a_home_that_no_single_line_can_name_is_refused(home: str) -> None:
    with pytest.raises(ValueError, match="home"):
        commands.start_command(home, "k", "d", NONCE)


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "A", "a b", "a\n", "a.b"])
def test_names_that_could_leave_their_directory_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        commands.start_command("/root", name, "d", NONCE)
    with pytest.raises(ValueError, match="name"):
        commands.start_command("/root", "k", name, NONCE)


@pytest.mark.parametrize("nonce", ["", "short", "with space 12", "abc;rm -rf12", "x" * 65])
def test_a_nonce_is_letters_and_digits(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        commands.probe_command(nonce)
