"""The control plane is the real thing, and nothing of it outlives whoever started it."""

import json
import signal
import socket
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.controlplane import Cluster, ControlPlane, ControlPlaneError, components, plane
from controller.sandbox.controlplane.keeper import SharedControlPlane
from controller.sandbox.janitor import is_running, read_process
from controller.sandbox.waiting import wait_until

GROUP = "sandbox-test.invalid"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def probes(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A small CRD of this module's own; installing it again from another worker changes nothing."""
    properties = {"low": {"type": "integer"}, "high": {"type": "integer"}, "colour": {"type": "string"}}
    spec = {
        "type": "object",
        "properties": properties,
        "x-kubernetes-validations": [{"rule": "self.low <= self.high", "message": "low is above high"}],
    }
    manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"probes.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Probe", "plural": "probes", "singular": "probe"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "selectableFields": [{"jsonPath": ".spec.colour"}],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }
    file = tmp_path_factory.mktemp("crd") / "probes.json"
    file.write_text(json.dumps(manifest))
    control_plane.install_crds(file)
    return control_plane


def path_of(namespace: str, name: str = "") -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/probes" + (f"/{name}" if name else "")


def probe(name: str, finalizers: tuple[str, ...] = (), **spec: object) -> dict[str, Any]:
    metadata = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Probe", "metadata": metadata, "spec": spec}


def test_a_cross_field_rule_in_cel_is_enforced(probes: Cluster, namespace: str) -> None:
    assert probes.request("POST", path_of(namespace), probe("good", low=1, high=2)).status == HTTPStatus.CREATED
    refused = probes.request("POST", path_of(namespace), probe("bad", low=3, high=2))
    assert refused.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "low is above high" in refused.body["message"]


def test_an_unknown_field_is_pruned_for_a_lenient_client_and_refused_for_a_strict_one(
    probes: Cluster, namespace: str
) -> None:
    misspelt = probe("misspelt", low=1, high=2, color="red")
    strict = probes.request("POST", f"{path_of(namespace)}?fieldValidation=Strict", misspelt)
    assert strict.status == HTTPStatus.BAD_REQUEST
    assert "spec.color" in strict.body["message"]
    lenient = probes.request("POST", f"{path_of(namespace)}?fieldValidation=Warn", misspelt)
    assert lenient.body["spec"] == {"low": 1, "high": 2}


def test_objects_can_be_selected_by_a_field_of_their_spec(probes: Cluster, namespace: str) -> None:
    for name, colour in (("a", "red"), ("b", "blue")):
        probes.request("POST", path_of(namespace), probe(name, low=0, high=0, colour=colour))
    found = probes.request("GET", f"{path_of(namespace)}?fieldSelector=spec.colour%3Dblue").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["b"]


def test_a_stale_resource_version_is_a_conflict(probes: Cluster, namespace: str) -> None:
    made = probes.request("POST", path_of(namespace), probe("contended", low=0, high=0)).body
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"high": 1}}
    kind = "application/merge-patch+json"
    first = probes.request("PATCH", path_of(namespace, "contended"), patch, content_type=kind)
    second = probes.request("PATCH", path_of(namespace, "contended"), patch | {"spec": {"high": 2}}, content_type=kind)
    assert (first.status, second.status) == (HTTPStatus.OK, HTTPStatus.CONFLICT)


def test_a_namespace_stays_terminating_until_the_last_finalizer_is_released(probes: Cluster, namespace: str) -> None:
    probes.request("POST", path_of(namespace), probe("held", (f"{GROUP}/hold",), low=0, high=0))
    probes.request("DELETE", f"/api/v1/namespaces/{namespace}")
    condition = "jsonpath={.metadata.deletionTimestamp}"
    probes.kubectl("wait", f"--for={condition}", "--timeout=60s", "-n", namespace, "probe/held")
    assert probes.request("GET", f"/api/v1/namespaces/{namespace}").body["status"]["phase"] == "Terminating"
    release = {"metadata": {"finalizers": None}}
    probes.request("PATCH", path_of(namespace, "held"), release, content_type="application/merge-patch+json")
    probes.kubectl("wait", "--for=delete", "--timeout=90s", f"namespace/{namespace}")


