"""What the chart renders by default and with every value, and that what it cannot mean is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.settings import read_settings
from tests.chart.rendering import CHART, USUAL, Body, RefusedError, lint, render

pytestmark = pytest.mark.usefixtures("helm_program")

DIGEST = "sha256:" + "a" * 64
PEER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
EVERYTHING: dict[str, Any] = {
    "clusterID": "prod1",
    "tenants": ["team-a", "team-b"],
    "watchNamespaces": ["team-a", "team-b", "team-c"],
    "settings": {
        "BREV_OPERATOR_WORKERS": 16,
        "BREV_OPERATOR_LOG_LEVEL": "DEBUG",
        "BREV_OPERATOR_TIME_SCALE": 0.5,
        "BREV_OPERATOR_LISTEN_ADDRESS": "::",
        "BREV_OPERATOR_CLI_ENV_BREV_API_URL": "https://api.example.com",
    },
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "image": {"repository": "registry.example.com/ops/brev", "digest": DIGEST, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "fullnameOverride": "machines",
    "serviceAccount": {"name": "driver", "annotations": {"example.com/role": "x"}},
    "crds": {"enabled": False},
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "volumes": {"stateSizeLimit": "256Mi", "tmpSizeLimit": "32Mi"},
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.com/note": "true"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "ops", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "system-cluster-critical",
    "metrics": {
        "service": {"port": 9090, "annotations": {"example.com/scrape": "yes"}},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"},
    },
    "networkPolicy": {"enabled": True, "from": [PEER], "egress": [{"ports": [{"port": 443}]}]},
}


def _names(objects: list[Body]) -> set[str]:
    return {f"{body['kind']}/{body['metadata']['name']}" for body in objects}


def test_the_defaults_are_one_deployment_with_its_roles_and_crds() -> None:
    rendering = render()
    assert _names(rendering.objects) == {
        "CustomResourceDefinition/brevaccounts.brev.nvidia.com",
        "CustomResourceDefinition/brevinstances.brev.nvidia.com",
        "CustomResourceDefinition/brevjobs.brev.nvidia.com",
        "ServiceAccount/brev-operator",
        "ClusterRole/brev-operator-cluster",
        "ClusterRole/brev-operator-watched",
        "ClusterRole/brev-operator-tenant",
        "ClusterRoleBinding/brev-operator-cluster",
        "ClusterRoleBinding/brev-operator-watched",
        "Role/brev-operator-operator",
        "Role/brev-operator-default",
        "RoleBinding/brev-operator-operator",
        "RoleBinding/brev-operator-default",
        "Service/brev-operator-metrics",
        "Deployment/brev-operator",
    }
    for crd in rendering.of("CustomResourceDefinition"):
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    spec = rendering.one("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert rendering.pod["spec"]["containers"][0]["image"] == "brev-operator:0.1.0"


def test_the_pod_is_restricted_and_has_no_token_where_the_cli_would_take_it() -> None:
    pod = render().pod["spec"]
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["terminationGracePeriodSeconds"] == 60
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    (usual,) = mounts["/var/run/secrets/kubernetes.io/serviceaccount"]["projected"]["sources"]
    assert usual == {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    (own,) = mounts["/var/run/secrets/brev-operator"]["projected"]["sources"]
    assert own["serviceAccountToken"]["path"] == "token"
    for path in ("/var/lib/brev-operator", "/tmp"):
        assert mounts[path]["emptyDir"]["medium"] == "Memory"
        assert mounts[path]["emptyDir"]["sizeLimit"]
    assert render().one("ServiceAccount")["automountServiceAccountToken"] is False


@pytest.mark.parametrize("values", [USUAL, EVERYTHING], ids=["defaults", "everything"])
def test_the_operator_accepts_the_variables_that_the_chart_sets(values: dict[str, Any], tmp_path: Path) -> None:
    environment = render(values).environment | {"BREV_OPERATOR_NAMESPACE": "ops"}
    settings = read_settings(environment, tmp_path / "none")
    assert settings.cluster_id == values["clusterID"]
    assert settings.watch_namespaces == tuple(values.get("watchNamespaces", ()))
    assert settings.listen_port == render(values).pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    assert str(settings.token_file) == "/var/run/secrets/brev-operator/token"
    assert str(settings.state_directory).startswith(environment["HOME"] + "/")


def test_every_value_arrives_where_it_belongs() -> None:
    rendering = render(EVERYTHING, release="other", namespace="ops")
    pod = rendering.pod
    container = pod["spec"]["containers"][0]
    assert rendering.of("CustomResourceDefinition") == []
    assert rendering.one("Deployment")["metadata"] | {"labels": 0} == {
        "name": "machines",
        "namespace": "ops",
        "labels": 0,
    }
    assert container["image"] == f"registry.example.com/ops/brev@{DIGEST}"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == EVERYTHING["resources"]
    environment = rendering.environment
    assert environment["BREV_OPERATOR_WORKERS"] == "16"
    assert environment["BREV_OPERATOR_TIME_SCALE"] == "0.5"
    assert environment["BREV_OPERATOR_LISTEN_ADDRESS"] == "::"
    assert environment["HTTPS_PROXY"] == "http://proxy.example.com:3128"
    assert pod["metadata"]["labels"]["team"] == "platform"
    assert pod["metadata"]["annotations"]["example.com/note"] == "true"
    for field in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert pod["spec"][field] == EVERYTHING[field]
    limits = {each["name"]: each["emptyDir"]["sizeLimit"] for each in pod["spec"]["volumes"] if "emptyDir" in each}
    assert limits == {"state": "256Mi", "tmp": "32Mi"}
    assert pod["spec"]["serviceAccountName"] == rendering.one("ServiceAccount")["metadata"]["name"] == "driver"
    assert rendering.one("ServiceAccount")["metadata"]["annotations"] == {"example.com/role": "x"}
    service = rendering.one("Service")
    assert service["spec"]["ports"][0]["port"] == 9090
    assert service["metadata"]["annotations"] == {"example.com/scrape": "yes"}
    monitor = rendering.one("ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"]["endpoints"][0]["interval"] == "1m"
    policy = rendering.one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["from"] == [PEER]
    assert policy["egress"] == EVERYTHING["networkPolicy"]["egress"]


def test_selectors_match_the_pod_and_nothing_that_a_person_may_add() -> None:
    rendering = render({**USUAL, "networkPolicy": {"enabled": True}, "metrics": {"serviceMonitor": {"enabled": True}}})
    labels = rendering.pod["metadata"]["labels"]
    monitor = rendering.one("ServiceMonitor")["spec"]["selector"]["matchLabels"]
    selectors = [
        rendering.one("Deployment")["spec"]["selector"]["matchLabels"],
        rendering.one("Service")["spec"]["selector"],
        rendering.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert monitor.items() <= rendering.one("Service")["metadata"]["labels"].items()


def test_without_egress_rules_a_network_policy_restricts_only_who_comes_in() -> None:
    policy = render({**USUAL, "networkPolicy": {"enabled": True}}).one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"port": "web", "protocol": "TCP"}]}]


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("brev-operator", {}, "brev-operator"),
        ("lab", {}, "lab-brev-operator"),
        ("lab", {"nameOverride": "brev"}, "lab-brev"),
        ("x" * 53, {}, "x" * 47),
        ("lab", {"fullnameOverride": "gpu"}, "gpu"),
    ],
)
def test_names_follow_from_the_release_and_stay_short(release: str, values: dict[str, Any], name: str) -> None:
    rendering = render({**USUAL, **values}, release=release)
    assert rendering.one("Deployment")["metadata"]["name"] == name
    assert max(len(body["metadata"]["name"]) for body in rendering.objects) <= 63


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no cluster id": ({"clusterID": ""}, "clusterID is required: 1 to 12 of a-z and 0-9"),
    "a cluster id with a dash": ({"clusterID": "lab-1"}, "clusterID"),
    "a cluster id that is too long": ({"clusterID": "a" * 13}, "clusterID"),
    "a cluster id that YAML took for a number": ({"clusterID": 12}, "clusterID"),
    "a misspelt value": ({"clusterId": "lab1"}, "clusterId"),
    "a misspelt value further down": ({"metrics": {"servicemonitor": {}}}, "servicemonitor"),
    "an unknown setting": ({"settings": {"BREV_OPERATOR_WORKER": 3}}, "BREV_OPERATOR_WORKER"),
    "a setting that the chart decides": ({"settings": {"BREV_OPERATOR_CLUSTER_ID": "x"}}, "BREV_OPERATOR_CLUSTER_ID"),
    "a setting that is a list": ({"settings": {"BREV_OPERATOR_WATCH_ACCOUNTS": ["a"]}}, "BREV_OPERATOR_WATCH_ACCOUNTS"),
    "a tenant that is no namespace": ({"tenants": ["Team_A"]}, "tenants"),
    "the same tenant twice": ({"tenants": ["a", "a"]}, "tenants"),
    "tenants as text": ({"tenants": "a"}, "tenants"),
    "a setting among the further variables": ({"extraEnv": [{"name": "BREV_OPERATOR_X", "value": ""}]}, "extraEnv"),
    "a Secret among the further variables": (
        {"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        "valueFrom",
    ),
    "a digest that is a tag": ({"image": {"digest": "v1"}}, "digest"),
    "a volume without a size": ({"volumes": {"stateSizeLimit": "large"}}, "stateSizeLimit"),
    "an unnamed foreign service account": ({"serviceAccount": {"create": False}}, "serviceAccount.name is required"),
    "a monitor without a service": (
        {"metrics": {"service": {"enabled": False}, "serviceMonitor": {"enabled": True}}},
        "needs metrics.service.enabled",
    ),
    "two replicas": ({"replicas": 2}, "replicas"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_by_name(case: str) -> None:
    values, word = REFUSED[case]
    with pytest.raises(RefusedError) as caught:
        render({**USUAL, **values})
    assert word in str(caught.value)


@pytest.mark.parametrize("flag", ["serviceAccount", "rbac"])
def test_what_somebody_else_makes_is_left_out(flag: str) -> None:
    values = {**USUAL, flag: {"create": False}}
    if flag == "serviceAccount":
        values[flag]["name"] = "theirs"
    rendering = render(values)
    kinds = {body["kind"] for body in rendering.objects}
    assert ("ServiceAccount" in kinds) == (flag == "rbac")
    assert any(kind.startswith(("Role", "ClusterRole")) for kind in kinds) == (flag == "serviceAccount")


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in lint()


def test_the_schema_knows_every_value_and_nothing_else() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    _same_keys(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "values")


def _same_keys(values: Any, schema: dict[str, Any], path: str) -> None:
    if not isinstance(values, dict) or "additionalProperties" not in schema or schema["additionalProperties"]:
        return
    known = set(schema["properties"]) - {"global"}
    open_ended = path in ("values.settings", "values.affinity")
    assert set(values) == known or (open_ended and values == {}), path
    for name, value in values.items():
        _same_keys(value, schema["properties"][name], f"{path}.{name}")
