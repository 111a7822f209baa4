"""Text for a person: in colour on a terminal, plain elsewhere, and never with control characters from a machine."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TextIO

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
PHASE_STYLES = {"Succeeded": "green", "Failed": "red", "Deleted": "red", "Running": "cyan"}
NARROWEST = 60

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


class Terminal:
    """Writes lines to stdout. Colour depends on the stream, TERM, and NO_COLOR (https://no-color.org)."""

    def __init__(self, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream or sys.stdout
        if isinstance(self._stream, TextIOWrapper):
            # A terminal that cannot show a character shows something else, instead of ending the demo.
            self._stream.reconfigure(errors="replace")
        self._terminal = self._stream.isatty()
        self.colour = self._terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where lines are not to be broken."""
        return max(NARROWEST, shutil.get_terminal_size().columns) if self._terminal else None

    def line(self, text: str = "") -> None:
        """One line, at once: whoever reads along through a pipe sees it when it happens."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def style(self, text: str, *names: str) -> str:
        """`text` in these styles, or as it is where colour is off."""
        if not self.colour or not text:
            return text
        codes = ";".join(STYLES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def phase(self, name: str, width: int) -> str:
        """A phase, padded to `width`."""
        return self.style(name.ljust(width), PHASE_STYLES.get(name, "bold"))

    def wrapped(self, text: str, indent: int) -> list[str]:
        """`text` broken for the terminal behind `indent` columns; one line where there is no terminal."""
        if self.width is None:
            return [text]
        return textwrap.wrap(text, max(20, self.width - indent), break_long_words=False, break_on_hyphens=False) or [""]


def printable(text: str) -> str:
    """Output of a job without anything that a terminal would obey; newlines and tabs stay."""
    return text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode()
