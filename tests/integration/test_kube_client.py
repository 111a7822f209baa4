"""The client against the real API server: preconditions, finalizers, pages, refusals, and exactly its own role."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from controller.api.meta import API_VERSION, FINALIZER, Kind, ObjectKey
from controller.kube import client as client_module
from controller.kube.client import KubernetesClient
from controller.kube.connect import connect
from controller.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from controller.kube.permissions import PERMISSIONS, Scope
from controller.kube.status import merge_patch, pruned_fields
from controller.kube.transport import Transport
from controller.sandbox.controlplane import Cluster


@pytest.fixture
async def kube(control_plane: Cluster) -> AsyncIterator[KubernetesClient]:
    client = await KubernetesClient.connect(kubeconfig=control_plane.kubeconfig)
    yield client
    await client.close()


def instance(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"candidates": [{"type": "g5.xlarge", "maxPricePerHourUSD": "2"}]}
    return {"apiVersion": API_VERSION, "kind": "BrevInstance", "metadata": {"name": name, **metadata}, "spec": spec}


async def made(kube: KubernetesClient, namespace: str, name: str = "m", **metadata: Any) -> tuple[ObjectKey, Any]:
    stored = await kube.create(Kind.INSTANCE, namespace, instance(name, **metadata))
    return ObjectKey(Kind.INSTANCE, namespace, name), stored


async def test_a_stale_status_patch_is_a_conflict_and_a_fresh_one_is_read_back(
    kube: KubernetesClient, namespace: str
) -> None:
    key, stored = await made(kube, namespace)
    version = stored["metadata"]["resourceVersion"]
    first = await kube.patch_status(key, {"phase": "Pending", "brevName": "bo-x"}, version)
    assert first["status"]["phase"] == "Pending"
    with pytest.raises(Conflict):
        await kube.patch_status(key, {"phase": "Ready"}, version)
    patch = merge_patch(first["status"], {"phase": "Ready"})
    second = await kube.patch_status(key, patch, first["metadata"]["resourceVersion"])
    assert second["status"] == {"phase": "Ready"}
    assert second["metadata"]["generation"] == stored["metadata"]["generation"]


async def test_a_status_field_that_the_crd_does_not_know_is_noticed(kube: KubernetesClient, namespace: str) -> None:
    key, stored = await made(kube, namespace)
    sent = {"phase": "Pending", "fromTheFuture": {"a": 1}}
    answer = await kube.patch_status(key, sent, stored["metadata"]["resourceVersion"])
    assert pruned_fields(sent, answer["status"]) == ["fromTheFuture"]


async def test_a_finalizer_holds_the_object_until_it_is_removed(kube: KubernetesClient, namespace: str) -> None:
    key, stored = await made(kube, namespace)
    held = await kube.set_finalizers(key, [FINALIZER], stored["metadata"]["resourceVersion"])
    uid = held["metadata"]["uid"]
    await kube.delete(key, uid)
    await kube.delete(key, uid)
    dying = await kube.get(key)
    assert dying is not None
    assert dying["metadata"]["deletionTimestamp"]
    with pytest.raises(Conflict):
        await kube.set_finalizers(key, [], stored["metadata"]["resourceVersion"])
    await kube.set_finalizers(key, [], dying["metadata"]["resourceVersion"])
    assert await kube.get(key) is None
    await kube.delete(key, uid)
    with pytest.raises(NotFound):
        await kube.set_finalizers(key, [], dying["metadata"]["resourceVersion"])


async def test_deleting_by_uid_spares_a_successor_of_the_same_name(kube: KubernetesClient, namespace: str) -> None:
    key, first = await made(kube, namespace)
    await kube.delete(key, first["metadata"]["uid"])
    _, second = await made(kube, namespace)
    await kube.delete(key, first["metadata"]["uid"])
    assert await kube.get(key) == second


async def test_creating_twice_and_creating_nonsense_are_told_apart(kube: KubernetesClient, namespace: str) -> None:
    await made(kube, namespace)
    with pytest.raises(AlreadyExists):
        await made(kube, namespace)
    bad = instance("bad") | {"spec": {"candidates": []}}
    with pytest.raises(Invalid, match=r"spec\.candidates"):
        await kube.create(Kind.INSTANCE, namespace, bad)


async def test_an_object_with_finalizer_and_owner_is_created_in_one_call(
    kube: KubernetesClient, namespace: str
) -> None:
    _, owner = await made(kube, namespace, "owner")
    reference = {"apiVersion": API_VERSION, "kind": "BrevInstance", "name": "owner", "uid": owner["metadata"]["uid"]}
    key, stored = await made(kube, namespace, "owned", finalizers=[FINALIZER], ownerReferences=[reference])
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    await kube.set_finalizers(key, [], stored["metadata"]["resourceVersion"])


async def test_a_list_of_several_pages_is_complete(
    kube: KubernetesClient, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        await made(kube, namespace, f"m{number}")
    monkeypatch.setattr(client_module, "PAGE", 3)
    items, version = await kube.list(Kind.INSTANCE, namespace)
    assert [item["metadata"]["name"] for item in items] == [f"m{number}" for number in range(7)]
    assert {item["kind"] for item in items} == {"BrevInstance"}
    assert int(version) >= max(int(item["metadata"]["resourceVersion"]) for item in items)
    everywhere, _ = await kube.list(Kind.INSTANCE)
    assert {item["metadata"]["uid"] for item in items} <= {item["metadata"]["uid"] for item in everywhere}


async def test_secrets_and_config_maps_arrive_byte_for_byte(
    kube: KubernetesClient, control_plane: Cluster, namespace: str
) -> None:
    raw = bytes(range(256))
    encoded = base64.b64encode(raw).decode()
    core = f"/api/v1/namespaces/{namespace}"
    secret = {"metadata": {"name": "s.with.dots"}, "data": {"k": encoded, "empty": ""}}
    config_map = {"metadata": {"name": "c"}, "data": {"t": "é\r\n\t"}, "binaryData": {"b": encoded}}
    assert control_plane.request("POST", f"{core}/secrets", secret).status == HTTPStatus.CREATED
    assert control_plane.request("POST", f"{core}/configmaps", config_map).status == HTTPStatus.CREATED
    assert await kube.get_secret(namespace, "s.with.dots") == {"k": raw, "empty": b""}
    assert await kube.get_config_map(namespace, "c") == {"t": "é\r\n\t".encode(), "b": raw}
    assert await kube.get_secret(namespace, "absent") is None


async def _under_its_role(cluster: Cluster, namespace: str, directory: Path) -> KubernetesClient:
    """A client that may do what the table says, all scopes bound to one namespace, and nothing else."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [row.group], "resources": [row.resource], "verbs": [*row.verbs]}
        for row in PERMISSIONS
        if row.scope is not Scope.CLUSTER
    ]
    wanted = [
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "operator"}}),
        (f"{rbac}/namespaces/{namespace}/roles", {"metadata": {"name": "operator"}, "rules": rules}),
        (
            f"{rbac}/namespaces/{namespace}/rolebindings",
            {
                "metadata": {"name": "operator"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
                "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
            },
        ),
    ]
    for path, body in wanted:
        assert cluster.request("POST", path, body).status == HTTPStatus.CREATED
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text(cluster.create_token(namespace, "operator"))
    host, port = cluster.url.removeprefix("https://").rsplit(":", 1)
    connection = await connect(
        token_file=token,
        ca_file=cluster.ca_file,
        environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
    )
    return KubernetesClient(
        Transport(connection, request_timeout=60, on_call=lambda _verb, _resource, _code: None, before_write=[])
    )


