from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta

import pytest

from controller.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound, Unavailable
from controller.kube.lease import Lease, LeaseLost, LeaseTimes
from controller.kube.protocol import Body

TIMES = LeaseTimes(duration=15.0, renew_interval=3.0, renew_deadline=10.0)


class World:
    """One stored Lease, one clock that only sleeping moves, and what happens at which moment."""

    def __init__(self) -> None:
        self.time = 0.0
        self.stored: Body | None = None
        self.version = 0
        self.failure: KubeError | None = None
        self.lose_answer = False
        self.writes: list[Body] = []
        self.at: list[tuple[float, Callable[[], object]]] = []

    def clock(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        end = self.time + seconds
        for moment, happen in sorted(self.at, key=lambda item: item[0]):
            if self.time < moment <= end:
                self.time = moment
                happen()
        self.time = end
        await asyncio.sleep(0)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    async def get_lease(self, namespace: str, name: str, timeout: float) -> Body | None:
        self._maybe_fail()
        return deepcopy(self.stored)

    async def create_lease(self, namespace: str, body: Body, timeout: float) -> Body:
        self._maybe_fail()
        if self.stored is not None:
            raise AlreadyExists("taken", code=409)
        return self._store(body)

    async def replace_lease(self, namespace: str, name: str, body: Body, timeout: float) -> Body:
        self._maybe_fail()
        if self.stored is None:
            raise NotFound("gone", code=404)
        if body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            raise Conflict("stale", code=409)
        stored = self._store(body)
        if self.lose_answer:
            self.lose_answer = False
            raise Unavailable("the answer was lost")
        return stored

    def held_by_other(self, *, duration: int = 15) -> None:
        self._store({"metadata": {"name": "l"}, "spec": {"holderIdentity": "other", "leaseDurationSeconds": duration}})

    def _store(self, body: Body) -> Body:
        self.version += 1
        self.stored = deepcopy(body)
        self.stored["metadata"]["resourceVersion"] = str(self.version)
        self.writes.append(deepcopy(self.stored))
        return deepcopy(self.stored)

    def _maybe_fail(self) -> None:
        if self.failure is not None:
            raise self.failure


def _lease(world: World, lost: list[str] | None = None, times: LeaseTimes = TIMES) -> Lease:
    reasons = lost if lost is not None else []
    return Lease(
        world,
        "ns",
        "l",
        times,
        on_lost=reasons.append,
        identity="me",
        clock=world.clock,
        sleep=world.sleep,
        now=world.now,
    )


async def _run_until(world: World, lease: Lease, moment: float) -> None:
    """Renew up to a moment of the world's clock."""
    task = asyncio.create_task(lease.run())
    world.at.append((moment, task.cancel))
    with suppress(asyncio.CancelledError):
        await task


async def test_a_missing_lease_is_created_and_held(world: World) -> None:
    lease = _lease(world)
    with pytest.raises(LeaseLost, match="not held"):
        lease.check()
    await lease.acquire()
    lease.check()
    assert lease.held
    assert world.stored is not None
    assert world.stored["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


async def test_a_released_lease_is_taken_at_once(world: World) -> None:
    first = _lease(world)
    await first.acquire()
    await first.release()
    assert not first.held
    with pytest.raises(LeaseLost):
        first.check()
    second = _lease(world)
    await second.acquire()
    assert world.time == 0
    assert world.stored is not None
    assert world.stored["spec"]["leaseTransitions"] == 1


async def test_a_silent_holder_is_replaced_after_the_whole_duration_on_our_own_clock(world: World) -> None:
    world.held_by_other()
    lease = _lease(world)
    await lease.acquire()
    assert 15 <= world.time < 15.2


async def test_a_holder_that_renews_is_waited_for(world: World) -> None:
    world.held_by_other()
    world.at = [(float(moment), world.held_by_other) for moment in range(2, 60, 2)]
    lease = _lease(world)
    await lease.acquire()
    assert 58 + 15 <= world.time < 58 + 15 + TIMES.renew_interval + 0.2


async def test_a_holder_with_a_longer_duration_gets_its_time(world: World) -> None:
    world.held_by_other(duration=40)
    await _lease(world).acquire()
    assert world.time >= 40


async def test_a_candidate_that_loses_the_race_goes_on_waiting(world: World) -> None:
    world.held_by_other()
    taken: list[float] = []

    async def replace(namespace: str, name: str, body: Body, timeout: float) -> Body:
        if not taken:
            taken.append(world.time)
            world.held_by_other()
            raise Conflict("stale")
        return await World.replace_lease(world, namespace, name, body, timeout)

    world.replace_lease = replace  # type: ignore[method-assign]
    await _lease(world).acquire()
    assert world.time >= taken[0] + 15


async def test_an_outage_while_acquiring_is_waited_out_but_a_refusal_is_not(world: World) -> None:
    world.failure = Unavailable("down")
    world.at = [(20.0, lambda: setattr(world, "failure", None))]
    await _lease(world).acquire()
    assert world.time >= 20
    world.failure = Forbidden("no")
    with pytest.raises(Forbidden):
        await _lease(world).acquire()


async def test_a_create_whose_answer_was_lost_is_recognised_as_our_own(world: World) -> None:
    await _lease(world).acquire()
    again = _lease(world)
    await again.acquire()
    assert world.time == 0
    again.check()


async def test_renewals_keep_it_and_each_names_the_version_it_replaces(world: World) -> None:
    lease = _lease(world)
    await lease.acquire()
    await _run_until(world, lease, 60.0)
    assert len(world.writes) == 1 + 60 / TIMES.renew_interval - 1
    assert world.writes[-1]["spec"]["renewTime"] > world.writes[0]["spec"]["renewTime"]
    assert world.writes[-1]["spec"]["acquireTime"] == world.writes[0]["spec"]["acquireTime"]


async def test_without_renewals_the_lease_is_lost_at_the_deadline_and_on_lost_is_called_once(world: World) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()
    world.failure = Unavailable("down")
    await lease.run()
    assert TIMES.renew_deadline < world.time < TIMES.duration
    assert lost == ["the lease was not renewed for 10 s"]
    with pytest.raises(LeaseLost):
        lease.check()


async def test_check_notices_by_itself_that_the_process_was_asleep(world: World) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()
    world.time += 10.1
    assert not lease.held
    with pytest.raises(LeaseLost):
        lease.check()
    world.time -= 10
    with pytest.raises(LeaseLost):
        lease.check()
    assert len(lost) == 1


async def test_a_renewal_counts_from_the_moment_it_was_sent(world: World) -> None:
    """Others have seen it at the earliest then, and their patience began."""
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()

    async def slow(namespace: str, name: str, body: Body, timeout: float) -> Body:
        stored = await World.replace_lease(world, namespace, name, body, timeout)
        world.time += 6
        return stored

    world.replace_lease = slow  # type: ignore[method-assign]
    await _run_until(world, lease, 10.0)
    sent = TIMES.renew_interval
    world.time = sent + 10.0
    lease.check()
    world.time = sent + 10.1
    with pytest.raises(LeaseLost):
        lease.check()


async def test_a_loss_noticed_in_two_places_is_reported_once(world: World) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()

    async def meanwhile(namespace: str, name: str, body: Body, timeout: float) -> Body:
        world.time += 20
        with pytest.raises(LeaseLost):
            lease.check()
        raise NotFound("gone")

    world.replace_lease = meanwhile  # type: ignore[method-assign]
    await lease.run()
    assert lost == ["the lease was not renewed for 10 s"]
    writes = len(world.writes)
    del world.replace_lease
    await lease.release()
    assert len(world.writes) == writes


async def test_a_short_outage_is_survived(world: World) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()
    world.failure = Unavailable("down")
    world.at = [(8.0, lambda: setattr(world, "failure", None))]
    await _run_until(world, lease, 30.0)
    lease.check()
    assert lost == []


async def test_a_renewal_whose_answer_was_lost_is_not_taken_for_another_holder(world: World) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()
    world.lose_answer = True
    await _run_until(world, lease, 30.0)
    lease.check()
    assert lost == []


@pytest.mark.parametrize(
    ("happens", "reason"), [("held_by_other", "taken by other"), ("vanish", "was deleted")], ids=["taken", "deleted"]
)
async def test_a_lease_in_other_hands_is_lost_at_the_next_renewal(world: World, happens: str, reason: str) -> None:
    lost: list[str] = []
    lease = _lease(world, lost)
    await lease.acquire()
    if happens == "vanish":
        world.stored = None
    else:
        world.held_by_other()
    await lease.run()
    assert world.time == TIMES.renew_interval
    assert len(lost) == 1
    assert reason in lost[0]


async def test_a_lost_lease_is_not_released(world: World) -> None:
    lease = _lease(world)
    await lease.acquire()
    world.held_by_other()
    await lease.run()
    writes = len(world.writes)
    await lease.release()
    assert len(world.writes) == writes


async def test_two_candidates_never_hold_it_together(world: World) -> None:
    """The holder's API fails for good while the other's works: their reigns must not overlap on one clock."""
    first, second = _lease(world), _lease(world)
    second.identity = "you"
    await first.acquire()
    last_held: list[float] = []
    broken = False
    original = World.replace_lease

    async def replace(namespace: str, name: str, body: Body, timeout: float) -> Body:
        if broken and body["spec"]["holderIdentity"] == "me":
            raise Unavailable("partitioned")
        return await original(world, namespace, name, body, timeout)

    world.replace_lease = replace  # type: ignore[method-assign]
    broken = True
    while first.held:
        last_held.append(world.time)
        world.time += 0.5
    await second.acquire()
    assert world.time > last_held[-1]
    second.check()
    with pytest.raises(LeaseLost):
        first.check()


@pytest.mark.parametrize("times", [(15, 10, 3), (10, 3, 10), (15, 0, 10)])
def test_times_that_cannot_guarantee_one_holder_are_refused(times: tuple[float, float, float]) -> None:
    duration, interval, deadline = times
    with pytest.raises(ValueError, match="lease needs"):
        LeaseTimes(duration=duration, renew_interval=interval, renew_deadline=deadline)


@pytest.fixture
def world() -> World:
    return World()
