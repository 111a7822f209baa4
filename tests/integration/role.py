"""An operator under the chart's own role: its ServiceAccount, its token, and nothing of the admin's rights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.controlplane import Cluster
from controller.sandbox.janitor import Janitor
from tests.chart.rendering import Body, render
from tests.integration.bench import Bench
from tests.integration.deployment import Deployment, Wishes

ACCESS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")

Verb = tuple[str, str]
"""Resource and verb, such as `("brevjobs/status", "patch")`."""


class Confined:
    """A deployment whose operator is the chart's ServiceAccount, of which one verb may be taken away.

    The first tenant namespace is in the chart's `tenants`, the others are served but not listed.
    """

    def __init__(
        self,
        cluster: Cluster,
        brev: Simulator,
        directory: Path,
        janitor: Janitor,
        *,
        without: Verb | None = None,
        everywhere: bool = False,
    ) -> None:
        """`everywhere`: serve all namespaces. The operator is not started."""
        directory.mkdir(mode=0o700, parents=True)
        kubeconfig = directory / "kubeconfig"
        self._cluster = cluster
        confined = replace(cluster, kubeconfig=kubeconfig)
        self.deployment = Deployment(confined, brev, directory, janitor, Wishes(namespaces=2))
        watched = () if everywhere else self.deployment.tenants
        options = replace(self.deployment.options, watch_namespaces=watched)
        self.deployment.operator = self.deployment.another_operator("confined", options)
        self._objects = _access(self.deployment, watched)
        if without is not None:
            _take_away(self._objects, without)
        cluster.kubectl("apply", "--server-side", "-f", "-", input=_stream(self._objects))
        token = cluster.create_token(self.deployment.home, self.deployment.home)
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(cluster, token)))

    def remove(self) -> None:
        """Objects without a namespace would outlive the test."""
        self.deployment.remove()
        self._cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", input=_stream(self._objects))


async def refused(bench: Bench) -> set[Verb]:
    """Resource and verb of every request of the operator that the API server has refused."""
    return {
        (sample.labels["resource"], sample.labels["verb"])
        for sample in await bench.samples()
        if sample.name == "brev_kubernetes_requests_total" and sample.labels["code"] == "403"
    }


def _access(deployment: Deployment, watched: Sequence[str]) -> list[Body]:
    """What the chart renders for access."""
    values: dict[str, Any] = {
        "clusterID": deployment.cluster_id,
        "fullnameOverride": deployment.home,
        "watchNamespaces": list(watched),
        "tenants": list(deployment.tenants[:1]),
    }
    return [body for body in render(values, namespace=deployment.home).objects if body["kind"] in ACCESS]


def _take_away(objects: Sequence[Body], verb: Verb) -> None:
    taken = 0
    for body in objects:
        for rule in body.get("rules", ()):
            if rule["resources"] == [verb[0]] and verb[1] in rule["verbs"]:
                rule["verbs"].remove(verb[1])
                taken += 1
        if "rules" in body:
            body["rules"] = [rule for rule in body["rules"] if rule["verbs"]]
    assert taken, f"no rule grants {verb}"


def _stream(objects: Sequence[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _kubeconfig(cluster: Cluster, token: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "c", "cluster": {"server": cluster.url, "certificate-authority": str(cluster.ca_file)}},
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
