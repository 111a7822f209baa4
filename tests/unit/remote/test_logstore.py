from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from controller.remote.runner import view
from controller.remote.runner.logstore import LogReader, LogWriter


class FullDisk:
    """Writes like a disk that holds so many bytes of one directory."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory, self.size = directory, size

    def write(self, descriptor: int, data: bytes) -> int:
        room = self.size - sum(path.stat().st_size for path in self.directory.iterdir())
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, data[:room])


def stored(directory: Path) -> bytes:
    reader = LogReader(str(directory))
    return b"".join(reader.read(*run) for run in reader.runs)


def test_the_newest_output_is_kept_within_bounds_under_its_offsets(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path), segment_bytes=10, keep=3)
    whole = bytes(range(32, 127))
    for start in range(0, len(whole), 7):
        writer.append(whole[start : start + 7])
    writer.close()
    reader = LogReader(str(tmp_path))
    assert reader.runs == [(70, 95)]
    assert stored(tmp_path) == whole[70:]
    assert (writer.total, writer.dropped) == (95, 0)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_full_disk_drops_output_and_counts_it(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path, 25)
    writer = LogWriter(str(tmp_path), segment_bytes=100, write=disk.write)
    writer.append(b"a" * 20)
    writer.append(b"b" * 20)
    assert (writer.total, writer.dropped) == (40, 15)
    assert writer.trouble == "No space left on device"
    disk.size = 100
    writer.append(b"c" * 10)
    writer.close()
    assert (writer.total, writer.dropped) == (50, 15)
    reader = LogReader(str(tmp_path))
    assert reader.runs == [(0, 25), (40, 50)]
    assert stored(tmp_path) == b"a" * 20 + b"b" * 5 + b"c" * 10


def test_a_full_disk_gives_up_old_output_for_new(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path, 30)
    writer = LogWriter(str(tmp_path), segment_bytes=10, write=disk.write)
    writer.append(b"a" * 10 + b"b" * 10 + b"c" * 10)
    writer.append(b"d" * 10)
    writer.close()
    assert writer.dropped == 0
    assert stored(tmp_path) == b"b" * 10 + b"c" * 10 + b"d" * 10


def test_a_log_directory_that_cannot_be_made_only_drops(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    writer = LogWriter(str(tmp_path / "file" / "log"))
    writer.append(b"text")
    writer.close()
    assert (writer.total, writer.dropped) == (4, 4)


def test_empty_segments_are_not_left_behind(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path), write=FullDisk(tmp_path, 0).write)
    for _ in range(5):
        writer.append(b"x")
    assert list(tmp_path.iterdir()) == []


def test_no_output_is_no_log(tmp_path: Path) -> None:
    reader = LogReader(str(tmp_path / "none"))
    assert (reader.runs, reader.end) == ([], 0)
    assert view.tail(reader, [b"secret"], 10, True).text == ""


@pytest.mark.parametrize("segment", [7, 10, 64])
@pytest.mark.parametrize("step", [1, 3, 20])
def test_reading_on_and_on_gives_the_whole_masked_log(tmp_path: Path, segment: int, step: int) -> None:
    text = "début-SECRETVALUE-ünï😀-SECRETVALUESECRETVALUE-fin SECRET"
    writer = LogWriter(str(tmp_path), segment_bytes=segment, keep=100)
    writer.append(text.encode())
    writer.close()
    reader, offset, pieces = LogReader(str(tmp_path)), 0, []
    while offset < reader.end:
        piece = view.piece(reader, [b"SECRETVALUE"], offset, max(step, 4), True)
        assert piece.next > offset
        pieces.append(piece.text)
        offset = piece.next
    assert "".join(pieces).replace("***", "*") in {
        text.replace("SECRETVALUE", "*").replace("**", "*").removesuffix("SECRET") + "*",
        text.replace("SECRETVALUE", "*").removesuffix("SECRET") + "*",
    }
