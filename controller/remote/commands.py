"""The shell commands for ``brev exec``, and the reading of what they report. Pure.

Each command is one line, has several words, begins with ``sh`` (never with ``-``, which ssh would take as its option,
nor with ``@``, which the CLI would take as a file), carries no secret, and always exits 0: a failing command would be
run a second time by CLI releases up to v0.6.327. ``sh -c`` makes it independent of the login shell.

Parsers return None when there is no complete report with the nonce: the outcome is then unknown, never failed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
from datetime import UTC, datetime
from typing import Any

from controller.remote.protocol import (
    INCOMPLETE_DELIVERY,
    REMOTE_ROOT,
    LogChunk,
    ProbeResult,
    RemoteState,
    RunState,
)

_NONCE = re.compile(r"[A-Za-z0-9]{8,64}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?")
_PYTHON = "python3 -I"


def probe_command(nonce: str) -> str:
    """Ask a machine for its home, Python and boot id, and make our directories there (0700). Needs only ``sh``,
    ``cat``, ``mkdir``, ``chmod``, ``tr`` and ``base64``. Idempotent.
    """
    script = (
        f'umask 077; d="$HOME/{REMOTE_ROOT}"; '
        'if mkdir -p "$d/in" "$d/jobs" && chmod 700 "$d" "$d/in" "$d/jobs"; then w=yes; else w=no; fi; '
        """p=$(python3 -I -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])'); """
        'b=$(cat "${BREV_OPERATOR_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"); '
        """r=$(printf 'probe\\n%s\\n%s\\n%s\\n%s\\n' "$HOME" "$p" "$b" "$w" | base64 | tr -d '\\n'); """
        f"{_report(nonce, '$r')}"
    )
    return _wrap(script)


def start_command(home: str, key: str, delivery: str, nonce: str) -> str:
    """Adopt ``in/<delivery>`` as ``jobs/<key>`` and start its command unless that was ever done. Idempotent, also
    when two run at once. Answers with the job's state; ABSENT with INCOMPLETE_DELIVERY as detail asks for a new copy,
    under a new delivery name.
    """
    root, job = _places(home, key)
    incoming, job = shlex.quote(f"{root}/in/{_name(delivery)}"), shlex.quote(job)
    words = " ".join(shlex.quote(word) for word in ("start", home, key, delivery, _nonce(nonce)))
    script = (
        f"for r in {incoming}/runner.pyz {incoming}/*/runner.pyz {job}/runner.pyz; "
        f'do if [ -s "$r" ] && {_PYTHON} "$r" {words}; then exit 0; fi; done; '
        f"if [ ! -e {job} ]; then {_report(nonce, _absent(INCOMPLETE_DELIVERY))}; fi"
    )
    return _wrap(script)


def state_command(home: str, key: str, nonce: str, tail_bytes: int, *, wipe: bool = True) -> str:
    """Ask for a job's state and the last ``tail_bytes`` (UTF-8, masked) of its output.

    With ``wipe``, once the job is EXITED or LOST, this also removes the delivered secrets from the machine. The
    masked tail is kept there first, so that an answer lost on its way can be asked for again.
    """
    if tail_bytes < 0:
        raise ValueError("tail_bytes is negative")
    return _runner_call(home, key, nonce, ["state", home, key, nonce, str(tail_bytes), "wipe" if wipe else "keep"])


def log_command(home: str, key: str, nonce: str, offset: int, limit_bytes: int) -> str:
    """Ask for at most about ``limit_bytes`` of the log from a byte offset on; read with `parse_log`."""
    if offset < 0 or limit_bytes < 1:
        raise ValueError("offset or limit_bytes is out of range")
    return _runner_call(home, key, nonce, ["log", home, key, nonce, str(offset), str(limit_bytes)])


def stop_command(home: str, key: str, nonce: str, grace_seconds: float) -> str:
    """Ask a job to end: TERM to its processes, KILL after ``grace_seconds``. Returns at once with the present state,
    the end shows in later states. Idempotent; a job that has been adopted and not begun is ended without ever
    beginning.
    """
    if grace_seconds < 0:
        raise ValueError("grace_seconds is negative")
    return _runner_call(home, key, nonce, ["stop", home, key, nonce, f"{grace_seconds:.3f}"])


