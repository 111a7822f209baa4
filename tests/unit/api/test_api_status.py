"""Statuses, conditions and reasons."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.api.base import StatusModel, status_dict
from controller.api.brevaccount import AccountStatus, BrevAccount
from controller.api.brevinstance import BrevInstance, InstanceStatus
from controller.api.brevjob import BrevJob, JobStatus
from controller.api.conditions import Condition, ConditionType, get_condition, set_condition
from controller.api.crdgen import object_schema
from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Family, Reason
from controller.api.text import stored_size

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS_BUDGET = 64 * 1024


def overfull(schema: dict[str, Any]) -> Any:
    """A value far beyond every limit of a status schema, of characters that take the most room when stored."""
    if "enum" in schema:
        return max(schema["enum"], key=len)
    match schema["type"]:
        case "object":
            return {name: overfull(child) for name, child in schema["properties"].items()}
        case "array":
            return [overfull(schema["items"]) for _ in range(schema["maxItems"] + 3)]
        case "integer":
            return schema.get("maximum", 2**31 - 1)
        case "boolean":
            return False
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00.123Z"
    return "999999999.999999" if "pattern" in schema else "\x01" * (schema["maxLength"] * 2)


@pytest.mark.parametrize(
    ("kind", "model"), [(Kind.ACCOUNT, AccountStatus), (Kind.INSTANCE, InstanceStatus), (Kind.JOB, JobStatus)]
)
def test_the_largest_status_stays_within_the_budget_and_the_schema(kind: Kind, model: type[StatusModel]) -> None:
    schema = object_schema(kind)["properties"]["status"]
    dumped = status_dict(model.model_validate(overfull(schema), context={"wire": True}))
    text = json.dumps(dumped, ensure_ascii=False, separators=(",", ":"))
    assert sum(len(char.encode()) + (5 if char in "<>&" else 0) for char in text) <= STATUS_BUDGET
    assert _breaches(dumped, schema, "status") == []


def _breaches(value: Any, schema: dict[str, Any], path: str) -> list[str]:
    found = []
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        found.append(path)
    if isinstance(value, list):
        if len(value) > schema["maxItems"]:
            found.append(path)
        found += [breach for item in value for breach in _breaches(item, schema["items"], f"{path}[]")]
    if isinstance(value, dict):
        for name, item in value.items():
            found += _breaches(item, schema["properties"][name], f"{path}.{name}")
    return found


def test_the_end_of_a_log_and_the_newest_attempts_are_kept() -> None:
    status = JobStatus.model_validate(
        {"logTail": "<" * 5000 + "the end", "attempts": [{"number": n} for n in range(1, 41)]}
    )
    dumped = status_dict(status)
    assert dumped["logTail"].endswith("<the end")
    assert sum(map(stored_size, dumped["logTail"])) <= 16384
    assert [attempt["number"] for attempt in dumped["attempts"]] == list(range(9, 41))


def test_a_status_survives_writing_and_reading() -> None:
    status = {
        "observedGeneration": 3,
        "phase": "Ready",
        "conditions": [],
        "offer": {"type": "a", "pricePerHourUSD": "1.25", "stoppable": True},
        "rejectedOffers": [],
        "attempts": [{"number": 1, "brevName": "bo-x", "type": "a", "intendedAt": "2026-01-01T00:00:00.500Z"}],
        "cost": {"pricePerHourUSD": "1.25", "accruedUSD": "0.0375"},
        "failures": 0,
    }
    read = BrevInstance.parse(
        {"metadata": {"name": "x"}, "spec": {"candidates": [{"type": "a"}]}, "status": status}
    ).status
    assert status_dict(read) == status
    assert read.cost is not None
    assert (read.cost.price_micros, read.cost.accrued_micros) == (1_250_000, 37_500)


def test_money_from_the_api_server_is_never_taken_for_micro_dollars() -> None:
    with pytest.raises(ValueError, match="quoted decimal"):
        BrevInstance.parse({"metadata": {"name": "x"}, "status": {"cost": {"accruedUSD": 5}}})


def test_an_error_about_a_status_does_not_repeat_its_values() -> None:
    with pytest.raises(ValueError, match="logTail") as caught:
        BrevJob.parse({"metadata": {"name": "x"}, "status": {"logTail": ["hunter2"]}})
    assert "hunter2" not in str(caught.value) + repr(caught.value)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    conditions: list[Condition] = []
    later, last = NOW + timedelta(minutes=1), NOW + timedelta(minutes=2)
    set_condition(conditions, ConditionType.READY, "False", Reason.BOOTING, "Booting.", NOW, 1)
    set_condition(conditions, ConditionType.READY, "False", Reason.CHECKING, "Probing.", later, 2)
    ready = get_condition(conditions, ConditionType.READY)
    assert ready is not None
    assert (ready.last_transition_time, ready.reason, ready.observed_generation) == (NOW, "Checking", 2)
    set_condition(conditions, ConditionType.READY, "True", Reason.READY, "Ready.", last, 2)
    assert [condition.last_transition_time for condition in conditions] == [last]
    assert get_condition(conditions, ConditionType.STALLED) is None


def test_a_repeated_condition_is_equal_after_a_round_trip_so_that_nothing_is_written() -> None:
    precise = NOW + timedelta(microseconds=123456)
    status = JobStatus()
    set_condition(status.conditions, ConditionType.READY, "Unknown", Reason.PENDING, "", precise, 1)
    before = status_dict(status)
    again = JobStatus.model_validate(before)
    set_condition(again.conditions, ConditionType.READY, "Unknown", Reason.PENDING, "", precise + timedelta(hours=1), 1)
    assert status_dict(again) == before


def test_every_reason_is_camel_case_unique_and_explained() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason)
    for reason in Reason:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]{1,63}", reason.value)
        assert isinstance(reason.family, Family)
        assert re.fullmatch(r"[A-Z][^\n|]{10,110}\.", reason.meaning)
        assert Reason(reason.value) is reason
        assert str(reason) == reason.value


def test_keys_and_kinds_read_as_people_write_them() -> None:
    assert str(ObjectKey(Kind.JOB, "team-a", "iris")) == "BrevJob/team-a/iris"
    assert str(ObjectKey(Kind.ACCOUNT, "", "default")) == "BrevAccount/default"
    assert [kind.plural for kind in Kind] == ["brevaccounts", "brevinstances", "brevjobs"]
    assert [kind.namespaced for kind in Kind] == [False, True, True]


def test_an_account_serves_nobody_who_is_not_named() -> None:
    def account(**extra: Any) -> BrevAccount:
        return BrevAccount.parse({"metadata": {"name": "default"}, "spec": {"secretName": "a", "orgID": "o", **extra}})

    assert not account().spec.allows("team-a")
    assert not account(allowedNamespaces={}).spec.allows("team-a")
    named = account(allowedNamespaces={"names": ["team-a"]})
    assert named.spec.allows("team-a")
    assert not named.spec.allows("team-b")
    assert named.key == ObjectKey(Kind.ACCOUNT, "", "default")


def test_a_job_knows_its_key_and_whether_it_is_being_deleted() -> None:
    metadata = {"name": "iris", "namespace": "team-a", "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 2}
    spec = {"instanceTemplate": {"spec": {"candidates": [{"type": "a"}]}}, "script": {"text": "x"}}
    job = BrevJob.parse({"metadata": metadata, "spec": spec})
    assert str(job.key) == "BrevJob/team-a/iris"
    assert job.metadata.deleting
    assert job.spec.deadlines.run == timedelta(hours=24)
    assert job.spec.instance_template.spec.account_name == "default"
