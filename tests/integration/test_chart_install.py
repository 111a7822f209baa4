"""The chart on a real API server of its own: installed, upgraded and removed by Helm, and applied without it."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api.meta import Kind
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.controlplane import Cluster, ControlPlane
from controller.sandbox.janitor import Janitor
from tests.chart.conftest import helm_program, lua  # noqa: F401 - fixtures
from tests.chart.lua import health_of
from tests.chart.rendering import CHART, ROOT, USUAL, Body, Rendering, render
from tests.chart.test_chart_render import EVERYTHING
from tests.integration.bench import Bench, status_of
from tests.integration.kubeapi import Api
from tests.integration.role import Confined, refused

pytestmark = pytest.mark.usefixtures("helm_program")

HELM_SECONDS = 120
OURS = "brev.nvidia.com"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="module")
def fresh(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without our CRDs, which nobody else uses. (`control_plane` has made sure that there are binaries.)"""
    with ControlPlane.start(tmp_path_factory.mktemp("fresh")) as plane:
        yield plane.cluster


class Helm:
    """Helm as the admin of one cluster."""

    def __init__(self, program: Path, cluster: Cluster, home: Path) -> None:
        self._program, self._cluster, self._home = program, cluster, home

    def __call__(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        file = self._home / "values.json"
        file.write_text(json.dumps(values or {}))
        environment = {"HOME": str(self._home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(self._cluster.kubeconfig)}
        argv = [self._program, *arguments, *(("--values", str(file)) if values is not None else ())]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=HELM_SECONDS, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def helm(helm_program: Path, fresh: Cluster, tmp_path: Path) -> Helm:  # noqa: F811
    return Helm(helm_program, fresh, tmp_path)


def _namespace(cluster: Cluster, name: str, labels: dict[str, str] | None = None) -> str:
    body = {"metadata": {"name": name, "labels": labels or {}}}
    made = cluster.request("POST", "/api/v1/namespaces", body)
    assert made.status == HTTPStatus.CREATED, made.body
    return name


def _crds(cluster: Cluster) -> dict[str, str]:
    """Name and uid of those of ours that are not being deleted."""
    items = cluster.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").body["items"]
    ours = [body["metadata"] for body in items if body["spec"]["group"] == OURS]
    return {each["name"]: each["uid"] for each in ours if "deletionTimestamp" not in each}


def test_helm_installs_upgrades_and_removes_and_the_crds_stay(fresh: Cluster, helm: Helm) -> None:
    home, team, other = (_namespace(fresh, f"{name}-{secrets.token_hex(4)}") for name in ("ops", "team", "other"))
    bound = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team}/rolebindings/brev-operator-tenant"
    values = {**USUAL, "tenants": [team, other], "watchNamespaces": [team]}
    told = helm("install", "brev-operator", str(CHART), "-n", home, values=values)
    fresh.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in _crds(fresh)))
    installed = _crds(fresh)
    assert len(installed) == len(Kind)
    assert fresh.request("GET", bound).status == HTTPStatus.OK
    assert f"kubectl -n {home} rollout status deployment/brev-operator" in told
    assert f"names: [{team}, {other}]" in told
    assert f'WARNING: namespace {other} is in "tenants" but not in "watchNamespaces"' in told
    assert f"WARNING: namespace {team}" not in told

    told = helm("upgrade", "brev-operator", str(CHART), "-n", home, values={**USUAL, "clusterID": "lab2"})
    assert fresh.request("GET", bound).status == HTTPStatus.NOT_FOUND, "a tenant that is taken off the list is unbound"
    assert "SecretForbidden" in told

    helm("uninstall", "brev-operator", "-n", home)
    assert _crds(fresh) == installed, "deleting a CRD would delete every object"
    helm("install", "brev-operator", str(CHART), "-n", home, values=dict(USUAL))
    helm("uninstall", "brev-operator", "-n", home)


def test_the_install_manifest_applies_at_once_and_again_without_a_change(fresh: Cluster) -> None:
    text = (ROOT / "deploy" / "install.yaml").read_text()
    fresh.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    before = _versions(fresh, text)
    fresh.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    assert _versions(fresh, text) == before


