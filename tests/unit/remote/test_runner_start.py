from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controller.remote.commands import parse_state, start_command
from controller.remote.protocol import INCOMPLETE_DELIVERY, RunState
from controller.remote.runner import delivery, gate
from controller.remote.runner.files import Job
from tests.unit.remote.machine import NONCE, Machine, job, wait_for

COUNT = 'echo run >> "$HOME/count"'


def runs(machine: Machine) -> int:
    path = machine.home / "count"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_case_1_a_command_that_is_replayed_starts_nothing_twice_and_the_code_is_the_jobs_own(machine: Machine) -> None:
    machine.deliver(job(f"{COUNT}\nexit 42"))
    machine.start()
    machine.start()
    machine.settled()
    assert machine.start().exit_code == 42
    assert machine.state().exit_code == 42
    assert runs(machine) == 1


def test_ten_starts_at_once_run_the_job_once(machine: Machine) -> None:
    machine.deliver(job(f"{COUNT}\nexit 3"))
    command = start_command(str(machine.home), "job", "d1", NONCE)
    answers = [started.communicate()[0] for started in [machine.spawn(command) for _ in range(10)]]
    states = [parse_state(answer, NONCE) for answer in answers]
    machine.settled()
    assert {state.state for state in states if state} <= {RunState.STARTING, RunState.RUNNING, RunState.EXITED}
    assert all(states)
    assert runs(machine) == 1
    assert machine.state().exit_code == 3
    assert list((machine.root() / "in").iterdir()) == []


def test_ten_starts_of_different_deliveries_of_one_job_run_it_once(machine: Machine) -> None:
    for number in range(10):
        machine.deliver(job(COUNT), f"d{number}")
    commands = [start_command(str(machine.home), "job", f"d{number}", NONCE) for number in range(10)]
    answers = [started.communicate()[0] for started in [machine.spawn(command) for command in commands]]
    machine.settled()
    assert all(parse_state(answer, NONCE) for answer in answers)
    assert runs(machine) == 1
    assert list((machine.root() / "in").iterdir()) == [], "a delivery that was not adopted leaves no secrets behind"


def test_many_supervisors_of_one_job_pass_its_gate_once(machine: Machine) -> None:
    machine.deliver(job(f"{COUNT}\nexit 3"))
    place = Job(str(machine.home), "job")
    assert delivery.adopt(place, "d1") == delivery.ADOPTED
    script = f"""import sys; sys.path.insert(0, {place.path("runner.pyz")!r})
from brev_runner import files, gate
for _ in range(3): gate.launch(files.Job({str(machine.home)!r}, "job"))"""
    launchers = [subprocess.Popen([sys.executable, "-c", script], env=machine.env) for _ in range(3)]
    assert [launcher.wait(60) for launcher in launchers] == [0, 0, 0]
    machine.settled()
    wait_for(lambda: machine.processes() == [])
    found = machine.state()
    assert (found.exit_code, found.setup_failed) == (3, False)
    assert runs(machine) == 1


def test_a_start_that_died_between_taking_over_and_beginning_is_continued(machine: Machine) -> None:
    machine.deliver(job(COUNT))
    assert delivery.adopt(Job(str(machine.home), "job"), "d1") == delivery.ADOPTED
    assert machine.state().state is RunState.STARTING
    assert runs(machine) == 0
    machine.start()
    machine.settled()
    assert machine.state().exit_code == 0
    assert runs(machine) == 1


def test_a_supervisor_that_died_behind_the_gate_is_lost_and_nothing_starts_again(machine: Machine) -> None:
    machine.deliver(job(COUNT))
    delivery.adopt(Job(str(machine.home), "job"), "d1")
    holder = machine.spawn("true")
    holder.communicate()
    (machine.place() / "gate.json").write_text(
        json.dumps({"pid": holder.pid, "ticks": 1, "bootId": "boot-1", "token": "t"})
    )
    assert machine.state().state is RunState.LOST
    assert machine.start().state is RunState.LOST
    machine.deliver(job(COUNT), "d2")
    assert machine.start(delivery="d2").state is RunState.LOST
    assert runs(machine) == 0


def test_only_the_first_caller_passes_a_gate(machine: Machine) -> None:
    machine.deliver(job(COUNT))
    place = Job(str(machine.home), "job")
    delivery.adopt(place, "d1")
    assert [gate.pass_gate(place, {}) for _ in range(3)] == [True, False, False]
    assert [path.name for path in machine.place().glob("*.tmp")] == []


def test_a_second_delivery_of_a_finished_job_changes_nothing_and_is_removed(machine: Machine) -> None:
    machine.run(job(f"{COUNT}\nexit 7"))
    machine.deliver(job(f"{COUNT}\nexit 8"), "d2")
    assert machine.start(delivery="d2").exit_code == 7
    assert runs(machine) == 1
    assert list((machine.root() / "in").iterdir()) == []


