"""Updates, full size, status and what kubectl shows, on the real API server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from controller.api.base import status_dict
from controller.api.brevinstance import BrevInstance, InstanceStatus
from controller.api.brevjob import BrevJob, JobStatus
from controller.api.conditions import ConditionType, set_condition
from controller.api.crdgen import crd_yaml
from controller.api.meta import API_VERSION, GROUP, VERSION, Kind
from controller.api.reasons import Reason
from controller.sandbox.controlplane import Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MERGE = "application/merge-patch+json"


def path_of(kind: Kind, namespace: str, name: str = "") -> str:
    where = f"namespaces/{namespace}/" if kind.namespaced else ""
    return f"/apis/{GROUP}/{VERSION}/{where}{kind.plural}" + (f"/{name}" if name else "")


def make(cluster: Cluster, kind: Kind, namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": API_VERSION, "kind": kind.value, "metadata": {"name": name}, "spec": spec}
    answer = cluster.request("POST", path_of(kind, namespace), body)
    assert answer.status == HTTPStatus.CREATED, answer.body["message"]
    return answer.body


def patch(cluster: Cluster, path: str, change: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    answer = cluster.request("PATCH", path, change, content_type=MERGE)
    return answer.status, answer.body


INSTANCE = {"candidates": [{"type": "g5.xlarge"}]}
JOB = {"instanceTemplate": {"spec": INSTANCE}, "script": {"text": "echo hello"}}
ACCOUNT = {"secretName": "brev-login", "orgID": "org-1"}


@pytest.mark.parametrize(
    "change",
    [
        {"script": {"text": "echo other"}},
        {"script": {"interpreter": "sh"}},
        {"env": [{"name": "A", "value": ""}]},
        {"files": [{"path": "a", "content": ""}]},
        {"deadlines": {"run": "23h"}},
        {"logs": {"tailBytes": 0}},
        {"instanceTemplate": {"spec": {"candidates": [{"type": "g5.2xlarge"}]}}},
        {"instanceTemplate": {"spec": {"accountName": "other"}}},
    ],
)
def test_no_part_of_a_jobs_spec_can_be_changed(control_plane: Cluster, namespace: str, change: dict[str, Any]) -> None:
    make(control_plane, Kind.JOB, namespace, "fixed", JOB)
    status, body = patch(control_plane, path_of(Kind.JOB, namespace, "fixed"), {"spec": change})
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "the spec of a BrevJob is immutable; delete the job and create it again" in body["message"]


def test_a_job_can_be_labelled_and_applied_again_unchanged(control_plane: Cluster, namespace: str) -> None:
    make(control_plane, Kind.JOB, namespace, "fixed", JOB)
    path = path_of(Kind.JOB, namespace, "fixed")
    status, body = patch(control_plane, path, {"metadata": {"labels": {"a": "b"}}, "spec": JOB})
    assert (status, body["metadata"]["generation"]) == (HTTPStatus.OK, 1)


def test_accounts_and_instances_change_except_for_what_machines_hang_on(control_plane: Cluster, namespace: str) -> None:
    make(control_plane, Kind.INSTANCE, namespace, "x", INSTANCE)
    account = f"account-{namespace}"
    make(control_plane, Kind.ACCOUNT, "", account, ACCOUNT)
    instance_path, account_path = path_of(Kind.INSTANCE, namespace, "x"), path_of(Kind.ACCOUNT, "", account)
    for path, change, fault in (
        (instance_path, {"candidates": [{"type": "other"}]}, ""),
        (instance_path, {"accountName": "other"}, "accountName is immutable"),
        (account_path, {"secretName": "other", "allowedNamespaces": {"names": ["a"]}}, ""),
        (account_path, {"orgID": "org-2"}, "orgID is immutable"),
    ):
        status, body = patch(control_plane, path, {"spec": change})
        assert status == (HTTPStatus.UNPROCESSABLE_ENTITY if fault else HTTPStatus.OK), body
        assert fault in body.get("message", "")
    control_plane.request("DELETE", account_path)


def full_size() -> dict[str, Any]:
    """Every list and the script at their limits, in what etcd takes in one request (1.5 MiB).

    Paths differ in length because then the rule against files inside files costs most.
    """
    types = [{"type": f"{'t' * 125}{number:03d}", "maxPricePerHourUSD": "999999999.999999"} for number in range(16)]
    return {
        "instanceTemplate": {"spec": {"candidates": types}},
        "script": {"text": "x" * 262144},
        "env": [{"name": f"{'V' * 253}{number:03d}", "value": "y" * 1200} for number in range(500)],
        "files": [
            {"path": f"{number:03d}/{'p' * 250}/{'p' * (156 + number)}", "content": "z" * 2500} for number in range(100)
        ],
    }


def test_a_job_of_full_size_is_taken_and_updated_within_the_cost_budget(control_plane: Cluster, namespace: str) -> None:
    spec = full_size()
    made = make(control_plane, Kind.JOB, namespace, "full", spec)
    path = path_of(Kind.JOB, namespace, "full")
    same = control_plane.request("PUT", path, made)
    assert same.status == HTTPStatus.OK, same.body
    labelled, _ = patch(control_plane, path, {"metadata": {"labels": {"a": "b"}}})
    assert labelled == HTTPStatus.OK
    changed_spec = {"env": [*made["spec"]["env"][:-1], {"name": "last", "value": "changed"}]}
    changed, refusal = patch(control_plane, path, {"spec": changed_spec})
    assert changed == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "the spec of a BrevJob is immutable" in refusal["message"]
    assert len(BrevJob.parse(made).spec.env) == 500


def test_a_job_too_large_for_an_annotation_can_be_applied_on_the_servers_side(
    control_plane: Cluster, namespace: str
) -> None:
    body = {"apiVersion": API_VERSION, "kind": "BrevJob", "metadata": {"name": "full"}, "spec": full_size()}
    arguments = ("-n", namespace, "-f", "-")
    refused = control_plane.kubectl("apply", *arguments, input=json.dumps(body), check=False)
    assert "metadata.annotations: Too long" in refused.stderr
    for _ in range(2):
        control_plane.kubectl("apply", "--server-side", *arguments, input=json.dumps(body))


def test_one_value_and_one_file_as_long_as_they_may_be_are_taken(control_plane: Cluster, namespace: str) -> None:
    value = {"env": [{"name": "A", "value": "y" * 131069}], "files": [{"path": "p", "content": "z" * 262144}]}
    stored = make(control_plane, Kind.JOB, namespace, "long", JOB | value)
    job = BrevJob.parse(stored)
    assert (len(job.spec.env[0].value or ""), len(job.spec.files[0].content or "")) == (131069, 262144)


def test_names_as_long_and_odd_as_kubernetes_allows_are_taken(control_plane: Cluster, namespace: str) -> None:
    name = ".".join(["a" * 63] * 3 + ["1-x" * 20 + "y"])
    assert len(name) == 253
    assert make(control_plane, Kind.JOB, namespace, name, JOB)["metadata"]["name"] == name


def job_status() -> JobStatus:
    status = JobStatus.model_validate(
        {
            "observedGeneration": 1,
            "phase": "Failed",
            "machine": {"type": "g5.xlarge", "brevName": "bo-x", "pricePerHourUSD": "1.25"},
            "instance": {"name": "iris-machine", "uid": "u-1"},
            "attempts": [{"number": 1, "exitCode": 0}, {"number": 2, "exitCode": 3, "reason": "NonZeroExit"}],
            "cost": {"pricePerHourUSD": "1.25", "accruedUSD": "0.21"},
            "startTime": "2026-01-01T00:00:00.250Z",
        }
    )
    message = "The command ended with exit code 3."
    set_condition(status.conditions, ConditionType.READY, "False", Reason.NON_ZERO_EXIT, message, NOW, 1)
    return status


def instance_status() -> InstanceStatus:
    status = InstanceStatus.model_validate(
        {
            "phase": "Ready",
            "brevName": "bo-x",
            "brevID": "i-1",
            "offer": {"type": "g5.xlarge", "pricePerHourUSD": "1.25"},
            "cost": {"accruedUSD": "0.21"},
        }
    )
    set_condition(status.conditions, ConditionType.READY, "True", Reason.READY, "The machine answers.", NOW, 1)
    return status


def test_kubectl_get_reads_like_a_story(control_plane: Cluster, namespace: str) -> None:
    make(control_plane, Kind.JOB, namespace, "iris", JOB)
    make(control_plane, Kind.INSTANCE, namespace, "iris-machine", INSTANCE)
    for kind, name, status in ((Kind.JOB, "iris", job_status()), (Kind.INSTANCE, "iris-machine", instance_status())):
        path = f"{path_of(kind, namespace, name)}/status"
        code, body = patch(control_plane, path, {"status": status_dict(status)})
        assert code == HTTPStatus.OK, body
        assert body["status"] == status_dict(status), "nothing of the status is pruned"
    jobs, instances = (
        table(control_plane.kubectl("get", what, "-n", namespace, *flags).stdout)
        for what, flags in (("bjob", ()), ("binst", ()))
    )
    assert jobs["head"] == ["NAME", "PHASE", "MACHINE", "PRICE/H", "EXIT", "COST", "AGE"]
    assert jobs["row"][:6] == ["iris", "Failed", "g5.xlarge", "1.25", "3", "0.21"]
    assert instances["head"] == ["NAME", "PHASE", "TYPE", "PRICE/H", "READY", "COST", "AGE"]
    assert instances["row"][:6] == ["iris-machine", "Ready", "g5.xlarge", "1.25", "True", "0.21"]
    wide = control_plane.kubectl("get", "bjob,binst", "-n", namespace, "-o", "wide").stdout
    for column in ("INSTANCE", "REASON", "MESSAGE", "BREV NAME", "BREV ID"):
        assert column in wide
    for value in ("iris-machine", "NonZeroExit", "The command ended with exit code 3.", "bo-x", "i-1"):
        assert value in wide
    together = control_plane.kubectl("get", "brev", "-n", namespace, "-o", "name").stdout
    assert {"brevjob", "brevinstance"} <= {line.split(".")[0] for line in together.splitlines()}


def table(text: str) -> dict[str, list[str]]:
    head, row = (line.split() for line in text.splitlines())
    return {"head": head, "row": row}


def test_an_account_shows_whether_it_works(control_plane: Cluster, namespace: str) -> None:
    name = f"account-{namespace}"
    make(control_plane, Kind.ACCOUNT, "", name, ACCOUNT)
    path = path_of(Kind.ACCOUNT, "", name)
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "AuthenticationFailed",
        "message": "Log in again.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "NotReady", "credentialType": "APIKey", "cliVersion": "v0.6.327", "conditions": [condition]}
    code, body = patch(control_plane, f"{path}/status", {"status": status})
    assert code == HTTPStatus.OK, body
    shown = control_plane.kubectl("get", "bacct", name, "-o", "wide").stdout
    assert shown.split("\n")[0].split() == ["NAME", "READY", "ORG", "CREDENTIAL", "CLI", "AGE", "REASON", "MESSAGE"]
    assert shown.split("\n")[1].split()[1:5] == ["False", "org-1", "APIKey", "v0.6.327"]
    control_plane.request("DELETE", path)


def test_objects_can_be_filtered_by_phase_machine_account_and_label(control_plane: Cluster, namespace: str) -> None:
    for name, phase, instance in (("a", "Running", "m-a"), ("b", "Failed", "m-b")):
        make(control_plane, Kind.JOB, namespace, name, JOB)
        status = {"phase": phase, "instance": {"name": instance}}
        patch(control_plane, f"{path_of(Kind.JOB, namespace, name)}/status", {"status": status})
        patch(control_plane, path_of(Kind.JOB, namespace, name), {"metadata": {"labels": {"team": name}}})
        make(control_plane, Kind.INSTANCE, namespace, name, INSTANCE | {"accountName": f"of-{name}"})
        status = {"phase": phase if phase != "Running" else "Ready", "brevName": f"bo-{name}"}
        patch(control_plane, f"{path_of(Kind.INSTANCE, namespace, name)}/status", {"status": status})

    def names(what: str, *selector: str) -> str:
        found = control_plane.kubectl(
            "get", what, "-n", namespace, *selector, "-o", "jsonpath={.items[*].metadata.name}"
        )
        return found.stdout

    assert names("bjob", "--field-selector", "status.phase=Running") == "a"
    assert names("bjob", "--field-selector", "status.phase!=Running") == "b"
    assert names("bjob", "--field-selector", "status.instance.name=m-b") == "b"
    assert names("bjob", "-l", "team=b") == "b"
    assert names("binst", "--field-selector", "spec.accountName=of-a") == "a"
    assert names("binst", "--field-selector", "status.phase=Failed") == "b"
    assert names("binst", "--field-selector", "status.brevName=bo-b") == "b"


def test_a_status_beyond_every_limit_is_cut_and_taken(control_plane: Cluster, namespace: str) -> None:
    make(control_plane, Kind.JOB, namespace, "loud", JOB)
    status = job_status()
    status.log_tail = "\x01é<🚀" * 20000
    status.attempts = [status.attempts[-1].model_copy(update={"number": n, "message": "é" * 999}) for n in range(1, 99)]
    set_condition(status.conditions, ConditionType.READY, "False", "X" * 99, "<" * 9999, NOW, 1)
    code, body = patch(control_plane, f"{path_of(Kind.JOB, namespace, 'loud')}/status", {"status": status_dict(status)})
    assert code == HTTPStatus.OK, body
    assert body["status"] == status_dict(status)
    assert [attempt["number"] for attempt in body["status"]["attempts"]] == list(range(67, 99))


def test_a_status_is_not_written_through_the_object_nor_a_spec_through_the_status(
    control_plane: Cluster, namespace: str
) -> None:
    make(control_plane, Kind.INSTANCE, namespace, "x", INSTANCE)
    path = path_of(Kind.INSTANCE, namespace, "x")
    _, body = patch(control_plane, path, {"status": {"phase": "Ready"}})
    assert "status" not in body
    change = {"spec": {"candidates": [{"type": "other"}]}, "status": {"phase": "Ready"}}
    _, body = patch(control_plane, f"{path}/status", change)
    read = BrevInstance.parse(body)
    assert (read.spec.candidates[0].type, read.status.phase) == ("g5.xlarge", "Ready")


def test_every_field_can_be_explained_by_kubectl(control_plane: Cluster) -> None:
    said = control_plane.kubectl("explain", "brevjobs.spec.deadlines.run").stdout
    assert "How long the script may run" in said
    assert "Default: 24h." in said


@pytest.mark.parametrize("kind", list(Kind))
def test_the_server_keeps_the_generated_crd_as_it_is(control_plane: Cluster, kind: Kind) -> None:
    done = control_plane.kubectl(
        "diff", "--server-side", "--force-conflicts", "-f", "-", input=crd_yaml(kind), check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    crd = control_plane.kubectl.json("get", "crd", f"{kind.plural}.{GROUP}")
    states = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert states["Established"] == "True"
    assert states.get("NonStructuralSchema", "False") == "False"
