"""The gate that makes a job's command begin at most once, and the detached process that goes through it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import traceback
from typing import Any

from . import procs
from .files import Job
from .supervisor import Supervisor


def launch(job: Job, patience_seconds: float = 10.0) -> None:
    """Start a supervisor that outlives the caller, and wait until the command runs or that attempt has ended. Any
    number of supervisors may be launched: the gate lets one through.
    """
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ready)
            _detach(job, told)
        finally:
            os._exit(0)
    os.close(told)
    os.waitpid(pid, 0)
    poller = select.poll()
    poller.register(ready, select.POLLIN)
    poller.poll(patience_seconds * 1000)
    os.close(ready)


def pass_gate(job: Job, content: dict[str, Any]) -> bool:
    """True for the one process that may decide how the job begins. Nobody else ever may, whatever becomes of it."""
    process = procs.look_up(os.getpid())
    ticks = process.ticks if process else 0
    return job.create("gate.json", dict(content, pid=os.getpid(), ticks=ticks, bootId=procs.boot_id()))


def _detach(job: Job, told: int) -> None:
    os.setsid()
    if os.fork():
        return
    umask = os.umask(0o077)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    errors = os.open(job.path("supervisor.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    # Whatever the session had open beside these would keep it from ending.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != told:
            with contextlib.suppress(OSError):  # the descriptor of this very listing
                os.close(int(name))
    # Before the gate: a stop signals whoever holds it, and that must not be deadly.
    wakeup = _listen()
    procs.adopt_orphans()
    token = f"{job.key}.{os.urandom(8).hex()}"
    try:
        if pass_gate(job, {"token": token}):
            Supervisor(job, token, umask, wakeup).run(on_begin=lambda: os.close(told))
    except BaseException:
        # The exit that follows would swallow the reason; its last line shows in the job's state.
        traceback.print_exc()
        raise


def _listen() -> int:
    """SIGCHLD and SIGUSR1 wake the poll loop. A supervisor ignores what a machine that goes down sends to everybody, so
    that it sees the end of its job."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, _awake)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    return reader


def _awake(number: int, frame: object) -> None:
    """The wake-up descriptor does the work; a signal only needs some handler to reach it."""
