"""The demo as a user runs it: a process of its own, with a control plane of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from controller.sandbox.controlplane import BinariesUnavailableError
from controller.sandbox.controlplane.provider import provide
from tests.e2e.running import Running


@pytest.fixture(scope="session", autouse=True)
def binaries(pytestconfig: pytest.Config) -> None:
    """Built before the first demo, whose deadlines are not made for that; without them the lane fails only in CI."""
    capture: CaptureManager | None = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        if capture is None:
            provide()
        else:
            with capture.global_and_fixture_disabled():
                provide()
    except BinariesUnavailableError as error:
        reason = f"no control plane on this machine: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def sleeping(tmp_path: Path) -> Path:
    """A manifest whose job runs for as long as anybody looks at it."""
    return _manifest(tmp_path, "sleeping", "sleep 3600")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A manifest whose job runs for a moment longer than it takes to do something to it, and says once that it ran."""
    return _manifest(tmp_path, "slow", "echo started; sleep 3; echo done")


@pytest.fixture
def demos() -> Iterator[list[Running]]:
    """Whatever is put in here is ended after the test."""
    started: list[Running] = []
    yield started
    for demo in started:
        demo.end()


def _manifest(directory: Path, name: str, script: str) -> Path:
    path = directory / f"{name}.yaml"
    path.write_text(
        "apiVersion: brev.nvidia.com/v1alpha1\nkind: BrevJob\n"
        f"metadata: {{name: {name}}}\n"
        "spec:\n"
        "  instanceTemplate: {spec: {candidates: [{type: n2d-standard-4}]}}\n"
        f"  script: {{text: '{script}'}}\n"
    )
    return path
