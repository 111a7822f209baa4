"""Pieces of the log as text that may leave the machine: masked first, decoded, then cut."""

from __future__ import annotations

from typing import Any

from . import mask
from .logstore import LogReader

#: Read beyond the asked tail, since masking shortens.
_SLACK = 64 << 10


class Piece:
    """Text with the offsets that it stands for. ``cut``: there is more before it than it shows."""

    __slots__ = ("cut", "next", "skipped", "text")

    def __init__(self, text: str, following: int, skipped: int, cut: bool) -> None:
        self.text, self.next, self.skipped, self.cut = text, following, skipped, cut

    def as_log(self, final: bool) -> dict[str, Any]:
        """The shape of a log report."""
        return {"text": self.text, "next": self.next, "skipped": self.skipped, "final": final}


def tail(reader: LogReader, masks: list[bytes], limit: int, final: bool) -> Piece:
    """The last ``limit`` UTF-8 bytes of the output. Unless ``final``, an end that may still become a secret or a
    character is held back.
    """
    if not reader.runs:
        return Piece("", 0, 0, False)
    run_start, end = reader.runs[-1]
    start = max(run_start, end - limit - _SLACK - mask.reach(masks))
    data = reader.read(start, end)
    # A secret that began before the window ends within its first `reach` bytes: they are not shown.
    shown = 0 if start == 0 else min(len(data), mask.reach(masks))
    ranges, stop = _ranges(data, masks, final)
    text = _decode(mask.hide(data, ranges, shown, stop), cut_before=start > 0, final=final)
    return Piece(last_bytes(text, limit), end, 0, start > 0 or len(text.encode("utf-8")) > limit)


def piece(reader: LogReader, masks: list[bytes], offset: int, limit: int, final: bool) -> Piece:
    """About ``limit`` bytes from an offset on; ``next`` never falls into a secret or a character."""
    run = next((run for run in reader.runs if run[1] > offset), None)
    if run is None:
        return Piece("", offset, 0, False)
    reach = mask.reach(masks)
    # The first bytes behind a gap may be the end of a secret that began in it.
    first = max(offset, min(run[0] + reach, run[1]) if run[0] else 0)
    low, high = max(run[0], first - reach), min(run[1], first + limit + reach)
    data = reader.read(low, high)
    at_end = high == run[1]
    ranges, stop = _ranges(data, masks, final or run[1] < reader.end or not at_end)
    end = min(first - low + limit, stop)
    for begin, finish in ranges:
        if begin < end < finish:
            end = min(finish, stop)
    if end < len(data) or not final:
        end -= _split_character(data[:end])
    end = max(end, first - low)
    text = _decode(mask.hide(data, ranges, first - low, end), cut_before=first != offset, final=True)
    return Piece(text, low + end, first - offset, False)


def _ranges(data: bytes, masks: list[bytes], final: bool) -> tuple[list[tuple[int, int]], int]:
    """What to hide in data, and where to stop showing it."""
    ranges, rest = mask.find(data, masks), mask.unfinished(data, masks)
    if not final:
        return ranges, len(data) - rest
    if rest >= mask.MINIMUM:
        ranges = mask.merge([*ranges, (len(data) - rest, len(data))])
    return ranges, len(data)


def _split_character(data: bytes) -> int:
    """How many bytes at the end of data begin a UTF-8 character that is not whole."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if byte < 0xF8 and needed > back else 0
    return 0


def _decode(data: bytes, cut_before: bool, final: bool) -> str:
    if cut_before:
        data = _whole_start(data)
    if not final:
        data = data[: len(data) - _split_character(data)]
    return data.decode("utf-8", "replace")


def _whole_start(data: bytes) -> bytes:
    """Without the rest of a character that a cut has left at the start."""
    skip = 0
    while skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
        skip += 1
    return data[skip:]


def last_bytes(text: str, limit: int) -> str:
    """The end of a text within a number of UTF-8 bytes, on a character's boundary."""
    encoded = text.encode("utf-8")
    return text if len(encoded) <= limit else _whole_start(encoded[len(encoded) - limit :]).decode("utf-8")
