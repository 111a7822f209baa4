"""The real control plane for integration tests: one per run, a namespace per test."""

import asyncio
import itertools
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.controlplane import BinariesUnavailableError, Cluster
from controller.sandbox.controlplane.keeper import SharedControlPlane
from controller.sandbox.controlplane.provider import provide
from controller.sandbox.janitor import Janitor
from tests.integration.bench import Bench, Deploy, Gate
from tests.integration.deployment import Deployment, Wishes
from tests.integration.kubeapi import Api

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


SHARED_TENANTS = 24


@pytest.fixture(scope="session")
def janitor() -> Iterator[Janitor]:
    """Ends operators of this process, however it ends."""
    with Janitor() as janitor:
        yield janitor


@pytest.fixture(scope="session")
def shared_brev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Behind the shared operator: never reset, and without latencies."""
    simulator = asyncio.run(Simulator.start(tmp_path_factory.mktemp("brev"), profile=Profile.instant()))
    yield simulator
    asyncio.run(simulator.stop())


@pytest.fixture(scope="session")
def shared_deployments(
    control_plane: Cluster, shared_brev: Simulator, janitor: Janitor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Iterator[tuple[Deployment, str]]]:
    """Namespaces of a running operator that tests share, each to be used once; a new operator when they run out."""
    made: list[Deployment] = []

    def places() -> Iterator[tuple[Deployment, str]]:
        while True:
            wishes = Wishes(namespaces=SHARED_TENANTS, extra={"BREV_OPERATOR_RESYNC": "15m"})
            made.append(Deployment(control_plane, shared_brev, tmp_path_factory.mktemp("operator"), janitor, wishes))
            made[-1].operator.start()
            asyncio.run(made[-1].operator.wait_ready())
            yield from zip(itertools.repeat(made[-1]), made[-1].tenants, strict=False)
            made.pop().remove()

    yield places()
    for deployment in made:
        deployment.remove()


@pytest.fixture
async def bench(control_plane: Cluster, shared_deployments: Iterator[tuple[Deployment, str]]) -> AsyncIterator[Bench]:
    """A namespace served by an operator that other tests of this process use too: nothing may happen to it, and faults
    of the simulator have to name the test's own machines.
    """
    deployment, namespace = await asyncio.to_thread(next, shared_deployments)
    async with Api(control_plane) as api:
        yield Bench(deployment, api, namespace)
        await api.send("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="session")
def own_brev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Reset for each test that has an operator of its own."""
    simulator = asyncio.run(Simulator.start(tmp_path_factory.mktemp("own-brev"), profile=Profile.instant()))
    yield simulator
    asyncio.run(simulator.stop())


@pytest.fixture
async def deploy(
    control_plane: Cluster, own_brev: Simulator, janitor: Janitor, tmp_path: Path
) -> AsyncIterator[Deploy]:
    """Make a deployment that nobody else uses, on a simulated Brev of its own; the test starts the operator."""
    await own_brev.reset(profile=Profile.instant())
    made: list[Deployment] = []
    async with Api(control_plane) as api:

        def make(wishes: Wishes) -> Bench:
            deployment = Deployment(control_plane, own_brev, tmp_path / f"deployment-{len(made)}", janitor, wishes)
            made.append(deployment)
            return Bench(deployment, api, deployment.tenants[0])

        yield make
    for deployment in made:
        await asyncio.to_thread(deployment.remove)


@pytest.fixture
async def own(deploy: Deploy) -> Bench:
    """An operator of the test's own, ready."""
    bench = deploy(Wishes())
    bench.operator.start()
    await bench.operator.wait_ready()
    return bench


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A script that the test lets go."""
    gate = Gate(tmp_path)
    yield gate
    gate.close()
