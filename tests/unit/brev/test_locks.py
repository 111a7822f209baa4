"""The lock with two ways to hold it."""

import asyncio

import pytest

from controller.brev.locks import SharedLock


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


class Holder:
    """A task that takes the lock and holds it until told otherwise."""

    def __init__(self, lock: SharedLock, *, alone: bool) -> None:
        self.has = False
        self.end = asyncio.Event()
        self.task = asyncio.ensure_future(self._hold(lock.exclusive() if alone else lock.shared()))

    async def _hold(self, way: "asyncio._AsyncGeneratorContextManager[None]") -> None:  # type: ignore[name-defined]
        async with way:
            self.has = True
            await self.end.wait()
        self.has = False


async def test_sharers_are_together_and_the_exclusive_one_is_alone() -> None:
    lock = SharedLock()
    first, second = Holder(lock, alone=False), Holder(lock, alone=False)
    await settle()
    single = Holder(lock, alone=True)
    await settle()
    assert (first.has, second.has, single.has) == (True, True, False)
    first.end.set()
    await settle()
    assert not single.has
    second.end.set()
    await settle()
    assert single.has
    single.end.set()
    await single.task


async def test_later_sharers_wait_behind_one_who_wants_to_be_alone() -> None:
    lock = SharedLock()
    first = Holder(lock, alone=False)
    await settle()
    single, later = Holder(lock, alone=True), Holder(lock, alone=False)
    await settle()
    first.end.set()
    await settle()
    assert (single.has, later.has) == (True, False)
    single.end.set()
    await settle()
    assert later.has
    later.end.set()
    await later.task


@pytest.mark.parametrize("after_grant", [False, True])
async def test_a_cancelled_waiter_blocks_nobody(after_grant: bool) -> None:
    lock = SharedLock()
    first = Holder(lock, alone=False)
    await settle()
    single, later = Holder(lock, alone=True), Holder(lock, alone=False)
    await settle()
    if after_grant:
        first.end.set()
        await first.task
    single.task.cancel()
    await settle()
    assert later.has
    later.end.set()
    first.end.set()
    await asyncio.gather(first.task, later.task)
    async with asyncio.timeout(60), lock.exclusive():
        pass


async def test_an_error_inside_releases_the_lock() -> None:
    lock = SharedLock()
    with pytest.raises(RuntimeError):
        async with lock.exclusive():
            raise RuntimeError
    async with asyncio.timeout(60), lock.shared():
        pass
