"""Where things lie on the machine, and writes that survive a crash."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

ROOT = ".brev-operator"


class Job:
    """Paths of one job; makes nothing."""

    def __init__(self, home: str, key: str) -> None:
        self.key = key
        self.root = os.path.join(home, ROOT)
        self.directory = os.path.join(self.root, "jobs", key)
        self.work = self.path("work")
        self.log = self.path("log")

    def incoming(self, delivery: str) -> str:
        """Where a delivery of that name was copied to."""
        return os.path.join(self.root, "in", delivery)

    def path(self, name: str) -> str:
        """A file in the job's own directory."""
        return os.path.join(self.directory, name)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON object of the job's directory, or None when it is not there. Our files appear whole or not at all."""
        found = read_json(self.path(name))
        return found if isinstance(found, dict) else None

    def write(self, name: str, value: object) -> None:
        """Replace a JSON file of the job's directory, durably."""
        write_atomic(self.path(name), json.dumps(value).encode("ascii"))

    def create(self, name: str, value: object) -> bool:
        """Make a JSON file of the job's directory unless it exists; True for the one caller that made it."""
        return create_once(self.path(name), json.dumps(value).encode("ascii"))


def read_json(path: str) -> Any:
    """The parsed file, or None when it is missing or not JSON."""
    try:
        with open(path, "rb") as handle:
            return json.loads(handle.read().decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def write_new(path: str, content: bytes) -> None:
    """Write a private file that is not there yet, down to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def write_atomic(path: str, content: bytes) -> None:
    """Replace a file: after a crash at any point it is the old one or the new one, whole."""
    temporary = f"{path}.{os.getpid()}.tmp"
    remove(temporary)
    try:
        write_new(temporary, content)
        os.rename(temporary, path)
    except OSError:
        remove(temporary)
        raise
    sync_directory(os.path.dirname(path))


def create_once(path: str, content: bytes) -> bool:
    """Create a file with its content in one step; False when it exists already. Of any number of callers one gets
    True.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    remove(temporary)
    try:
        write_new(temporary, content)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        remove(temporary)
    sync_directory(os.path.dirname(path))
    return True


def sync_directory(path: str) -> None:
    """Make renames and new names in a directory survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file if it is there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def remove_tree(path: str) -> None:
    """Remove a directory with all in it; one that is being removed by somebody else is as good as gone."""
    if os.path.islink(path) or os.path.isfile(path):
        remove(path)
    else:
        shutil.rmtree(path, ignore_errors=True)
