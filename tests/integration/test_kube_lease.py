"""The lease and the event recorder against the real API server, each with two clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.kube.client import KubernetesClient
from controller.kube.events import EventRecorder, EventType
from controller.kube.lease import Lease, LeaseLost, LeaseTimes
from controller.sandbox.controlplane import Cluster

LONG = LeaseTimes(duration=3600.0, renew_interval=600.0, renew_deadline=1800.0)
SHORT = LeaseTimes(duration=1.0, renew_interval=0.1, renew_deadline=0.6)


@pytest.fixture
async def clients(control_plane: Cluster) -> AsyncIterator[list[KubernetesClient]]:
    made = [await KubernetesClient.connect(kubeconfig=control_plane.kubeconfig) for _ in range(2)]
    yield made
    for client in made:
        await client.close()


def stored_lease(cluster: Cluster, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l").body[
        "spec"
    ]
    return spec


async def test_a_released_lease_passes_on_at_once_and_a_held_one_does_not(
    clients: list[KubernetesClient], control_plane: Cluster, namespace: str
) -> None:
    first = Lease(clients[0], namespace, "l", LONG, on_lost=lambda _reason: None)
    second = Lease(clients[1], namespace, "l", LONG, on_lost=lambda _reason: None)
    await first.acquire()
    assert stored_lease(control_plane, namespace)["holderIdentity"] == first.identity
    await first.release()
    assert not stored_lease(control_plane, namespace).get("holderIdentity")
    async with asyncio.timeout(60):
        await second.acquire()
    spec = stored_lease(control_plane, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == (second.identity, 1)
    with pytest.raises(LeaseLost):
        first.check()
    second.check()


async def test_a_holder_that_stops_renewing_is_replaced_and_learns_it(
    clients: list[KubernetesClient], control_plane: Cluster, namespace: str
) -> None:
    lost: list[str] = []
    first = Lease(clients[0], namespace, "l", SHORT, on_lost=lost.append)
    second = Lease(clients[1], namespace, "l", SHORT, on_lost=lambda _reason: None)
    await first.acquire()
    async with asyncio.timeout(60):
        await second.acquire()
        await first.run()
    assert len(lost) == 1
    with pytest.raises(LeaseLost):
        first.check()
    assert stored_lease(control_plane, namespace)["holderIdentity"] == second.identity


async def test_events_aggregate_across_a_restart_of_the_operator(
    clients: list[KubernetesClient], control_plane: Cluster, namespace: str
) -> None:
    key = ObjectKey(Kind.JOB, namespace, "iris.v1")
    for number, client in enumerate(clients):
        recorder = EventRecorder(client, f"pod-{number}")
        task = asyncio.create_task(recorder.run())
        for _ in range(2):
            recorder.record(key, "uid-1", EventType.WARNING, "Unreachable", f"told by {number}")
            await recorder.flush(60)
        task.cancel()
    (event,) = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/events").body["items"]
    assert (event["count"], event["message"], event["type"]) == (4, "told by 1", "Warning")
    assert event["involvedObject"]["name"] == "iris.v1"


async def test_events_of_an_account_are_accepted_in_the_default_namespace(
    clients: list[KubernetesClient], control_plane: Cluster, namespace: str
) -> None:
    dropped: list[str] = []
    recorder = EventRecorder(clients[0], "pod", on_drop=dropped.append)
    task = asyncio.create_task(recorder.run())
    recorder.record(ObjectKey(Kind.ACCOUNT, "", "a"), namespace, EventType.NORMAL, "Ready", "logged in")
    await recorder.flush(60)
    task.cancel()
    assert dropped == []
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3D{namespace}"
    (event,) = control_plane.request("GET", path).body["items"]
    assert event["reason"] == "Ready"
