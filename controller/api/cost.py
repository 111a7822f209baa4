"""What a machine has cost, as status shows it."""

from __future__ import annotations

from pydantic import Field

from controller.api.base import StatusModel
from controller.api.fields import Timestamp
from controller.api.money import Usd


class CostStatus(StatusModel):
    """Cost of one machine; the figures are the operator's own, computed from price and time."""

    price_micros: Usd | None = Field(default=None, alias="pricePerHourUSD", description="Price in US dollars an hour.")
    started_at: Timestamp | None = Field(default=None, description="When the meter began to run.")
    ended_at: Timestamp | None = Field(default=None, description="When the meter stopped; absent while it runs.")
    accrued_micros: Usd | None = Field(
        default=None,
        alias="accruedUSD",
        description="Cost in US dollars up to `asOf`, or in whole once `endedAt` is set.",
    )
    as_of: Timestamp | None = Field(default=None, description="The time that `accruedUSD` is computed for.")