async def test_under_exactly_its_role_the_client_does_its_work_and_nothing_else(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> None:
    kube = await _under_its_role(control_plane, namespace, tmp_path)
    try:
        key, stored = await _eventually_allowed(lambda: made(kube, namespace))
        stored = await kube.set_finalizers(key, [FINALIZER], stored["metadata"]["resourceVersion"])
        stored = await kube.patch_status(key, {"phase": "Pending"}, stored["metadata"]["resourceVersion"])
        await kube.list(Kind.JOB, namespace)
        await kube.get_secret(namespace, "absent")
        await kube.get_config_map(namespace, "absent")
        await kube.set_finalizers(key, [], stored["metadata"]["resourceVersion"])
        await kube.delete(key, stored["metadata"]["uid"])
        with pytest.raises(Forbidden):
            await kube.get_secret("kube-system", "anything")
        with pytest.raises(Forbidden):
            await kube.list(Kind.JOB)
        with pytest.raises(Forbidden):
            await kube.create(Kind.JOB, namespace, {"metadata": {"name": "j"}})
    finally:
        await kube.close()


async def _eventually_allowed(call: Callable[[], Awaitable[tuple[ObjectKey, Any]]]) -> tuple[ObjectKey, Any]:
    """The authorizer learns of a new binding from its own watch, a moment after the answer."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await call()
            except Forbidden:
                await asyncio.sleep(0)
