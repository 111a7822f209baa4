"""Fixtures: the recording server, and clients of it that note their calls and the delays between attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from kubernetes.aio import client as kubernetes_client

from controller.kube.client import KubernetesClient
from controller.kube.connect import Connection
from controller.kube.transport import Transport
from tests.unit.kube.fake_api import Client, ConnectTo, FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


@pytest.fixture
async def connect_to() -> AsyncIterator[ConnectTo]:
    transports: list[Transport] = []

    def build(url: str, request_timeout: float = 30.0, connection: Connection | None = None) -> Client:
        calls: list[tuple[str, str, str]] = []
        delays: list[float] = []

        async def sleep(seconds: float) -> None:
            delays.append(seconds)

        transport = Transport(
            connection or Connection(kubernetes_client.Configuration(host=url), None),
            request_timeout=request_timeout,
            on_call=lambda verb, resource, code: calls.append((verb, resource, code)),
            before_write=[],
            sleep=sleep,
        )
        transports.append(transport)
        return Client(KubernetesClient(transport), transport, calls, delays)

    yield build
    for transport in transports:
        await transport.close()


@pytest.fixture
def client(api: FakeApi, connect_to: ConnectTo) -> Client:
    return connect_to(api.url)
