"""Following objects on the API server by watch, as the sandbox's admin."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp

from controller.api.meta import GROUP, VERSION, Kind
from controller.sandbox.controlplane import Cluster

LONGEST_LINE = 8 * 1024 * 1024
"""One event holds one object, and etcd takes none above 1.5 MiB; JSON may blow that up."""
RETRY_SECONDS = 0.5
GIVE_UP_SECONDS = 20.0


class WatchError(Exception):
    """The API server cannot be watched any more."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as it is now; `deleted` means that this was its last state."""

    kind: Kind
    body: dict[str, Any]
    deleted: bool = False


async def watch(cluster: Cluster, kind: Kind) -> AsyncIterator[Seen]:
    """Every object of the kind, then every change, for ever; after a lost connection the objects are listed again.

    Raises WatchError when the API server has not answered for `GIVE_UP_SECONDS`.
    """
    context = ssl.create_default_context(cafile=cluster.ca_file)
    headers = {"Authorization": f"Bearer {cluster.admin_token}"}
    url = f"{cluster.url}/apis/{GROUP}/{VERSION}/{kind.plural}"
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=None)
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession(
        headers=headers,
        timeout=timeout,
        connector=aiohttp.TCPConnector(ssl=context),
        read_bufsize=LONGEST_LINE,
    ) as session:
        answered = loop.time()
        while True:
            try:
                async for seen in _list_and_watch(session, url, kind):
                    answered = loop.time()
                    yield seen
            except (aiohttp.ClientError, OSError) as error:
                if loop.time() - answered > GIVE_UP_SECONDS:
                    raise WatchError(f"the API server cannot be watched: {error}") from error
                await asyncio.sleep(RETRY_SECONDS)


async def _list_and_watch(session: aiohttp.ClientSession, url: str, kind: Kind) -> AsyncIterator[Seen]:
    async with session.get(url) as answer:
        answer.raise_for_status()
        listed = await answer.json()
    for body in listed["items"]:
        yield Seen(kind, body)
    query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "allowWatchBookmarks": "true"}
    async with session.get(url, params=query) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            event = json.loads(line)
            match event["type"]:
                case "ADDED" | "MODIFIED" | "DELETED" as what:
                    yield Seen(kind, event["object"], deleted=what == "DELETED")
                case "ERROR" if event["object"].get("code") != HTTPStatus.GONE:
                    raise aiohttp.ClientPayloadError(str(event["object"].get("message")))
