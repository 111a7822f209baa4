"""BrevInstance: one machine, from the wish to the day it is observed gone."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from controller.api import defaults
from controller.api.base import SpecModel, StatusModel
from controller.api.conditions import Conditions
from controller.api.cost import CostStatus
from controller.api.duration import DurationBounds, parse_duration
from controller.api.fields import Generation, Matching, Newest, ObjectName, Text, Timestamp, known, list_type, rule
from controller.api.meta import Kind
from controller.api.money import PositiveUsd, Usd
from controller.api.resource import Resource

MACHINE_TYPE = r"^[A-Za-z0-9][!-+\--~]*$"
"""Printable ASCII without blank and comma: the CLI splits its `--type` at commas."""

ShortDeadline = Annotated[timedelta, DurationBounds("1s", "24h")]


class InstancePhase(StrEnum):
    """One word for people; derived from the conditions and never read by code."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    READY = "Ready"
    STOPPED = "Stopped"
    UNREACHABLE = "Unreachable"
    DELETING = "Deleting"
    FAILED = "Failed"


class Candidate(SpecModel):
    """One machine type that would do."""

    type: Annotated[
        str,
        Matching(
            MACHINE_TYPE, "must be one machine type, without blanks and commas; add another candidate instead", 128
        ),
    ] = Field(description="Machine type as `brev search` names it, for example `g5.xlarge`. Required.")
    max_price_micros: PositiveUsd | None = Field(
        default=None,
        alias="maxPricePerHourUSD",
        description='Highest price accepted, in US dollars an hour: a quoted decimal such as "1.25". Default: none.',
    )


class InstanceDeadlines(SpecModel):
    """How long each step of a machine's life may take."""

    provision: ShortDeadline = Field(
        default=parse_duration(str(defaults.PROVISION.value)),
        description="From the creation of the machine to RUNNING. A duration, 1s to 24h. Default: 20m.",
    )
    ready: ShortDeadline = Field(
        default=parse_duration(str(defaults.READY.value)),
        description="From RUNNING until the machine answers. A duration, 1s to 24h. Default: 20m.",
    )
    unreachable: ShortDeadline = Field(
        default=parse_duration(str(defaults.INSTANCE_UNREACHABLE.value)),
        description="How long a machine that was ready may not answer before it counts as failed. "
        "A duration, 1s to 24h. Default: 30m.",
    )


class BrevInstanceSpec(SpecModel):
    """The machine that is wanted."""

    account_name: Annotated[
        ObjectName,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    rule(
                        "self == oldSelf",
                        "accountName is immutable, because the machine belongs to that account; create another object",
                    )
                ]
            }
        ),
    ] = Field(
        default=str(defaults.ACCOUNT_NAME.value), description="Name of the BrevAccount. Default: default. Immutable."
    )
    candidates: Annotated[list[Candidate], Field(min_length=1, max_length=16, json_schema_extra=list_type())] = Field(
        description="Acceptable machine types, the best first; the first one to be had is taken. 1 to 16, required."
    )
    deadlines: InstanceDeadlines = Field(
        default_factory=InstanceDeadlines,
        description="How long each step may take. Default: each field's own.",
        json_schema_extra={"default": {}},
    )


class InstanceOffer(StatusModel):
    """The offer that was taken, as the catalog described it then."""

    type: Annotated[str, Text(128)] = Field(description="Machine type.")
    provider: Annotated[str, Text(128)] | None = Field(default=None, description="Provider of the machine.")
    gpu: Annotated[str, Text(128)] | None = Field(default=None, description="Name of the GPU; absent on CPU machines.")
    count: int | None = Field(default=None, ge=0, description="Number of GPUs.")
    price_micros: Usd | None = Field(
        default=None,
        alias="pricePerHourUSD",
        description="Price in US dollars an hour, stored with the intent to create.",
    )
    stoppable: bool | None = Field(default=None, description="Whether a machine of this type can be stopped.")
    boot_time: Annotated[str, Text(32)] | None = Field(default=None, description="Advertised boot time, a duration.")


