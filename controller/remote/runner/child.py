"""The command's process: made in two steps, so that its pid is on disk before it does anything."""

from __future__ import annotations

import os
import signal

from . import procs
from .unpack import Call


class Child:
    """A forked process that waits for `release` and then becomes the command, in a session of its own."""

    def __init__(self, call: Call, work: str, umask: int) -> None:
        self.output, output_end = os.pipe()
        go, self._go = os.pipe()
        self._failure, failure_end = os.pipe()
        supervisor = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become(call, work, umask, (output_end, go, failure_end), supervisor, self._go)
            finally:
                os._exit(127)
        for descriptor in (output_end, go, failure_end):
            os.close(descriptor)
        process = procs.look_up(self.pid)
        self.ticks = process.ticks if process else 0

    def release(self) -> OSError | None:
        """Let it begin. Answers why the program could not be executed, or None once it runs."""
        os.write(self._go, b"g")
        self.abandon()
        with os.fdopen(self._failure, "rb") as handle:
            failure = handle.read()
        if not failure:
            return None
        number = int(failure)
        return OSError(number, os.strerror(number))

    def abandon(self) -> None:
        """Close the way to begin: a child that was never released ends by itself."""
        if self._go >= 0:
            os.close(self._go)
            self._go = -1


def _become(call: Call, work: str, umask: int, ends: tuple[int, int, int], supervisor: int, go_writer: int) -> None:
    output, go, failure = ends
    os.setsid()
    procs.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(127)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(go_writer)
    if os.read(go, 1) != b"g":
        os._exit(127)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.umask(umask)
    try:
        os.chdir(work)
        os.execve(call.program or b"", call.arguments, call.env)  # noqa: S606 - the job itself
    except OSError as error:
        os.write(failure, str(error.errno or 0).encode("ascii"))
