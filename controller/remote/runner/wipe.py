"""Removes the delivered secrets from the machine after a job's end, and answers about its output before and after."""

from __future__ import annotations

import base64
import os
from typing import Any

from . import files, mask, state, unpack, view
from .files import Job
from .logstore import LogReader

#: What is kept of the output for later answers, however little the first one asked for.
_KEPT_TAIL_BYTES = 64 << 10
#: Looking for this many (bytes x values) takes a machine some ten seconds; a log beyond it is removed instead.
_SCRUB_WORK = 20 << 30
_SCRUB_BYTES = 4 << 20

_TAIL, _MASKS = "tail.json", "masks.json"


def masks(job: Job) -> list[bytes] | None:
    """The values to hide; none after the wipe (nothing is left to hide); None when they are missing unexpectedly."""
    values = files.read_json(job.path(_MASKS))
    if values is not None:
        return mask.expand([base64.b64decode(value) for value in values])
    return [] if os.path.exists(job.path(_TAIL)) else None


def tail(job: Job, limit: int, final: bool) -> dict[str, Any]:
    """The ``tail``, ``truncated`` and ``logBytes`` of a report."""
    kept = job.read(_TAIL)
    if kept is None:
        kept = _fresh_tail(job, limit, final)
        # Another call may have wiped the masks meanwhile; then its tail is there.
        kept = job.read(_TAIL) or {"tail": "", "logBytes": 0} if kept is None else kept
    text = view.last_bytes(str(kept["tail"]), limit)
    return {
        "tail": text,
        "truncated": bool(kept.get("truncated")) or text != kept["tail"],
        "logBytes": kept["logBytes"],
    }


def wipe(job: Job) -> None:
    """Keep a masked tail, put asterisks over every secret in the stored output, then drop the masks and the rest of the
    delivery. Safe to repeat and to run twice at once."""
    hidden = masks(job)
    if hidden is None or not os.path.exists(job.path(_MASKS)):
        return
    if not os.path.exists(job.path(_TAIL)):
        _keep_tail(job)
    _scrub(job, hidden)
    for path in [*unpack.secret_paths(job), job.path("job.json"), job.path("secrets.json"), job.path(_MASKS)]:
        files.remove(path)


def log(job: Job, offset: int, limit: int) -> dict[str, Any]:
    """A piece of the output for a log report."""
    hidden = masks(job)
    final = state.report(job)["state"] in (state.EXITED, state.LOST)
    if hidden is None:
        return view.Piece("", offset, 0, False).as_log(final)
    return view.piece(LogReader(job.log), hidden, offset, max(limit, 64), final).as_log(final)


def _fresh_tail(job: Job, limit: int, final: bool) -> dict[str, Any] | None:
    for _ in range(3):
        hidden = masks(job)
        if hidden is None or os.path.exists(job.path(_TAIL)):
            return None
        reader = LogReader(job.log)
        try:
            piece = view.tail(reader, hidden, limit, final)
        except FileNotFoundError:  # rotated away while we looked
            continue
        return {"tail": piece.text, "truncated": piece.cut, "logBytes": reader.end}
    return {"tail": "", "truncated": True, "logBytes": LogReader(job.log).end}


def _keep_tail(job: Job) -> None:
    kept = _fresh_tail(job, _KEPT_TAIL_BYTES, final=True)
    if kept is None:
        return
    try:
        job.write(_TAIL, kept)
    except OSError:
        # A full disk: the oldest output makes room for the newest.
        for segment in LogReader(job.log).segments[:1]:
            files.remove(segment.path)
        job.write(_TAIL, kept)


def _scrub(job: Job, hidden: list[bytes]) -> None:
    reader = LogReader(job.log)
    if len(hidden) * sum(segment.size for segment in reader.segments) > _SCRUB_WORK:
        files.remove_tree(job.log)
        return
    for start, end in reader.runs if hidden else []:
        for low in range(start, end, _SCRUB_BYTES):
            data = reader.read(low, min(end, low + _SCRUB_BYTES + mask.reach(hidden)))
            for first, last in mask.find(data, hidden):
                reader.overwrite(low + first, low + last)
