"""Fixtures of the CLI layer's unit tests."""

import os
from pathlib import Path
from typing import Any

import pytest

from controller.brev import BrevSession, Credential, Homes, Slots
from tests.unit.brev.support import KEY, NOW, FakeCli, Make, Transcript


@pytest.fixture
def transcript() -> Transcript:
    return Transcript()


@pytest.fixture
def cli(tmp_path: Path) -> FakeCli:
    directory = tmp_path / "cli"
    directory.mkdir()
    return FakeCli(directory)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def make(cli: FakeCli, state: Path, tmp_path: Path) -> Make:
    homes = Homes(state, search_path=os.environ["PATH"])

    def session(credential: Credential = KEY, **options: Any) -> BrevSession:
        account = options.pop("account", "default")
        defaults: dict[str, Any] = {"homes": homes, "slots": Slots(), "executable": str(cli.path), "now": lambda: NOW}
        defaults["service_account_token"] = tmp_path / "no-token"
        return BrevSession(account, credential, **(defaults | options))

    return session


@pytest.fixture
def session(make: Make) -> BrevSession:
    return make()
