"""The machines of one account: one list serves all of its objects, and a failed list is unknown, never empty."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from controller.api.meta import ObjectKey
from controller.api.reasons import Reason
from controller.decide.types import Failure, InventoryView, MachineSeen

log = logging.getLogger(__name__)

KEPT = 4
"""Good lists that are remembered, so that an absence can be confirmed by consecutive ones."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    asked: float
    by_id: dict[str, MachineSeen]
    by_name: dict[str, MachineSeen]

    def find(self, machine_id: str | None, name: str | None) -> MachineSeen | None:
        """By the recorded id where there is one; by name only while no id is known."""
        if machine_id:
            return self.by_id.get(machine_id)
        return self.by_name.get(name) if name else None


class Inventory:
    """Lists of one account, newest first, and when the next one is due.

    `fast` and `slow` are seconds between two lists while some object is in a hurry, and while none is. An object
    that needs a list gets one no sooner than `fast` after the last, so that no number of objects can make a hot loop.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Iterable[MachineSeen]]],
        translate: Callable[[BaseException], Failure | None],
        *,
        fast: float,
        slow: float,
        monotonic: Callable[[], float],
        on_news: Callable[[set[ObjectKey], bool], None],
    ) -> None:
        """`on_news` gets the objects that waited for this list, and whether any machine or the outcome changed."""
        self._fetch = fetch
        self._translate = translate
        self._fast = fast
        self._slow = slow
        self._monotonic = monotonic
        self._on_news = on_news
        self._snapshots: list[_Snapshot] = []
        self._waiting: set[ObjectKey] = set()
        self._hurried: set[ObjectKey] = set()
        self._last_asked: float | None = None
        self._due = monotonic()
        self._failures = 0
        self._changed = asyncio.Event()
        self.failure: Failure | None = None

    @property
    def asked(self) -> float | None:
        """When the newest good list was asked for, monotonic seconds."""
        return self._snapshots[0].asked if self._snapshots else None

    def view(self, machine_id: str | None, name: str | None) -> InventoryView:
        absences: list[float] = []
        for snapshot in self._snapshots:
            row = snapshot.find(machine_id, name)
            if row is not None:
                return InventoryView(self.asked, row if not absences else None, tuple(absences))
            absences.append(snapshot.asked)
        return InventoryView(self.asked, None, tuple(absences))

    def need(self, key: ObjectKey) -> None:
        """`key` waits for the next list."""
        self._waiting.add(key)
        self._plan(self._earliest())

    def hurry(self, key: ObjectKey, wanted: bool) -> None:
        """Whether lists are read at the fast pace for the sake of `key`."""
        if wanted and key not in self._hurried:
            self._hurried.add(key)
            self._plan(self._earliest())
        elif not wanted:
            self._hurried.discard(key)

    def soon(self) -> None:
        """A call has just changed the account's machines: read the list without waiting for its turn."""
        self._plan(self._monotonic())

    def forget(self, key: ObjectKey) -> None:
        self._waiting.discard(key)
        self._hurried.discard(key)

    async def run(self) -> None:
        """Read lists when they are due, until cancelled."""
        while True:
            delay = self._due - self._monotonic()
            if delay > 0:
                self._changed.clear()
                try:
                    async with asyncio.timeout(delay):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            await self._read()

    async def _read(self) -> None:
        asked = self._last_asked = self._monotonic()
        self._due = asked + self._slow
        waiting, self._waiting = self._waiting, set()
        try:
            rows = list(await self._fetch())
        except Exception as error:  # noqa: BLE001 - nothing may end the poller: without it no machine is ever seen gone
            self._failed(self._translate(error) or _unexpected(error), waiting)
            return
        self._failures = 0
        news = self._remember(asked, rows) or self.failure is not None
        self.failure = None
        if self._hurried or self._waiting:
            self._plan(self._earliest())
        self._on_news(waiting, news)

    def _failed(self, failure: Failure, waiting: set[ObjectKey]) -> None:
        news = self.failure is None or self.failure.reason is not failure.reason
        self.failure = failure
        self._failures += 1
        self._waiting |= waiting
        self._due = self._monotonic() + min(self._fast * 2 ** min(self._failures - 1, 10), self._slow)
        self._on_news(set(waiting) if news else set(), news)

    def _remember(self, asked: float, rows: list[MachineSeen]) -> bool:
        snapshot = _Snapshot(asked, {row.id: row for row in rows}, {row.name: row for row in rows})
        news = not self._snapshots or snapshot.by_id != self._snapshots[0].by_id
        self._snapshots = [snapshot, *self._snapshots[: KEPT - 1]]
        return news

    def _earliest(self) -> float:
        pace = self._fast if self._failures == 0 else min(self._fast * 2 ** min(self._failures - 1, 10), self._slow)
        return self._monotonic() if self._last_asked is None else self._last_asked + pace

    def _plan(self, when: float) -> None:
        if when < self._due:
            self._due = when
            self._changed.set()


def _unexpected(error: Exception) -> Failure:
    log.error("The list of machines ended in an unexpected error", exc_info=error)
    return Failure(Reason.CLI_FAILED, f"The list of machines ended in {type(error).__name__}.", ambiguous=True)
