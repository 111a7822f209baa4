"""How a Plan is carried out: status, Events, what is consumed, the one action; and nothing after a conflict."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from controller.api.brevinstance import InstanceAttempt, InstancePhase, InstanceStatus, RemoteFacts
from controller.api.conditions import set_condition
from controller.api.meta import API_VERSION, FINALIZER, Kind, ObjectKey
from controller.decide.types import (
    Action,
    AddFinalizer,
    Cancel,
    CreateChild,
    Note,
    Operation,
    Plan,
    RemoveFinalizer,
    Start,
)
from controller.kube.errors import Conflict
from controller.logs import register_secret
from controller.reconcile.cache import Body
from controller.reconcile.engine import carry_out
from tests.builders import NOW, instance_body
from tests.unit.reconcile.fakes import Bench, yield_to_others

KEY = ObjectKey(Kind.INSTANCE, "team-a", "gpu")


class Performer:
    """Writes down what it is asked to perform, and on what body."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.bodies: list[Body] = []

    async def perform(self, key: ObjectKey, body: Body, action: Action) -> None:
        self.bench.kube.log.append(f"action {type(action).__name__}")
        self.bodies.append(body)


def status(**more: Any) -> InstanceStatus:
    made = InstanceStatus(phase=InstancePhase.READY, **more)
    set_condition(made.conditions, "Ready", "True", "Ready", "It is.", NOW, 1)
    return made


async def carry(bench: Bench, plan: Plan[Any], body: Mapping[str, Any] | None = None) -> Performer:
    performer = Performer(bench)
    await carry_out(bench.engine, KEY, dict(body or bench.body(KEY)), plan, performer)
    return performer


def store(bench: Bench, **more: Any) -> None:
    bench.store(Kind.INSTANCE, instance_body(uid="uid-of-gpu", **more))


async def test_the_order_is_status_events_action(bench: Bench) -> None:
    store(bench)
    plan = Plan(status(), Start(Operation.CREATE), (Note("Normal", "Ready", "It is."),), timedelta(seconds=1))
    performer = await carry(bench, plan)
    assert [line.split(" ")[0] for line in bench.kube.log] == ["status", "event", "action"]
    assert performer.bodies[0]["status"]["phase"] == "Ready", "the action sees what was stored"


async def test_a_status_that_is_stored_already_is_not_written(bench: Bench) -> None:
    store(bench)
    await carry(bench, Plan(status()))
    before = len(bench.kube.log)
    await carry(bench, Plan(status()))
    assert bench.kube.log[before:] == []


async def test_a_conflict_stops_before_events_consumption_and_action(bench: Bench) -> None:
    store(bench)
    stale = bench.body(KEY)
    store(bench)

    async def done() -> None:
        return None

    bench.engine.operations.start(KEY, "uid-of-gpu", Operation.CREATE, done())
    await yield_to_others()
    plan = Plan(
        status(), Start(Operation.DELETE), (Note("Normal", "Ready", "It is."),), consumed=frozenset({Operation.CREATE})
    )
    with pytest.raises(Conflict):
        await carry(bench, plan, stale)
    assert bench.kube.log == []
    assert Operation.CREATE in bench.engine.operations.views("uid-of-gpu")


async def test_what_was_consumed_is_forgotten_before_the_action(bench: Bench) -> None:
    store(bench)

    async def done() -> None:
        return None

    bench.engine.operations.start(KEY, "uid-of-gpu", Operation.CREATE, done())
    await yield_to_others()
    await carry(bench, Plan(status(), consumed=frozenset({Operation.CREATE})))
    assert bench.engine.operations.views("uid-of-gpu") == {}


async def test_our_own_write_is_in_the_cache_at_once_and_its_watch_event_is_no_news(bench: Bench) -> None:
    store(bench)
    await bench.settle()
    await carry(bench, Plan(status()))
    cached = bench.engine.cache.get(KEY)
    assert cached is not None
    assert cached["status"]["phase"] == "Ready"
    bench.operator.on_event(Kind.INSTANCE, "MODIFIED", bench.body(KEY))
    assert bench.engine.queue.depth == 0


