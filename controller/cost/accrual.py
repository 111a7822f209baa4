"""What a machine has cost, from its price and its billable interval. Integers in micro-USD throughout."""

from datetime import datetime

from controller.api.cost import CostStatus

_MICROSECONDS_AN_HOUR = 3_600_000_000


def accrued_micros(price_micros: int, start: datetime, end: datetime) -> int:
    """Micro-USD for [start, end) at an hourly price, rounded up; an interval that ends before it starts costs nothing.

    Rounding up keeps every figure that the operator shows an upper bound of the interval's cost.
    """
    delta = end - start
    microseconds = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if microseconds <= 0:
        return 0
    return -(-price_micros * microseconds // _MICROSECONDS_AN_HOUR)


def open_cost(price_micros: int, started_at: datetime) -> CostStatus:
    """The cost record of a machine whose creation is about to be asked for.

    Billing is counted from the create intent, which is never later than the provider's own first second.
    """
    return CostStatus(price_micros=price_micros, started_at=started_at, accrued_micros=0, as_of=started_at)


def refreshed(cost: CostStatus, now: datetime) -> CostStatus:
    """`cost` with the amount accrued until `now`; a closed record is returned unchanged."""
    if cost.ended_at is not None or cost.started_at is None or cost.price_micros is None:
        return cost
    micros = accrued_micros(cost.price_micros, cost.started_at, now)
    return cost.model_copy(update={"accrued_micros": micros, "as_of": now})


def closed(cost: CostStatus, end: datetime) -> CostStatus:
    """`cost` closed at `end` (the moment the machine was observed gone). Closing twice keeps the first end."""
    if cost.ended_at is not None:
        return cost
    return refreshed(cost, end).model_copy(update={"ended_at": end})
