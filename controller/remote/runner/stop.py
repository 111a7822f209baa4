"""Asks a job to end. The supervisor does the ending, so that the call returns at once."""

from __future__ import annotations

import os
import signal
import time

from . import files, gate, procs, verdict
from .files import Job


def stop(job: Job, grace_seconds: float) -> None:
    """Leave the wish where the supervisor finds it, and wake it. The first wish counts. A job that has not begun is
    closed for good by taking its gate. Idempotent."""
    if not os.path.isdir(job.directory) or os.path.exists(job.path("exit.json")):
        return
    wish = {"graceSeconds": grace_seconds, "at": time.time()}
    try:
        job.create("stop.json", wish)
    except OSError:
        # The job may have filled the disk, which is a reason to stop it: the room kept for the verdict holds both.
        files.remove(job.path(verdict.RESERVE))
        job.create("stop.json", wish)
    now = time.time()
    never = {
        "exitCode": 128 + signal.SIGTERM,
        "signal": "SIGTERM",
        "stopped": True,
        "finishedAt": now,
        "detail": "stopped before it began",
    }
    if gate.pass_gate(job, {"exit": never}):
        return
    holder = job.read("gate.json") or {}
    process = procs.look_up(holder.get("pid", 0))
    if process is not None and process.ticks == holder["ticks"] and holder["bootId"] == procs.boot_id():
        procs.send(process, signal.SIGUSR1)
