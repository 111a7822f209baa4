"""The job's output on disk: the newest part of it, in segments that are named by their offset in the whole.

NUL bytes are not stored: no Kubernetes string can hold them, and a secret with NULs between its letters would slip
past the masks. Offsets and sizes are counted without them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from . import files

SEGMENT_BYTES = 8 << 20
#: Together at most 64 MiB on the machine's disk.
SEGMENTS = 8


class Segment(NamedTuple):
    """One file of the log: where in the output it begins, and how much it holds now."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def segments(directory: str) -> list[Segment]:
    """The stored segments in order."""
    found = []
    try:
        names = sorted(name for name in os.listdir(directory) if name.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        path = os.path.join(directory, name)
        try:
            found.append(Segment(path, int(name), os.stat(path).st_size))
        except FileNotFoundError:
            continue
    return found


class LogWriter:
    """Appends output and never fails: what the disk does not take is counted as dropped. ``total`` counts all
    output.
    """

    def __init__(
        self,
        directory: str,
        segment_bytes: int = SEGMENT_BYTES,
        keep: int = SEGMENTS,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self.total = self.dropped = 0
        self.trouble = ""
        self._directory, self._limit, self._keep, self._write = directory, segment_bytes, keep, write
        self._descriptor = -1
        self._room = 0

    def append(self, data: bytes) -> None:
        """Store data at the end of the log."""
        data = data.replace(b"\0", b"")
        while data:
            try:
                if self._descriptor < 0:
                    self._open()
                written = self._write(self._descriptor, data[: self._room])
                if not written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                self.close()
                self.trouble = error.strerror or type(error).__name__
                if self.drop_oldest():
                    continue
                self.dropped += len(data)
                self.total += len(data)
                return
            self.total += written
            self._room -= written
            data = data[written:]
            if self._room <= 0:
                self.close()

    def close(self) -> None:
        """Close the open segment; the next byte opens a new one. Empty ones are not left behind."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        for segment in segments(self._directory):
            if not segment.size:
                files.remove(segment.path)

    def drop_oldest(self) -> bool:
        """Give the oldest segment back to a full disk, unless it is the only one. True when something was freed."""
        stored = segments(self._directory)
        if len(stored) < 2:
            return False
        files.remove(stored[0].path)
        return True

    def _open(self) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        stored = segments(self._directory)
        for segment in stored[: max(0, len(stored) - self._keep + 1)]:
            files.remove(segment.path)
        path = os.path.join(self._directory, f"{self.total:020d}")
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._room = self._limit


class LogReader:
    """A look at the log as it is now. ``runs`` are stretches without a gap, as (start, end) offsets."""

    def __init__(self, directory: str) -> None:
        self.segments = segments(directory)
        self.runs: list[tuple[int, int]] = []
        for segment in self.segments:
            if self.runs and self.runs[-1][1] == segment.start:
                self.runs[-1] = (self.runs[-1][0], segment.end)
            else:
                self.runs.append((segment.start, segment.end))

    @property
    def end(self) -> int:
        """Offset behind the newest stored byte."""
        return self.runs[-1][1] if self.runs else 0

    def read(self, start: int, end: int) -> bytes:
        """Bytes of one stretch. Raises FileNotFoundError when the writer has removed them since."""
        pieces = []
        for segment in self.segments:
            first, last = max(start, segment.start), min(end, segment.end)
            if first < last:
                with open(segment.path, "rb") as handle:
                    handle.seek(first - segment.start)
                    pieces.append(handle.read(last - first))
        return b"".join(pieces)

    def overwrite(self, start: int, end: int) -> None:
        """Put asterisks over a range, in place, so that offsets stay and a full disk does not matter."""
        for segment in self.segments:
            first, last = max(start, segment.start), min(end, segment.end)
            if first < last:
                with open(segment.path, "r+b") as handle:
                    handle.seek(first - segment.start)
                    handle.write(b"*" * (last - first))
