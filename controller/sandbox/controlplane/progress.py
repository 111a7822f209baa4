"""Telling a person that a ten-minute step is alive: one updating line on a terminal, a line each 15 s elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

TERMINAL_SECONDS = 0.5
PLAIN_SECONDS = 15.0


class Progress:
    """Writes to stderr, since stdout belongs to the command's result. Call `tick` often; it writes seldom."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._step = ""
        self._begun = self._last = 0.0
        self._open_line = False

    def say(self, text: str) -> None:
        """One line of its own."""
        self._write(f"control plane: {text}", final=True)

    def begin(self, step: str) -> None:
        """A step starts, and its clock with it."""
        self._step, self._begun = step, self._clock()
        self._last = self._begun
        self._write(f"control plane: {step} …", final=not self._terminal)

    def tick(self, detail: str = "") -> None:
        """The step goes on; `detail` says what it is at."""
        now = self._clock()
        if now - self._last >= (TERMINAL_SECONDS if self._terminal else PLAIN_SECONDS):
            self._last = now
            self._write(self._line(detail), final=not self._terminal)

    def done(self, detail: str = "done") -> None:
        """The step is over."""
        self._write(self._line(detail), final=True)

    def _line(self, detail: str) -> str:
        minutes, seconds = divmod(int(self._clock() - self._begun), 60)
        return f"control plane: {self._step} · {minutes}:{seconds:02d}" + (f" · {detail}" if detail else "")

    def _write(self, text: str, *, final: bool) -> None:
        start = "\r\x1b[K" if self._open_line else ""
        self._open_line = not final
        if not final:
            # A line that wraps could not be taken back.
            text = text[: shutil.get_terminal_size().columns - 1]
        self._stream.write(start + text + ("\n" if final else ""))
        self._stream.flush()
