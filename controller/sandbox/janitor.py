"""Ends what a dead parent left behind: processes and temporary directories of the sandbox.

This file is both the library (`Janitor`) and, run as a script by it, the janitor process: standard library only, in a
session of its own, so that neither Ctrl-C nor `kill -9` of the parent reaches it. It acts when the parent is gone or
closes the pipe, whichever it sees first, and then exits. Linux only (`/proc`, pidfd).
"""

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

MARKER = "BREV_SANDBOX_RUN"
GIVE_UP_SECONDS = 20.0


class JanitorGoneError(RuntimeError):
    """The janitor process died, so nothing would end what was about to be handed to it."""


class Janitor:
    """Owner of everything that must not outlive this process; used by the control plane, the builds and the simulator.

    A process is recognised in two ways: by `adopt`, or by `environment()` in the environment it was started with. Use
    both: the second covers the moment between spawn and `adopt`, and descendants that left the process group.
    Thread-safe. `close` (or leaving the `with` block) ends everything at once and is idempotent.
    """

    def __init__(self, *, grace_seconds: float = 2.0) -> None:
        """Start the janitor process; `grace_seconds` lie between SIGTERM and SIGKILL (0: SIGKILL at once)."""
        self._token = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(grace_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        self._send({"marker": self._token})

    @property
    def pid(self) -> int:
        """The janitor's own process id."""
        return self._process.pid

    def environment(self) -> dict[str, str]:
        """Variables to add to the environment of every process that the janitor shall end."""
        return {MARKER: self._token}

    def adopt(self, pid: int, pgid: int | None = None) -> None:
        """End `pid` when this process ends, with its whole group (`pgid`, default: the group of `pid`).

        A group that is this process's own is left alone: then only `pid` ends. A pid that was reused by then is
        recognised by its start time and spared. Does nothing if the process is already gone.
        """
        found = read_process(pid)
        if found is None:
            return
        group = found.pgid if pgid is None else pgid
        if group == os.getpgrp():
            group = 0
        self._send({"adopt": [pid, found.start, group, found.session]})

    def release(self, pid: int) -> None:
        """Forget a process that was ended in an orderly way."""
        self._send({"release": pid})

    def remove_on_exit(self, path: Path) -> None:
        """Remove a file or directory tree when this process ends, after all adopted processes are gone."""
        self._send({"remove": str(path.absolute())})

    def close(self) -> None:
        """End everything now and wait until it is done."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _send(self, message: dict[str, object]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            stdin = self._process.stdin
            if stdin is None or stdin.closed:
                raise JanitorGoneError("the janitor was closed")
            try:
                stdin.write(line)
                stdin.flush()
            except BrokenPipeError as error:
                raise JanitorGoneError("the janitor process was killed") from error


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What `/proc/<pid>/stat` says; `start` is in clock ticks since boot and tells a reused pid."""

    pid: int
    state: str
    pgid: int
    session: int
    start: int


def read_process(pid: int) -> ProcessInfo | None:
    """The process as it is now; None if there is none (a zombie still counts, its state is "Z")."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in brackets may hold spaces and brackets itself (proc(5)).
    fields = stat[stat.rindex(b")") + 2 :].split()
    return ProcessInfo(pid, fields[0].decode(), int(fields[2]), int(fields[3]), int(fields[19]))


def is_running(pid: int, start: int) -> bool:
    """Whether that very process still runs; a zombie does not."""
    found = read_process(pid)
    return found is not None and found.start == start and found.state not in "ZX"


class _Charge:
    """What the janitor process answers for."""

    def __init__(self) -> None:
        self.marker = ""
        self.adopted: dict[int, tuple[int, int, int]] = {}
        self.paths: list[Path] = []

    def learn(self, line: bytes) -> None:
        message = json.loads(line)
        if "marker" in message:
            self.marker = message["marker"]
        elif "adopt" in message:
            pid, start, pgid, session = message["adopt"]
            self.adopted[pid] = (start, pgid, session)
        elif "release" in message:
            self.adopted.pop(message["release"], None)
        elif "remove" in message:
            self.paths.append(Path(message["remove"]))

    def victims(self) -> list[ProcessInfo]:
        """Everything alive that is ours: adopted, in an adopted group, or carrying the marker."""
        alive = [p for p in _all_processes() if p.state not in "ZX" and p.pid != os.getpid()]
        groups = {(pgid, session) for pid, (start, pgid, session) in self.adopted.items() if self._holds(pid, start)}
        return [
            p
            for p in alive
            if (p.pid in self.adopted and self.adopted[p.pid][0] == p.start)
            or (p.pgid, p.session) in groups
            or self._marked(p.pid)
        ]

    @staticmethod
    def _holds(pid: int, start: int) -> bool:
        """The kernel reuses no pid that a group still carries, so another process under it means an empty group."""
        found = read_process(pid)
        return found is None or found.start == start

    def _marked(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:  # gone meanwhile, or another user's
            return False
        return f"{MARKER}={self.marker}".encode() in environ.split(b"\0")


def _all_processes() -> list[ProcessInfo]:
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def _signal(process: ProcessInfo, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if is_running(process.pid, process.start):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _await_any_end(processes: list[ProcessInfo], seconds: float) -> None:
    poller = select.poll()
    descriptors = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            descriptors.append(os.pidfd_open(process.pid))
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    poller.poll(max(0.0, seconds) * 1000)
    for descriptor in descriptors:
        os.close(descriptor)


def _end_all(charge: _Charge, grace_seconds: float) -> None:
    begun = time.monotonic()
    asked: set[int] = set()
    while victims := charge.victims():
        elapsed = time.monotonic() - begun
        if elapsed > grace_seconds + GIVE_UP_SECONDS:
            break
        if elapsed < grace_seconds:
            for process in victims:
                if process.pid not in asked:
                    _signal(process, signal.SIGTERM)
            asked.update(process.pid for process in victims)
            _await_any_end(victims, min(0.1, grace_seconds - elapsed))
        else:
            for process in victims:
                _signal(process, signal.SIGKILL)
            _await_any_end(victims, 0.1)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _listen(charge: _Charge, parent: int) -> None:
    """Return when the parent is gone or has closed the pipe; every message sent before that has been read."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    # A child forked by the parent without exec keeps the pipe open, so the pipe alone would not tell.
    with contextlib.suppress(ProcessLookupError):
        poller.register(os.pidfd_open(parent), select.POLLIN)
    os.set_blocking(0, False)
    pending = b""
    orphaned = os.getppid() != parent
    while True:
        if not orphaned:
            orphaned = any(descriptor != 0 for descriptor, _ in poller.poll())
        try:
            data = os.read(0, 65536)
        except BlockingIOError:
            if orphaned:
                return
            continue
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            charge.learn(line)


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    charge = _Charge()
    _listen(charge, int(sys.argv[1]))
    _end_all(charge, float(sys.argv[2]))
    for path in charge.paths:
        _remove(path)


if __name__ == "__main__":
    _main()
