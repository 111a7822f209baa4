"""The exit record: written so that a full disk, a crash or a power loss cannot lose it."""

from __future__ import annotations

import time
from typing import Any

from . import files, procs
from .files import Job
from .logstore import LogWriter

#: A file that keeps room for the record.
RESERVE = "reserve"
_RESERVE_BYTES = 64 << 10
_RETRY_SECONDS = 1.0

#: Command found nothing to run, could not run it, or its files could not be put in place: as shells and docker say it.
NOT_FOUND, NOT_EXECUTABLE, SETUP_FAILED = 127, 126, 125


def of_status(status: int) -> dict[str, Any]:
    """``exitCode`` and ``signal`` for a status of waitpid."""
    number = status & 0x7F
    if number:
        return {"exitCode": 128 + number, "signal": procs.signal_name(number)}
    return {"exitCode": status >> 8, "signal": None}


def reserve(job: Job) -> None:
    """Take room on the disk for the record, while there is some."""
    files.write_atomic(job.path(RESERVE), b"\1" * _RESERVE_BYTES)


def note(job: Job, record: dict[str, Any]) -> None:
    """Write what is known already, while output is still being collected. Best effort: `settle` follows."""
    try:
        job.write("exit.json", dict(record, draining=True))
    except OSError:
        return


def settle(job: Job, record: dict[str, Any], log: LogWriter) -> None:
    """Write the verdict. Gives back the reserve, then the oldest output, and tries until the disk takes it."""
    while True:
        try:
            files.remove(job.path(RESERVE))
            job.write("exit.json", record)
            return
        except OSError:
            if not log.drop_oldest():
                time.sleep(_RETRY_SECONDS)
