"""The BrevInstance of a job: ours, somebody else's, or gone, and never a second one."""

from typing import Any

import pytest

from controller.api.brevjob import BrevJob, JobAttempt, JobInstance
from controller.api.meta import API_VERSION, FINALIZER, Kind, ObjectKey
from controller.api.reasons import Reason
from controller.decide.types import ChildState, CreateChild, DeleteChild
from controller.kube.errors import Forbidden, Invalid
from controller.reconcile import child
from tests.builders import instance_body, make_job
from tests.unit.reconcile.fakes import Bench

NAME = "iris-abcde-1"
KEY = ObjectKey(Kind.INSTANCE, "team-a", NAME)
ACTION = CreateChild(NAME, 1)
OWNER = {"apiVersion": API_VERSION, "kind": "BrevJob", "name": "iris", "uid": "uid-of-iris", "controller": True}


def job(uid: str | None = None) -> BrevJob:
    made = make_job(uid="uid-of-iris")
    made.status.attempts = [JobAttempt(number=1, instance=NAME)]
    made.status.instance = JobInstance(name=NAME, uid=uid)
    return made


def body(**more: Any) -> dict[str, Any]:
    return instance_body(NAME, uid="uid-of-child", **more)


async def test_it_is_posted_with_owner_and_finalizer_in_one_call(bench: Bench) -> None:
    assert await child.create(bench.engine, job(), ACTION) is None
    metadata = bench.body(KEY)["metadata"]
    assert metadata["finalizers"] == [FINALIZER]
    owner = metadata["ownerReferences"][0]
    assert (owner["uid"], owner["controller"], owner["kind"]) == ("uid-of-iris", True, "BrevJob")
    assert len(bench.writes) == 1
    assert bench.engine.cache.get(KEY) is not None
    assert bench.engine.queue.depth == 1, "it is looked at without waiting for the watch"


async def test_one_that_exists_already_is_looked_at_and_not_taken_for_ours_unseen(bench: Bench) -> None:
    bench.kube.put(Kind.INSTANCE, body())
    assert await child.create(bench.engine, job(), ACTION) is None
    state, instance, _ = await child.look_up(bench.engine, job())
    assert (state, instance) == (ChildState.FOREIGN, None)
    assert bench.engine.queue.depth == 1


@pytest.mark.parametrize("error", [Forbidden("a quota"), Invalid("a policy")])
async def test_a_refusal_is_told_in_the_words_of_the_api_server(bench: Bench, error: Any) -> None:
    bench.kube.refuse["create"] = error
    failure = await child.create(bench.engine, job(), ACTION)
    assert failure is not None
    assert failure.reason is Reason.FORBIDDEN
    assert error.message in failure.message


@pytest.mark.parametrize(
    "more",
    [
        {"ownerReferences": [OWNER]},
        {"labels": {child.JOB_UID_LABEL: "uid-of-iris"}},
    ],
)
async def test_it_is_ours_by_its_owner_or_by_the_mark_of_our_own_post(bench: Bench, more: dict[str, Any]) -> None:
    bench.store(Kind.INSTANCE, body(**more))
    state, instance, _ = await child.look_up(bench.engine, job())
    assert state is ChildState.PRESENT
    assert instance is not None


async def test_one_whose_owner_was_taken_away_is_ours_by_its_recorded_uid(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, body())
    assert (await child.look_up(bench.engine, job("uid-of-child")))[0] is ChildState.PRESENT
    assert (await child.look_up(bench.engine, job("uid-of-another")))[0] is ChildState.FOREIGN


async def test_absence_is_concluded_from_the_api_server_and_not_from_the_cache(bench: Bench) -> None:
    bench.kube.put(Kind.INSTANCE, body(labels={child.JOB_UID_LABEL: "uid-of-iris"}))
    assert bench.engine.cache.get(KEY) is None
    assert (await child.look_up(bench.engine, job()))[0] is ChildState.PRESENT
    del bench.kube.objects[KEY]
    bench.engine.cache.remove(Kind.INSTANCE, bench.engine.cache.get(KEY) or {})
    assert (await child.look_up(bench.engine, job()))[0] is ChildState.ABSENT


async def test_nothing_is_looked_up_before_anything_was_asked_for(bench: Bench) -> None:
    assert await child.look_up(bench.engine, make_job()) == (None, None, None)


async def test_the_last_cost_of_one_that_is_gone_is_still_known(bench: Bench) -> None:
    cost = {"cost": {"pricePerHourUSD": "1", "accruedUSD": "0.5", "endedAt": "2026-01-01T00:30:00Z"}}
    gone = body(status=cost, resourceVersion="5")
    bench.engine.cache.put(Kind.INSTANCE, gone)
    bench.engine.cache.remove(Kind.INSTANCE, gone)
    state, _, last = await child.look_up(bench.engine, job("uid-of-child"))
    assert state is ChildState.ABSENT
    assert last is not None
    assert last.accrued_micros == 500_000


async def test_it_is_deleted_by_name_and_uid_once_and_the_cache_knows(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, body())
    await child.delete(bench.engine, job(), DeleteChild(NAME, "uid-of-child"))
    cached = bench.engine.cache.get(KEY)
    assert cached is not None
    assert cached["metadata"]["deletionTimestamp"]


async def test_another_object_that_took_the_name_is_not_deleted(bench: Bench) -> None:
    bench.store(Kind.INSTANCE, body())
    await child.delete(bench.engine, job(), DeleteChild(NAME, "uid-of-one-before"))
    assert "deletionTimestamp" not in bench.body(KEY)["metadata"]
