"""The stage of the lying-CLI matrix: one backend, any generation of the program on it, and the client in front.

Each test names the rows whose lie it plays: `A4` is a measured verdict, `§5 #457` a known issue of the program, `§7 …`
a demand on its simulator, `G4`/`GS` something that nobody has seen. It states what the program does (by its release or
by a fault) and what the client must make of it.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from controller.brev import BrevSession, Credential, Homes, Slots
from controller.brev.credentials import jwt_expiry
from controller.sandbox.brevsim import Profile, Simulator
from controller.sandbox.brevsim.release import Release, release

Test = TypeVar("Test", bound=Callable[..., Any])

TYPE = "g6e.xlarge"
SENTINEL = "@@SENTINEL@@"
NEWEST = "v0.6.327"
MEASURED = ("v0.6.320", "v0.6.322", "v0.6.323", "v0.6.324", "v0.6.326", NEWEST)
# The third plays a program with certificates that still replays and wakes.
FOURTH = ("v0.6.334", "v0.6.334-b", "v0.6.334-exec_replays,exec_wakes,exec_tells_code")
SEEDS = ("seeds", "seeds-b", "seeds-exec_replays,exec_wakes")
ALL = (*MEASURED, *FOURTH, *SEEDS)
# seeds-b does not say which organisation a token acts on.
WITH_TOKENS = tuple(each for each in ALL if each != "seeds-b")
_RARE = frozenset({"v0.6.320", "v0.6.323", "v0.6.324", SEEDS[2]})
_ROW = re.compile(r"A\d+|§[57] \S.*|G4|GS|G2")

# seeds-b chooses the machine type itself.
WITH_TYPES = WITH_TOKENS


def lie(*rows: str) -> Callable[[Test], Test]:
    """Name the rows that a test plays."""
    strange = [row for row in rows if not _ROW.fullmatch(row)]
    if strange or not rows:
        raise ValueError(f"no such rows: {strange}")
    return lambda test: test


def under(*generations: str) -> pytest.MarkDecorator:
    """The generations that a test is played on, instead of v0.6.327 alone; of many, some in the complete run only."""
    rare = _RARE if len(generations) > 4 else frozenset()
    marked = [pytest.param(each, marks=[pytest.mark.full] if each in rare else []) for each in generations]
    return pytest.mark.parametrize("generation", marked)


@dataclass(slots=True)
class Stage:
    brev: Simulator
    directory: Path
    rules: Release
    homes: Homes
    alarms_expected: bool = False
    _made: list[BrevSession] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def account_home(self) -> Path:
        return self.state / "accounts/default/home/.brev"

    async def credential(self, kind: str = "") -> Credential:
        """A good login: an API key where the release has them, else a token."""
        kind = kind or ("APIKey" if self.rules.api_key_login else "JWT")
        if kind == "APIKey":
            return Credential("APIKey", self.brev.api_key, self.brev.org_id)
        if kind == "RefreshToken":
            return Credential("RefreshToken", self.brev.refresh_credential, self.brev.org_id)
        token = await self.brev.jwt()
        return Credential("JWT", token, self.brev.org_id, jwt_expiry(token))

    async def session(self, kind: str | Credential = "", **options: Any) -> BrevSession:
        credential = kind if isinstance(kind, Credential) else await self.credential(kind)
        defaults: dict[str, Any] = {"homes": self.homes, "slots": Slots(), "executable": str(self.brev.cli)}
        defaults |= {"extra_env": self.brev.env(), "service_account_token": self.directory / "no-token"}
        return BrevSession(options.pop("account", "default"), credential, **(defaults | options))

    async def running(self, session: BrevSession, name: str = "bo-1", machine_type: str = TYPE) -> str:
        """A machine that runs, whose address is known; its id."""
        await session.create(name, machine_type)
        await self.brev.wait_for(lambda rows: any(row["name"] == name and row["status"] == "RUNNING" for row in rows))
        await session.refresh(name)
        return next(row.id for row in await session.list() if row.name == name)

    async def stopped(self, session: BrevSession, name: str = "bo-1") -> str:
        machine_id = await self.running(session, name)
        await self.brev.event(machine_id, "stopped")
        return machine_id

    async def place(self, name: str = "bo-1") -> str:
        """A path on the machine that does not exist yet."""
        return next(f"{row['home']}/in-1" for row in await self.brev.machines() if row["name"] == name)

    async def fault(self, action: str | dict[str, Any], **match: Any) -> None:
        await self.brev.add_fault({"match": match, "action": action})

    async def names(self) -> list[str]:
        return [row["name"] for row in await self.brev.machines()]

    async def statuses(self) -> list[str]:
        return [row["status"] for row in await self.brev.machines()]

    async def calls(self, verb: str) -> list[dict[str, Any]]:
        return [call for call in await self.brev.calls() if call["argv"][:1] == [verb]]

    async def runs(self, text: str) -> int:
        """How often a command with this text has run on any machine."""
        return len([run for run in await self.brev.commands() if text in str(run)])

    async def ended(self) -> None:
        """Every process of the program has ended."""
        async with asyncio.timeout(60):
            while any(call["rc"] is None for call in await self.brev.calls()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    simulator = asyncio.run(Simulator.start(tmp_path_factory.mktemp("brevsim"), profile=Profile.instant()))
    try:
        yield simulator
    finally:
        asyncio.run(simulator.stop())


@pytest.fixture
def generation() -> str:
    return NEWEST


@pytest.fixture
async def stage(backend: Simulator, generation: str, tmp_path: Path) -> AsyncIterator[Stage]:
    """A new world; afterwards no process of the program may be left, and nothing was asked that nobody knows."""
    version, _, variant = generation.partition("-")
    await backend.reset(release=version, variant=variant or "a", profile=Profile.instant())
    rules = release(version, variant or "a")
    played = Stage(backend, tmp_path, rules, Homes(tmp_path / "state", search_path=os.environ["PATH"]))
    yield played
    await played.ended()
    assert bool(await backend.alarms()) == played.alarms_expected
