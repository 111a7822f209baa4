"""The timeline on made-up objects: each thing is told once, in words, with what it has cost until then."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.sandbox.timeline import Line, Timeline

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
IRIS = ("default", "iris")
SPEC = {"instanceTemplate": {"spec": {"candidates": [{"type": "cpu"}]}}, "script": {"text": "true"}}


def stamp(when: datetime) -> str:
    return when.isoformat().replace("+00:00", "Z")


def conditions(reason: str, message: str, **others: str) -> list[dict[str, Any]]:
    common = {"lastTransitionTime": stamp(NOW), "reason": reason, "message": message}
    states = {"Ready": "Unknown", **others}
    return [{"type": type_, "status": value, **common} for type_, value in states.items()]


def job(phase: str | None, reason: str = "", message: str = "", **more: Any) -> BrevJob:
    others = more.pop("others", {})
    status: dict[str, Any] = {"conditions": conditions(reason, message, **others), **more}
    if phase is None:
        status = {}
    else:
        status["phase"] = phase
    metadata = {"namespace": "default", "name": "iris", "uid": "job-1"}
    return BrevJob.parse({"metadata": metadata, "spec": SPEC, "status": status})


def instance(phase: str, reason: str, message: str, owner: str = "job-1", **more: Any) -> BrevInstance:
    others = more.pop("others", {})
    reference = {"apiVersion": "brev.nvidia.com/v1alpha1", "kind": "BrevJob", "name": "iris", "uid": owner}
    metadata = {"namespace": "default", "name": "iris-1", "uid": "m-1", "ownerReferences": [reference]}
    status = {"phase": phase, "conditions": conditions(reason, message, **others), **more}
    return BrevInstance.parse({"metadata": metadata, "spec": {"candidates": [{"type": "cpu"}]}, "status": status})


def meter(**ends: str) -> dict[str, str]:
    return {"pricePerHourUSD": "3.60", "startedAt": stamp(NOW), "accruedUSD": "0", "asOf": stamp(NOW), **ends}


@pytest.fixture
def timeline() -> Timeline:
    found = Timeline((IRIS,))
    assert found.see_job(job(None), NOW) == []
    return found


def test_a_phase_is_told_with_its_sentence_and_only_once(timeline: Timeline) -> None:
    running = job("Running", "Running", "The script runs on machine bo-1.")
    assert timeline.see_job(running, NOW) == [Line(IRIS, "Running", "The script runs on machine bo-1.", 0)]
    assert timeline.see_job(running, NOW) == []


def test_while_a_job_waits_for_its_machine_the_machine_tells(timeline: Timeline) -> None:
    assert timeline.see_job(job("Provisioning", "AwaitingInstance", "Waiting."), NOW) == []
    [line] = timeline.see_instance(instance("Starting", "Booting", "It boots.", cost=meter()), NOW)
    assert (line.phase, line.text) == ("Provisioning", "It boots.")
    assert timeline.see_instance(instance("Starting", "Booting", "It still boots.", cost=meter()), NOW) == []


def test_what_was_spent_is_counted_to_the_moment_of_the_line(timeline: Timeline) -> None:
    later = NOW + timedelta(seconds=10)
    [line] = timeline.see_instance(instance("Ready", "Ready", "It answers.", cost=meter()), later)
    assert line.cost_micros == 10_000


def test_a_meter_that_has_stopped_stays_where_it_was(timeline: Timeline) -> None:
    cost = meter(accruedUSD="0.007", endedAt=stamp(NOW + timedelta(seconds=7)))
    [line] = timeline.see_job(job("Succeeded", "Succeeded", "", cost=cost), NOW + timedelta(hours=1))
    assert line.cost_micros == 7_000


def test_the_verdict_is_told_when_the_teardown_begins_and_the_machine_when_it_is_gone(timeline: Timeline) -> None:
    attempts = [{"number": 1, "exitCode": 0, "reason": "Succeeded", "message": "It ended with exit code 0."}]
    [line] = timeline.see_job(job("TearingDown", "TearingDown", "Waiting.", attempts=attempts), NOW)
    assert line.text == "It ended with exit code 0. The machine is being deleted."
    assert not timeline.over
    over = job("Succeeded", "Succeeded", "x", attempts=attempts, machine={"type": "cpu"}, others={"Complete": "True"})
    [line] = timeline.see_job(over, NOW)
    assert line.text == "The machine is gone."
    assert not line.trouble
    assert timeline.over


def test_a_failure_is_marked_as_trouble_and_ends_the_timeline(timeline: Timeline) -> None:
    attempts = [{"number": 1, "exitCode": 3, "reason": "NonZeroExit", "message": "It ended with exit code 3."}]
    failed = job("Failed", "NonZeroExit", "It failed.", attempts=attempts, others={"Failed": "True", "Ready": "False"})
    [line] = timeline.see_job(failed, NOW)
    assert line.trouble
    assert timeline.over


def test_a_stalled_machine_is_trouble_but_not_the_end(timeline: Timeline) -> None:
    stalled = instance("Pending", "NoAcceptableOffer", "Too dear.", others={"Stalled": "True"})
    [line] = timeline.see_instance(stalled, NOW)
    assert line.trouble
    assert not timeline.over


def test_a_job_that_somebody_deletes_is_over(timeline: Timeline) -> None:
    [line] = timeline.see_job(job("Running", "Running", "It runs."), NOW, deleted=True)
    assert (line.phase, line.trouble) == ("Deleted", True)
    assert timeline.over


def test_other_jobs_and_their_machines_are_nobodys_business(timeline: Timeline) -> None:
    stranger = job("Running", "Running", "It runs.")
    stranger.metadata.name = "other"
    assert timeline.see_job(stranger, NOW) == []
    assert timeline.see_instance(instance("Ready", "Ready", "It answers.", owner="job-2"), NOW) == []


def test_every_machine_that_was_asked_for_is_remembered_for_the_invoice(timeline: Timeline) -> None:
    attempts = [{"number": 1, "brevName": "bo-1", "type": "cpu"}, {"number": 2, "brevName": "bo-1-2", "type": "cpu"}]
    timeline.see_instance(instance("Provisioning", "Creating", "Creating.", attempts=attempts[:1]), NOW)
    timeline.see_instance(instance("Provisioning", "Deploying", "Deploying.", attempts=attempts), NOW)
    assert timeline.machines(IRIS) == {"bo-1", "bo-1-2"}


def test_several_jobs_are_over_only_together() -> None:
    timeline = Timeline((IRIS, ("default", "other")))
    timeline.see_job(job("Succeeded", "Succeeded", "", others={"Complete": "True"}), NOW)
    assert not timeline.over
