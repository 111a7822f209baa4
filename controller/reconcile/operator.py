"""The engine put together: events and lists in, passes out. Knows nothing of kopf."""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from controller.api.meta import Kind, ObjectKey
from controller.brev.model import Credential
from controller.brev.session import BrevSession
from controller.decide.backoff import Timing
from controller.kube.errors import KubeError
from controller.kube.events import EventRecorder
from controller.kube.protocol import KubeClient
from controller.metrics import Metrics
from controller.reconcile.account import AccountReconciler
from controller.reconcile.accounts import Accounts, Pace
from controller.reconcile.cache import Body, Cache, key_of, owner_key
from controller.reconcile.clock import Clock
from controller.reconcile.engine import Engine
from controller.reconcile.failures import translate
from controller.reconcile.instance import InstanceReconciler
from controller.reconcile.job import JobReconciler
from controller.reconcile.operations import Operations
from controller.reconcile.queue import WorkQueue
from controller.reconcile.run import Runner
from controller.reconcile.workers import Workers
from controller.settings import Settings

log = logging.getLogger(__name__)


class Operator:
    """One per process. `start` after the lease is held and before kopf runs; `stop` after kopf has returned."""

    def __init__(
        self,
        settings: Settings,
        kube: KubeClient,
        events: EventRecorder,
        metrics: Metrics,
        sessions: Callable[[str, Credential], BrevSession],
        clock: Clock | None = None,
    ) -> None:
        self.engine = _engine(settings, kube, events, metrics, sessions, clock or Clock())
        self._namespaces: Sequence[str] = settings.watch_namespaces
        self._accounts = frozenset(settings.watch_accounts)
        self._resync = settings.intervals.resync
        self._instances = InstanceReconciler(self.engine)
        self._jobs = JobReconciler(self.engine, Runner(self.engine, Path(settings.state_directory) / "bundles"))
        reconcilers = {
            Kind.ACCOUNT: AccountReconciler(self.engine).reconcile,
            Kind.INSTANCE: self._instances.reconcile,
            Kind.JOB: self._jobs.reconcile,
        }
        self.workers = Workers(
            self.engine, reconcilers, settings.workers, on_gone=lambda kind, body: self.on_event(kind, "DELETED", body)
        )
        self._resyncer: asyncio.Task[None] | None = None
        self.listed_at: float | None = None
        metrics.watch_phases(self.engine.cache.phases)
        metrics.watch_inventory_ages(self.engine.accounts.ages)
        metrics.watch_queue_depth(lambda: self.engine.queue.depth)

    async def start(self) -> None:
        """List everything, then let the workers begin: no decision is made on half a cache."""
        await self.list_all()
        self.workers.start()
        self._resyncer = asyncio.create_task(self._resync_forever(), name="resync")

    async def stop(self) -> None:
        """Stop deciding, then end what runs. What was in flight is found again by the next process."""
        if self._resyncer is not None:
            self._resyncer.cancel()
            await asyncio.gather(self._resyncer, return_exceptions=True)
        await self.workers.stop()
        await self.engine.accounts.drain()
        await self.engine.operations.drain()

    def on_event(self, kind: Kind, event_type: str | None, body: Body) -> None:
        """One watch event; `event_type` None is an entry of the watcher's own first list. Cheap, never raises."""
        if not self._served(kind, body):
            return
        cache = self.engine.cache
        last = cache.get(key_of(kind, body))
        key = cache.remove(kind, body) if event_type == "DELETED" else cache.put(kind, body)
        if event_type == "DELETED":
            self._gone(kind, body)
        elif key is not None and last is not None and _replaced(last, body):
            self._gone(kind, last)
        if key is not None:
            self._news(key, body)

    async def list_all(self) -> None:
        """Read every object of every kind, and look at what differs from the cache: heals what the watch missed."""
        cache = self.engine.cache
        for kind in Kind:
            namespaces = self._namespaces if kind.namespaced and self._namespaces else ("",)
            for namespace in namespaces:
                found, version = await self.engine.kube.list(kind, namespace)
                items = [body for body in found if self._served(kind, body)]
                before = {key: cache.get(key) for key in cache.keys(kind) if namespace in ("", key.namespace)}
                for key in cache.heal(kind, items, version, namespace):
                    body = cache.get(key)
                    last = before.get(key)
                    if last is not None and (body is None or _replaced(last, body)):
                        self._gone(kind, last)
                    self._news(key, body or last or {})
        self.listed_at = self.engine.clock.monotonic()

    def stale(self) -> str | None:
        """A health check: the periodic list has not succeeded for three periods."""
        if self.listed_at is None:
            return "no full list of the objects has succeeded yet"
        age = self.engine.clock.monotonic() - self.listed_at
        return None if age < 3 * self._resync + 60 else f"the last full list of the objects was {age:.0f} s ago"

    def unready(self) -> str | None:
        """A readiness check."""
        return None if self.listed_at is not None else "the first list of the objects has not ended"

    def _served(self, kind: Kind, body: Body) -> bool:
        """Namespaces are what is listed and watched; accounts have none, so they are chosen by name."""
        return kind is not Kind.ACCOUNT or not self._accounts or body["metadata"]["name"] in self._accounts

    def _news(self, key: ObjectKey, body: Body) -> None:
        self.engine.queue.add(key)
        if key.kind is Kind.INSTANCE and body:
            owner = owner_key(body)
            if owner is not None:
                self.engine.queue.add(owner)

    def _gone(self, kind: Kind, body: Body) -> None:
        if kind is Kind.INSTANCE:
            self._instances.gone(body)
        elif kind is Kind.JOB:
            self._jobs.gone(body)

    async def _resync_forever(self) -> None:
        while True:
            await asyncio.sleep(self._resync * random.uniform(0.9, 1.1))  # noqa: S311 - spreads load, hides nothing
            try:
                await self.list_all()
            except KubeError as error:
                log.warning("The periodic list failed and is tried again in its turn: %s", error.message)
                continue
            for kind in Kind:
                for key in list(self.engine.cache.keys(kind)):
                    self.engine.queue.add_after(key, self._resync * random.uniform(0.0, 0.2))  # noqa: S311


