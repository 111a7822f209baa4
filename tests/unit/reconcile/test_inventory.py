"""One list of machines for all objects of an account, at a bounded pace, and unknown when it fails."""

import asyncio
from collections.abc import Iterable

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.decide.types import Failure, MachineSeen
from controller.reconcile.inventory import Inventory
from tests.builders import STARTED, FakeClock
from tests.unit.reconcile.fakes import yield_to_others

ONE, TWO = ObjectKey(Kind.INSTANCE, "a", "one"), ObjectKey(Kind.INSTANCE, "a", "two")
FAST, SLOW = 5.0, 60.0
DOWN = Failure(Reason.API_UNAVAILABLE, "It is down.")


class Known(Exception):  # noqa: N818 - stands for any error of the CLI layer
    pass


class Poll:
    """An inventory, its provider and what it told; `read` is one turn of its loop."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.rows: list[MachineSeen] = []
        self.error: Exception | None = None
        self.reads: list[float] = []
        self.news: list[tuple[set[ObjectKey], bool]] = []
        self.inventory = Inventory(
            self._fetch,
            lambda error: DOWN if isinstance(error, Known) else None,
            fast=FAST,
            slow=SLOW,
            monotonic=self.clock.monotonic,
            on_news=lambda waiting, changed: self.news.append((waiting, changed)),
        )

    async def _fetch(self) -> Iterable[MachineSeen]:
        self.reads.append(self.clock.seconds)
        if self.error is not None:
            raise self.error
        return list(self.rows)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Time goes on, and the loop reads whenever a list is due."""
        end = self.clock.seconds + seconds
        while self.clock.seconds < end:
            self.clock.advance(step)
            if self.clock.monotonic() >= self.inventory._due:
                await self.inventory._read()


def row(name: str, machine_id: str, status: str = "RUNNING") -> MachineSeen:
    return MachineSeen(name, machine_id, status)


async def test_nothing_is_known_before_the_first_good_list() -> None:
    poll = Poll()
    view = poll.inventory.view("m-1", "one")
    assert (view.asked, view.row, view.absences) == (None, None, ())
    poll.error = Known()
    await poll.inventory._read()
    assert poll.inventory.view("m-1", "one") == view
    assert poll.inventory.failure == DOWN


async def test_a_failed_list_keeps_the_last_good_one_and_does_not_count_as_an_absence() -> None:
    poll = Poll()
    poll.rows = [row("one", "m-1")]
    await poll.inventory._read()
    poll.error = Known()
    poll.clock.advance(60)
    await poll.inventory._read()
    view = poll.inventory.view("m-1", "one")
    assert (view.asked, view.row) == (STARTED, row("one", "m-1"))


async def test_absences_are_consecutive_and_newest_first() -> None:
    poll = Poll()
    for seconds in (0.0, 10.0, 10.0):
        poll.clock.advance(seconds)
        await poll.inventory._read()
    assert poll.inventory.view("m-1", "one").absences == (STARTED + 20, STARTED + 10, STARTED)
    poll.rows = [row("one", "m-1")]
    poll.clock.advance(1)
    await poll.inventory._read()
    assert poll.inventory.view("m-1", "one").absences == ()
    poll.rows = []
    poll.clock.advance(1)
    await poll.inventory._read()
    view = poll.inventory.view("m-1", "one")
    assert (view.row, view.absences) == (None, (STARTED + 22,))
    assert not view.lacks(0.0)


async def test_a_machine_is_found_by_its_id_and_by_name_only_while_no_id_is_known() -> None:
    poll = Poll()
    poll.rows = [row("one", "m-9")]
    await poll.inventory._read()
    assert poll.inventory.view(None, "one").row is not None
    assert poll.inventory.view("m-1", "one").row is None
    assert poll.inventory.view("m-9", "renamed").row is not None
    assert poll.inventory.view(None, None).row is None


