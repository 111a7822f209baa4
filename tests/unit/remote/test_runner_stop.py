from __future__ import annotations

import json
import os
import signal

from controller.remote.protocol import RunState
from controller.remote.runner import delivery
from controller.remote.runner.files import Job
from tests.unit.remote.machine import Machine, job, wait_for

READY = ': > "$HOME/ready"'
FOREVER = f"{READY}; while :; do sleep 0.05; done"


def begin(machine: Machine, script: str) -> None:
    machine.deliver(job(script))
    machine.start()
    wait_for((machine.home / "ready").exists)


def test_a_stopped_job_ends_by_term_and_says_so(machine: Machine) -> None:
    begin(machine, FOREVER)
    answer = machine.stop()
    assert answer.state in (RunState.RUNNING, RunState.EXITED)
    assert answer.stopping or answer.stopped
    machine.settled()
    found = machine.state()
    assert (found.state, found.exit_code, found.signal, found.stopped) == (RunState.EXITED, 143, "SIGTERM", True)
    assert machine.processes() == []


def test_a_job_that_ends_in_its_grace_keeps_its_own_code(machine: Machine) -> None:
    begin(machine, f'trap "echo saved; exit 3" TERM; {FOREVER}')
    machine.stop()
    machine.settled()
    found = machine.state()
    assert (found.exit_code, found.signal, found.stopped) == (3, None, True)
    assert "saved" in found.tail


def test_a_job_that_ignores_term_is_killed_with_all_that_it_started(machine: Machine) -> None:
    begin(machine, f'trap "" TERM; setsid sh -c "while :; do sleep 0.05; done" & {FOREVER}')
    machine.stop(grace=0.2)
    machine.settled()
    found = machine.state()
    assert (found.exit_code, found.signal, found.stopped) == (137, "SIGKILL", True)
    assert machine.processes() == []


def test_the_whole_group_gets_the_chance_to_end_well(machine: Machine) -> None:
    begin(machine, f"""sh -c 'trap "echo child saved; exit" TERM; {FOREVER}' & wait""")
    machine.stop()
    machine.settled()
    assert "child saved" in machine.state().tail


def test_stopping_twice_is_stopping_once_and_a_later_grace_changes_nothing(machine: Machine) -> None:
    begin(machine, f'trap "echo term >> terms" TERM; {FOREVER}')
    terms = machine.place() / "work" / "terms"
    machine.stop(grace=30)
    wait_for(terms.exists)
    machine.stop(grace=0.1)
    assert json.loads((machine.place() / "stop.json").read_text())["graceSeconds"] == 30
    assert terms.read_text() == "term\n"


def test_a_job_that_was_stopped_before_it_began_never_begins(machine: Machine) -> None:
    machine.deliver(job('echo run > "$HOME/count"'))
    delivery.adopt(Job(str(machine.home), "job"), "d1")
    found = machine.stop()
    assert (found.state, found.exit_code, found.signal, found.stopped) == (RunState.EXITED, 143, "SIGTERM", True)
    assert found.started_at is None
    assert machine.start().state is RunState.EXITED
    assert machine.state().stopped
    assert not (machine.home / "count").exists()


def test_a_stop_after_the_end_changes_nothing(machine: Machine) -> None:
    machine.run(job("exit 3"))
    found = machine.stop()
    assert (found.state, found.exit_code, found.stopped) == (RunState.EXITED, 3, False)
    assert not (machine.place() / "stop.json").exists()


def test_a_stop_that_lost_its_signal_is_still_found(machine: Machine) -> None:
    begin(machine, FOREVER)
    (machine.place() / "stop.json").write_text('{"graceSeconds": 30}')
    machine.settled()
    assert machine.state().stopped


def test_a_stop_without_a_grace_takes_the_one_of_the_job(machine: Machine) -> None:
    machine.deliver(job(f'trap "" TERM; {FOREVER}', stop_grace_seconds=0.1))
    machine.start()
    wait_for((machine.home / "ready").exists)
    (machine.place() / "stop.json").write_text("{}")
    machine.settled()
    assert machine.state().signal == "SIGKILL"


def test_a_machine_that_goes_down_ends_the_job_and_not_its_supervisor(machine: Machine) -> None:
    begin(machine, FOREVER)
    run = json.loads((machine.place() / "run.json").read_text())
    for pid in (machine.gate()["pid"], run["pid"]):
        os.kill(pid, signal.SIGTERM)
    machine.settled()
    found = machine.state()
    assert (found.exit_code, found.signal, found.stopped) == (143, "SIGTERM", False)
