"""N workers that take keys from the queue and run one pass each; what fails comes back after a growing delay."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from controller.api.meta import Kind, ObjectKey
from controller.kube.errors import Conflict, Forbidden, KubeError, NotFound
from controller.kube.lease import LeaseLost
from controller.logs import log_context
from controller.reconcile.cache import Body
from controller.reconcile.engine import Engine

log = logging.getLogger(__name__)

Reconcile = Callable[[ObjectKey], Awaitable[None]]
PASS_DEADLINE = 300.0
"""Seconds after which a pass is abandoned; it awaits Kubernetes only, whose client has its own shorter time-outs."""


class Workers:
    """The pool of workers. `progress` is the monotonic second at which one of them last finished a pass."""

    def __init__(
        self,
        engine: Engine,
        reconcilers: Mapping[Kind, Reconcile],
        count: int,
        on_gone: Callable[[Kind, Body], None],
    ) -> None:
        """`on_gone` hears of objects that a live GET has shown to be gone, with their last known bodies."""
        self._on_gone = on_gone
        self._engine = engine
        self._reconcilers = reconcilers
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []
        self.progress = engine.clock.monotonic()

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(), name=f"worker {number}") for number in range(self._count)]

    async def stop(self) -> None:
        """End all workers; a pass in flight is cut off, which every step of it survives."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stuck(self) -> str | None:
        """A health check: no pass has ended for long although objects wait."""
        idle = self._engine.clock.monotonic() - self.progress
        if self._engine.queue.depth == 0 or idle < PASS_DEADLINE + 60:
            return None
        return f"no pass has ended for {idle:.0f} s and {self._engine.queue.depth} objects wait"

    async def _work(self) -> None:
        queue = self._engine.queue
        while True:
            key = await queue.get()
            try:
                await self._pass(key)
            finally:
                queue.done(key)
                self.progress = self._engine.clock.monotonic()

    async def _pass(self, key: ObjectKey) -> None:
        engine = self._engine
        body = engine.cache.get(key)
        uid = body["metadata"]["uid"] if body is not None else ""
        with log_context(key, uid=uid), engine.metrics.reconcile_duration.labels(str(key.kind)).time():
            try:
                async with asyncio.timeout(PASS_DEADLINE):
                    await self._reconcilers[key.kind](key)
            except Exception as error:  # noqa: BLE001 - a worker outlives every pass
                await self._failed(key, error)
            else:
                engine.queue.succeeded(key)

    async def _failed(self, key: ObjectKey, error: Exception) -> None:
        engine = self._engine
        if isinstance(error, LeaseLost):
            return
        engine.metrics.reconcile_errors.labels(str(key.kind), type(error).__name__).inc()
        delay = engine.queue.failed(key)
        if isinstance(error, Conflict | NotFound):
            log.debug("The object has moved on; looking again in %.1f s", delay)
            await self._look_again(key)
        elif isinstance(error, Forbidden) and error.namespace_terminating:
            log.info("The namespace is being deleted: %s", error.message)
        elif isinstance(error, KubeError):
            log.warning("The API server did not do it (%s); again in %.1f s", error.message, delay)
        else:
            log.error("A pass ended in an unexpected error; again in %.1f s", delay, exc_info=error)

    async def _look_again(self, key: ObjectKey) -> None:
        """A conflict means that the cache is behind: ask, instead of trying against the old version until it is not."""
        known = self._engine.cache.get(key)
        try:
            stored = await self._engine.kube.get(key)
        except KubeError as error:
            log.info("The object could not be read again: %s", error.message)
            return
        if stored is not None:
            self._engine.stored(key, stored)
        elif known is not None:
            # The body known before the question: another object may have taken the name since.
            self._on_gone(key.kind, known)