async def test_the_list_is_read_slowly_at_rest_and_fast_while_somebody_hurries() -> None:
    poll = Poll()
    await poll.pass_time(300)
    assert len(poll.reads) == 5
    poll.inventory.hurry(ONE, True)
    await poll.pass_time(60)
    assert len(poll.reads) - 5 == 12
    poll.inventory.hurry(ONE, False)
    count = len(poll.reads)
    await poll.pass_time(120)
    assert len(poll.reads) - count <= 3


async def test_no_number_of_objects_that_want_a_list_makes_a_hot_loop() -> None:
    poll = Poll()
    await poll.inventory._read()
    for _ in range(600):
        for number in range(20):
            poll.inventory.need(ObjectKey(Kind.INSTANCE, "a", str(number)))
        await poll.pass_time(0.1, 0.1)
    assert len(poll.reads) <= 1 + 60 / FAST


async def test_failed_lists_back_off_also_while_somebody_waits() -> None:
    poll = Poll()
    poll.error = Known()
    for _ in range(300):
        poll.inventory.need(ONE)
        poll.inventory.hurry(TWO, True)
        await poll.pass_time(1)
    assert len(poll.reads) <= 10
    gaps = [later - earlier for earlier, later in zip(poll.reads, poll.reads[1:], strict=False)]
    assert gaps[0] >= FAST
    assert max(gaps) >= SLOW


async def test_an_object_that_waits_hears_of_the_next_good_list_once_and_of_a_failure_when_it_is_news() -> None:
    poll = Poll()
    poll.error = Known()
    poll.inventory.need(ONE)
    await poll.inventory._read()
    await poll.inventory._read()
    assert poll.news == [({ONE}, True), (set(), False)]
    poll.error = None
    await poll.inventory._read()
    assert poll.news[-1] == ({ONE}, True)
    await poll.inventory._read()
    assert poll.news[-1] == (set(), False)


async def test_a_machine_that_changed_is_news_and_the_same_list_is_not() -> None:
    poll = Poll()
    poll.rows = [row("one", "m-1", "DEPLOYING")]
    await poll.inventory._read()
    await poll.inventory._read()
    poll.rows = [row("one", "m-1", "RUNNING")]
    await poll.inventory._read()
    assert [changed for _, changed in poll.news] == [True, False, True]


async def test_a_forgotten_object_neither_waits_nor_hurries() -> None:
    poll = Poll()
    poll.inventory.need(ONE)
    poll.inventory.hurry(ONE, True)
    poll.inventory.forget(ONE)
    await poll.inventory._read()
    assert poll.news[-1][0] == set()
    count = len(poll.reads)
    await poll.pass_time(120)
    assert len(poll.reads) - count == 2


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("odder"), RuntimeError("oddest")])
async def test_an_error_that_nobody_foresaw_does_not_end_the_poller(error: Exception) -> None:
    poll = Poll()
    poll.error = error
    task = asyncio.create_task(poll.inventory.run())
    await yield_to_others()
    assert not task.done()
    assert poll.inventory.failure is not None
    assert type(error).__name__ in poll.inventory.failure.message
    poll.error = None
    poll.rows = [row("one", "m-1")]
    poll.clock.advance(1)
    poll.inventory.soon()
    await yield_to_others()
    assert poll.inventory.failure is None
    assert poll.inventory.view("m-1", None).row is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_call_that_changed_something_gets_a_list_at_once_also_during_another_one() -> None:
    poll = Poll()
    task = asyncio.create_task(poll.inventory.run())
    await yield_to_others()
    assert len(poll.reads) == 1
    poll.clock.advance(1)
    poll.inventory.soon()
    await yield_to_others()
    assert poll.reads == [0, 1]
    assert poll.inventory.asked == STARTED + 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_list_under_way_when_something_changes_is_followed_by_another() -> None:
    poll = Poll()
    gate = asyncio.Event()
    fetch = poll.inventory._fetch

    async def slow() -> Iterable[MachineSeen]:
        rows = await fetch()
        await gate.wait()
        return rows

    poll.inventory._fetch = slow
    task = asyncio.create_task(poll.inventory.run())
    await yield_to_others()
    poll.clock.advance(1)
    poll.inventory.soon()
    gate.set()
    await yield_to_others()
    assert poll.reads == [0, 1]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
