"""Workers outlive every pass, and what fails comes back; the watch, the list and the live GET agree in the end."""

import asyncio
from typing import Any

import pytest

from controller.api.meta import API_VERSION, Kind, ObjectKey
from controller.decide.types import Operation
from controller.kube.errors import Conflict, Forbidden, NotFound, Unavailable
from controller.kube.lease import LeaseLost
from tests.builders import account_body, instance_body, job_body, stored
from tests.unit.decide.lives import of, ready
from tests.unit.reconcile.fakes import Bench, machine_row, yield_to_others

KEY = ObjectKey(Kind.INSTANCE, "team-a", "gpu")


def planned(bench: Bench, key: ObjectKey = KEY) -> bool:
    """Whether anything will bring the object back."""
    queue = bench.engine.queue
    return key in queue._timers or key in queue._waiting or key in queue._dirty


def instance(**more: Any) -> dict[str, Any]:
    return instance_body(**{"uid": "uid-of-gpu", **more})


@pytest.mark.parametrize(
    "error",
    [Conflict("stale"), NotFound("gone"), Forbidden("no"), Unavailable("down"), ValueError("a bug"), TimeoutError()],
)
async def test_a_pass_that_fails_comes_back_after_a_growing_delay(bench: Bench, error: Exception) -> None:
    bench.store(Kind.INSTANCE, instance(held=False))

    async def fails(key: ObjectKey) -> None:
        raise error

    bench.operator.workers._reconcilers = {Kind.INSTANCE: fails}
    await bench.engine.queue.get()
    await bench.run_pass(KEY)
    bench.engine.queue.done(KEY)
    assert KEY in bench.engine.queue._timers
    assert bench.engine.queue.failed(KEY) > 0.2


async def test_a_lost_lease_plans_nothing(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, instance(held=False))
    await bench.engine.queue.get()

    async def fails(key: ObjectKey) -> None:
        raise LeaseLost("it is lost")

    bench.operator.workers._reconcilers = {Kind.INSTANCE: fails}
    await bench.run_pass(KEY)
    assert KEY not in bench.engine.queue._timers


async def test_after_a_conflict_the_pass_is_repeated_on_the_newer_object(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, instance(held=False))
    newer = bench.kube.put(Kind.INSTANCE, instance(held=False, labels={"new": "yes"}))
    await bench.engine.queue.get()
    await bench.run_pass(KEY)
    assert bench.engine.cache.get(KEY) == newer
    await bench.run_pass(KEY)
    assert bench.body(KEY)["metadata"]["finalizers"]


async def test_an_object_that_turns_out_to_be_gone_is_forgotten_and_its_owner_hears_of_it(bench: Bench) -> None:
    owner = {"apiVersion": API_VERSION, "kind": "BrevJob", "name": "iris", "uid": "u", "controller": True}
    bench.store(Kind.INSTANCE, instance(ownerReferences=[owner]))
    del bench.kube.objects[KEY]
    await bench.engine.queue.get()
    job = await bench.engine.queue.get()
    await bench.run_pass(KEY)
    bench.engine.queue.done(job)
    assert bench.engine.cache.get(KEY) is None
    assert planned(bench, job)


async def test_a_new_object_of_the_name_is_not_taken_for_the_one_that_is_gone(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, instance())
    del bench.kube.objects[KEY]
    get = bench.kube.get

    async def slow_get(key: ObjectKey) -> dict[str, Any] | None:
        found = await get(key)
        bench.store(Kind.INSTANCE, instance(held=False, uid="uid-of-another"))
        return found

    bench.kube.get = slow_get  # type: ignore[method-assign]
    await bench.engine.queue.get()
    await bench.run_pass(KEY)
    cached = bench.engine.cache.get(KEY)
    assert cached is not None
    assert cached["metadata"]["uid"] == "uid-of-another"


async def test_workers_take_what_waits_and_end_when_told(bench: Bench) -> None:
    seen: list[ObjectKey] = []

    async def notes(key: ObjectKey) -> None:
        seen.append(key)

    bench.operator.workers._reconcilers = dict.fromkeys(Kind, notes)
    bench.operator.workers.start()
    bench.store(Kind.INSTANCE, instance())
    await yield_to_others()
    assert seen == [KEY]
    await bench.operator.workers.stop()
    assert all(task.done() for task in bench.operator.workers._tasks)


async def test_a_worker_that_makes_no_progress_is_unhealthy_only_while_something_waits(bench: Bench) -> None:
    bench.clock.advance(10_000)
    assert bench.operator.workers.stuck() is None
    bench.store(Kind.INSTANCE, instance())
    assert "no pass has ended" in (bench.operator.workers.stuck() or "")


