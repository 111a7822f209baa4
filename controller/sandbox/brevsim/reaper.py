"""The one process that outlives a killed backend, to end what the machines still run."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from controller.sandbox.brevsim.processes import kill_all, members


def fork_reaper(world: str, machines: Path) -> int:
    """Fork a process that kills the world's processes as soon as this one is gone, however it ended.

    To be called before any event loop or thread exists. Returns the child's pid.
    """
    life, held = os.pipe()
    pid = os.fork()
    if pid:
        os.close(life)
        os.set_inheritable(held, False)
        return pid
    os.close(held)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.read(life, 1)
    try:
        kill_all(lambda: [pid for pids in members(world, machines).values() for pid in pids])
        shutil.rmtree(machines, ignore_errors=True)
    finally:
        os._exit(0)