class RejectedOffer(StatusModel):
    """A candidate that was passed over, and why."""

    type: Annotated[str, Text(128)] = Field(description="Machine type of the candidate.")
    reason: Annotated[str, Text(64)] = Field(description="Stable reason in CamelCase.")
    message: Annotated[str, Text(512)] = Field(default="", description="A sentence for people.")


class InstanceAttempt(StatusModel):
    """One try at creating a machine, written before the call that may cost money."""

    number: int = Field(ge=1, description="Counts from 1.")
    brev_name: Annotated[str, Text(63)] = Field(description="Name of the machine at Brev; unique to this attempt.")
    brev_id: Annotated[str, Text(128)] | None = Field(
        default=None, description="Id of the machine at Brev, once known."
    )
    type: Annotated[str, Text(128)] = Field(description="Machine type asked for.")
    price_micros: Usd | None = Field(
        default=None, alias="pricePerHourUSD", description="Price in US dollars an hour when the intent was written."
    )
    intended_at: Timestamp | None = Field(default=None, description="When the intent was written.")
    created_at: Timestamp | None = Field(default=None, description="When the machine was first seen to exist.")
    released_at: Timestamp | None = Field(default=None, description="When the machine was observed gone.")
    outcome: Annotated[str, Text(64)] | None = Field(
        default=None, description="Stable reason of how the attempt ended."
    )
    message: Annotated[str, Text(512)] | None = Field(default=None, description="A sentence for people.")


class RemoteFacts(StatusModel):
    """What the machine said of itself in the last probe."""

    home: Annotated[str, Text(1024)] = Field(description="Home directory of the login user.")
    python_version: Annotated[str, Text(64)] = Field(default="", description="Version of python3.")
    boot_id: Annotated[str, Text(64)] = Field(default="", description="Boot id of the kernel; changes at a reboot.")


class InstanceStatus(StatusModel):
    """What the operator knows of the machine."""

    observed_generation: Generation = Field(default=0, description="The `metadata.generation` last acted on.")
    phase: Annotated[InstancePhase | None, known(InstancePhase)] = Field(
        default=None, description="One word for people; programs read the conditions."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description="`Accepted`, `Provisioned`, `Reachable`, `Ready`, `Reconciling`, `Stalled`.",
    )
    brev_name: Annotated[str, Text(63)] | None = Field(default=None, description="Name of the machine at Brev.")
    brev_id: Annotated[str, Text(128)] | None = Field(default=None, description="Id of the machine at Brev.")
    account_name: Annotated[str, Text(253)] | None = Field(
        default=None, description="BrevAccount the machine belongs to."
    )
    org_id: Annotated[str, Text(128)] | None = Field(
        default=None, description="Brev organization the machine belongs to."
    )
    offer: InstanceOffer | None = Field(default=None, description="The offer that was taken.")
    rejected_offers: Annotated[list[RejectedOffer], Newest(16)] = Field(
        default_factory=list, description="Candidates that were passed over in the last selection. At most 16."
    )
    attempts: Annotated[list[InstanceAttempt], Newest(16, ("number",))] = Field(
        default_factory=list, description="Tries at creating the machine, the last 16."
    )
    remote: RemoteFacts | None = Field(default=None, description="What the machine said of itself.")
    started_at: Timestamp | None = Field(default=None, description="When work on the object began.")
    running_at: Timestamp | None = Field(default=None, description="When the machine was first seen RUNNING.")
    ready_at: Timestamp | None = Field(default=None, description="When the machine first answered.")
    deleting_at: Timestamp | None = Field(default=None, description="When the deletion of the machine began.")
    unreachable_since: Timestamp | None = Field(default=None, description="Since when the machine has not answered.")
    cost: CostStatus | None = Field(default=None, description="What the machine has cost so far.")
    retry_at: Timestamp | None = Field(default=None, description="When the next try is due.")
    failures: int = Field(default=0, ge=0, description="Consecutive failures behind the present back-off.")


class BrevInstance(Resource[BrevInstanceSpec, InstanceStatus]):
    """One Brev machine. Deleting the object deletes the machine."""

    kind: ClassVar[Kind] = Kind.INSTANCE
    spec: BrevInstanceSpec
    status: InstanceStatus = Field(default_factory=InstanceStatus)