async def test_a_list_heals_what_the_watch_missed(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, instance())
    bench.store(Kind.JOB, job_body(uid="uid-of-iris"))
    del bench.kube.objects[KEY]
    missed = bench.kube.put(Kind.JOB, job_body("missed", uid="uid-of-missed"))
    await bench.operator.list_all()
    assert bench.engine.cache.get(KEY) is None
    assert bench.engine.cache.get(ObjectKey(Kind.JOB, "team-a", "missed")) == missed
    assert planned(bench, ObjectKey(Kind.JOB, "team-a", "missed"))


async def test_a_list_that_fails_changes_nothing(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, instance())
    bench.kube.refuse["list"] = Unavailable("down")
    with pytest.raises(Unavailable):
        await bench.operator.list_all()
    assert bench.engine.cache.get(KEY) is not None
    assert bench.operator.unready()
    assert bench.operator.stale()


async def test_health_follows_the_age_of_the_last_list(bench: Bench) -> None:
    await bench.operator.list_all()
    assert (bench.operator.stale(), bench.operator.unready()) == (None, None)
    bench.clock.advance(1000)
    assert bench.operator.stale()


@pytest.mark.parametrize("by", ["watch", "list"])
async def test_what_ran_for_an_object_ends_when_another_takes_its_name(bench: Bench, by: str) -> None:
    bench.store(Kind.INSTANCE, instance())

    async def for_ever() -> None:
        await asyncio.Event().wait()

    bench.engine.operations.start(KEY, "uid-of-gpu", Operation.CONNECT, for_ever())
    await yield_to_others()
    bench.engine.queue.add_after(KEY, 1000)
    another = bench.kube.put(Kind.INSTANCE, instance(uid="uid-of-another"))
    if by == "watch":
        bench.operator.on_event(Kind.INSTANCE, "ADDED", another)
    else:
        await bench.operator.list_all()
    await yield_to_others()
    assert bench.engine.operations.views("uid-of-gpu") == {}
    assert planned(bench)


async def test_the_late_end_of_an_old_object_leaves_the_plans_of_the_new_one(bench: Bench) -> None:
    old = bench.kube.put(Kind.INSTANCE, instance())
    bench.operator.on_event(Kind.INSTANCE, "ADDED", old)
    bench.store(Kind.INSTANCE, instance(uid="uid-of-another"))
    await bench.engine.queue.get()
    bench.engine.queue.done(KEY)
    bench.engine.queue.add_after(KEY, 1000)
    bench.operator.on_event(Kind.INSTANCE, "DELETED", old)
    assert planned(bench)


async def test_an_object_that_is_gone_leaves_no_hurry_and_no_home_behind(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    key = bench.store(Kind.INSTANCE, instance(status=stored(of(ready()))))
    account = bench.engine.accounts.of("default")
    assert account is not None
    account.inventory.hurry(key, True)
    account.inventory.need(key)
    body = bench.kube.objects.pop(key)
    bench.operator.on_event(Kind.INSTANCE, "DELETED", body)
    assert not account.inventory._hurried
    assert not account.inventory._waiting
    assert bench.sessions[0].forgotten == [body["status"]["brevName"]]


async def test_an_object_without_a_machine_that_is_gone_leaves_no_hurry_behind_either(bench: Bench) -> None:
    bench.login()
    bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    key = bench.store(Kind.INSTANCE, instance(spec={"accountName": "default"}))
    account = bench.engine.accounts.of("default")
    assert account is not None
    account.inventory.hurry(key, True)
    bench.operator.on_event(Kind.INSTANCE, "DELETED", bench.kube.objects.pop(key))
    assert not account.inventory._hurried


async def test_a_machine_is_deleted_with_the_account_that_made_it_whatever_the_spec_says_now(bench: Bench) -> None:
    bench.login()
    bench.kube.secrets["brev-operator", "other-login"] = {"BREV_API_KEY": b"bak-other-key", "BREV_ORG_ID": b"org-1"}
    bench.store(Kind.ACCOUNT, account_body())
    bench.store(Kind.ACCOUNT, account_body("other", spec={"secretName": "other-login"}))
    await bench.settle()
    status = stored(of(ready()))
    for session in bench.sessions:
        session.machines = [machine_row(status["brevName"], "m-1", "RUNNING")]
    for name in ("default", "other"):
        account = bench.engine.accounts.of(name)
        assert account is not None
        bench.clock.advance(1)
        await account.inventory._read()
    moved = instance(status=status, spec={"accountName": "other"}, deletionTimestamp="2026-01-01T00:00:00Z")
    bench.store(Kind.INSTANCE, moved)
    await bench.settle()
    deletes = {session.account: [c for c in session.calls if c.startswith("delete")] for session in bench.sessions}
    assert deletes == {"default": ["delete m-1"], "other": []}
