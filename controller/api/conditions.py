"""Conditions as Kubernetes writes them, with the kstatus types beside our own."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from controller.api.base import StatusModel
from controller.api.fields import ConditionTime, Generation, Newest, Text

ConditionStatus = Literal["True", "False", "Unknown"]


class ConditionType(StrEnum):
    """All condition types; which kind has which is in its status model."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    AUTHENTICATED = "Authenticated"
    CLI_SUPPORTED = "CLISupported"
    INVENTORY_FRESH = "InventoryFresh"
    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    REACHABLE = "Reachable"
    COMPLETE = "Complete"
    FAILED = "Failed"
    UNREACHABLE = "Unreachable"


class Condition(StatusModel):
    """One condition; `status` is a string because it has three values."""

    type: Annotated[str, Text(64)] = Field(description="What the condition is about, in CamelCase.")
    status: ConditionStatus = Field(description="True, False, or Unknown.")
    reason: Annotated[str, Text(64)] = Field(description="Stable reason in CamelCase; the reference lists them all.")
    message: Annotated[str, Text(1024)] = Field(
        default="", description="A sentence for people, with the next step where one is needed."
    )
    last_transition_time: ConditionTime = Field(description="When `status` last changed.")
    observed_generation: Generation = Field(
        default=0, description="The `metadata.generation` of the spec that this condition is about."
    )


Conditions = Annotated[list[Condition], Newest(16, ("type",))]


def get_condition(conditions: list[Condition], type: str) -> Condition | None:  # noqa: A002
    """The condition of that type, if there is one."""
    return next((condition for condition in conditions if condition.type == type), None)


def set_condition(
    conditions: list[Condition],
    type: str,  # noqa: A002
    status: ConditionStatus,
    reason: str,
    message: str,
    now: datetime,
    generation: int,
) -> None:
    """Put a condition in place, in the list given. Idempotent: the transition time moves only when `status` changes."""
    new = Condition(
        type=str(type),
        status=status,
        reason=str(reason),
        message=message,
        last_transition_time=now.replace(microsecond=0),
        observed_generation=generation,
    )
    for index, old in enumerate(conditions):
        if old.type == new.type:
            if old.status == new.status:
                new.last_transition_time = old.last_transition_time
            conditions[index] = new
            return
    conditions.append(new)
