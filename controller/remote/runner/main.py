"""The commands of the runner, each short and safe to repeat: start, state, log, stop."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

from . import delivery, gate, state, stop, wipe
from .files import Job


def main(arguments: list[str]) -> int:
    """Run one command and print its report. A failure of the machine (disk, permissions) is reported too, as an error
    without a state; anything else ends without a report, and so stays unknown."""
    command, home, key, *rest = arguments
    job = Job(home, key)
    if command == "start":
        rest, nonce = rest[:1], rest[1]
    else:
        nonce, *rest = rest
    try:
        answer = _answer(command, job, rest)
    except OSError as error:
        answer = {"error": f"{command}: {error.strerror or type(error).__name__}"}
    encoded = base64.b64encode(json.dumps(answer).encode("ascii")).decode("ascii")
    sys.stdout.write(f"\n@@BREV:{nonce}:{encoded}@@\n")
    sys.stdout.flush()
    return 0


def _answer(command: str, job: Job, rest: list[str]) -> dict[str, Any]:
    if command == "start":
        return _start(job, *rest)
    if command == "state":
        return _state(job, *rest)
    if command == "log":
        return {"log": wipe.log(job, int(rest[0]), int(rest[1]))}
    if command == "stop":
        stop.stop(job, float(rest[0]))
        return state.report(job)
    raise ValueError(f"no such command: {command}")


def _start(job: Job, name: str) -> dict[str, Any]:
    if delivery.adopt(job, name) == delivery.INCOMPLETE:
        return {"state": state.ABSENT, "detail": "incomplete delivery"}
    if not os.path.exists(job.path("gate.json")):
        gate.launch(job)
    return state.report(job)


def _state(job: Job, tail_bytes: str, wiping: str) -> dict[str, Any]:
    answer = state.report(job)
    if answer["state"] == state.ABSENT:
        return answer
    ended = answer["state"] in (state.EXITED, state.LOST)
    if ended and wiping == "wipe":
        try:
            wipe.wipe(job)
        except OSError as error:
            # The verdict matters more; the next call tries again.
            left = f"the delivered secrets are still on the machine: {error.strerror}"
            answer["detail"] = "; ".join(part for part in (answer.get("detail"), left) if part)
    shown = wipe.tail(job, int(tail_bytes), ended)
    shown["truncated"] = shown["truncated"] or bool(answer.get("droppedBytes"))
    shown["logBytes"] = max(shown["logBytes"], answer.get("logBytes") or 0)
    return dict(answer, **shown)
