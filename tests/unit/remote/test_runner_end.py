from __future__ import annotations

import json
import os
import signal

import pytest

from controller.remote.bundle import JobBundle
from controller.remote.protocol import RunState
from tests.unit.remote.machine import Machine, job, wait_for

WAIT = 'while [ ! -e "$HOME/go" ]; do sleep 0.05; done'


@pytest.mark.parametrize(
    ("script", "interpreter", "code", "signal_name"),
    [
        ("exit 0", "sh", 0, None),
        ("exit 3", "sh", 3, None),
        ("exit 255", "sh", 255, None),
        ("kill -KILL $$", "sh", 137, "SIGKILL"),
        ("kill -SEGV $$", "sh", 139, "SIGSEGV"),
        ("kill -TERM $$", "sh", 143, "SIGTERM"),
        ("exit 137", "sh", 137, None),
        ("exec sh -c 'exit 9'", "sh", 9, None),
        ("import sys\nsys.exit(4)", "python3", 4, None),
        ("raise RuntimeError('no')", "python3", 1, None),
        ("exit 6", "/bin/bash -eu", 6, None),
        ("exit 3 | cat", "bash -o pipefail", 3, None),
        ("yes | head -1", "bash -o pipefail", 141, None),
    ],
)
def test_case_62_the_code_of_the_job_is_the_code_in_its_state(
    machine: Machine, script: str, interpreter: str, code: int, signal_name: str | None
) -> None:
    found = machine.run(job(script, interpreter=interpreter))
    assert (found.state, found.exit_code, found.signal) == (RunState.EXITED, code, signal_name)
    assert not found.stopped
    assert not found.setup_failed
    assert found.started_at is not None
    assert found.finished_at is not None
    assert found.started_at <= found.finished_at
    assert found.boot_id == "boot-1"


def test_a_job_killed_from_outside_says_by_which_signal(machine: Machine) -> None:
    machine.deliver(job(WAIT))
    machine.start()
    os.kill(json.loads((machine.place() / "run.json").read_text())["pid"], signal.SIGKILL)
    machine.settled()
    found = machine.state()
    assert (found.exit_code, found.signal) == (137, "SIGKILL")


@pytest.mark.parametrize(
    ("bundle", "code", "text"),
    [
        (job("x", interpreter="python9.9"), 127, "'python9.9' was not found"),
        (job("x", interpreter="/no/such/interpreter"), 127, "'/no/such/interpreter' was not found"),
        (job("x", interpreter="sh", env={"PATH": "/nowhere"}), 127, "'sh' was not found"),
        (job("x", interpreter="/etc/passwd"), 127, "'/etc/passwd' was not found"),
        (job("x", env={"HUGE": "x" * (200 << 10)}), 126, "Argument list too long"),
        (job("x", interpreter="sh 'unclosed"), 125, "No closing quotation"),
    ],
)
def test_a_job_that_cannot_begin_says_why_in_its_log(machine: Machine, bundle: JobBundle, code: int, text: str) -> None:
    found = machine.run(bundle)
    assert (found.state, found.exit_code, found.setup_failed) == (RunState.EXITED, code, True)
    assert text in found.tail
    assert text in found.detail


def test_a_killed_supervisor_is_lost_and_leaves_nothing_running(machine: Machine) -> None:
    machine.deliver(job(f"setsid sh -c '{WAIT}' & {WAIT}"))
    machine.start()
    child = json.loads((machine.place() / "run.json").read_text())["pid"]
    wait_for(lambda: len(machine.processes()) >= 3)
    supervisor = machine.gate()["pid"]
    os.kill(supervisor, signal.SIGKILL)
    machine.gone(supervisor)
    machine.gone(child)  # it dies with its supervisor, before anybody asks
    found = machine.state()
    assert found.state is RunState.LOST
    assert found.exit_code is None
    assert found.started_at is not None
    assert "supervisor" in found.detail
    wait_for(lambda: machine.processes() == [])
    assert machine.start().state is RunState.LOST


def test_a_restarted_machine_has_lost_its_job(machine: Machine) -> None:
    machine.deliver(job(WAIT))
    machine.start()
    machine.boot.write_text("boot-2\n")
    found = machine.state()
    assert (found.state, found.boot_id) == (RunState.LOST, "boot-2")
    assert "restarted" in found.detail


def test_the_exit_record_outranks_a_restart_of_the_machine(machine: Machine) -> None:
    machine.run(job("exit 3"))
    machine.boot.write_text("boot-2\n")
    assert machine.state().exit_code == 3


def test_a_pid_that_was_used_again_is_not_the_supervisor(machine: Machine) -> None:
    machine.deliver(job(WAIT))
    machine.start()
    holder = machine.gate()
    os.kill(holder["pid"], signal.SIGKILL)
    machine.gone(holder["pid"])
    (machine.place() / "gate.json").write_text(json.dumps(dict(holder, pid=os.getpid())))
    assert machine.state().state is RunState.LOST


def test_a_code_that_was_noted_counts_when_the_supervisor_dies_while_it_collects_output(machine: Machine) -> None:
    machine.deliver(job(WAIT))
    machine.start()
    record = {"exitCode": 3, "signal": None, "startedAt": 1.0, "finishedAt": 2.0, "draining": True}
    (machine.place() / "exit.json").write_text(json.dumps(record))
    assert machine.state().state is RunState.RUNNING
    supervisor = machine.gate()["pid"]
    os.kill(supervisor, signal.SIGKILL)
    machine.gone(supervisor)
    found = machine.state()
    assert (found.state, found.exit_code) == (RunState.EXITED, 3)


@pytest.mark.parametrize(
    "left",
    [
        "sleep 1000 &",
        "setsid sleep 1000 &",
        "(setsid sh -c 'sleep 1000 & sleep 1000' &) &",
        "setsid nohup sleep 1000 >/dev/null 2>&1 &",
        "setsid env -i sleep 1000 &",
        "trap '' TERM; setsid sleep 1000 &",
    ],
)
def test_what_a_job_leaves_running_delays_nothing_and_is_ended(machine: Machine, left: str) -> None:
    found = machine.run(job(f"echo before\n{left}\necho after\nexit 3"))
    assert found.exit_code == 3
    assert found.tail == "before\nafter\n"
    assert found.detail == ""
    assert machine.processes() == []


def test_leftovers_may_say_goodbye(machine: Machine) -> None:
    script = """sh -c 'trap "echo goodbye; exit" TERM; : > "$HOME/ready"; while :; do sleep 0.05; done' &
    while [ ! -e "$HOME/ready" ]; do sleep 0.05; done; exit 3"""
    found = machine.run(job(script))
    assert found.exit_code == 3
    assert "goodbye" in found.tail


def test_a_verdict_waits_for_a_disk_with_room(machine: Machine) -> None:
    machine.deliver(job(f"{WAIT}\nexit 3"))
    machine.start()
    blocked = machine.place() / "exit.json"
    blocked.mkdir()
    (blocked / "x").touch()
    (machine.home / "go").touch()
    wait_for(lambda: not (machine.place() / "reserve").exists())
    (blocked / "x").unlink()
    blocked.rmdir()
    machine.settled()
    assert machine.state().exit_code == 3
