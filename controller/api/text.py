"""Cutting text to what a status may hold, measured as the API server stores it: JSON in UTF-8."""

from __future__ import annotations

_SHORT_ESCAPES = frozenset('"\\\b\f\n\r\t')
_LONG_ESCAPES = frozenset("<>&\u2028\u2029\x7f")
ELLIPSIS = "…"


def stored_size(char: str) -> int:
    """Bytes one character takes in the stored object: Go's JSON encoder escapes controls and HTML characters."""
    if char in _SHORT_ESCAPES:
        return 2
    if char < " " or char in _LONG_ESCAPES:
        return 6
    return len(char.encode("utf-8", "replace"))


def clean(text: str) -> str:
    """Replace what JSON in UTF-8 cannot carry (lone surrogates)."""
    return text.encode("utf-8", "replace").decode("utf-8")


def clip(text: str, limit: int) -> str:
    """The beginning of `text` in at most `limit` stored bytes, with an ellipsis where something was cut."""
    text = clean(text)
    used, fits = 0, 0
    budget = limit - len(ELLIPSIS.encode())
    for index, char in enumerate(text):
        used += stored_size(char)
        if used <= budget:
            fits = index + 1
        if used > limit:
            return text[:fits] + ELLIPSIS
    return text


def clip_tail(text: str, limit: int) -> str:
    """The end of `text` in at most `limit` stored bytes."""
    text = clean(text)
    used = 0
    for index in range(len(text) - 1, -1, -1):
        used += stored_size(text[index])
        if used > limit:
            return text[index + 1 :]
    return text
