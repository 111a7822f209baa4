"""A rented machine for tests: a home directory in which the operator's commands run as ssh would run them."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.remote.bundle import JobBundle, write_bundle
from controller.remote.commands import parse_state, start_command, state_command, stop_command
from controller.remote.protocol import RemoteState

NONCE = "0123456789abcdef"
DEADLINE_SECONDS = 60.0


def job(script: str | bytes, *, interpreter: str = "sh", key: str = "job", **fields: Any) -> JobBundle:
    """A bundle with only what a test cares about."""
    values: dict[str, Any] = {"env": {}, "files": (), "masks": (), "marker": {}, "stop_grace_seconds": 5.0, **fields}
    content = script.encode() if isinstance(script, str) else script
    return JobBundle(key=key, interpreter=interpreter, script=content, **values)


class Machine:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home of 'ubuntu'"
        self.home.mkdir()
        self.boot = directory / "boot"
        self.boot.write_text("boot-1\n")
        tools = directory / "bin"
        tools.mkdir()
        (tools / "python3").symlink_to(os.environ.get("RUNNER_PYTHON") or os.path.realpath(sys.executable))
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{tools}:/usr/bin:/bin",
            "BREV_OPERATOR_BOOT_ID_FILE": str(self.boot),
        }
        for name in ("in", "jobs"):
            (self.root() / name).mkdir(mode=0o700, parents=True)

    def exec(self, command: str) -> str:
        """What ``brev exec`` prints: the output, and the machine's name behind it."""
        done = self.spawn(command)
        out, _ = done.communicate(timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, "a command must never fail, or the CLI runs it again"
        return str(out) + "machine-1\n"

    def spawn(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            env=self.env,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
        )

    def root(self) -> Path:
        return self.home / ".brev-operator"

    def place(self, key: str = "job") -> Path:
        return self.root() / "jobs" / key

    def deliver(self, bundle: JobBundle, delivery: str = "d1") -> Path:
        """What ``brev copy`` does with a directory, its nesting included."""
        source = self.directory / "out" / delivery
        if not source.exists():
            write_bundle(source, bundle)
        target = self.root() / "in" / delivery
        if target.exists():
            target = target / source.name
        shutil.copytree(source, target)
        return target

    def start(self, key: str = "job", delivery: str = "d1") -> RemoteState:
        return self._ask(start_command(str(self.home), key, delivery, NONCE))

    def state(self, key: str = "job", tail: int = 4096, *, wipe: bool = False) -> RemoteState:
        return self._ask(state_command(str(self.home), key, NONCE, tail, wipe=wipe))

    def stop(self, key: str = "job", grace: float = 30.0) -> RemoteState:
        return self._ask(stop_command(str(self.home), key, NONCE, grace))

    def run(self, bundle: JobBundle, tail: int = 4096, *, wipe: bool = False) -> RemoteState:
        """Deliver, start, wait for the verdict and answer with it."""
        self.deliver(bundle)
        self.start(bundle.key)
        self.settled(bundle.key)
        return self.state(bundle.key, tail, wipe=wipe)

    def settled(self, key: str = "job") -> None:
        """Wait until the supervisor has ended."""
        self.gone(self.gate(key)["pid"])

    def gate(self, key: str = "job") -> dict[str, Any]:
        path = self.place(key) / "gate.json"
        wait_for(path.exists)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def gone(self, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            assert poller.poll(DEADLINE_SECONDS * 1000), f"process {pid} did not end"
        finally:
            os.close(descriptor)

    def processes(self) -> list[int]:
        """Every process that was started on this machine and still lives."""
        wanted, found = f"HOME={self.home}".encode(), []
        for entry in Path("/proc").iterdir():
            try:
                alive = entry.name.isdigit() and b") Z " not in (entry / "stat").read_bytes()
                if alive and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def close(self) -> None:
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.gone(pid)

    def _ask(self, command: str) -> RemoteState:
        answer = parse_state(self.exec(command), NONCE)
        assert answer is not None
        return answer


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for a condition of the outside world, with a generous deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        select.select([], [], [], 0.01)
