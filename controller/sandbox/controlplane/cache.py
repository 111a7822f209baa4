"""The binaries that were built, kept in one directory that counts only what it can prove.

A binary counts only with its digest file beside it, written after it and atomically, and only while its content has
that digest. So an interrupted build, a truncated file and a flipped bit all look the same: not there, build it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.janitor import Janitor

LOCK_POLL_SECONDS = 0.2

Builder = Callable[[str, Path, Janitor], None]
"""Builds the named binary at the given path; every process it starts is the janitor's."""


class BinaryCache:
    """One directory for one key; safe for any number of processes at once."""

    def __init__(self, root: Path, key: str, progress: Progress) -> None:
        self.directory = root / key
        self._root = root
        self._key = key
        self._progress = progress

    def find(self, name: str) -> Path | None:
        """The binary, if it is whole. Reads it fully: 0.3 s for a whole control plane."""
        path = self.directory / name
        try:
            recorded = json.loads(self._record(name).read_bytes())
            if recorded["size"] != path.stat().st_size or recorded["sha256"] != _digest(path):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return path if os.access(path, os.X_OK) else None

    def ensure(self, names: Sequence[str], build: Builder) -> dict[str, Path]:
        """All the named binaries, those that are missing or damaged built first, once however many ask.

        Whatever `build` raises passes through, and nothing half-made stays.
        """
        found = {name: self.find(name) for name in names}
        if not all(found.values()):
            with self._locked():
                for name in names:
                    found[name] = self.find(name)
                missing = [name for name, path in found.items() if path is None]
                if missing:
                    self._build(missing, build)
                found = {name: self.directory / name for name in names}
        return {name: path for name, path in found.items() if path is not None}

    def _build(self, names: list[str], build: Builder) -> None:
        self._sweep()
        for name in names:
            if (self.directory / name).exists():
                self._progress.say(f"the cached {name} is damaged: building it again")
        with Janitor() as janitor:
            # Known to the janitor by name before it exists, so that no kill can fall between the two.
            work = self._root / f"{self._prefix}{os.urandom(6).hex()}"
            janitor.remove_on_exit(work)
            work.mkdir(mode=0o700)
            for name in names:
                build(name, work / name, janitor)
                self._install(name, work / name)

    def _install(self, name: str, built: Path) -> None:
        built.chmod(0o755)
        record = {"size": built.stat().st_size, "sha256": _digest(built)}
        self._record(name).unlink(missing_ok=True)
        built.rename(self.directory / name)
        with tempfile.NamedTemporaryFile("w", dir=built.parent, delete=False) as file:
            json.dump(record, file)
        Path(file.name).rename(self._record(name))

    def _sweep(self) -> None:
        """The lock is ours, so whatever an earlier builder left is nobody's (its machine may have lost power)."""
        for leftover in self._root.glob(f"{self._prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self._root / f"{self._key}.lock").open("a+") as file:
            waited = False
            while not _try_lock(file.fileno()):
                if not waited:
                    file.seek(0)
                    self._progress.begin(f"waiting for another run that builds it (process {file.read() or 'unknown'})")
                waited = True
                time.sleep(LOCK_POLL_SECONDS)
                self._progress.tick()
            if waited:
                self._progress.done("the other run is done")
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            yield

    @property
    def _prefix(self) -> str:
        return f".building-{self._key}-"

    def _record(self, name: str) -> Path:
        return self.directory / f"{name}.json"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
