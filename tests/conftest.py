"""What all processes of a test run agree on, with pytest-xdist or without: one private directory and one owner."""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.controlplane.keeper import SharedControlPlane

SHARED = pytest.StashKey[SharedControlPlane]()


def pytest_configure(config: pytest.Config) -> None:
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is None:
        # Only a name: the directory is made by whoever needs it first, so that unit tests leave nothing behind.
        directory = Path(tempfile.gettempdir()) / f"brev-operator-tests-{secrets.token_hex(8)}"
        config.stash[SHARED] = SharedControlPlane(directory, os.getpid())
    else:
        config.stash[SHARED] = SharedControlPlane(Path(worker["run_directory"]), worker["run_owner"])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist calls this in the controller for each worker it starts."""
    shared = node.config.stash[SHARED]
    node.workerinput["run_directory"] = str(shared.directory)
    node.workerinput["run_owner"] = shared.owner


def pytest_unconfigure(config: pytest.Config) -> None:
    if SHARED in config.stash and not hasattr(config, "workerinput"):
        config.stash[SHARED].end()


@pytest.fixture(scope="session")
def shared_control_plane(pytestconfig: pytest.Config) -> SharedControlPlane:
    """Not started yet; integration tests use `control_plane`."""
    return pytestconfig.stash[SHARED]
