"""Watches one job from its beginning to its verdict: detached, single-threaded, in constant memory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from . import procs, unpack, verdict
from .child import Child
from .files import Job
from .logstore import LogWriter

_READ_BYTES = 64 << 10
_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031
#: How often the stop file is looked at without a signal; every wish to stop also sends one.
_LOOK_SECONDS = 1.0
#: What a job leaves behind gets TERM, this long, then KILL.
_LEFTOVER_SECONDS = 2.0
#: How long processes that do not even die of KILL, and whoever else holds the pipe, may delay the verdict.
_GIVE_UP_SECONDS = 5.0


class Supervisor:
    """One run of one job. The caller has passed the gate."""

    def __init__(self, job: Job, token: str, umask: int, wakeup: int) -> None:
        self.job, self.token, self.umask, self.wakeup = job, token, umask, wakeup
        self.log = LogWriter(job.log)
        self.started = time.time()
        self.child: Child | None = None
        self.status: int | None = None
        self.stopping = False
        self.grace = 0.0
        self.kill_at = float("inf")
        self.poller = select.poll()
        self.poller.register(wakeup, select.POLLIN)

    def run(self, on_begin: Callable[[], None]) -> None:
        """Begin, follow and settle. ``on_begin`` is called once the command runs, if it ever does."""
        record = self._begin()
        if record is None:
            on_begin()
            record = self._follow()
        self.log.close()
        record.update(
            startedAt=self.started,
            finishedAt=max(self.started, record.get("finishedAt") or time.time()),
            bootId=procs.boot_id(),
            logBytes=self.log.total,
            droppedBytes=self.log.dropped,
        )
        if self.log.dropped:
            lost = f"{self.log.dropped} bytes of output could not be stored: {self.log.trouble}"
            record["detail"] = "; ".join(part for part in (record.get("detail", ""), lost) if part)
        verdict.settle(self.job, record, self.log)

    def _begin(self) -> dict[str, Any] | None:
        """Start the command; a record instead of None when that is not to be."""
        try:
            verdict.reserve(self.job)
            request = self.job.read("job.json")
            if request is None:
                raise ValueError("the job's description is gone")
            self.grace = float(request["stopGraceSeconds"])
            call = unpack.unpack(self.job, request, self.token)
            if call.program is None:
                words = call.arguments[0].decode("utf-8", "replace")
                return self._refuse(verdict.NOT_FOUND, f"the interpreter {words!r} was not found on this machine")
            if self.job.read("stop.json") is not None:
                return {"exitCode": 143, "signal": "SIGTERM", "stopped": True, "detail": "stopped before it began"}
            child = Child(call, self.job.work, self.umask)
            return self._release(child, request)
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return self._refuse(verdict.SETUP_FAILED, f"the job's files could not be put in place: {reason}")

    def _release(self, child: Child, request: dict[str, Any]) -> dict[str, Any] | None:
        try:
            self.started = time.time()
            record = {"pid": child.pid, "ticks": child.ticks, "startedAt": self.started, "bootId": procs.boot_id()}
            self.job.write("run.json", record)
            unpack.forget_request(self.job, request)
        except OSError:
            child.abandon()
            os.waitpid(child.pid, 0)
            raise
        failure = child.release()
        if failure is not None:
            os.waitpid(child.pid, 0)
            code = verdict.NOT_FOUND if failure.errno == errno.ENOENT else verdict.NOT_EXECUTABLE
            return self._refuse(code, f"the interpreter could not be executed: {failure.strerror}")
        os.set_blocking(child.output, False)
        with contextlib.suppress(OSError):  # a smaller pipe only means more turns
            fcntl.fcntl(child.output, _F_SETPIPE_SZ, _PIPE_BYTES)
        self.poller.register(child.output, select.POLLIN)
        self.child = child
        return None

    def _refuse(self, code: int, reason: str) -> dict[str, Any]:
        self.log.append(f"brev-operator: {reason}\n".encode())
        return {"exitCode": code, "signal": None, "setupFailed": True, "detail": reason}

    def _follow(self) -> dict[str, Any]:
        while self.status is None:
            self._heed_stop()
            self._step(min(_LOOK_SECONDS, max(0.0, self.kill_at - time.monotonic())))
        record = verdict.of_status(self.status)
        record.update(finishedAt=time.time(), startedAt=self.started, stopped=self.stopping, bootId=procs.boot_id())
        verdict.note(self.job, record)
        left = self._end_leftovers()
        self._drain()
        record["detail"] = f"{left} processes of the job could not be ended" if left else ""
        return record

    def _heed_stop(self) -> None:
        child = self.child
        if child is None:
            return
        if not self.stopping:
            wish = self.job.read("stop.json")
            if wish is None:
                return
            self.stopping = True
            self.kill_at = time.monotonic() + float(wish.get("graceSeconds", self.grace))
            _signal_group(child.pid, signal.SIGTERM)
        elif time.monotonic() >= self.kill_at:
            self.kill_at = float("inf")
            _signal_group(child.pid, signal.SIGKILL)
            for process in procs.descendants(os.getpid()):
                procs.send(process, signal.SIGKILL)

    def _step(self, seconds: float) -> bool:
        """Wait for output, a signal or the time; take in one piece of output. True when there was output."""
        taken = False
        for descriptor, _ in self.poller.poll(seconds * 1000):
            if descriptor == self.wakeup:
                _swallow(self.wakeup)
            else:
                taken = self._take(descriptor) or taken
        self._reap()
        return taken

    def _take(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.poller.unregister(descriptor)
            os.close(descriptor)
            return False
        self.log.append(data)
        return True

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.child is not None and pid == self.child.pid:
                self.status = status

    def _leftovers(self) -> list[procs.Process]:
        return procs.descendants(os.getpid()) or procs.with_token(self.token)

    def _end_leftovers(self) -> int:
        """End what the job has left running, while its output is still taken in. How many are left after all."""
        begun = time.monotonic()
        left = self._leftovers()
        for process in left:
            procs.send(process, signal.SIGTERM)
        while left and time.monotonic() < begun + _LEFTOVER_SECONDS:
            self._step(0.02)
            left = self._leftovers()
        while left and time.monotonic() < begun + _LEFTOVER_SECONDS + _GIVE_UP_SECONDS:
            for process in left:
                procs.send(process, signal.SIGKILL)
            self._step(0.02)
            left = self._leftovers()
        return len(left)

    def _drain(self) -> None:
        """Take what is still in the pipe. Who holds it open without writing does not matter, who writes on is cut
        off.
        """
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while self._step(0) and time.monotonic() < deadline:
            continue


def _swallow(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            continue
    except BlockingIOError:
        return


def _signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return
