"""One operator in memory for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.reconcile.fakes import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Ends everything that was started, so that no task outlives its test."""
    made = Bench(tmp_path)
    yield made
    await made.operator.stop()