def test_a_delivery_that_was_copied_twice_runs_once_and_leaves_no_second_copy(machine: Machine) -> None:
    machine.deliver(job(COUNT, env={"PASSWORD": "secret-value"}))
    nested = machine.deliver(job(COUNT))
    assert nested.name == "d1"
    assert nested.parent.name == "d1"
    machine.start()
    machine.settled()
    assert runs(machine) == 1
    assert not (machine.place() / "d1").exists()


@pytest.mark.parametrize("missing", ["job.json", "manifest.json", "masks.json", "marker.json", "runner.pyz"])
def test_a_whole_copy_inside_a_half_one_is_found(machine: Machine, missing: str) -> None:
    half = machine.deliver(job(COUNT))
    (half / missing).unlink()
    machine.deliver(job(COUNT))
    machine.start()
    machine.settled()
    assert machine.state().exit_code == 0
    assert runs(machine) == 1


def damage(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"#")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("job.json", "half"),
        ("masks.json", "missing"),
        ("masks.json", "changed"),
        ("manifest.json", "missing"),
        ("manifest.json", "half"),
        ("runner.pyz", "empty"),
        ("runner.pyz", "half"),
        ("runner.pyz", "changed"),
    ],
)
def test_a_half_copied_delivery_starts_nothing_and_asks_for_a_new_one(machine: Machine, name: str, how: str) -> None:
    damage(machine.deliver(job(COUNT)) / name, how)
    answer = machine.start()
    assert answer.state is RunState.ABSENT
    assert answer.detail == INCOMPLETE_DELIVERY
    assert not machine.place().exists()
    machine.deliver(job(COUNT), "d2")
    machine.start(delivery="d2")
    machine.settled()
    assert runs(machine) == 1


def test_nothing_delivered_is_an_incomplete_delivery(machine: Machine) -> None:
    answer = machine.start()
    assert (answer.state, answer.detail) == (RunState.ABSENT, INCOMPLETE_DELIVERY)


def test_a_bundle_for_another_job_is_not_adopted(machine: Machine) -> None:
    machine.deliver(job(COUNT, key="other"))
    assert machine.start("job").state is RunState.ABSENT
    assert not machine.place("job").exists()


def test_what_lies_on_the_machine_is_private_whatever_the_copy_made_of_the_modes(machine: Machine) -> None:
    copied = machine.deliver(job('while [ ! -e "$HOME/go" ]; do sleep 0.05; done'))
    for path in [copied, *copied.iterdir()]:
        path.chmod(0o777)
    machine.start()
    assert machine.place().stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in machine.place().iterdir() if path.is_file()} == {0o600}
    (machine.home / "go").touch()
    machine.settled()


def test_a_running_job_outlives_the_call_that_started_it_and_holds_none_of_its_descriptors(machine: Machine) -> None:
    machine.deliver(job('while [ ! -e "$HOME/go" ]; do sleep 0.05; done; exit 5'))
    started = machine.spawn(start_command(str(machine.home), "job", "d1", NONCE))
    out, _ = started.communicate(timeout=30)  # reads until every holder of the pipe has closed it
    first = parse_state(out, NONCE)
    assert first is not None
    assert first.state is RunState.RUNNING
    assert first.started_at is not None
    assert machine.state().state is RunState.RUNNING
    (machine.home / "go").touch()
    machine.settled()
    assert machine.state().exit_code == 5


def test_a_descriptor_that_the_session_leaked_is_not_held_by_the_job(machine: Machine) -> None:
    machine.deliver(job('while [ ! -e "$HOME/go" ]; do sleep 0.05; done'))
    reader, writer = os.pipe()
    command = start_command(str(machine.home), "job", "d1", NONCE)
    subprocess.run(["bash", "-c", command], env=machine.env, pass_fds=[writer], check=True, capture_output=True)
    os.close(writer)
    assert select.select([reader], [], [], 30)[0], "somebody still holds the other end"
    os.close(reader)
    assert machine.state().state is RunState.RUNNING
    (machine.home / "go").touch()
    machine.settled()


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_runner_works_with_every_python_of_this_machine(machine: Machine, version: str) -> None:
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no python{version} here")
    tools = machine.directory / "bin"
    (tools / "python3").unlink()
    (tools / "python3").symlink_to(found)
    answer = machine.run(job("echo word-secret; exit 3", masks=(b"word-secret",)), wipe=True)
    assert (answer.exit_code, answer.tail) == (3, "***\n")
    assert machine.stop().exit_code == 3


def test_jobs_with_different_keys_do_not_meet(machine: Machine) -> None:
    for number in range(3):
        machine.deliver(job(f"exit {number}", key=f"job-{number}"), f"d{number}")
        machine.start(f"job-{number}", f"d{number}")
    for number in range(3):
        machine.settled(f"job-{number}")
        assert machine.state(f"job-{number}").exit_code == number
