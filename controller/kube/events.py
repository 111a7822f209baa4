"""Events at transitions, as core/v1 Events that aggregate instead of piling up.

A name is derived from the object's uid, the reason and a discriminator, never from the message: telling the same thing
again raises the `count` of one Event, also after a restart. Recording never waits and never fails; what cannot be
delivered is counted and forgotten, since events are a courtesy and conditions are the record.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic
from typing import Generic, TypeVar

from controller.api.meta import API_VERSION, ObjectKey
from controller.kube.errors import AlreadyExists, KubeError, NotFound
from controller.kube.lease import LeaseLost
from controller.kube.protocol import Body, EventApi

log = logging.getLogger(__name__)

COMPONENT = "brev-operator"
MESSAGE_BYTES = 1024
"""Limit of events.k8s.io for `note`; core/v1 has none, but clients cut there."""
NAME_PART = 200
"""Characters of the object's name in the Event's; names are subdomains of at most 253 characters."""
QUEUE = 1000
"""Events that may wait; about 1 MB at worst."""
REMEMBERED = 4096
"""Events and objects of which counts and budgets are kept in memory."""
BURST = 25
REFILL_SECONDS = 60.0
"""An object may tell 25 things at once and then one a minute; its life has fewer than ten transitions."""


Value = TypeVar("Value")


class EventType(StrEnum):
    """The two types that the API knows."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class _Pending:
    key: ObjectKey
    uid: str
    type: EventType
    reason: str
    message: str
    first: datetime
    last: datetime
    count: int


class EventRecorder:
    """`record()` from anywhere in the event loop; `run()` in one task; `flush()` at the end."""

    def __init__(
        self,
        api: EventApi,
        instance: str,
        *,
        on_drop: Callable[[str], None] = lambda _reason: None,
        mask: Callable[[str], str] = lambda text: text,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = monotonic,
        capacity: int = QUEUE,
    ) -> None:
        """`instance` identifies this process; `on_drop` gets `queue`, `rate`, `api` or `shutdown` per lost event."""
        self._api = api
        self._instance = instance
        self._on_drop = on_drop
        self._mask = mask
        self._now = now
        self._capacity = capacity
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._counts = _Recent[int](REMEMBERED)
        self._guard = _RateGuard(clock)
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def record(
        self, key: ObjectKey, uid: str, event_type: EventType, reason: str, message: str, *, discriminator: str = ""
    ) -> None:
        """Queue one event; returns at once and never raises.

        `reason` is CamelCase. `discriminator` keeps events of one reason apart (an attempt's number) that would
        otherwise become one with a count. Secrets are masked, then the message is cut to 1,024 bytes.
        """
        name = event_name(key, uid, reason, discriminator)
        now = self._now()
        waiting = self._pending.get(name)
        if waiting is None and not self._guard.admit(uid):
            self._on_drop("rate")
        elif waiting is None and len(self._pending) >= self._capacity:
            self._on_drop("queue")
        else:
            text = _cut(self._mask(message))
            first, count = (waiting.first, waiting.count + 1) if waiting else (now, 1)
            self._pending[name] = _Pending(key, uid, event_type, reason, text, first, now, count)
            self._idle.clear()
            self._work.set()

    async def run(self) -> None:
        """Deliver until cancelled, one event after the other, so that they arrive in the order of recording."""
        while True:
            await self._work.wait()
            while self._pending:
                name, event = self._pending.popitem(last=False)
                await self._deliver(name, event)
            self._work.clear()
            self._idle.set()

    async def flush(self, deadline: float) -> None:
        """Wait until everything is delivered, at most `deadline` seconds; `run()` has to be running. Then drop."""
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d events were not delivered before the end", len(self._pending))
        while self._pending:
            self._pending.popitem()
            self._on_drop("shutdown")

    async def _deliver(self, name: str, event: _Pending) -> None:
        try:
            known = self._counts.get(name)
            if known is None:
                await self._post(name, event)
            else:
                await self._repeat(name, event, known)
        except (KubeError, LeaseLost) as error:
            log.info("The event %s was not delivered: %s", event.reason, error, extra={"object": str(event.key)})
            self._on_drop("api")

    async def _post(self, name: str, event: _Pending) -> None:
        try:
            await self._api.create_event(_namespace(event.key), self._body(name, event))
            self._counts.put(name, event.count)
        except AlreadyExists:
            await self._repeat_unknown(name, event)

    async def _repeat_unknown(self, name: str, event: _Pending) -> None:
        """An earlier process told it: its count is in the answer to the patch, since we may not read Events."""
        stored = await self._api.patch_event(_namespace(event.key), name, _repetition(event))
        count = int(stored.get("count") or 1) + event.count
        await self._api.patch_event(_namespace(event.key), name, {"count": count})
        self._counts.put(name, count)

    async def _repeat(self, name: str, event: _Pending, known: int) -> None:
        count = known + event.count
        try:
            await self._api.patch_event(_namespace(event.key), name, {**_repetition(event), "count": count})
            self._counts.put(name, count)
        except NotFound:
            await self._post(name, replace(event, first=event.last, count=event.count))

    def _body(self, name: str, event: _Pending) -> Body:
        involved = {
            "apiVersion": API_VERSION,
            "kind": event.key.kind.value,
            "name": event.key.name,
            "uid": event.uid,
            **({"namespace": event.key.namespace} if event.key.namespace else {}),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": _namespace(event.key)},
            "involvedObject": involved,
            "reason": event.reason,
            "message": event.message,
            "type": event.type.value,
            "count": event.count,
            "firstTimestamp": _timestamp(event.first),
            "lastTimestamp": _timestamp(event.last),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance[:128],
        }


def event_name(key: ObjectKey, uid: str, reason: str, discriminator: str = "") -> str:
    """The Event's name: the same for the same thing told about the same object, whatever the words."""
    digest = hashlib.sha256("\0".join((uid, reason, discriminator)).encode()).hexdigest()[:16]
    return f"{key.name[:NAME_PART].rstrip('.-')}.{digest}"


def _namespace(key: ObjectKey) -> str:
    """Where the API server wants the Event: beside the object, or in `default` for objects without a namespace."""
    return key.namespace or "default"


def _repetition(event: _Pending) -> Body:
    return {"lastTimestamp": _timestamp(event.last), "message": event.message, "type": event.type.value}


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    encoded = message.encode(errors="replace")
    if len(encoded) <= MESSAGE_BYTES:
        return message
    return encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "…"


class _Recent(Generic[Value]):
    """A dictionary that forgets what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, key: str) -> Value | None:
        return self._values.get(key)

    def put(self, key: str, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)


class _RateGuard:
    """A token bucket per object, so that a loop of transitions in one object cannot flood the API."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets = _Recent[tuple[float, float]](REMEMBERED)

    def admit(self, uid: str) -> bool:
        """Take one token of the object's; False when it has none."""
        now = self._clock()
        tokens, since = self._buckets.get(uid) or (float(BURST), now)
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        admitted = tokens >= 1.0
        self._buckets.put(uid, (tokens - 1.0 if admitted else tokens, now))
        return admitted
