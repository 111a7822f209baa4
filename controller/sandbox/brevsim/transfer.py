"""What `scp [-r]` does between a directory here and a machine's directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class TransferError(Exception):
    """scp's own text."""


def remote_path(machine: Path, home: Path, text: str) -> Path:
    """A path on the machine as a path here. Raises TransferError for one that is not below the machine's directory."""
    path = home / text.removeprefix("~/") if text != "~" else home
    resolved = Path(os.path.normpath(path))
    if resolved == machine or machine not in resolved.parents:
        raise TransferError(f'scp: dest open "{text}": Permission denied (outside of the machine)')
    return path


def transfer(source: Path, target: Path, umask: int, *, shown: str, source_shown: str) -> None:
    """Copy a file or a tree. An existing directory gets the source below it under its name, so a second copy nests.

    New files have the source's mode less the receiver's umask, existing ones keep theirs; links are followed.
    """
    if not source.exists():
        raise TransferError(f"scp: {source_shown}: No such file or directory")
    target = target / source.name if target.is_dir() else target
    try:
        if source.is_dir():
            _tree(source, target, umask)
        else:
            _file(source, target, umask)
    except FileNotFoundError as error:
        verb = "remote mkdir" if source.is_dir() else "dest open"
        raise TransferError(f'scp: {verb} "{shown}": No such file or directory') from error
    except PermissionError as error:
        text = f'scp: dest open "{shown}": Permission denied\r\nscp: failed to upload file {source_shown} to {shown}'
        raise TransferError(text) from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise TransferError(f'scp: dest open "{shown}": Failure') from error


def _tree(source: Path, target: Path, umask: int) -> None:
    mode = (source.stat().st_mode & 0o777) | 0o700
    if not target.is_dir():
        target.mkdir()
        target.chmod(mode & ~umask)
    for child in sorted(source.iterdir()):
        (_tree if child.is_dir() else _file)(child, target / child.name, umask)


def _file(source: Path, target: Path, umask: int) -> None:
    mode = source.stat().st_mode & 0o777 & ~umask
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    fresh = not target.exists()
    descriptor = os.open(target, flags, 0o600)
    with open(source, "rb") as reader, open(descriptor, "wb") as writer:
        if fresh:
            os.fchmod(descriptor, mode)
        shutil.copyfileobj(reader, writer)


def cut_short(target: Path, fraction: float) -> None:
    """Leave of the largest file below `target` only its beginning, as a broken transfer does."""
    files = [path for path in (target, *target.rglob("*")) if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size)
    os.truncate(largest, int(largest.stat().st_size * fraction))
