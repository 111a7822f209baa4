"""Prices as integers, so that an invoice can be asserted to the micro-dollar."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation


def micros(usd: str) -> int:
    """Decimal dollars as micro-dollars; 0 for text that is no number, as the real program reads it."""
    try:
        return int(Decimal(usd) * 1_000_000)
    except InvalidOperation:
        return 0


def charge(price_per_hour_micros: int, seconds: float) -> int:
    """What `seconds` cost, in micro-dollars, rounded down."""
    return int(price_per_hour_micros * seconds / 3600)
