"""The operator's Kubernetes client: the interfaces of `controller.kube.protocol` on `kubernetes.aio`."""

from __future__ import annotations

import base64
import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from controller.api.meta import GROUP, VERSION, Kind, ObjectKey
from controller.kube.connect import Connection, connect
from controller.kube.errors import Conflict, Expired, NotFound
from controller.kube.protocol import Body
from controller.kube.transport import BeforeWrite, Call, OnCall, Transport

MERGE_PATCH = "application/merge-patch+json"
PAGE = 500
"""Objects in one answer to a list."""
LIST_RESTARTS = 3
"""How often a list is begun again because its continue token expired."""
_LEASES = "/apis/coordination.k8s.io/v1"


class KubernetesClient:
    """Implements `KubeClient`, `EventApi` and `LeaseApi`; their contracts are in `controller.kube.protocol`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: Path | None = None,
        token_file: Path | None = None,
        request_timeout: float = 60.0,
        on_call: OnCall = lambda _verb, _resource, _code: None,
        before_write: Sequence[BeforeWrite] = (),
    ) -> KubernetesClient:
        """A client for the API server that `controller.kube.connect` finds. `request_timeout` in seconds."""
        connection: Connection = await connect(kubeconfig=kubeconfig, token_file=token_file)
        return cls(Transport(connection, request_timeout=request_timeout, on_call=on_call, before_write=before_write))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def add_before_write(self, hook: BeforeWrite) -> None:
        """Run this hook directly before each attempt of a write (the lease's check, which needs a client first)."""
        self._transport.add_before_write(hook)

    async def list(self, kind: Kind, namespace: str = "") -> tuple[builtins.list[Body], str]:
        """See `KubeClient.list`."""
        for _ in range(LIST_RESTARTS):
            try:
                return await self._list_pages(kind, namespace)
            except Expired:
                continue
        return await self._list_pages(kind, namespace)

    async def _list_pages(self, kind: Kind, namespace: str) -> tuple[builtins.list[Body], str]:
        items: builtins.list[Body] = []
        query: dict[str, str | int] = {"limit": PAGE}
        while True:
            page = await self._transport.request(
                Call("list", GROUP, kind.plural, namespace, ""), "GET", _path(kind, namespace), query=query
            )
            items += page["items"]
            metadata = page["metadata"]
            if not metadata.get("continue"):
                return items, metadata["resourceVersion"]
            query["continue"] = metadata["continue"]

    async def get(self, key: ObjectKey) -> Body | None:
        """See `KubeClient.get`."""
        try:
            return await self._send("get", key, "GET")
        except NotFound:
            return None

    async def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        """See `KubeClient.create`."""
        call = Call("create", GROUP, kind.plural, namespace, body["metadata"]["name"])
        return await self._transport.request(call, "POST", _path(kind, namespace), body=body)

    async def patch_status(self, key: ObjectKey, patch: Body, resource_version: str) -> Body:
        """See `KubeClient.patch_status`."""
        if not patch:
            raise ValueError(f"nothing to write to the status of {key}")
        body = {"metadata": {"resourceVersion": resource_version}, "status": patch}
        return await self._send("patch", key, "PATCH", subresource="status", body=body, content_type=MERGE_PATCH)

    async def set_finalizers(self, key: ObjectKey, finalizers: Sequence[str], resource_version: str) -> Body:
        """See `KubeClient.set_finalizers`."""
        body = {"metadata": {"resourceVersion": resource_version, "finalizers": [*finalizers]}}
        return await self._send("patch", key, "PATCH", body=body, content_type=MERGE_PATCH)

    async def delete(self, key: ObjectKey, uid: str) -> None:
        """See `KubeClient.delete`."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        try:
            await self._send("delete", key, "DELETE", body=options)
        except NotFound:
            return
        except Conflict:
            stored = await self.get(key)
            if stored is not None and stored["metadata"]["uid"] == uid:
                raise

    async def _send(
        self,
        verb: str,
        key: ObjectKey,
        method: str,
        *,
        subresource: str = "",
        body: Any = None,
        content_type: str = "application/json",
    ) -> Body:
        tail = f"/{subresource}" if subresource else ""
        call = Call(verb, GROUP, key.kind.plural + tail, key.namespace, key.name)
        path = f"{_path(key.kind, key.namespace)}/{quote(key.name, safe='')}{tail}"
        return await self._transport.request(call, method, path, body=body, content_type=content_type)

    async def get_secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """See `KubeClient.get_secret`."""
        body = await self._get_core("secrets", namespace, name)
        return None if body is None else _decoded(body.get("data"))

    async def get_config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """See `KubeClient.get_config_map`."""
        body = await self._get_core("configmaps", namespace, name)
        if body is None:
            return None
        texts: Mapping[str, str] = body.get("data") or {}
        return {key: text.encode() for key, text in texts.items()} | _decoded(body.get("binaryData"))

    async def get_namespace_labels(self, namespace: str) -> dict[str, str] | None:
        """See `KubeClient.get_namespace_labels`."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}"
        try:
            body = await self._transport.request(Call("get", "", "namespaces", "", namespace), "GET", path)
        except NotFound:
            return None
        return dict(body["metadata"].get("labels") or {})

    async def _get_core(self, resource: str, namespace: str, name: str) -> Body | None:
        path = f"{_core(namespace)}/{resource}/{quote(name, safe='')}"
        try:
            return await self._transport.request(Call("get", "", resource, namespace, name), "GET", path)
        except NotFound:
            return None

    async def create_event(self, namespace: str, body: Body) -> Body:
        """See `EventApi.create_event`."""
        call = Call("create", "", "events", namespace, body["metadata"]["name"])
        return await self._transport.request(call, "POST", f"{_core(namespace)}/events", body=body)

    async def patch_event(self, namespace: str, name: str, patch: Body) -> Body:
        """See `EventApi.patch_event`."""
        call = Call("patch", "", "events", namespace, name)
        path = f"{_core(namespace)}/events/{quote(name, safe='')}"
        return await self._transport.request(call, "PATCH", path, body=patch, content_type=MERGE_PATCH)

    async def get_lease(self, namespace: str, name: str, timeout: float) -> Body | None:
        """See `LeaseApi.get_lease`."""
        try:
            return await self._lease("get", "GET", namespace, name, timeout)
        except NotFound:
            return None

    async def create_lease(self, namespace: str, body: Body, timeout: float) -> Body:
        """See `LeaseApi.create_lease`."""
        return await self._lease("create", "POST", namespace, "", timeout, body)

    async def replace_lease(self, namespace: str, name: str, body: Body, timeout: float) -> Body:
        """See `LeaseApi.replace_lease`."""
        return await self._lease("update", "PUT", namespace, name, timeout, body)

    async def _lease(self, verb: str, method: str, namespace: str, name: str, timeout: float, body: Any = None) -> Body:
        call = Call(verb, "coordination.k8s.io", "leases", namespace, name)
        path = f"{_LEASES}/namespaces/{quote(namespace, safe='')}/leases" + (f"/{quote(name, safe='')}" if name else "")
        return await self._transport.request(call, method, path, body=body, attempts=1, timeout=timeout, fenced=False)


def _path(kind: Kind, namespace: str) -> str:
    scope = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"/apis/{GROUP}/{VERSION}{scope}/{kind.plural}"


def _core(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}"


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (data or {}).items()}
