"""Where a job stands, from what lies on disk and who is alive."""

from __future__ import annotations

import os
import signal
from typing import Any

from . import procs
from .files import Job

ABSENT, STARTING, RUNNING, EXITED, LOST = "absent", "starting", "running", "exited", "lost"


def report(job: Job) -> dict[str, Any]:
    """The state without the log. A LOST job's remaining processes are ended on the way: nobody watches them."""
    if not os.path.isdir(job.directory):
        return {"state": ABSENT}
    answer: dict[str, Any] = {"bootId": procs.boot_id(), "marker": job.read("marker.json") or {}}
    gate = job.read("gate.json")
    settled = _settled(job, gate)
    if settled is not None:
        return dict(settled, **answer)
    if gate is None:
        return dict(answer, state=STARTING, detail=_why_not_begun(job))
    run = job.read("run.json") or {}
    answer["startedAt"] = run.get("startedAt")
    if gate.get("bootId") == answer["bootId"] and procs.is_alive(gate["pid"], gate["ticks"]):
        answer["stopping"] = job.read("stop.json") is not None
        return dict(answer, state=RUNNING if run else STARTING)
    # It may have settled between our look at the record and our look at it.
    settled = _settled(job, gate, watched=False)
    if settled is not None:
        return dict(settled, **{name: answer[name] for name in ("bootId", "marker")})
    _end_unwatched(gate, run, answer["bootId"])
    return dict(answer, state=LOST, detail=_why_lost(gate, answer["bootId"]))


def _settled(job: Job, gate: dict[str, Any] | None, watched: bool = True) -> dict[str, Any] | None:
    """The verdict: the exit record, or the gate itself when a stop closed it before anything began. A record that was
    written while output was still collected counts once nobody collects any more."""
    record = job.read("exit.json")
    if record is None and gate is not None:
        record = gate.get("exit")
    if record is None:
        return None
    if record.pop("draining", False) and watched and gate is not None and procs.is_alive(gate["pid"], gate["ticks"]):
        return None
    return dict(record, state=EXITED)


def _end_unwatched(gate: dict[str, Any], run: dict[str, Any], boot: str) -> None:
    """The command died with its supervisor; what it had started did not."""
    for process in procs.with_token(gate.get("token", "")):
        procs.send(process, signal.SIGKILL)
    if run and run.get("bootId") == boot and procs.is_alive(run["pid"], run["ticks"]):
        leader = procs.look_up(run["pid"])
        if leader is not None:
            procs.send(leader, signal.SIGKILL)


def _why_lost(gate: dict[str, Any], boot: str) -> str:
    if gate.get("bootId") != boot:
        return "the machine was restarted while the job ran"
    return "the job's supervisor on the machine was killed"


def _why_not_begun(job: Job) -> str:
    try:
        with open(job.path("supervisor.log"), "rb") as handle:
            lines = handle.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return "delivered, not begun"
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"delivered, not begun: {last}" if last else "delivered, not begun"
