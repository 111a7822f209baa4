"""Durations, money, text and hashes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.api.brevjob import BrevJob
from controller.api.brevjob_spec import BrevJobSpec
from controller.api.duration import format_duration, parse_duration
from controller.api.fields import format_seconds, format_timestamp
from controller.api.hash import spec_hash
from controller.api.money import format_usd, parse_usd
from controller.api.text import clip, clip_tail, stored_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h0m5s", 3605),
        ("0s", 0),
        ("007m", 420),
        ("999999h", 3599996400),
    ],
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5400", "1h30", "1:30:00", "-1s", "+1s", "1.5h", "1d", "1H", "1 h", "1m\n", "30s1m", "1e3s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=999_999 * 3600))
def test_a_duration_survives_writing_and_reading(seconds: int) -> None:
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


def test_a_negative_duration_is_not_written() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_duration(timedelta(microseconds=-1))


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0", 0),
        ("1", 1_000_000),
        ("1.25", 1_250_000),
        ("0.000001", 1),
        ("007.10", 7_100_000),
        ("999999999.999999", 999_999_999_999_999),
    ],
)
def test_money_is_read_exactly(text: str, micros: int) -> None:
    assert parse_usd(text) == micros


@pytest.mark.parametrize(
    "text", ["", ".5", "1.", "-1", "+1", "1e3", "1,25", "$1", "1 ", "1\n", "0.0000001", "1234567890", "NaN", "\u0661"]
)
def test_what_is_no_money_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="US dollars"):
        parse_usd(text)


@given(st.integers(min_value=0, max_value=999_999_999_999_999))
def test_money_survives_writing_and_reading(micros: int) -> None:
    assert parse_usd(format_usd(micros)) == micros


@pytest.mark.parametrize(
    ("micros", "places", "text"),
    [
        (1_250_000, None, "1.25"),
        (1_000_000, None, "1.00"),
        (37_500, None, "0.0375"),
        (37_500, 2, "0.04"),
        (5_000, 2, "0.01"),
        (4_999, 2, "0.00"),
        (999_999, 2, "1.00"),
        (1_500_000, 0, "2"),
        (1, 6, "0.000001"),
    ],
)
def test_money_is_written(micros: int, places: int | None, text: str) -> None:
    assert format_usd(micros, places) == text


def test_money_below_zero_or_with_odd_places_is_not_written() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_usd(-1)
    with pytest.raises(ValueError, match="places"):
        format_usd(1, 7)


def test_times_are_utc_with_milliseconds_only_where_there_are_any() -> None:
    east = datetime.fromisoformat("2026-01-01T02:00:00.0009+02:00")
    assert format_timestamp(east) == "2026-01-01T00:00:00Z"
    assert format_timestamp(datetime(2026, 1, 1, 0, 0, 0, 123999, UTC)) == "2026-01-01T00:00:00.123Z"
    assert format_seconds(datetime(2026, 1, 1, 0, 0, 0, 999999, UTC)) == "2026-01-01T00:00:00Z"


def _stored(text: str) -> int:
    """What Go's encoder writes: as Python's, and HTML characters and line separators escaped as well."""
    return (
        len(json.dumps(text, ensure_ascii=False).encode())
        - 2
        + sum(5 for c in text if c in "<>&\x7f")
        + sum(3 for c in text if c in "\u2028\u2029")
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_stored_size_is_what_the_encoder_writes(text: str) -> None:
    assert sum(stored_size(char) for char in text) == _stored(text)


@given(st.text(), st.integers(min_value=3, max_value=60))
def test_a_cut_text_fits_and_is_a_beginning_or_an_end(text: str, limit: int) -> None:
    whole = text.encode("utf-8", "replace").decode()
    head, tail = clip(text, limit), clip_tail(text, limit)
    assert _stored(head) <= limit
    assert _stored(tail) <= limit
    assert whole.startswith(head.removesuffix("…"))
    assert whole.endswith(tail)
    if _stored(whole) <= limit:
        assert head == tail == whole


def test_the_hash_ignores_the_order_of_keys_and_nulls_but_no_value() -> None:
    first = spec_hash({"a": 1, "b": {"c": "x", "d": None}, "e": [1, 2]})
    assert first == spec_hash({"e": [1, 2], "b": {"c": "x"}, "a": 1})
    assert first != spec_hash({"e": [2, 1], "b": {"c": "x"}, "a": 1})
    assert first != spec_hash({"e": [1, 2], "b": {"c": "y"}, "a": 1})
    assert len(first) == 16
    assert set(first) <= set("0123456789abcdef")


def test_the_hash_of_a_spec_does_not_change_when_a_default_is_filled_in() -> None:
    spec = {"instanceTemplate": {"spec": {"candidates": [{"type": "a"}]}}, "script": {"text": "x"}}
    filled = spec | {"deadlines": {"run": "24h"}, "env": [], "script": {"text": "x", "interpreter": "bash"}}
    changed = spec | {"deadlines": {"run": "23h"}}

    def hash_of(value: dict[str, object]) -> str:
        return spec_hash(BrevJob.parse({"metadata": {"name": "x"}, "spec": value}).spec)

    assert hash_of(spec) == hash_of(filled) != hash_of(changed)


def test_the_hash_of_a_spec_does_not_change_when_a_later_release_adds_a_field_with_a_default() -> None:
    class LaterSpec(BrevJobSpec):
        priority: int = 0

    spec = {"instanceTemplate": {"spec": {"candidates": [{"type": "a"}]}}, "script": {"text": "x"}}
    now, later = BrevJobSpec.model_validate(spec), LaterSpec.model_validate(spec)
    assert spec_hash(now) == spec_hash(later)
    assert spec_hash(LaterSpec.model_validate(spec | {"priority": 1})) != spec_hash(now)