def test_an_object_goes_with_its_owner(control_plane: Cluster, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    owner = control_plane.request("POST", maps, {"metadata": {"name": "owner"}}).body
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    owned = control_plane.request("POST", maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    assert owned.status == HTTPStatus.CREATED, "what was never there is also not there"
    control_plane.request("DELETE", f"{maps}/owner")
    control_plane.kubectl("wait", "--for=delete", "--timeout=90s", "-n", namespace, "configmap/owned")


def test_a_service_account_token_acts_under_its_role_only(control_plane: Cluster, namespace: str) -> None:
    kubectl = control_plane.kubectl
    kubectl("create", "serviceaccount", "reader", "-n", namespace)
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps", "-n", namespace)
    kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:reader", "-n", namespace)
    token = control_plane.create_token(namespace, "reader")
    reader = Cluster(control_plane.url, control_plane.kubeconfig, control_plane.ca_file, token, kubectl)
    wait_until(
        lambda: reader.request("GET", f"/api/v1/namespaces/{namespace}/configmaps").status == HTTPStatus.OK, 30, "RBAC"
    )
    assert reader.request("GET", f"/api/v1/namespaces/{namespace}/secrets").status == HTTPStatus.FORBIDDEN


def test_nobody_gets_in_without_the_token_and_files_are_private(control_plane: Cluster) -> None:
    stranger = Cluster(
        control_plane.url, control_plane.kubeconfig, control_plane.ca_file, "wrong", control_plane.kubectl
    )
    assert stranger.request("GET", "/api/v1/namespaces").status == HTTPStatus.UNAUTHORIZED
    assert control_plane.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert control_plane.kubeconfig.parent.stat().st_mode & 0o777 == 0o700
    assert control_plane.admin_token not in repr(control_plane)


def test_a_port_that_somebody_takes_in_between_costs_only_another_try(
    control_plane: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken, free = thief.getsockname()[1], plane.free_port()
        ports = iter([taken, free])
        monkeypatch.setattr(plane, "free_port", lambda: next(ports))
        with ControlPlane.start(tmp_path) as started:
            assert started.url == f"https://127.0.0.1:{free}"


def test_a_component_that_ends_at_start_is_named_with_its_last_words(
    control_plane: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = components.controller_manager_command
    monkeypatch.setattr(components, "controller_manager_command", lambda binaries: [*real(binaries), "--no-such-flag"])
    with pytest.raises(ControlPlaneError, match="kube-controller-manager ended with 1") as raised:
        ControlPlane.start(tmp_path)
    assert "unknown flag: --no-such-flag" in str(raised.value)
    assert not list(tmp_path.iterdir()), "the data of a failed start are removed, too"


STARTER = """
import signal
from controller.sandbox.controlplane import ControlPlane
started = ControlPlane.start()
print(started.directory, started.janitor.pid, *started.pids.values(), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_the_end_of_the_parent_ends_all_three_and_removes_the_data(
    control_plane: Cluster, number: signal.Signals
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with parent:
        assert parent.stdout is not None
        directory, *pids = parent.stdout.readline().split()
        running = {int(pid): found.start for pid in pids if (found := read_process(int(pid)))}
        assert len(running) == 4, "three components and the janitor"
        parent.send_signal(number)
    wait_until(lambda: not any(is_running(*process) for process in running.items()), 60, "the end of all processes")
    assert not Path(directory).exists()


def test_the_shared_control_plane_ends_with_the_run_that_owns_it(control_plane: Cluster, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        shared = SharedControlPlane(tmp_path / "run", owner.pid)
        cluster = shared.cluster()
        assert shared.cluster().url == cluster.url, "the second caller gets the first one's"
        owner.kill()
    wait_until(lambda: not (tmp_path / "run").exists(), 60, "the keeper to clean up")
    with pytest.raises(OSError):
        cluster.request("GET", "/readyz")
