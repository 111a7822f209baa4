"""`/healthz`, `/readyz` and `/metrics`: what the kubelet and Prometheus ask.

The server runs in the operator's own event loop on purpose: a loop that hangs does not answer, and that is the answer.
Checks are functions that return None, or a sentence for the person who reads the probe's failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

Check = Callable[[], str | None]
"""None when all is well, else one sentence. Quick, no I/O: it runs in the request."""

LAG_PERIOD = 1.0
"""Seconds between two measurements of the event loop's lag."""


class WebServer:
    """The probe and metrics server. `start` once, `stop` once; nothing is served in between two of them."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        registry: CollectorRegistry,
        health: Mapping[str, Check],
        readiness: Mapping[str, Check],
    ) -> None:
        """`health` and `readiness` map a check's name to the check; mappings may grow after the start."""
        self._address = address
        self._port = port
        self._registry = registry
        self._health = health
        self._readiness = readiness
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The bound port, also where 0 was asked for. RuntimeError before `start`."""
        if self._runner is None or not self._runner.addresses:
            raise RuntimeError("the web server is not running")
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen. OSError when the port is taken or the address is not ours."""
        app = web.Application()
        app.router.add_get("/healthz", _report(self._health))
        app.router.add_get("/readyz", _report(self._readiness))
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, self._port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Close the socket and the connections. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _report(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(_request: web.Request) -> web.Response:
        failing = {name: sentence for name, check in checks.items() if (sentence := check()) is not None}
        if not failing:
            return web.Response(text="ok\n")
        lines = "".join(f"{name}: {sentence}\n" for name, sentence in failing.items())
        return web.Response(status=503, text=lines)

    return handler


class LoopLag:
    """Measures how late the event loop wakes up: something blocks it when this is large."""

    def __init__(self, limit: float, clock: Callable[[], float] = monotonic) -> None:
        """`limit` in seconds, above which `check` complains."""
        self._limit = limit
        self._clock = clock
        self._expected = clock() + LAG_PERIOD
        self._worst = 0.0

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Measure until cancelled."""
        while True:
            self._expected = self._clock() + LAG_PERIOD
            await sleep(LAG_PERIOD)
            self._worst = max(0.0, self._clock() - self._expected)

    def check(self) -> str | None:
        """A `Check`: complains about the last measurement, or one that is overdue."""
        lag = max(self._worst, self._clock() - self._expected)
        if lag <= self._limit:
            return None
        return f"the event loop is {lag:.1f} s late (limit {self._limit:g} s)"
