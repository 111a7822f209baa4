"""Running the `brev` program of the contract suite, and stating what is expected of it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from controller.sandbox.brevsim import Simulator
from controller.sandbox.brevsim.release import Release, release

REAL = bool(os.environ.get("BREV_CLI"))
NEEDS_OURS = "needs the simulator's own executable: a real one runs ssh, which nobody answers here"


@dataclass(frozen=True, slots=True)
class Generation:
    """A release in one variant of what nobody has seen of it."""

    release: str
    variant: str = "a"

    def __str__(self) -> str:
        return self.release if self.variant == "a" else f"{self.release}-{self.variant}"

    @property
    def rules(self) -> Release:
        return release(self.release, self.variant)


GENERATIONS = (
    Generation("v0.6.320"),
    Generation("v0.6.322"),
    Generation("v0.6.323"),
    Generation("v0.6.324"),
    Generation("v0.6.326"),
    Generation("v0.6.327"),
    Generation("v0.6.334"),
    Generation("v0.6.334", "b"),
    Generation("seeds"),
    Generation("seeds", "api_key_login,orgs_say_active,exec_replays,exec_wakes"),
)
WHOLE = Generation("v0.6.327")


def where(fits: Callable[[Release], bool]) -> pytest.MarkDecorator:
    """The mark of a test that states a rule which only some generations have."""
    return pytest.mark.releases(*(str(each) for each in GENERATIONS if fits(each.rules)))


KEYS = where(lambda rules: rules.api_key_login)
EXEC_BY_SSH_FIRST = where(lambda rules: not rules.exec_needs_login)
REPLAYS = where(lambda rules: rules.exec_replays and rules.exec_wakes)


@dataclass(frozen=True, slots=True)
class Result:
    rc: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)

    def rows(self) -> list[dict[str, Any]]:
        """The machines of `ls --json`, whatever the shape of the list."""
        value = self.json()
        return (value["workspaces"] if isinstance(value, dict) else value) or []


@dataclass(slots=True)
class Program:
    """One `brev` with a HOME and an environment of its own."""

    path: Path
    simulator: Simulator
    directory: Path
    generation: Generation = WHOLE
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.directory / "home"

    def file(self, name: str) -> Path:
        return self.home / ".brev" / name

    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "DO_NOT_TRACK": "1",
            "SSH_AUTH_SOCK": "/nonexistent",
            **self.simulator.env(),
            **self.extra,
        }

    def spawn(self, *argv: str, stdin: int | IO[bytes] = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [self.path, *argv],
            env=self.environment(),
            cwd=self.directory,
            stdin=stdin,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
        )

    async def __call__(self, *argv: str, stdin: bytes | None = None) -> Result:
        """Run to the end; `stdin` goes through a pipe, None is /dev/null."""
        process = self.spawn(*argv, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        out, err = await asyncio.to_thread(process.communicate, stdin, 120)
        return Result(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    async def machine(self, name: str = "tj-1", machine_type: str = "g6e.xlarge") -> dict[str, Any]:
        """Create a machine that runs, and return it as the simulator sees it."""
        made = await self.create(name, machine_type)
        assert made.rc == 0, made.stderr
        rows = await self.simulator.wait_for(lambda rows: any(_up(row, name) for row in rows))
        return next(row for row in rows if row["name"] == name)

    async def create(self, name: str = "tj-1", machine_type: str = "e2-small", *flags: str) -> Result:
        """`create`, not waiting where the program can; a machine type only by `--type`."""
        detached = ["--detached"] if self.generation.rules.create_detached else []
        return await self("create", name, "--type", machine_type, *detached, *flags)

    async def reachable(self, name: str = "tj-1", machine_type: str = "g6e.xlarge") -> dict[str, Any]:
        """A machine that runs and whose alias is known."""
        machine = await self.machine(name, machine_type)
        assert (await self("refresh")).rc == 0
        return machine

    async def log_in_by_jwt(self, lifetime: float = 3600) -> str:
        token = await self.simulator.jwt(lifetime=lifetime)
        saved = {"access_token": token, "refresh_token": "auto-login"}
        self.file("credentials.json").write_text(json.dumps(saved))
        self.file("active_org.json").unlink(missing_ok=True)
        return token

    def log_out(self) -> None:
        self.file("credentials.json").unlink(missing_ok=True)
        self.file("active_org.json").unlink(missing_ok=True)


def _up(row: Mapping[str, Any], name: str) -> bool:
    return bool(row["name"] == name and row["status"] == "RUNNING")


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a contract table. Strings are regular expressions over a whole stream; "" means that it is empty."""

    id: str
    argv: Sequence[str]
    rc: int
    stdout: str = ""
    stderr: str = ""
    source: str = ""
    """Where it was measured: a verdict (A4 …), a section of the measurements, or `source` (read in the program)."""
    fits: Callable[[Release], bool] = lambda _: True
    """Whether a generation has this rule."""

    def __str__(self) -> str:
        return self.id

    async def run(self, brev: Program) -> None:
        """Run the row's command line and check it, unless this generation has another rule."""
        if not self.fits(brev.generation.rules):
            pytest.skip(f"{brev.generation} has another rule")
        self.check(await brev(*self.argv))

    def check(self, result: Result) -> None:
        shown = f"{result.rc} {result.stdout!r} {result.stderr!r}"
        assert result.rc == self.rc, shown
        assert re.fullmatch(self.stdout, result.stdout, re.DOTALL), shown
        assert re.fullmatch(self.stderr, result.stderr, re.DOTALL), shown
