"""The contract of the `brev` program: run against the simulator's executable, or against `BREV_CLI=/path/to/brev`.

A real program talks to the simulator's HTTP API; what needs its ssh or our control of its rules is skipped then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.sandbox.brevsim import Profile, Simulator
from tests.contract.program import Program


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    simulator = asyncio.run(Simulator.start(tmp_path_factory.mktemp("brevsim"), profile=Profile.instant()))
    try:
        yield simulator
    finally:
        asyncio.run(simulator.stop())


@pytest.fixture
async def simulator(backend: Simulator) -> Simulator:
    """A new world behind the session's backend."""
    await backend.reset(profile=Profile.instant())
    return backend


@pytest.fixture
def brev(simulator: Simulator, tmp_path: Path) -> Program:
    """The program with an empty HOME that is logged in with an API key."""
    program = Program(Path(os.environ.get("BREV_CLI") or simulator.cli), simulator, tmp_path)
    simulator.log_in(program.home)
    return program
