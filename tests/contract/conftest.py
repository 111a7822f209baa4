"""The contract of the `brev` program: run against the simulator's executable, or against `BREV_CLI=/path/to/brev`.

A real program talks to the simulator's HTTP API; what needs its ssh or our control of its rules is skipped then.
Every test runs against v0.6.327, and in `make test-all` against every generation in both variants of what nobody has
seen; `@pytest.mark.releases(…)` limits it to those whose rule it states, of which the first is in the bounded run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.sandbox.brevsim import Profile, Simulator
from tests.contract.program import GENERATIONS, REAL, WHOLE, Generation, Program


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "releases(*names): the generations whose rule a test of the contract states")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "generation" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("releases")
    known = {str(each): each for each in GENERATIONS}
    wanted = [known[name] for name in mark.args] if mark else list(GENERATIONS)
    wanted.sort(key=lambda each: each != WHOLE)
    rest = [pytest.param(each, id=str(each), marks=pytest.mark.full) for each in wanted[1:]]
    metafunc.parametrize("generation", [pytest.param(wanted[0], id=str(wanted[0])), *([] if REAL else rest)])


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    simulator = asyncio.run(Simulator.start(tmp_path_factory.mktemp("brevsim"), profile=Profile.instant()))
    try:
        yield simulator
    finally:
        asyncio.run(simulator.stop())


@pytest.fixture
async def simulator(backend: Simulator, generation: Generation) -> Simulator:
    """A new world behind the session's backend."""
    await backend.reset(release=generation.release, variant=generation.variant, profile=Profile.instant())
    return backend


@pytest.fixture
async def brev(simulator: Simulator, generation: Generation, tmp_path: Path) -> Program:
    """The program with an empty HOME that is logged in: with an API key, or with a token where there are no keys."""
    program = Program(Path(os.environ.get("BREV_CLI") or simulator.cli), simulator, tmp_path, generation)
    simulator.log_in(program.home)
    if not generation.rules.api_key_login:
        await program.log_in_by_jwt(lifetime=10_000_000)
    return program
