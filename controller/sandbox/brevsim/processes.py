"""The processes of the machines: started, counted and killed by the backend.

A process belongs to a machine if its environment carries the machine's mark, if its working directory is on the
machine, or if it descends from such a process; so a child that left its session or cleared its environment counts too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORLD_MARK = "BREVSIM_WORLD"
MACHINE_MARK = "BREVSIM_MACHINE"
BOOT_ID_VARIABLE = "BREV_OPERATOR_BOOT_ID_FILE"
_SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Proc:
    pid: int
    parent: int
    machine: str
    """Machine id by mark or directory, "" if neither says so."""


@dataclass(slots=True)
class Command:
    """One remote command; the reader closes both ends, `finished` resolves to its wait status."""

    pid: int
    stdout: int
    stderr: int
    finished: asyncio.Future[int]


class Processes:
    """Starts and ends what runs on the machines of one world below `directory`."""

    def __init__(self, world: str, directory: Path) -> None:
        self._world = world
        self._machines = directory / "machines"
        self._bin = directory / "machine-bin"
        self._bin.mkdir(parents=True, exist_ok=True)
        python = self._bin / "python3"
        if not python.is_symlink():
            python.symlink_to(os.path.realpath(sys.executable))

    def environment(self, machine: str, home: Path) -> dict[str, str]:
        return {
            "PATH": f"{self._bin}:{_SYSTEM_PATH}",
            "HOME": str(home),
            "USER": "ubuntu",
            "LOGNAME": "ubuntu",
            "SHELL": _SHELL,
            "LANG": "C.UTF-8",
            BOOT_ID_VARIABLE: str(home.parent / "boot_id"),
            WORLD_MARK: self._world,
            MACHINE_MARK: machine,
        }

    def start(self, machine: str, home: Path, command: str) -> Command:
        """Run a command as sshd does: by the login shell, in a session of its own, without a terminal or input."""
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        try:
            child = subprocess.Popen(
                [_SHELL, "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                cwd=home,
                env=self.environment(machine, home),
                start_new_session=True,
                umask=0o022,
            )
        except OSError:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        return Command(child.pid, out_read, err_read, self._watch(child))

    def start_silent(self, machine: str, home: Path, command: str) -> None:
        """Run a command whose output nobody reads (the start-up script)."""
        running = self.start(machine, home, f"exec >/dev/null 2>&1\n{command}")
        os.close(running.stdout)
        os.close(running.stderr)

    @staticmethod
    def _watch(child: subprocess.Popen[bytes]) -> asyncio.Future[int]:
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[int] = loop.create_future()
        exit_fd = os.pidfd_open(child.pid)

        def reap() -> None:
            loop.remove_reader(exit_fd)
            os.close(exit_fd)
            code = child.wait()
            if not finished.done():
                finished.set_result(code)

        loop.add_reader(exit_fd, reap)
        return finished

    def living(self) -> dict[str, list[int]]:
        """Live process ids by machine id."""
        return members(self._world, self._machines)

    def kill(self, machine: str) -> int:
        """Kill everything on a machine; returns how many processes there were."""
        return kill_all(lambda: self.living().get(machine, []))


def members(world: str, machines: Path) -> dict[str, list[int]]:
    """Live processes of a world's machines, by machine id; "" holds those whose machine is unknown."""
    known = {proc.pid: proc for proc in _processes(world, str(machines))}
    found: dict[str, list[int]] = {}
    for proc in known.values():
        owner = _owner(proc, known)
        if owner is not None:
            found.setdefault(owner, []).append(proc.pid)
    return found


def _owner(proc: Proc, known: dict[int, Proc]) -> str | None:
    seen: set[int] = set()
    current: Proc | None = proc
    while current is not None and current.pid not in seen:
        if current.machine:
            return current.machine
        seen.add(current.pid)
        current = known.get(current.parent)
    return None


def _processes(world: str, machines: str) -> list[Proc]:
    mark = f"{WORLD_MARK}={world}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_bytes()
            state, parent = stat.rpartition(b")")[2].split()[:2]
            if state in {b"Z", b"X"}:
                continue
            environment = Path(entry.path, "environ").read_bytes().split(b"\0")
            machine = _marked(environment) if mark in environment else _located(entry.path, machines)
        except (OSError, ValueError):
            continue  # it ended meanwhile, or is another user's
        found.append(Proc(int(entry.name), int(parent), machine))
    return found


def _marked(environment: list[bytes]) -> str:
    prefix = MACHINE_MARK.encode() + b"="
    return next((item[len(prefix) :].decode() for item in environment if item.startswith(prefix)), "")


def _located(proc: str, machines: str) -> str:
    place = os.readlink(f"{proc}/cwd")
    if not place.startswith(machines + "/"):
        return ""
    return place[len(machines) + 1 :].split("/", 1)[0]


def kill_all(living: Callable[[], list[int]], rounds: int = 500) -> int:
    """SIGKILL what `living` lists until it lists nothing; raises RuntimeError if that never happens."""
    killed: set[int] = set()
    for _ in range(rounds):
        pids = living()
        if not pids:
            return len(killed)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed.update(pids)
        time.sleep(0.001)
    raise RuntimeError(f"processes that do not die: {sorted(living())}")
