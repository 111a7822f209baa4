"""The real control plane for integration tests: one per run, a namespace per test."""

import os
import re
import secrets
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from controller.sandbox.controlplane import BinariesUnavailableError, Cluster
from controller.sandbox.controlplane.keeper import SharedControlPlane
from controller.sandbox.controlplane.provider import provide

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config, shared_control_plane: SharedControlPlane) -> Cluster:
    """The run's control plane with the project's CRDs, started by whichever test needs it first.

    Without the binaries the lane fails where CI=true and is skipped elsewhere. A first build takes minutes, so what it
    says on stderr is let through.
    """
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
    return shared_control_plane.cluster(sorted(CRDS.glob("*.yaml")))


@pytest.fixture
def namespace(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, whose name tells the test; deleted without waiting."""
    slug = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(4)}"
    made = control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == HTTPStatus.CREATED, made.body
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")
