"""The world's clock: real time, faster or moved forward by hand."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """Simulated Unix time. `factor` simulated seconds pass per real second; `advance` jumps ahead."""

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor
        self._base = time.time()
        self._started = time.monotonic()
        self._moved = asyncio.Event()

    @property
    def factor(self) -> float:
        return self._factor

    def now(self) -> float:
        return self._base + (time.monotonic() - self._started) * self._factor

    def advance(self, seconds: float) -> float:
        """Jump ahead and wake every sleeper whose time has come; returns the new time."""
        if seconds < 0:
            raise ValueError("the clock does not run backwards")
        self._base += seconds
        self._wake()
        return self.now()

    def set_factor(self, factor: float) -> None:
        if factor <= 0:
            raise ValueError("the factor of the clock must be positive")
        self._base, self._started = self.now(), time.monotonic()
        self._factor = factor
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self.now() + seconds)

    async def sleep_until(self, when: float) -> None:
        while (left := when - self.now()) > 0:
            moved = self._moved
            try:
                await asyncio.wait_for(moved.wait(), timeout=left / self._factor)
            except TimeoutError:
                continue
