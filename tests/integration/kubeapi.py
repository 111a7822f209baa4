"""The API server as a test sees it: a few verbs, and waiting by watch."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp

from controller.api.meta import GROUP, VERSION, Kind
from controller.sandbox.controlplane import Cluster

Body = dict[str, Any]
Wanted = Callable[[Body | None], object]
"""Gets the object, None while there is none; anything true ends the waiting."""

WAIT_SECONDS = 120.0
_GONE = HTTPStatus.GONE


class StillWaitingError(AssertionError):
    """What a test waits for has not come; the message holds the last state of the object."""


def path_of(kind: Kind | str, namespace: str, name: str = "") -> str:
    """Path of one object or collection; `kind` is ours, or a plural of core/v1 such as `secrets`."""
    where = f"/namespaces/{namespace}" if namespace else ""
    tail = f"/{name}" if name else ""
    if isinstance(kind, Kind):
        return f"/apis/{GROUP}/{VERSION}{where}/{kind.plural}{tail}"
    return f"/api/v1{where}/{kind}{tail}"


class Api:
    """One test's client as the admin; an async context manager of the test's event loop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._client: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=self._cluster.ca_file)
        headers = {"Authorization": f"Bearer {self._cluster.admin_token}"}
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._client = aiohttp.ClientSession(headers=headers, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def send(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> tuple[int, Body]:
        assert self._client is not None, "use it as a context manager"
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        async with self._client.request(method, self._cluster.url + path, data=data, headers=headers) as answer:
            return answer.status, await answer.json()

    async def create(self, kind: Kind | str, namespace: str, body: Body) -> Body:
        status, stored = await self.send("POST", path_of(kind, namespace), body)
        assert status == HTTPStatus.CREATED, stored.get("message")
        return stored

    async def get(self, kind: Kind | str, namespace: str, name: str) -> Body | None:
        status, found = await self.send("GET", path_of(kind, namespace, name))
        return found if status == HTTPStatus.OK else None

    async def list(self, kind: Kind | str, namespace: str) -> list[Body]:
        items: list[Body] = (await self.send("GET", path_of(kind, namespace)))[1]["items"]
        return items

    async def patch(self, kind: Kind | str, namespace: str, name: str, change: Body) -> Body:
        status, stored = await self.send(
            "PATCH", path_of(kind, namespace, name), change, content_type="application/merge-patch+json"
        )
        assert status == HTTPStatus.OK, stored.get("message")
        return stored

    async def delete(self, kind: Kind | str, namespace: str, name: str, propagation: str = "Background") -> None:
        status, answer = await self.send("DELETE", path_of(kind, namespace, name), {"propagationPolicy": propagation})
        assert status in (HTTPStatus.OK, HTTPStatus.ACCEPTED), answer.get("message")

    async def until(
        self, kind: Kind | str, namespace: str, name: str, wanted: Wanted, seconds: float = WAIT_SECONDS
    ) -> Body:
        """The object as soon as it is as `wanted`; its last body where `wanted` accepts that it is gone."""
        last: Body | None = None
        known: Body = {}
        try:
            async with asyncio.timeout(seconds), aclosing(self._states(kind, namespace, name)) as states:
                async for last in states:
                    known = last or known
                    if wanted(last):
                        return known
        except TimeoutError:
            raise StillWaitingError(f"{kind} {namespace}/{name}: {json.dumps(last, indent=1)}") from None
        raise AssertionError("a watch never ends")

    async def _states(self, kind: Kind | str, namespace: str, name: str) -> AsyncGenerator[Body | None, None]:
        """The object now and after every change, without end."""
        query = {"fieldSelector": f"metadata.name={name}"}
        while True:
            _, listed = await self.send("GET", f"{path_of(kind, namespace)}?{urlencode(query)}")
            yield listed["items"][0] if listed["items"] else None
            version = listed["metadata"]["resourceVersion"]
            events = self._watch(path_of(kind, namespace), query | {"resourceVersion": version})
            async with aclosing(events):
                async for event in events:
                    if event["type"] == "ERROR":
                        assert event["object"]["code"] == _GONE, event
                        break
                    yield None if event["type"] == "DELETED" else event["object"]

    async def _watch(self, path: str, query: dict[str, str]) -> AsyncGenerator[Body, None]:
        assert self._client is not None
        url = f"{self._cluster.url}{path}?{urlencode(query | {'watch': 'true'})}"
        async with self._client.get(url, timeout=aiohttp.ClientTimeout(total=None)) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
