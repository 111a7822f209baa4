"""The simulator's clock and the arithmetic of its invoice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.sandbox.brevsim.clock import Clock
from controller.sandbox.brevsim.ledger import invoice
from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.money import charge, micros


async def test_a_sleeper_wakes_when_the_clock_is_moved_past_it() -> None:
    clock = Clock()
    sleeping = asyncio.ensure_future(clock.sleep(10_000))
    await asyncio.sleep(0)
    clock.advance(9_000)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1_001)
    await asyncio.wait_for(sleeping, 10)


async def test_a_faster_clock_lets_a_long_sleep_end() -> None:
    clock = Clock()
    sleeping = asyncio.ensure_future(clock.sleep(1_000_000))
    await asyncio.sleep(0)
    clock.set_factor(1e9)
    await asyncio.wait_for(sleeping, 10)


async def test_the_clock_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        Clock().advance(-1)


@pytest.mark.parametrize(("text", "expected"), [("98.32", 98_320_000), ("0.0168", 16_800), ("free", 0), ("", 0)])
def test_prices_are_micro_dollars(text: str, expected: int) -> None:
    assert micros(text) == expected


def machine(number: int, created: float, gone: float | None) -> Machine:
    return Machine(
        id=f"m{number}",
        name="same",
        organization_id="o",
        owner_id="u",
        instance_type="g6e.xlarge",
        stoppable=True,
        price_micros=1_861_000,
        directory=Path("/nowhere"),
        address="198.18.0.1",
        authorized_key="",
        created_at=created,
        gone_at=gone,
    )


def test_two_machines_of_one_name_are_two_lines_and_an_open_one_is_charged_until_now() -> None:
    bill = invoice([machine(1, 0, 3600), machine(2, 1800, None)], now=3600)
    assert [(line["machine"], line["seconds"], line["micros"]) for line in bill["lines"]] == [
        ("m1", 3600, 1_861_000),
        ("m2", 1800, 930_500),
    ]
    assert bill["totalMicros"] == 2_791_500


def test_a_charge_is_rounded_down() -> None:
    assert charge(1_861_000, 1) == 516
