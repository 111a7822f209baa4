"""The janitor on real processes: whatever the parent started or made goes when the parent goes, and nothing else."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.sandbox.janitor import Janitor, JanitorGoneError, is_running, read_process
from controller.sandbox.waiting import wait_until

SLEEPER = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
]


@pytest.fixture
def spawned() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def start(spawned: list[subprocess.Popen[bytes]], argv: list[str], env: dict[str, str] | None = None) -> int:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **(env or {})}, start_new_session=True)
    spawned.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process.pid


def test_closing_ends_adopted_processes_and_then_removes_the_directories(
    spawned: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    doomed, spared = start(spawned, SLEEPER), start(spawned, SLEEPER)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    with Janitor() as janitor:
        janitor.adopt(doomed)
        janitor.remove_on_exit(tmp_path / "data")
    assert spawned[0].wait(timeout=30) == -signal.SIGTERM
    assert spawned[1].poll() is None, f"{spared} was nobody's to end"
    assert not (tmp_path / "data").exists()


def test_a_process_that_ignores_sigterm_is_killed(spawned: list[subprocess.Popen[bytes]]) -> None:
    with Janitor(grace_seconds=0.05) as janitor:
        janitor.adopt(start(spawned, STUBBORN))
    assert spawned[0].wait(timeout=30) == -signal.SIGKILL


def test_a_process_never_adopted_is_known_by_its_environment(spawned: list[subprocess.Popen[bytes]]) -> None:
    with Janitor() as janitor:
        start(spawned, SLEEPER, janitor.environment())
    assert spawned[0].wait(timeout=30) == -signal.SIGTERM


def test_a_released_process_is_spared(spawned: list[subprocess.Popen[bytes]]) -> None:
    with Janitor() as janitor:
        pid = start(spawned, SLEEPER)
        janitor.adopt(pid)
        janitor.release(pid)
    assert spawned[0].poll() is None


def test_a_reused_pid_is_spared(spawned: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    pid = start(spawned, SLEEPER)
    found = read_process(pid)
    assert found is not None
    janitor = Janitor()
    janitor._send({"adopt": [pid, found.start - 1, found.pgid, found.session]})
    janitor.close()
    assert spawned[0].poll() is None


def test_the_group_ends_also_after_its_leader_has_gone(spawned: list[subprocess.Popen[bytes]]) -> None:
    script = """
import os, signal, sys
child = os.fork()
if child == 0:
    signal.pause()
print(child, flush=True)
sys.stdin.read()
"""
    leader = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    started = read_process(child)
    assert started is not None
    with Janitor() as janitor:
        janitor.adopt(leader.pid)
        assert leader.stdin is not None
        leader.stdin.close()
        leader.wait(timeout=30)
        leader.stdout.close()
        assert is_running(child, started.start)
    assert not is_running(child, started.start)


def test_kill_9_of_the_parent_ends_its_children_even_when_a_fork_still_holds_the_pipe(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    script = f"""
import fcntl, os, pathlib, signal, subprocess, sys, termios
from controller.sandbox.janitor import Janitor
from controller.sandbox.waiting import wait_until
janitor = Janitor()
janitor.remove_on_exit(pathlib.Path({str(tmp_path / "data")!r}))
child = subprocess.Popen({SLEEPER!r}, stdout=subprocess.DEVNULL, start_new_session=True, env=janitor.environment())
fork = os.fork()
if fork == 0:
    signal.pause()
# A janitor that is still starting would notice by itself that its parent has changed; this is about one at work.
unread = lambda: int.from_bytes(fcntl.ioctl(janitor._process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder)
wait_until(lambda: unread() == 0, 30, "the janitor to listen")
print(child.pid, fork, janitor.pid, flush=True)
signal.pause()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child, fork, janitor = (int(word) for word in parent.stdout.readline().split())
    start_times = {pid: found.start for pid in (child, janitor) if (found := read_process(pid))}
    assert len(start_times) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        wait_until(lambda: not any(is_running(pid, start) for pid, start in start_times.items()), 30, "the end of all")
        assert not (tmp_path / "data").exists()
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_killed_janitor_is_noticed_before_something_is_handed_to_it(spawned: list[subprocess.Popen[bytes]]) -> None:
    janitor = Janitor()
    os.kill(janitor.pid, signal.SIGKILL)
    os.waitid(os.P_PID, janitor.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(JanitorGoneError):
        janitor.adopt(start(spawned, SLEEPER))
    janitor.close()