async def test_the_owner_hears_of_our_own_write(bench: Bench) -> None:
    owner = {"apiVersion": API_VERSION, "kind": "BrevJob", "name": "iris", "uid": "u", "controller": True}
    store(bench, ownerReferences=[owner])
    await bench.settle()
    await carry(bench, Plan(status()))
    assert await bench.engine.queue.get() == ObjectKey(Kind.JOB, "team-a", "iris")


async def test_fields_that_an_old_crd_drops_are_reported_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    store(bench)
    bench.kube.prune = {"remote"}
    remote = RemoteFacts(home="/home/ubuntu")
    for _ in range(3):
        await carry(bench, Plan(status(remote=remote)))
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 1
    assert "status.remote" in told[0]
    assert "apply crds/" in told[0]


@pytest.mark.parametrize(
    ("action", "performed"),
    [
        (Start(Operation.CREATE), False),
        (Start(Operation.DELIVER), False),
        (CreateChild("gpu-1", 1), False),
        (Start(Operation.DELETE), True),
        (Start(Operation.CONNECT), True),
    ],
)
async def test_nothing_is_begun_whose_intent_an_old_crd_drops(bench: Bench, action: Action, performed: bool) -> None:
    store(bench)
    bench.kube.prune = {"attempts"}
    attempt = InstanceAttempt(number=1, brev_name="bo-x", type="g5.xlarge", intended_at=NOW)
    performer = await carry(bench, Plan(status(attempts=[attempt]), action))
    assert bool(performer.bodies) is performed


async def test_registered_secrets_leave_messages_and_nothing_else(bench: Bench) -> None:
    register_secret("super-secret-value")
    register_secret("Running-like-name")
    store(bench)
    made = status(brev_name="Running-like-name")
    set_condition(made.conditions, "Ready", "True", "Ready", "It said super-secret-value.", NOW, 1)
    await carry(bench, Plan(made))
    stored = bench.body(KEY)["status"]
    assert stored["conditions"][0]["message"] == "It said ****."
    assert stored["brevName"] == "Running-like-name"
    before = len(bench.kube.log)
    await carry(bench, Plan(made))
    assert bench.kube.log[before:] == [], "what is masked is compared masked"


async def test_a_finalizer_is_added_beside_others_and_the_object_comes_back(bench: Bench) -> None:
    store(bench, held=False)
    body = bench.body(KEY)
    body["metadata"]["finalizers"] = ["example.com/other"]
    assert await bench.engine.queue.get() == KEY
    await carry(bench, Plan(action=AddFinalizer()))
    bench.engine.queue.done(KEY)
    assert bench.body(KEY)["metadata"]["finalizers"] == ["example.com/other", FINALIZER]
    assert bench.engine.queue.depth == 1


async def test_our_finalizer_alone_is_taken_away_and_a_gone_object_is_no_error(bench: Bench) -> None:
    store(bench)
    body = bench.body(KEY)
    body["metadata"]["finalizers"] = [FINALIZER, "example.com/other"]
    await carry(bench, Plan(action=RemoveFinalizer()))
    assert bench.body(KEY)["metadata"]["finalizers"] == ["example.com/other"]
    gone = bench.kube.objects.pop(KEY)
    await carry(bench, Plan(action=RemoveFinalizer()), gone)


async def test_a_cancellation_ends_what_runs(bench: Bench) -> None:
    store(bench)

    async def for_ever() -> None:
        await yield_to_others(10**6)

    bench.engine.operations.start(KEY, "uid-of-gpu", Operation.CREATE, for_ever())
    await carry(bench, Plan(action=Cancel(frozenset({Operation.CREATE}))))
    await yield_to_others()
    assert not bench.engine.operations.views("uid-of-gpu")[Operation.CREATE].running


async def test_a_plan_without_a_time_plans_nothing(bench: Bench) -> None:
    store(bench)
    await bench.settle()
    bench.engine.queue.forget(KEY)
    await carry(bench, Plan())
    assert KEY not in bench.engine.queue._timers
    await carry(bench, Plan(requeue=timedelta(seconds=30)))
    assert KEY in bench.engine.queue._timers
