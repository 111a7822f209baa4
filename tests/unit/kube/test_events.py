from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.kube.errors import AlreadyExists, Forbidden, NotFound, Unavailable
from controller.kube.events import BURST, EventRecorder, EventType, event_name
from controller.kube.lease import LeaseLost
from controller.kube.protocol import Body

JOB = ObjectKey(Kind.JOB, "team-a", "iris")
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Store:
    """Events as the API server keeps them."""

    events: dict[tuple[str, str], Body] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    failure: Exception | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def create_event(self, namespace: str, body: Body) -> Body:
        await self._call("create")
        key = (namespace, body["metadata"]["name"])
        if key in self.events:
            raise AlreadyExists("there")
        self.events[key] = dict(body)
        return self.events[key]

    async def patch_event(self, namespace: str, name: str, patch: Body) -> Body:
        await self._call("patch")
        if (namespace, name) not in self.events:
            raise NotFound("expired")
        self.events[namespace, name] |= patch
        return self.events[namespace, name]

    async def _call(self, verb: str) -> None:
        await self.gate.wait()
        self.calls.append(verb)
        if self.failure is not None:
            raise self.failure


@dataclass
class Bench:
    store: Store
    dropped: list[str]
    recorder: EventRecorder
    time: float = 0.0

    def tell(self, reason: str = "Provisioned", message: str = "m", *, uid: str = "u1", key: ObjectKey = JOB) -> None:
        self.recorder.record(key, uid, EventType.NORMAL, reason, message)

    def restarted(self) -> EventRecorder:
        return EventRecorder(self.store, "pod-2", now=lambda: START)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    store, dropped = Store(), list[str]()
    store.gate.set()
    made: list[Bench] = []
    recorder = EventRecorder(
        store,
        "pod-1",
        on_drop=dropped.append,
        mask=lambda text: text.replace("hunter22", "****"),
        now=lambda: START + timedelta(seconds=made[0].time),
        clock=lambda: made[0].time,
        capacity=5,
    )
    made.append(Bench(store, dropped, recorder))
    task = asyncio.create_task(recorder.run())
    yield made[0]
    task.cancel()


async def test_an_event_says_what_kubectl_and_dashboards_read(bench: Bench) -> None:
    bench.recorder.record(JOB, "u1", EventType.WARNING, "Failed", "exit code 3")
    await bench.recorder.flush(10)
    ((namespace, name), event), *rest = bench.store.events.items()
    assert rest == []
    assert (namespace, name) == ("team-a", event_name(JOB, "u1", "Failed"))
    assert event["involvedObject"] == {
        "apiVersion": "brev.nvidia.com/v1alpha1",
        "kind": "BrevJob",
        "name": "iris",
        "namespace": "team-a",
        "uid": "u1",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Warning", "Failed", "exit code 3", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["reportingComponent"] == event["source"]["component"] == "brev-operator"
    assert event["reportingInstance"] == "pod-1"


async def test_telling_it_again_raises_the_count_of_the_same_event(bench: Bench) -> None:
    bench.tell(message="first words")
    await bench.recorder.flush(10)
    bench.time = 60
    bench.tell(message="other words")
    await bench.recorder.flush(10)
    (event,) = bench.store.events.values()
    assert (event["count"], event["message"]) == (2, "other words")
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
    assert bench.store.calls == ["create", "patch"]


async def test_a_restarted_operator_goes_on_counting(bench: Bench) -> None:
    for _ in range(3):
        bench.tell()
        await bench.recorder.flush(10)
    second = bench.restarted()
    task = asyncio.create_task(second.run())
    second.record(JOB, "u1", EventType.NORMAL, "Provisioned", "m")
    await second.flush(10)
    task.cancel()
    (event,) = bench.store.events.values()
    assert event["count"] == 4


async def test_an_event_whose_time_to_live_is_over_is_posted_anew(bench: Bench) -> None:
    bench.tell()
    await bench.recorder.flush(10)
    bench.store.events.clear()
    bench.tell()
    await bench.recorder.flush(10)
    (event,) = bench.store.events.values()
    assert event["count"] == 1


async def test_what_waits_under_one_name_is_told_once_with_its_count(bench: Bench) -> None:
    for number in range(4):
        bench.tell(message=f"message {number}")
    await bench.recorder.flush(10)
    (event,) = bench.store.events.values()
    assert (event["count"], event["message"]) == (4, "message 3")
    assert bench.store.calls == ["create"]


async def test_events_of_objects_without_a_namespace_go_to_default(bench: Bench) -> None:
    bench.tell(key=ObjectKey(Kind.ACCOUNT, "", "default"))
    await bench.recorder.flush(10)
    ((namespace, _), event) = next(iter(bench.store.events.items()))
    assert namespace == event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


@pytest.mark.parametrize("failure", [Unavailable("down"), Forbidden("no"), LeaseLost("gone")])
async def test_a_failing_events_api_costs_the_event_and_nothing_else(bench: Bench, failure: Exception) -> None:
    bench.store.failure = failure
    bench.tell()
    await bench.recorder.flush(10)
    assert bench.dropped == ["api"]
    bench.store.failure = None
    bench.tell()
    await bench.recorder.flush(10)
    assert len(bench.store.events) == 1


async def test_a_hanging_events_api_never_blocks_recording_and_the_queue_stays_bounded(bench: Bench) -> None:
    bench.store.gate.clear()
    for number in range(12):
        bench.tell(f"Reason{number}", uid=f"u{number}")
    assert bench.dropped == ["queue"] * 7
    await bench.recorder.flush(0)
    assert bench.dropped.count("shutdown") >= 4


async def test_an_object_in_a_loop_is_rate_limited_and_others_are_not(bench: Bench) -> None:
    for number in range(BURST + 10):
        bench.tell(f"Reason{number}")
        await bench.recorder.flush(10)
    assert bench.dropped == ["rate"] * 10
    bench.tell(uid="another")
    bench.time += 120
    bench.tell("Later1")
    bench.tell("Later2")
    bench.tell("Later3")
    await bench.recorder.flush(10)
    assert bench.dropped == ["rate"] * 11


async def test_messages_are_masked_and_cut_on_a_character(bench: Bench) -> None:
    bench.tell(message="password hunter22 " + "é" * 2000)
    await bench.recorder.flush(10)
    (event,) = bench.store.events.values()
    assert event["message"].startswith("password **** é")
    assert event["message"].endswith("é…")
    assert len(event["message"].encode()) <= 1024


def test_names_are_stable_legal_and_apart() -> None:
    long = ObjectKey(Kind.JOB, "n", ("a" * 199 + "." + "b" * 53))
    name = event_name(long, "u", "R")
    assert len(name) <= 253
    assert ".." not in name
    assert name == event_name(long, "u", "R")
    assert len({event_name(JOB, "u", "R"), event_name(JOB, "u", "R", "2"), event_name(JOB, "v", "R")}) == 3


async def test_dropping_is_told_in_the_log_with_the_object(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench.store.failure = Unavailable("down")
    bench.tell()
    await bench.recorder.flush(10)
    assert "was not delivered: down" in caplog.text
