from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.remote.bundle import BundleFile
from controller.remote.commands import log_command, parse_log
from controller.remote.protocol import LogChunk, RunState
from tests.unit.remote.machine import NONCE, Machine, job, wait_for

WAIT = 'while [ ! -e "$HOME/go" ]; do sleep 0.05; done'
SECRET = "correct-horse-battery"


def log(machine: Machine, offset: int = 0, limit: int = 65536) -> LogChunk:
    found = parse_log(machine.exec(log_command(str(machine.home), "job", NONCE, offset, limit)), NONCE)
    assert found is not None
    return found


def test_case_57_only_truly_bad_bytes_are_replaced_and_nul_never_leaves_the_machine(machine: Machine) -> None:
    script = rb"""import os, time
os.write(1, b'\xff\xfe\x00\xc3\x28 caf\xc3')
os.write(1, b'\xa9 \xf0\x9f')
os.write(1, b'\x98\x80\n')
"""
    found = machine.run(job(script, interpreter="python3"))
    assert (found.state, found.exit_code) == (RunState.EXITED, 0)
    assert found.tail == "\ufffd\ufffd\ufffd( café 😀\n"


def test_case_57_a_character_that_is_not_whole_yet_is_waited_for(machine: Machine) -> None:
    script = f"""printf 'caf\\303'; : > "$HOME/ready"; {WAIT}; printf '\\251\\n'"""
    machine.deliver(job(script))
    machine.start()
    wait_for((machine.home / "ready").exists)
    wait_for(lambda: machine.state().log_bytes == 4)
    assert machine.state().tail == "caf"
    (machine.home / "go").touch()
    machine.settled()
    assert machine.state().tail == "café\n"