def _versions(cluster: Cluster, text: str) -> dict[str, str]:
    items = json.loads(cluster.kubectl("get", "-o", "json", "-f", "-", input=text).stdout)["items"]
    return {
        f"{body['kind']}/{body['metadata']['name']}": body["metadata"]["resourceVersion"]
        # The controllers of a real control plane write these by themselves.
        for body in items
        if body["kind"] not in ("Namespace", "CustomResourceDefinition")
    }


@pytest.mark.parametrize("values", [USUAL, EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_takes_all_that_is_rendered(fresh: Cluster, values: dict[str, Any]) -> None:
    home = _namespace(fresh, f"dry-{secrets.token_hex(4)}")
    teams = {name: _namespace(fresh, f"{name}-{secrets.token_hex(4)}") for name in ("team-a", "team-b", "team-c")}
    lists = {name: [teams[each] for each in values.get(name, ())] for name in ("tenants", "watchNamespaces")}
    rendering = render({**values, **lists}, namespace=home)
    # Its CRD belongs to the Prometheus operator, which is not here.
    text = yaml.safe_dump_all([body for body in rendering.objects if body["kind"] != "ServiceMonitor"])
    options = ("--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server")
    done = fresh.kubectl("apply", *options, "-f", "-", input=text)
    assert done.stdout.count("(server dry run)") == len(rendering.objects) - len(rendering.of("ServiceMonitor"))
    assert not re.search(r"(?i)warning", done.stderr), done.stderr


@pytest.mark.parametrize("values", [USUAL, EVERYTHING], ids=["defaults", "everything"])
def test_a_restricted_namespace_takes_the_pod_and_nothing_weaker(fresh: Cluster, values: dict[str, Any]) -> None:
    home = _namespace(fresh, f"restricted-{secrets.token_hex(4)}", RESTRICTED)
    template = render(values, namespace=home).pod
    # One of the admission plug-ins looks the class up.
    template["spec"].pop("priorityClassName", None)
    assert _create_pod(fresh, home, template) == HTTPStatus.CREATED
    weaker = copy.deepcopy(template)
    weaker["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    assert _create_pod(fresh, home, weaker) == HTTPStatus.FORBIDDEN


def _create_pod(cluster: Cluster, namespace: str, template: Body) -> int:
    body = {**template, "metadata": {**template["metadata"], "name": f"pod-{secrets.token_hex(4)}"}}
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body).status


async def test_an_operator_that_serves_every_namespace_lives_on_the_cluster_wide_role(
    fresh: Cluster,
    own_brev: Simulator,
    janitor: Janitor,
    tmp_path: Path,
    lua: Path,  # noqa: F811
) -> None:
    await own_brev.reset(profile=Profile.instant())
    fresh.install_crds(*sorted((ROOT / "crds").glob("*.yaml")))
    confined = Confined(fresh, own_brev, tmp_path / "confined", janitor, everywhere=True)
    deployment = confined.deployment
    try:
        deployment.operator.start()
        await deployment.operator.wait_ready()
        async with Api(fresh) as api:
            bench = Bench(deployment, api, deployment.tenants[0])
            await bench.create("secrets", "words", stringData={"word": "correct-horse"})
            source = {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "words", "key": "word"}}}
            job = await bench.run(bench.job("reads", 'test "$WORD" = correct-horse', env=[source]))
            assert status_of(job)["phase"] == "Succeeded", status_of(job)
            failed = await bench.run(bench.job("fails", "exit 3"))
            account = await api.get(Kind.ACCOUNT, "", deployment.account)
            assert await refused(bench) == set()
        assert account is not None
        found = [_health(lua, body) for body in (job, failed, account)]
        assert found == ["Healthy", "Degraded", "Healthy"], "Argo CD sees what the operator means"
    finally:
        await asyncio.to_thread(confined.remove)


def _health(program: Path, body: Body) -> str:
    script = (ROOT / "deploy" / "argocd" / "health" / body["kind"] / "health.lua").read_text()
    return health_of(program, script, body)["status"]


def test_a_cluster_id_of_the_users_own_is_all_that_the_install_manifest_lacks() -> None:
    text = (ROOT / "deploy" / "install.yaml").read_text()
    assert Rendering(text.replace("SET-YOUR-CLUSTER-ID", "lab1")).environment["BREV_OPERATOR_CLUSTER_ID"] == "lab1"
