"""Processes of this machine, by /proc: who lives, whose children they are, which boot this is."""

from __future__ import annotations

import os
import signal
from typing import Any

try:
    import ctypes

    _LIBC: Any = ctypes.CDLL(None, use_errno=True)
except (ImportError, OSError):  # a trimmed Python: the scan by token below still finds what must end
    _LIBC = None

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

#: In the environment of everything that a job starts, with a value of its own per run.
TOKEN = "BREV_OPERATOR_RUN"  # noqa: S105 - a variable's name


def boot_id() -> str:
    """Changes with each boot. BREV_OPERATOR_BOOT_ID_FILE names another source, for machines that are simulated."""
    path = os.environ.get("BREV_OPERATOR_BOOT_ID_FILE") or "/proc/sys/kernel/random/boot_id"
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""


class Process:
    """One line of the process table. ``ticks`` is the start time since boot: with the pid it names a process for
    good.
    """

    __slots__ = ("parent", "pid", "session", "ticks")

    def __init__(self, pid: int, parent: int, session: int, ticks: int) -> None:
        self.pid, self.parent, self.session, self.ticks = pid, parent, session, ticks


def look_up(pid: int) -> Process | None:
    """The live process with that pid; None for a dead one, also if its parent has not collected it yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            # The name in parentheses may itself hold spaces and parentheses.
            fields = handle.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def table() -> dict[int, Process]:
    """All live processes by pid."""
    found = {}
    for name in os.listdir("/proc"):
        process = look_up(int(name)) if name.isdigit() else None
        if process is not None:
            found[process.pid] = process
    return found


def is_alive(pid: int, ticks: int) -> bool:
    """True while this very process lives; a later one with the same pid does not count."""
    process = look_up(pid)
    return process is not None and process.ticks == ticks


def descendants(ancestor: int) -> list[Process]:
    """All live processes below one, at any depth."""
    everyone = table()
    children: dict[int, list[Process]] = {}
    for process in everyone.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [ancestor]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += [process.pid for process in below]
    return found


def with_token(token: str) -> list[Process]:
    """All live processes of ours whose environment carries the token of a run."""
    wanted = f"{TOKEN}={token}".encode("ascii")
    found = []
    for process in table().values():
        if process.pid == os.getpid():
            continue
        try:
            with open(f"/proc/{process.pid}/environ", "rb") as handle:
                if wanted in handle.read().split(b"\0"):
                    found.append(process)
        except OSError:
            continue
    return found


def send(process: Process, number: int) -> None:
    """Signal a process unless it has gone since it was looked up."""
    if is_alive(process.pid, process.ticks):
        try:
            os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def die_with_parent() -> None:
    """The calling process gets SIGKILL when its parent dies, so that nothing runs that nobody watches."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parents end become children of the calling process, so that none escapes it as a daemon."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