def parse_probe(stdout: str, nonce: str) -> ProbeResult | None:
    """The last complete probe report with this nonce."""
    for payload in _payloads(stdout, nonce):
        lines = payload.split("\n")
        if lines[0] != "probe" or len(lines) < 5 or not lines[1].startswith("/"):
            continue
        # Only the home could hold a newline, and commands for such a home cannot be built on one line anyway.
        return ProbeResult(home=lines[1], python=lines[2], boot_id=lines[3], writable=lines[4] == "yes")
    return None


def parse_state(stdout: str, nonce: str) -> RemoteState | None:
    """The last complete state report with this nonce."""
    for report in _reports(stdout, nonce):
        try:
            return _state(report)
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
    return None


def parse_log(stdout: str, nonce: str) -> LogChunk | None:
    """The last complete log report with this nonce."""
    for report in _reports(stdout, nonce):
        try:
            log = report["log"]
            return LogChunk(str(log["text"]), int(log["next"]), int(log["skipped"]), bool(log["final"]))
        except (KeyError, TypeError, ValueError):
            continue
    return None


def parse_complaint(stdout: str, nonce: str) -> str:
    """Why the runner could not answer (one line without secrets), or empty. For the log beside an unknown outcome."""
    for report in _reports(stdout, nonce):
        if "error" in report:
            return str(report["error"])
    return ""


def _state(report: dict[str, Any]) -> RemoteState:
    code, started, finished = report.get("exitCode"), report.get("startedAt"), report.get("finishedAt")
    return RemoteState(
        state=RunState(report["state"]),
        exit_code=None if code is None else int(code),
        signal=report.get("signal") or None,
        started_at=None if started is None else datetime.fromtimestamp(float(started), UTC),
        finished_at=None if finished is None else datetime.fromtimestamp(float(finished), UTC),
        boot_id=str(report.get("bootId", "")),
        log_bytes=int(report.get("logBytes", 0)),
        tail=str(report.get("tail", "")),
        truncated=bool(report.get("truncated", False)),
        detail=str(report.get("detail", "")),
        stopped=bool(report.get("stopped", False)),
        stopping=bool(report.get("stopping", False)),
        setup_failed=bool(report.get("setupFailed", False)),
        dropped_bytes=int(report.get("droppedBytes", 0)),
        marker={str(name): str(value) for name, value in dict(report.get("marker") or {}).items()},
    )


def _reports(stdout: str, nonce: str) -> list[dict[str, Any]]:
    found = []
    for payload in _payloads(stdout, nonce):
        try:
            report = json.loads(payload)
        except ValueError:
            continue
        if isinstance(report, dict):
            found.append(report)
    return found


def _payloads(stdout: str, nonce: str) -> list[str]:
    """Decoded payloads of complete sentinels, newest first."""
    found = []
    for encoded in re.findall(rf"@@BREV:{_nonce(nonce)}:([A-Za-z0-9+/=]+)@@", stdout):
        try:
            found.append(base64.b64decode(encoded, validate=True).decode("utf-8"))
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found[::-1]


def _runner_call(home: str, key: str, nonce: str, words: list[str]) -> str:
    _, job = _places(home, key)
    quoted = shlex.quote(job)
    call = " ".join(shlex.quote(word) for word in words)
    # A directory without its runner is neither absent nor readable: no report, so that the outcome stays unknown.
    return _wrap(f"if [ -e {quoted} ]; then {_PYTHON} {quoted}/runner.pyz {call}; else {_report(nonce, _absent())}; fi")


def _report(nonce: str, payload: str) -> str:
    """A printf whose own text is no sentinel, in case a shell echoes the command."""
    return f"""printf '\\n@@BREV:%s:%s@@\\n' {_nonce(nonce)} "{payload}\""""


def _absent(detail: str = "") -> str:
    return base64.b64encode(json.dumps({"state": RunState.ABSENT, "detail": detail}).encode()).decode()


def _wrap(script: str) -> str:
    return f"sh -c {shlex.quote(script)} </dev/null; true"


def _places(home: str, key: str) -> tuple[str, str]:
    if not home.startswith("/") or any(character in home for character in "\n\r\0"):
        raise ValueError("the home of a machine is an absolute path on one line")
    root = f"{home.rstrip('/')}/{REMOTE_ROOT}"
    return root, f"{root}/jobs/{_name(key)}"


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a name of [a-z0-9-]: {name!r}")
    return name


def _nonce(nonce: str) -> str:
    if not _NONCE.fullmatch(nonce):
        raise ValueError("a nonce is 8 to 64 letters and digits")
    return nonce
