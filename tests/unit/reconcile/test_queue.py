"""The work queue: one pass for any number of events, never two at once, and nothing lost."""

import asyncio

from controller.api.meta import Kind, ObjectKey
from controller.reconcile.queue import FAILURE_BASE, FAILURE_CAP, WorkQueue
from tests.unit.reconcile.fakes import yield_to_others

ONE, TWO = ObjectKey(Kind.JOB, "a", "one"), ObjectKey(Kind.JOB, "a", "two")


async def test_any_number_of_additions_is_one_pass() -> None:
    queue = WorkQueue()
    for _ in range(5):
        queue.add(ONE)
    queue.add(TWO)
    assert queue.depth == 2
    assert [await queue.get(), await queue.get()] == [ONE, TWO]
    assert queue.depth == 0


async def test_a_key_that_is_worked_on_is_not_handed_out_again_and_comes_back_once() -> None:
    queue = WorkQueue()
    queue.add(ONE)
    await queue.get()
    for _ in range(3):
        queue.add(ONE)
    assert queue.depth == 0
    queue.done(ONE)
    assert queue.depth == 1
    await queue.get()
    queue.done(ONE)
    assert queue.depth == 0


async def test_a_worker_that_waits_gets_what_is_added() -> None:
    queue = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await yield_to_others()
    assert not waiting.done()
    queue.add(ONE)
    assert await waiting == ONE


async def test_two_workers_never_get_the_same_key() -> None:
    queue = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await yield_to_others()
    queue.add(ONE)
    await yield_to_others()
    assert [worker.done() for worker in workers].count(True) == 1
    queue.add(TWO)
    assert {await worker for worker in workers} == {ONE, TWO}


async def test_an_addition_without_delay_is_at_once() -> None:
    queue = WorkQueue()
    queue.add_after(ONE, 0)
    queue.add_after(TWO, -1)
    assert queue.depth == 2


async def test_the_earlier_of_two_planned_looks_stands() -> None:
    queue = WorkQueue()
    queue.add_after(ONE, 1000)
    late = queue._timers[ONE]
    queue.add_after(ONE, 2000)
    assert queue._timers[ONE] is late
    queue.add_after(ONE, 500)
    assert late.cancelled()
    assert not queue._timers[ONE].cancelled()
    queue.forget(ONE)


async def test_a_planned_look_comes_and_a_pass_before_it_drops_it() -> None:
    queue = WorkQueue()
    queue.add_after(ONE, 0.001)
    assert await queue.get() == ONE
    queue.done(ONE)
    queue.add_after(ONE, 1000)
    queue.add(ONE)
    await queue.get()
    assert ONE not in queue._timers, "the pass plans its own"


async def test_a_look_that_falls_due_during_a_pass_is_not_lost() -> None:
    queue = WorkQueue()
    queue.add(ONE)
    await queue.get()
    queue._due(ONE)
    queue.done(ONE)
    assert queue.depth == 1


async def test_failures_back_off_to_a_cap_and_success_starts_over() -> None:
    queue = WorkQueue()
    delays = [queue.failed(ONE) for _ in range(30)]
    assert delays[:3] == [FAILURE_BASE, 2 * FAILURE_BASE, 4 * FAILURE_BASE]
    assert delays[-1] == FAILURE_CAP
    assert ONE in queue._timers
    queue.succeeded(ONE)
    assert queue.failed(ONE) == FAILURE_BASE
    queue.forget(ONE)
    assert ONE not in queue._timers


async def test_every_addition_is_counted() -> None:
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1

    queue = WorkQueue(counted)
    queue.add(ONE)
    queue.add(ONE)
    assert count == 2
