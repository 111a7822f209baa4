"""One invocation of the executable: what it was given, and how it speaks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from controller.sandbox.brevsim.api import Api
    from controller.sandbox.brevsim.release import Release
    from controller.sandbox.brevsim.world import World

CHARDEV = "chardev"


class CliError(Exception):
    """The command failed: the text goes to stderr with a newline, and the exit code is 1 (or a remote command's)."""

    def __init__(self, text: str, *, resty: bool = False, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.resty = resty
        """The real program's HTTP library also logs this failure, twice."""


class PanicError(Exception):
    """A Go panic: exit code 2."""


class KilledError(Exception):
    """The process is to die of SIGKILL now (a fault)."""


class Streams(Protocol):
    async def out(self, data: bytes) -> None: ...
    async def err(self, data: bytes) -> None: ...
    async def read_stdin(self, *, line: bool) -> bytes: ...
    async def linger(self, pid: int) -> None: ...


@dataclass(slots=True)
class Call:
    argv: list[str]
    env: dict[str, str]
    """Values of the harmless variables."""
    names: list[str]
    """Names of all variables."""
    cwd: str
    umask: int
    stdin: str
    stdout: str
    stderr: str
    pid: int
    streams: Streams
    world: World
    api: Api
    verb: str = ""
    noticed: bool = False
    """`no oauth found for token` is printed once a process."""
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def parse(cls, head: bytes, streams: Streams, world: World, api: Api) -> Call:
        """Read the client's head: pid, cwd, umask, kinds of the three streams, argv, environment; NUL between."""
        pid, cwd, umask, stdin, stdout, stderr, count, *rest = (os.fsdecode(part) for part in head.split(b"\0"))
        argv, environment = rest[: int(count)], rest[int(count) :]
        pairs = [item.partition("=") for item in environment if item]
        return cls(
            argv=argv,
            env={name: value for name, equals, value in pairs if equals},
            names=sorted(name for name, _, _ in pairs),
            cwd=cwd,
            umask=int(umask),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pid=int(pid),
            streams=streams,
            world=world,
            api=api,
        )

    @property
    def release(self) -> Release:
        return self.world.release

    @property
    def home(self) -> Path:
        if not self.env.get("HOME"):
            raise CliError("$HOME is not defined")
        return Path(self.env["HOME"])

    @property
    def brev_directory(self) -> Path:
        return self.home / ".brev"

    @property
    def piped(self) -> bool:
        """The real test: not a character device, so /dev/null counts as a terminal."""
        return self.stdout != CHARDEV

    def path(self, text: str) -> Path:
        return Path(self.cwd, text)

    async def out(self, text: str | bytes) -> None:
        await self.streams.out(text if isinstance(text, bytes) else os.fsencode(text))

    async def err(self, text: str | bytes) -> None:
        await self.streams.err(text if isinstance(text, bytes) else os.fsencode(text))

    async def stdin_lines(self) -> list[str]:
        """Names (or types) from stdin, as the real program reads them: all of it, unless it is a character device."""
        if self.stdin in {CHARDEV, "closed"}:
            return []
        text = (await self.streams.read_stdin(line=False)).decode(errors="replace")
        return [line.strip() for line in text.splitlines() if line.strip()]

    async def stdin_text(self) -> str:
        if self.stdin in {CHARDEV, "closed"}:
            return ""
        return (await self.streams.read_stdin(line=False)).decode(errors="replace")

    def log_entry(self) -> dict[str, Any]:
        return {
            "argv": self.argv,
            "stdin": self.stdin,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "cwd": self.cwd,
            "umask": self.umask,
            "env": self.env,
            "envNames": self.names,
            "hasCredentials": "HOME" in self.env and (self.brev_directory / "credentials.json").exists(),
            "pid": self.pid,
            "startedAt": self.world.clock.now(),
            "endedAt": None,
            "rc": None,
        }
