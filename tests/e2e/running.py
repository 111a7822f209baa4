"""A sandbox command as a child process: its output as it comes, and everything that belongs to it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.sandbox.janitor import is_running, read_process
from controller.sandbox.waiting import wait_until

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "deploy" / "samples"
QUICK = ("--profile", "instant", "--time-scale", "0.01")
SECONDS = 180.0
"""Deadline of every wait: far above what a busy machine needs."""
DIRECTORY = re.compile(r"/[^\s=:]*/brev-(?:sandbox|controlplane)-[0-9a-f]{16}")


class Running:
    """`python -m controller.sandbox …`, with both outputs in one pipe."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.output = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "controller.sandbox", *arguments],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, text: str) -> None:
        """Read until `text` was printed; fails if the command ends before."""
        deadline = time.monotonic() + SECONDS
        while text not in self.output:
            assert self._read(deadline), f"ended without {text!r}:\n{self.output}"

    def finish(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self._process.wait(timeout=SECONDS)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def family(self) -> list[Process]:
        """Every process that belongs to it now: its descendants, and those that the sandbox's directory tells.

        What a job runs on a simulated machine is nobody's child any more, but has the machine's HOME.
        """
        everybody = all_processes()
        ours = {self.pid}
        while more := {process.pid for process in everybody if process.parent in ours} - ours:
            ours |= more
        marks = {found.name for found in directories_of([p for p in everybody if p.pid in ours])}
        ours |= {p.pid for p in everybody if any(mark in text for mark in marks for text in p.texts)}
        return [process for process in everybody if process.pid in ours - {self.pid, os.getpid()}]

    def operator(self) -> int:
        """Process id of the operator that runs now."""
        [found] = [p.pid for p in all_processes() if p.parent == self.pid and p.command[1:] == ("-m", "controller")]
        return found

    def end(self) -> None:
        """Whatever the test has done, nothing stays behind: the janitors see the end of this process."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self, deadline: float) -> bool:
        """More output, unless it has ended."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more was printed:\n{self.output}"
        data = os.read(self._process.stdout.fileno(), 65536)
        self.output += data.decode()
        return bool(data)


@dataclass(frozen=True, slots=True)
class Process:
    """A process at the moment that somebody looked."""

    pid: int
    start: int
    parent: int
    command: tuple[str, ...]
    environment: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return self.command + self.environment

    def is_gone(self) -> bool:
        return not is_running(self.pid, self.start)


def all_processes() -> list[Process]:
    """Of this machine, without those that end meanwhile."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or (seen := read_process(int(name))) is None:
            continue
        try:
            status = Path(f"/proc/{name}/status").read_text()
            command = _strings(Path(f"/proc/{name}/cmdline"))
            environment = _strings(Path(f"/proc/{name}/environ"))
        except OSError:
            continue
        parent = int(status.partition("PPid:")[2].split()[0])
        found.append(Process(seen.pid, seen.start, parent, command, environment))
    return found


def wait_until_gone(processes: list[Process]) -> None:
    """TimeoutError naming those that are still there at the deadline."""
    for process in processes:
        wait_until(process.is_gone, SECONDS, f"the end of {process.command}")


def directories_of(processes: list[Process]) -> set[Path]:
    """The temporary directories of the sandbox and of the control plane that these processes work in."""
    texts = [text for process in processes for text in process.texts]
    return {Path(found[0]) for text in texts for found in DIRECTORY.finditer(text)}


def _strings(path: Path) -> tuple[str, ...]:
    return tuple(part.decode(errors="replace") for part in path.read_bytes().split(b"\0") if part)
