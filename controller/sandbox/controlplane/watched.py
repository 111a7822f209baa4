"""Running one long child process: its stderr is read as it comes, and its whole process group never outlives us."""

import os
import selectors
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from controller.sandbox.janitor import Janitor

TICK_SECONDS = 0.5
LAST_LINES = 20


def run_watched(
    argv: Sequence[str],
    janitor: Janitor,
    on_lines: Callable[[list[bytes]], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run to the end; returns the exit code and the last lines of stderr.

    `on_lines` gets the lines as they are written, and an empty list every half second without any. Ctrl-C and any other
    exception kill the group first.
    """
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env={**(os.environ if env is None else env), **janitor.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    janitor.adopt(process.pid)
    try:
        last = _follow(process, on_lines)
        process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        if process.stderr is not None:
            process.stderr.close()
        janitor.release(process.pid)
    return process.returncode, last


def _follow(process: subprocess.Popen[bytes], on_lines: Callable[[list[bytes]], None]) -> str:
    last: deque[bytes] = deque(maxlen=LAST_LINES)
    pending = b""
    assert process.stderr is not None  # noqa: S101  narrows the type: Popen was given PIPE
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while True:
            lines: list[bytes] = []
            if selector.select(TICK_SECONDS):
                data = os.read(process.stderr.fileno(), 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                last.extend(lines)
            on_lines(lines)
    return b"\n".join([*last, pending]).decode(errors="replace").strip()
