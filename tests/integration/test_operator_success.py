"""A job from apply to Succeeded: what a person sees, what it cost, and that nothing is left."""

from __future__ import annotations

from decimal import Decimal

from controller.api.meta import Kind
from tests.integration.bench import Bench, attempt_of, condition, status_of

KSTATUS = ("Ready", "Reconciling", "Stalled")


async def test_a_job_succeeds_and_leaves_no_machine(bench: Bench) -> None:
    job = await bench.run(bench.job("hello", "echo hello; echo world >&2"))
    status, attempt = status_of(job), attempt_of(job)
    assert status["phase"] == "Succeeded"
    assert [condition(job, type_)["status"] for type_ in KSTATUS] == ["True", "False", "False"]
    assert condition(job, "Complete")["status"] == "True"
    assert condition(job, "Failed") == {}
    assert all(each["observedGeneration"] == 1 and each["message"] for each in status["conditions"])
    assert (attempt["exitCode"], attempt.get("signal"), attempt["reason"]) == (0, None, "Succeeded")
    assert status["startTime"] <= attempt["startedAt"] <= attempt["finishedAt"] <= status["completionTime"]
    assert status["logTail"] == "hello\nworld\n"
    assert (status["logTruncated"], status["logBytes"]) == (False, len("hello\nworld\n"))
    assert status["machine"]["brevName"] not in [row["name"] for row in await bench.machines()]
    assert await bench.api.get(Kind.INSTANCE, bench.namespace, attempt["instance"]) is None
    assert job["metadata"].get("finalizers", []) == []


async def test_the_cost_is_an_upper_bound_close_to_the_invoice(bench: Bench) -> None:
    status = status_of(await bench.run(bench.job("hello")))
    [line] = await bench.bill(status["machine"]["brevName"])
    price = Decimal(line["pricePerHourMicros"]) / 1_000_000
    assert Decimal(status["cost"]["pricePerHourUSD"]) == Decimal(status["machine"]["pricePerHourUSD"]) == price
    assert status["attempts"][0]["costUSD"] == status["cost"]["accruedUSD"]
    assert status["cost"]["endedAt"] <= status["completionTime"]
    accrued, billed = Decimal(status["cost"]["accruedUSD"]), Decimal(line["micros"]) / 1_000_000
    excess_seconds = (accrued - billed) * 3600 / price
    assert 0 <= excess_seconds < 60, "from the intent to two lists without the machine, however slow this computer is"


async def test_events_tell_the_story_once_and_in_eight(bench: Bench) -> None:
    job = await bench.run(bench.job("hello"))
    await bench.told(job, "Completed")
    events = await bench.events()
    story = [(event["involvedObject"]["kind"], event["reason"]) for event in events]
    assert len(story) <= 8, story
    assert {event.get("count", 1) for event in events} == {1}, "no transition is told twice"
    assert {("BrevInstance", "Ready"), ("BrevJob", "Running"), ("BrevInstance", "Released")} <= set(story)
    assert {event["type"] for event in events} == {"Normal"}


async def test_the_machine_is_gone_when_the_job_is_told_to_be_over(bench: Bench) -> None:
    await bench.apply(bench.job("hello"))
    job = await bench.until(Kind.JOB, "hello", lambda body: "completionTime" in status_of(body))
    [line] = await bench.bill(status_of(job)["machine"]["brevName"])
    assert line["closedAt"] is not None
    assert await bench.api.get(Kind.INSTANCE, bench.namespace, attempt_of(job)["instance"]) is None
