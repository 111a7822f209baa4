"""The run's API server behind a proxy that takes its time over chosen methods."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from controller.sandbox.controlplane import Cluster

_HOP = frozenset({"host", "connection", "transfer-encoding", "content-length", "content-encoding"})
"""Headers that belong to one connection, or to a body that this proxy has decoded."""


class SlowApi:
    """An async context manager. `delays` are seconds by HTTP method, before the request is passed on."""

    def __init__(self, cluster: Cluster, directory: Path, delays: Mapping[str, float]) -> None:
        self._cluster, self._delays = cluster, delays
        self.kubeconfig = directory / "slow-kubeconfig"

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=self._cluster.ca_file)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        self._client = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._write_kubeconfig(f"http://{host}:{port}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._client.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(self._delays.get(request.method, 0.0))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = self._cluster.url + request.raw_path
        async with self._client.request(request.method, url, headers=headers, data=await request.read()) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    def _write_kubeconfig(self, url: str) -> None:
        self.kubeconfig.touch(mode=0o600)
        entries = {
            "clusters": [{"name": "slow", "cluster": {"server": url}}],
            "users": [{"name": "admin", "user": {"token": self._cluster.admin_token}}],
            "contexts": [{"name": "slow", "context": {"cluster": "slow", "user": "admin"}}],
            "current-context": "slow",
        }
        self.kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **entries}))
