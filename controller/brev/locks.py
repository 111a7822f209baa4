"""A lock with two ways to hold it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SharedLock:
    """Many holders at once, or one alone; strictly in order of arrival, so nobody waits for ever."""

    def __init__(self) -> None:
        self._sharers = 0
        self._alone = False
        self._queue: deque[tuple[bool, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        await self._acquire(alone=False)
        try:
            yield
        finally:
            self._release(alone=False)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        await self._acquire(alone=True)
        try:
            yield
        finally:
            self._release(alone=True)

    async def _acquire(self, *, alone: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((alone, turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn had come in the same moment
                self._release(alone=alone)
            self._grant()
            raise

    def _release(self, *, alone: bool) -> None:
        if alone:
            self._alone = False
        else:
            self._sharers -= 1
        self._grant()

    def _grant(self) -> None:
        while self._queue:
            alone, turn = self._queue[0]
            if not turn.cancelled():
                if self._alone or (alone and self._sharers):
                    return
                self._alone, self._sharers = alone, self._sharers + (not alone)
                turn.set_result(None)
            self._queue.popleft()
