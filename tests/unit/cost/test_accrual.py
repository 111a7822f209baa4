"""What a machine has cost: integers, rounded up, never less than what was used."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cost.accrual import accrued_micros, closed, open_cost, refreshed
from tests.builders import NOW


@pytest.mark.parametrize(
    ("price", "seconds", "expected"),
    [
        (1_000_000, 3600, 1_000_000),
        (1_000_000, 1800, 500_000),
        (1_000_000, 0, 0),
        (1, 1, 1),
        (3_600, 1, 1),
        (3_601, 1, 2),
        (0, 3600, 0),
        (1_000_000, 366 * 86_400, 8_784_000_000),
    ],
)
def test_an_interval_costs_its_share_of_the_hour_rounded_up(price: int, seconds: int, expected: int) -> None:
    assert accrued_micros(price, NOW, NOW + timedelta(seconds=seconds)) == expected


def test_a_part_of_a_second_counts() -> None:
    assert accrued_micros(3_600_000_000, NOW, NOW + timedelta(microseconds=1)) == 1


def test_an_interval_that_ends_before_it_starts_costs_nothing() -> None:
    assert accrued_micros(1_000_000, NOW, NOW - timedelta(days=3)) == 0


@given(st.integers(0, 10**9), st.integers(0, 10**12), st.integers(0, 10**12))
def test_two_parts_never_cost_less_than_the_whole(price: int, one: int, other: int) -> None:
    middle = NOW + timedelta(microseconds=one)
    end = middle + timedelta(microseconds=other)
    parts = accrued_micros(price, NOW, middle) + accrued_micros(price, middle, end)
    assert 0 <= parts - accrued_micros(price, NOW, end) <= 1


def test_a_record_accrues_until_it_is_closed_and_not_after() -> None:
    cost = open_cost(2_000_000, NOW)
    assert cost.accrued_micros == 0
    half = refreshed(cost, NOW + timedelta(minutes=30))
    assert (half.accrued_micros, half.as_of) == (1_000_000, NOW + timedelta(minutes=30))
    end = closed(half, NOW + timedelta(hours=1))
    assert (end.accrued_micros, end.ended_at) == (2_000_000, NOW + timedelta(hours=1))
    assert refreshed(end, NOW + timedelta(hours=9)) == end


def test_closing_twice_keeps_the_first_end() -> None:
    end = closed(open_cost(2_000_000, NOW), NOW + timedelta(hours=1))
    assert closed(end, NOW + timedelta(hours=5)) == end


def test_a_record_without_a_price_has_no_amount() -> None:
    cost = open_cost(1, NOW).model_copy(update={"price_micros": None, "accrued_micros": None})
    assert refreshed(cost, NOW + timedelta(hours=1)).accrued_micros is None
