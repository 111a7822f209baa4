"""Puts a job's script and files in place and works out how to call it."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
from typing import Any

from . import procs
from .files import Job

#: What the marker tells the job about itself.
_FROM_MARKER = {
    "BREV_JOB_NAME": "name",
    "BREV_JOB_NAMESPACE": "namespace",
    "BREV_JOB_UID": "uid",
    "BREV_JOB_ATTEMPT": "attempt",
}


class Call:
    """How to start the command: program, arguments and the whole environment, as bytes."""

    __slots__ = ("arguments", "env", "program")

    def __init__(self, program: bytes | None, arguments: list[bytes], env: dict[bytes, bytes]) -> None:
        self.program, self.arguments, self.env = program, arguments, env


def unpack(job: Job, request: dict[str, Any], token: str) -> Call:
    """Make the job's directory. ``program`` of the answer is None when the interpreter is not on this machine.

    Runs once in a job's life, in a directory that did not exist. Raises OSError or ValueError when it cannot be made.
    """
    os.mkdir(job.work, 0o755)
    script = os.path.join(job.work, request["scriptName"])
    _place(job.work, request["scriptName"], base64.b64decode(request["script"]), 0o700)
    for file in request["files"]:
        _place(job.work, file["path"], base64.b64decode(file["content"]), file["mode"])
    env = environment(job, request["env"], token)
    words = shlex.split(request["interpreter"])
    program = shutil.which(words[0], path=os.fsdecode(env.get(b"PATH", os.fsencode(os.defpath))))
    return Call(
        None if program is None else os.fsencode(program), [word.encode("utf-8") for word in [*words, script]], env
    )


def environment(job: Job, delivered: dict[str, str], token: str) -> dict[bytes, bytes]:
    """The login environment, ours, and over both the delivered one, byte for byte."""
    marker = job.read("marker.json") or {}
    env = dict(os.environb)
    env.setdefault(b"PYTHONUNBUFFERED", b"1")
    for name, field in _FROM_MARKER.items():
        if field in marker:
            env[name.encode("ascii")] = str(marker[field]).encode("utf-8")
    for name, value in delivered.items():
        env[name.encode("utf-8")] = value.encode("utf-8")
    env[procs.TOKEN.encode("ascii")] = token.encode("ascii")
    return env


def secret_paths(job: Job) -> list[str]:
    """Paths of the delivered files that are secrets, below the job's directory."""
    listed = (job.read("job.json") or {}).get("files") or (job.read("secrets.json") or {}).get("files") or []
    return [os.path.join(job.work, file["path"]) for file in listed if file.get("secret")]


def forget_request(job: Job, request: dict[str, Any]) -> None:
    """Drop the delivered script, files and env, which now are where they are needed; keep which files are secrets."""
    listed = [{"path": file["path"], "secret": True} for file in request["files"] if file.get("secret")]
    if listed:
        job.write("secrets.json", {"files": listed})
    os.unlink(job.path("job.json"))


def _place(work: str, path: str, content: bytes, mode: int) -> None:
    """Write one file below work. The path was checked when the bundle was made; it is checked again where it
    matters.
    """
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError("a file's path leaves the job's directory")
    target = os.path.join(work, path)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if not (os.path.realpath(os.path.dirname(target)) + "/").startswith(os.path.realpath(work) + "/"):
        raise ValueError("a file's path leaves the job's directory")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
        os.fchmod(handle.fileno(), mode & 0o777)