def test_case_59_200_megabytes_block_nothing_and_keep_memory_and_disk_flat(machine: Machine) -> None:
    machine.deliver(job(f"head -c 200000000 /dev/zero | tr '\\0' x\necho the end; {WAIT}; exit 3"))
    machine.start()
    supervisor = machine.gate()["pid"]
    wait_for(lambda: machine.state(tail=0).log_bytes >= 200_000_008)
    status = Path(f"/proc/{supervisor}/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak < 32 << 10, f"{peak} KiB"
    assert sum(path.stat().st_size for path in (machine.place() / "log").iterdir()) <= 64 << 20
    (machine.home / "go").touch()
    machine.settled()
    found = machine.state(tail=1000)
    assert found.exit_code == 3
    assert found.tail == "x" * 992 + "the end\n"
    assert found.truncated
    assert found.log_bytes == 200_000_008


def test_stdout_and_stderr_are_one_stream_in_order(machine: Machine) -> None:
    found = machine.run(job("echo one; echo two >&2; echo three"))
    assert found.tail == "one\ntwo\nthree\n"
    assert not found.truncated


def test_a_python_job_is_not_buffered_unless_it_wants_to_be(machine: Machine) -> None:
    script = f"import os\nprint('here')\nos.system({WAIT!r})\n"
    machine.deliver(job(script, interpreter="python3"))
    machine.start()
    wait_for(lambda: machine.state().tail == "here\n")
    (machine.home / "go").touch()
    machine.settled()


@pytest.mark.parametrize("size", [0, 1, 5, 100])
def test_the_tail_is_within_the_asked_size_in_bytes(machine: Machine, size: int) -> None:
    found = machine.run(job("printf 'äöü😀äöü'"), tail=size)
    assert len(found.tail.encode()) <= size
    assert "äöü😀äöü".endswith(found.tail)
    assert found.truncated is (size < 16)


def test_secrets_are_masked_in_every_answer_while_it_runs_and_after_the_wipe(machine: Machine) -> None:
    pem = "-----BEGIN-----\nAAAABBBBCCCC\nxy==\n-----END-----"
    script = f"""echo "a $PASSWORD b"; echo "$PEM" | sed 's/^/> /'; {WAIT}; echo "$PASSWORD$PASSWORD"; echo end"""
    masks = (SECRET.encode(), pem.encode(), b"short")
    machine.deliver(job(script, env={"PASSWORD": SECRET, "PEM": pem, "S": "short"}, masks=masks))
    machine.start()
    wait_for(lambda: "xy==" in machine.state().tail)
    assert machine.state().tail == "a *** b\n> ***\n> ***\n> xy==\n> ***\n"
    assert log(machine).text == machine.state().tail
    (machine.home / "go").touch()
    machine.settled()
    expected = "a *** b\n> ***\n> ***\n> xy==\n> ***\n***\nend\n"
    assert machine.state().tail == expected
    assert machine.state(wipe=True).tail == expected
    assert machine.state(wipe=True).tail == expected
    assert SECRET not in log(machine).text


def test_a_secret_that_is_half_printed_is_held_back_until_it_is_whole(machine: Machine) -> None:
    script = f"""printf 'x{SECRET[:10]}'; {WAIT}; printf '{SECRET[10:]}y'"""
    machine.deliver(job(script, masks=(SECRET.encode(),)))
    machine.start()
    wait_for(lambda: machine.state().log_bytes == 11)
    assert machine.state().tail == "x"
    assert log(machine).text == "x"
    assert log(machine).next_offset == 1
    (machine.home / "go").touch()
    machine.settled()
    assert machine.state().tail == "x***y"
    assert log(machine, 1).text == "***y"


def test_an_end_that_is_most_of_a_secret_is_masked(machine: Machine) -> None:
    found = machine.run(job(f"printf 'x{SECRET[:-1]}'", masks=(SECRET.encode(),)))
    assert found.tail == "x***"


def test_the_wipe_removes_every_secret_from_the_machine_and_keeps_the_answer(machine: Machine) -> None:
    bundle = job(
        f'echo "$PASSWORD"; seq 1 20; cat key; exit 3 # {SECRET}-in-script',
        env={"PASSWORD": SECRET},
        masks=(SECRET.encode(), b"key-material"),
        files=(BundleFile("key", b"key-material", secret=True), BundleFile("spec.yaml", b"epochs: 3")),
    )
    first = machine.run(bundle, wipe=True)
    again = machine.state(wipe=True)
    assert first == again
    assert first.exit_code == 3
    assert first.tail.startswith("***\n1\n2\n")
    found = subprocess.run(
        ["grep", "-rl", "-e", SECRET, "-e", "key-material", machine.root()], capture_output=True, check=False
    )
    assert found.stdout.decode().split("\n")[:-1] == [str(machine.place() / "work" / ".brev-script")]
    assert (machine.place() / "work" / "spec.yaml").read_bytes() == b"epochs: 3"
    assert {path.name for path in machine.place().iterdir()}.isdisjoint({"job.json", "masks.json", "secrets.json"})


def test_a_running_job_is_not_wiped(machine: Machine) -> None:
    machine.deliver(job(WAIT, masks=(SECRET.encode(),)))
    machine.start()
    machine.state(wipe=True)
    assert (machine.place() / "masks.json").exists()
    assert not (machine.place() / "job.json").exists(), "the environment is no longer needed once the job has it"
    (machine.home / "go").touch()
    machine.settled()


def test_a_lost_job_is_wiped_too(machine: Machine) -> None:
    machine.deliver(job(f"echo {SECRET}; {WAIT}", masks=(SECRET.encode(),)))
    machine.start()
    wait_for(lambda: machine.state().log_bytes)
    machine.boot.write_text("boot-2")
    found = machine.state(wipe=True)
    assert (found.state, found.tail) == (RunState.LOST, "***\n")
    assert not (machine.place() / "masks.json").exists()


def test_no_masks_and_no_kept_tail_means_no_text(machine: Machine) -> None:
    machine.run(job(f"echo {SECRET}"))
    (machine.place() / "masks.json").unlink()
    assert machine.state().tail == ""
    assert log(machine).text == ""


@pytest.fixture
def small_disk(machine: Machine) -> Iterator[Path]:
    """Everything of ours on the machine is on a file system of one MiB, where one may be mounted."""
    place = machine.root()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting needs root: the full disk is played by a failing writer in test_logstore")
    (place / "in").mkdir()
    yield place
    machine.close()
    subprocess.run(["umount", "-l", place], check=True)


def test_case_62_a_full_disk_costs_output_and_not_the_exit_code(machine: Machine, small_disk: Path) -> None:
    script = "cat /dev/zero > fill 2>/dev/null; head -c 5000000 /dev/zero | tr '\\0' x; exit 3"
    found = machine.run(job(script, masks=(SECRET.encode(),)))
    assert (found.state, found.exit_code) == (RunState.EXITED, 3)
    assert found.dropped_bytes > 0
    assert found.truncated
    assert "No space left" in found.detail
    assert found.tail.strip("x") == ""
    assert found.log_bytes == 5_000_000
    assert machine.state(wipe=True).exit_code == 3


def test_a_job_that_fills_the_disk_can_be_stopped(machine: Machine, small_disk: Path) -> None:
    machine.deliver(job('cat /dev/zero > fill; : > "$HOME/full"; while :; do sleep 0.05; done'))
    machine.start()
    wait_for((machine.home / "full").exists)
    assert os.statvfs(small_disk).f_bavail == 0
    machine.stop()
    machine.settled()
    assert machine.state().stopped
