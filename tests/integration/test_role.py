"""The operator under exactly the role that the chart renders, on the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from controller.api.meta import Kind
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.controlplane import Cluster
from controller.sandbox.janitor import Janitor
from tests.chart.conftest import helm_program  # noqa: F401 - a fixture
from tests.integration.bench import Bench, condition, is_true, status_of
from tests.integration.kubeapi import WAIT_SECONDS, Api, Body
from tests.integration.role import Confined, Verb, refused

pytestmark = pytest.mark.usefixtures("helm_program")

Confine = Callable[[Verb | None], Bench]
SECRET_ENV = [{"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "words", "key": "word"}}}]
CONFIG_ENV = [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "words", "key": "word"}}}]
WORD = "correct-horse"


@pytest.fixture
async def confine(
    control_plane: Cluster, own_brev: Simulator, janitor: Janitor, tmp_path: Path
) -> AsyncIterator[Confine]:
    """Make a deployment under the chart's role, less one verb; the test starts the operator."""
    await own_brev.reset(profile=Profile.instant())
    made: list[Confined] = []
    async with Api(control_plane) as api:

        def make(without: Verb | None = None) -> Bench:
            made.append(Confined(control_plane, own_brev, tmp_path / "confined", janitor, without=without))
            deployment = made[-1].deployment
            return Bench(deployment, api, deployment.tenants[0])

        yield make
    for confined in made:
        await asyncio.to_thread(confined.remove)


async def _running(bench: Bench) -> Bench:
    bench.operator.start()
    await bench.operator.wait_ready()
    return bench


async def test_a_job_with_a_secret_succeeds_and_the_role_lacks_nothing(confine: Confine) -> None:
    bench = await _running(confine(None))
    await bench.create("secrets", "words", stringData={"word": WORD})
    await bench.create("configmaps", "words", data={"word": "battery"})
    env = [*SECRET_ENV, {**CONFIG_ENV[0], "name": "OTHER"}]
    script = 'test "$WORD" = correct-horse && echo "found $OTHER"'
    job = await bench.run(bench.job("reads", script, env=env))
    assert status_of(job)["phase"] == "Succeeded", status_of(job)
    assert "found battery" in status_of(job)["logTail"]
    events = await bench.events()
    assert {event["involvedObject"]["kind"] for event in events} == {"BrevJob", "BrevInstance"}
    assert await bench.machines() == []
    assert await refused(bench) == set()
    assert await bench.operator.stop() == 0


@pytest.mark.parametrize(
    ("env", "reason"),
    [pytest.param(SECRET_ENV, "SecretForbidden", id="secret"), pytest.param(CONFIG_ENV, "Forbidden", id="config-map")],
)
async def test_a_namespace_that_is_not_listed_gives_no_secret_and_no_config_map(
    confine: Confine, env: list[Body], reason: str
) -> None:
    listed = await _running(confine(None))
    bench = Bench(listed.deployment, listed.api, listed.deployment.tenants[1])
    await bench.create("secrets", "words", stringData={"word": WORD})
    await bench.create("configmaps", "words", data={"word": WORD})
    await bench.apply(bench.job("reads", env=env))
    job = await bench.until(Kind.JOB, "reads", is_true("Stalled", reason))
    assert bench.namespace in condition(job, "Stalled")["message"]
    assert await bench.calls("create") == [], "nothing is paid for"
    plain = await bench.run(bench.job("plain"))
    assert status_of(plain)["phase"] == "Succeeded", "a job without either runs there all the same"


async def test_binding_a_namespace_later_heals_its_jobs_without_a_restart(confine: Confine) -> None:
    listed = await _running(confine(None))
    bench = Bench(listed.deployment, listed.api, listed.deployment.tenants[1])
    await bench.create("secrets", "words", stringData={"word": WORD})
    await bench.apply(bench.job("reads", env=SECRET_ENV))
    await bench.until(Kind.JOB, "reads", is_true("Stalled", "SecretForbidden"))
    home = bench.deployment.home
    arguments = (f"--clusterrole={home}-tenant", f"--serviceaccount={home}:{home}")
    bench.deployment.cluster.kubectl("create", "rolebinding", "late", "-n", bench.namespace, *arguments)
    assert status_of(await bench.ended("reads"))["phase"] == "Succeeded"


async def test_without_leave_to_make_a_lease_the_operator_ends_with_the_reason(confine: Confine) -> None:
    bench = confine(("leases", "create"))
    bench.operator.start()
    assert await bench.operator.wait_ended() == 1
    assert "leases" in bench.operator.log_tail()
    assert "cannot run" in bench.operator.log_tail()


async def test_without_leave_to_create_instances_a_job_says_so(confine: Confine) -> None:
    bench = await _running(confine(("brevinstances", "create")))
    await bench.apply(bench.job("waits"))
    job = await bench.until(Kind.JOB, "waits", is_true("Stalled", "Forbidden"))
    assert "brevinstances" in condition(job, "Stalled")["message"]
    assert await bench.machines() == []


@pytest.mark.parametrize("resource", ["brevjobs", "brevinstances"])
async def test_without_leave_to_write_a_status_no_machine_is_asked_for(confine: Confine, resource: str) -> None:
    bench = await _running(confine((f"{resource}/status", "patch")))
    await bench.apply(bench.job("mute"))
    await _until_refused(bench, (f"{resource}/status", "patch"))
    assert await bench.calls("create") == []


async def test_without_its_own_secrets_the_account_says_so(confine: Confine) -> None:
    bench = await _running(confine(("secrets", "get")))
    account = await bench.until(Kind.ACCOUNT, bench.account, is_true("Stalled", "Forbidden"))
    assert "secrets" in condition(account, "Stalled")["message"]


async def _until_refused(bench: Bench, wanted: Verb, seconds: float = WAIT_SECONDS) -> None:
    """Nothing can be watched for: the operator may not write what it would say."""
    async with asyncio.timeout(seconds):
        while wanted not in await refused(bench):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
