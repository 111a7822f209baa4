"""The directory that is copied to a machine for one job: the runner, the job, its masks and a manifest of digests."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from controller.api.brevjob_spec import RESERVED_PATH
from controller.remote.build import runner_archive

#: The script's name in the job's directory: beside ``files[]``, so that a Python script can import them.
SCRIPT_NAME = RESERVED_PATH

_KEY = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?")


@dataclass(frozen=True, slots=True, repr=False)
class BundleFile:
    """One file for the job. ``path`` is relative to the job's directory; ``mode`` holds permission bits only. A
    ``secret`` file is removed from the machine with the other secrets after the job's end.
    """

    path: str
    content: bytes
    mode: int = 0o644
    secret: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class JobBundle:
    """Everything a machine needs to run a job once.

    ``key`` names the job on the machine ([a-z0-9-]); a second bundle with the same key is never run. ``interpreter``
    is split like a shell would (``python3 -u``) and looked up on the PATH of the job. ``env`` goes over the login
    environment. ``stop_grace_seconds`` holds for a stop that names none. ``masks`` are secret values to hide in the
    output; shorter ones than 6 bytes are ignored. Of the ``marker``, the job sees ``name``, ``namespace``, ``uid``
    and ``attempt`` as ``BREV_JOB_NAME`` and so on.
    """

    key: str
    interpreter: str
    script: bytes
    env: dict[str, str]
    files: tuple[BundleFile, ...]
    masks: tuple[bytes, ...]
    marker: dict[str, str]
    stop_grace_seconds: float


def write_bundle(directory: Path, bundle: JobBundle) -> None:
    """Write a bundle. ``directory`` is made if missing and must be empty; it becomes 0700, its files 0600.

    Raises ValueError for what could not arrive as given: a path that is absolute, escapes, repeats or is a directory of
    another one, an env name or value that no process can have, a bad key.
    """
    _check(bundle)
    parts = {
        "runner.pyz": runner_archive(),
        "job.json": _json(_job(bundle)),
        "masks.json": _json([_b64(mask) for mask in bundle.masks]),
        "marker.json": _json(bundle.marker),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    for name, content in parts.items():
        _write_private(directory / name, content)
    _write_private(directory / "manifest.json", _json({"key": bundle.key, "files": digests}))


def _job(bundle: JobBundle) -> dict[str, Any]:
    return {
        "interpreter": bundle.interpreter,
        "script": _b64(bundle.script),
        "scriptName": SCRIPT_NAME,
        "env": bundle.env,
        "files": [
            {"path": file.path, "content": _b64(file.content), "mode": file.mode & 0o777, "secret": file.secret}
            for file in bundle.files
        ],
        "stopGraceSeconds": bundle.stop_grace_seconds,
    }


def _check(bundle: JobBundle) -> None:
    if not _KEY.fullmatch(bundle.key):
        raise ValueError(f"not a key of [a-z0-9-]: {bundle.key!r}")
    if not bundle.interpreter.strip() or "\0" in bundle.interpreter:
        raise ValueError("the interpreter is empty or holds a NUL")
    for name, value in bundle.env.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"not an environment name: {name!r}")
        if "\0" in value:
            raise ValueError(f"the value of {name} holds a NUL")
    taken: set[PurePosixPath] = {PurePosixPath(SCRIPT_NAME)}
    for file in bundle.files:
        path = PurePosixPath(file.path)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in file.path or file.path.endswith("/"):
            raise ValueError(f"not a path below the job's directory: {file.path!r}")
        if any(path == other or path in other.parents or other in path.parents for other in taken):
            raise ValueError(f"two files want the path {file.path!r}")
        taken.add(path)


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode("ascii")


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
