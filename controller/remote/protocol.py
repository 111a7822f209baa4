"""The vocabulary between the operator and the runner on the machine.

A report is one sentinel, ``@@BREV:<nonce>:<base64>@@``, anywhere in the output of ``brev exec``: login banners may
stand before it, and the CLI adds the machine's name after it (as a line, or glued to the last one). The nonce is
fresh for each call, so that an old or foreign report is never taken for an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

#: The oldest Python that the runner is written for.
MINIMUM_PYTHON = (3, 8)

#: Directory below the login's home that holds everything of ours on a machine.
REMOTE_ROOT = ".brev-operator"

#: ``detail`` of an ABSENT answer to ``start`` when the copied directory was not whole; the remedy is a new copy.
INCOMPLETE_DELIVERY = "incomplete delivery"

#: Exit code of a job whose files could not be put in place, so that its command never ran.
EXIT_SETUP_FAILED = 125


class RunState(StrEnum):
    """Where a job stands on its machine.

    ABSENT: no delivery was adopted. STARTING: adopted, the command has not begun; another ``start`` is welcome and
    safe. RUNNING: the command runs, or has ended and its last output is being collected. EXITED: there is an exit
    record, which outranks everything else. LOST: it had begun, nobody watches it any more and it left no exit record;
    it never starts again.
    """

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RemoteState:
    """One answer of the runner about one job.

    ``exit_code`` is the command's own code, or 128 + n when signal n ended it (then ``signal`` names it). Times are
    the machine's clock, in UTC. ``log_bytes`` counts what the log has seen, without NUL bytes. ``tail`` is masked,
    decoded and within the asked number of UTF-8 bytes; ``truncated`` says that it is not the whole output.
    ``stopped`` means that the end followed a ``stop`` call, ``stopping`` that one is under way. ``setup_failed``: the
    command never ran because its files or its interpreter could not be had (codes 125, 126, 127). ``dropped_bytes``
    of output could not be stored, which is a warning and no verdict. ``marker`` is what the bundle said about its
    owner.
    """

    state: RunState
    exit_code: int | None = None
    signal: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    boot_id: str = ""
    log_bytes: int = 0
    tail: str = ""
    truncated: bool = False
    detail: str = ""
    stopped: bool = False
    stopping: bool = False
    setup_failed: bool = False
    dropped_bytes: int = 0
    marker: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A masked, decoded piece of a log. Ask for ``next_offset`` next; ``skipped`` bytes before it were already rotated
    away or never stored. An empty ``text`` means that nothing (safe to show) is there yet."""

    text: str
    next_offset: int
    skipped: int
    final: bool


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a machine said about itself. ``python`` is a version such as ``3.10.12``, empty when there is none;
    ``writable`` says that our directories below ``home`` exist now."""

    home: str
    python: str
    boot_id: str
    writable: bool = True

    @property
    def python_supported(self) -> bool:
        """True when the machine's Python can run the runner (3.8 or newer)."""
        match = re.match(r"(\d+)\.(\d+)", self.python)
        return match is not None and (int(match[1]), int(match[2])) >= MINIMUM_PYTHON
