"""Hides secret values in output, before anything is cut from it.

A value is found as it was delivered: whole, and each of its lines. Values and lines under 6 bytes are left alone, since
hiding them would shred ordinary text. Other spellings of a value (base64, JSON escapes, URL quoting, colours inside it)
are not recognised.
"""

from __future__ import annotations

MINIMUM = 6
STARS = b"***"


def expand(values: list[bytes]) -> list[bytes]:
    """What to look for: values and their lines, long ones first, each once."""
    wanted = set()
    for value in values:
        for part in [value, value.strip(), *value.splitlines(), *(line.strip() for line in value.splitlines())]:
            # The log is stored without NUL bytes.
            stored = part.replace(b"\0", b"")
            if len(stored) >= MINIMUM and stored.strip():
                wanted.add(stored)
    return sorted(wanted, key=lambda part: (-len(part), part))


def reach(masks: list[bytes]) -> int:
    """How many bytes of a value can stand on the other side of a cut."""
    return max((len(mask) - 1 for mask in masks), default=0)


def find(data: bytes, masks: list[bytes]) -> list[tuple[int, int]]:
    """Sorted, merged ranges of data that hold secrets; overlapping and adjoining ones are one."""
    hits = []
    for mask in masks:
        position = data.find(mask)
        while position >= 0:
            hits.append((position, position + len(mask)))
            position = data.find(mask, position + 1)
    return merge(hits)


def merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes in sorted ranges that neither overlap nor adjoin."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def unfinished(data: bytes, masks: list[bytes]) -> int:
    """Length of the longest end of data that is a proper beginning of a secret: it may still become one."""
    longest = 0
    for mask in masks:
        end = data[-(len(mask) - 1) :]
        position = end.find(mask[:1])
        while position >= 0 and len(end) - position > longest:
            if mask.startswith(end[position:]):
                longest = len(end) - position
                break
            position = end.find(mask[:1], position + 1)
    return longest


def hide(data: bytes, ranges: list[tuple[int, int]], start: int, end: int) -> bytes:
    """data[start:end] with each range replaced by stars, also a range that only reaches into it."""
    pieces, position = [], start
    for first, last in ranges:
        if last <= start or first >= end:
            continue
        pieces += [data[position : max(first, position)], STARS]
        position = last
    pieces.append(data[position:end])
    return b"".join(pieces)