def _replaced(last: Body, body: Body) -> bool:
    """Whether another object has the name by now; the deletion of the first was missed."""
    return bool(last["metadata"]["uid"] != body["metadata"]["uid"])


def _engine(
    settings: Settings,
    kube: KubeClient,
    events: EventRecorder,
    metrics: Metrics,
    sessions: Callable[[str, Credential], BrevSession],
    clock: Clock,
) -> Engine:
    intervals = settings.intervals
    cache, queue = Cache(), WorkQueue(metrics.queue_adds.inc)
    operations = Operations(queue.add, clock.monotonic, translate)
    pace = Pace(intervals.inventory_fast, intervals.inventory_slow, intervals.catalog_ttl)
    return Engine(
        cluster_id=settings.cluster_id,
        namespace=settings.namespace,
        kube=kube,
        cache=cache,
        queue=queue,
        operations=operations,
        accounts=Accounts(
            cache,
            operations,
            sessions=sessions,
            enqueue=queue.add,
            monotonic=clock.monotonic,
            pace=pace,
            identity=f"{settings.cluster_id}/{settings.namespace}",
            chosen=frozenset(settings.watch_accounts),
        ),
        events=events,
        metrics=metrics,
        clock=clock,
        timing=Timing(
            poll_floor=intervals.poll_floor,
            poll_ceiling=intervals.poll_ceiling,
            settle=intervals.settle,
            retry_base=intervals.retry_base,
            retry_cap=intervals.retry_cap,
            recheck=intervals.inventory_slow,
        ),
        process_started=clock.monotonic(),
    )
