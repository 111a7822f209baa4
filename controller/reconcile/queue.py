"""A work queue of keys: de-duplicating, delayed, with a back-off for passes that fail.

The rules are those of client-go's workqueue: a key that is being worked on is never handed out a second time; added
meanwhile, it comes back when the worker is done with it. So passes over one object never overlap, and any number of
events about it cost one pass.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from controller.api.meta import ObjectKey

FAILURE_BASE = 0.2
FAILURE_CAP = 60.0
"""Seconds before a failed pass is repeated: from the base, doubled each time, to the cap."""


class WorkQueue:
    """One per process, used from the event loop only."""

    def __init__(self, on_add: Callable[[], None] = lambda: None) -> None:
        """`on_add` is called for each addition, duplicates included (a counter metric)."""
        self._on_add = on_add
        self._ready: deque[ObjectKey] = deque()
        self._waiting: set[ObjectKey] = set()
        self._busy: set[ObjectKey] = set()
        self._dirty: set[ObjectKey] = set()
        self._timers: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._failures: dict[ObjectKey, int] = {}
        self._wake = asyncio.Event()

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._ready)

    def add(self, key: ObjectKey) -> None:
        """Have the object looked at soon."""
        self._on_add()
        if key in self._busy:
            self._dirty.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: ObjectKey, seconds: float) -> None:
        """Have the object looked at in `seconds`, or earlier if an earlier look is planned already."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        planned = self._timers.get(key)
        if planned is not None:
            if planned.when() <= loop.time() + seconds:
                return
            planned.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    async def get(self) -> ObjectKey:
        """The next key; call `done` for it. A planned look at it is dropped: the pass plans its own."""
        while not self._ready:
            self._wake.clear()
            await self._wake.wait()
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._busy.add(key)
        self._drop_timer(key)
        return key

    def done(self, key: ObjectKey) -> None:
        """The pass over `key` has ended; what came in meanwhile is looked at again."""
        self._busy.discard(key)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)

    def failed(self, key: ObjectKey) -> float:
        """The pass failed: plan the next one after a growing delay, which is returned in seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = float(min(FAILURE_BASE * 2 ** min(count - 1, 20), FAILURE_CAP))
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: ObjectKey) -> None:
        """The pass did not fail: its next failure starts from the base again."""
        self._failures.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone: drop what is planned for it."""
        self._failures.pop(key, None)
        self._drop_timer(key)

    def _due(self, key: ObjectKey) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _drop_timer(self, key: ObjectKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
