from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from controller.metrics import Metrics
from controller.web import LAG_PERIOD, LoopLag, WebServer


class Served:
    def __init__(self) -> None:
        self.trouble: dict[str, str | None] = {"loop": None, "resync": None, "lease": None}
        self.metrics = Metrics()
        self.server = WebServer(
            "127.0.0.1",
            0,
            registry=self.metrics.registry,
            health={"loop": lambda: self.trouble["loop"], "resync": lambda: self.trouble["resync"]},
            readiness={"lease": lambda: self.trouble["lease"]},
        )

    async def get(self, path: str) -> tuple[int, str, str]:
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return response.status, await response.text(), response.headers["Content-Type"]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.server.start()
    yield served
    await served.server.stop()


async def test_all_is_well(served: Served) -> None:
    assert (await served.get("/healthz"))[:2] == (200, "ok\n")
    assert (await served.get("/readyz"))[:2] == (200, "ok\n")


async def test_failing_checks_are_listed_and_the_others_not(served: Served) -> None:
    served.trouble["resync"] = "the last full list was 20 min ago"
    assert (await served.get("/healthz"))[:2] == (503, "resync: the last full list was 20 min ago\n")
    assert (await served.get("/readyz"))[0] == 200
    served.trouble["lease"] = "another process holds the lease"
    assert (await served.get("/readyz"))[:2] == (503, "lease: another process holds the lease\n")


async def test_metrics_are_served_in_the_text_format(served: Served) -> None:
    served.metrics.queue_adds.inc()
    status, text, content_type = await served.get("/metrics")
    assert status == 200
    assert "brev_queue_adds_total 1.0" in text
    assert content_type.startswith("text/plain; version=")


async def test_nothing_else_is_served(served: Served) -> None:
    assert (await served.get("/"))[0] == 404


async def test_a_taken_port_is_an_error_and_leaves_nothing_behind(served: Served) -> None:
    second = WebServer("127.0.0.1", served.server.port, registry=Metrics().registry, health={}, readiness={})
    with pytest.raises(OSError, match="address already in use"):
        await second.start()
    with pytest.raises(RuntimeError):
        _ = second.port


async def test_stopping_closes_the_port_and_may_be_repeated(served: Served) -> None:
    port = served.server.port
    await served.server.stop()
    await served.server.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_a_blocked_loop_is_measured_and_forgiven_afterwards() -> None:
    time = 100.0
    delays = iter([0.0, 5.0, 0.0])
    complaints: list[str | None] = []

    async def sleep(seconds: float) -> None:
        nonlocal time
        complaints.append(lag.check())
        delay = next(delays, None)
        if delay is None:
            raise asyncio.CancelledError
        time += seconds + delay

    lag = LoopLag(2.0, clock=lambda: time)
    with pytest.raises(asyncio.CancelledError):
        await lag.run(sleep)
    assert complaints == [None, None, "the event loop is 5.0 s late (limit 2 s)", None]
    time += LAG_PERIOD + 3
    assert lag.check() == "the event loop is 3.0 s late (limit 2 s)"
