"""The shapes of the real program's noise: traces, multierrors, spinners, log lines, Go's JSON."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

_SPINNER = "⣷⣯⣟⡿⢿⣻⣽⣾"


def trace(function: str, line: int) -> str:
    """The prefix that an error gets where it is wrapped; `function` as in `pkg/cmd/delete.deleteWorkspace`."""
    package = function.rpartition(".")[0]
    file = f"{package}/{package.rpartition('/')[2]}.go"
    return f"[error] \ngithub.com/brevdev/brev-cli/{function}\n/go/src/brev-cli/{file}:{line}\n: "


def multierror(texts: Sequence[str]) -> str:
    head = "1 error occurred:" if len(texts) == 1 else f"{len(texts)} errors occurred:"
    return head + "".join(f"\n\t* {text}" for text in texts) + "\n\n"


def resty(text: str, now: float) -> str:
    """What the HTTP library logs about a request that could not be sent or read."""
    stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y/%m/%d %H:%M:%S.%f")
    return f"{stamp} WARN RESTY {text}, Attempt 1\n{stamp} ERROR RESTY {text}\n"


def spinner(text: str, frames: int = 3) -> str:
    """Frames as they reach a pipe: the last one has no newline, so it is glued to what follows."""
    shown = "".join(f"\r\x1b[K\r{_SPINNER[number % len(_SPINNER)]} {text} " for number in range(frames))
    return f"{shown}\r\x1b[K"


def go_json(value: Any) -> str:
    """JSON as Go prints it: indented by two, `<>&` escaped, whole floats without a point."""
    text = _render(value, "\n")
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _render(value: Any, newline: str) -> str:
    """By hand, since the library's encoder indents slowly and lists of a thousand machines are asked for often."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value)
    inner = f"{newline}  "
    if isinstance(value, list):
        return f"[{inner}{f',{inner}'.join(_render(item, inner) for item in value)}{newline}]"
    pairs = (f"{encode_basestring(key)}: {_render(item, inner)}" for key, item in value.items())
    return f"{{{inner}{f',{inner}'.join(pairs)}{newline}}}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """A table as the real program pipes it: one space before, two between, padded to the end; numbers to the right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = []
    for number, row in enumerate((header, *rows)):
        cells = (
            cell.rjust(width) if column in right and number else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f" {'  '.join(cells)} ")
    return "\n".join(lines) + "\n"
