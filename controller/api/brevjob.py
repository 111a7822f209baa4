"""BrevJob: one run to completion on a machine of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from controller.api.base import StatusModel
from controller.api.brevjob_spec import BrevJobSpec
from controller.api.conditions import Conditions
from controller.api.cost import CostStatus
from controller.api.fields import Generation, Newest, Text, Timestamp, known
from controller.api.meta import Kind
from controller.api.money import Usd
from controller.api.resource import Resource

MAX_TAIL_BYTES = 16384


class JobPhase(StrEnum):
    """One word for people; derived from the conditions and never read by code."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RUNNING = "Running"
    TEARING_DOWN = "TearingDown"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobInstance(StatusModel):
    """The BrevInstance a job uses."""

    name: Annotated[str, Text(253)] = Field(description="Name of the BrevInstance, in the job's namespace.")
    uid: Annotated[str, Text(64)] | None = Field(default=None, description="Its uid.")


class JobMachine(StatusModel):
    """The machine behind it, for people."""

    type: Annotated[str, Text(128)] | None = Field(default=None, description="Machine type.")
    brev_name: Annotated[str, Text(63)] | None = Field(default=None, description="Name of the machine at Brev.")
    price_micros: Usd | None = Field(default=None, alias="pricePerHourUSD", description="Price in US dollars an hour.")


class JobAttempt(StatusModel):
    """One start of the script; at most one process ever belongs to it."""

    number: int = Field(ge=1, description="Counts from 1.")
    instance: Annotated[str, Text(253)] | None = Field(default=None, description="Name of the BrevInstance.")
    start_intent_at: Timestamp | None = Field(default=None, description="When the intent to start was written.")
    started_at: Timestamp | None = Field(default=None, description="When the script started, by the machine's clock.")
    finished_at: Timestamp | None = Field(default=None, description="When the script ended, by the machine's clock.")
    exit_code: int | None = Field(default=None, ge=0, le=255, description="Exit code of the script, 0 to 255.")
    signal: Annotated[str, Text(32)] | None = Field(default=None, description="Signal that ended it, such as SIGKILL.")
    reason: Annotated[str, Text(64)] | None = Field(default=None, description="Stable reason of how the attempt ended.")
    message: Annotated[str, Text(256)] | None = Field(default=None, description="A sentence for people.")
    cost_micros: Usd | None = Field(
        default=None, alias="costUSD", description="Cost in US dollars of the machine during the attempt."
    )


class JobStatus(StatusModel):
    """What the operator knows of the run."""

    observed_generation: Generation = Field(default=0, description="The `metadata.generation` last acted on.")
    phase: Annotated[JobPhase | None, known(JobPhase)] = Field(
        default=None, description="One word for people; programs read the conditions."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description="`Ready`, `Reconciling`, `Stalled`, `Complete`, `Failed`, `Unreachable`.",
    )
    spec_hash: Annotated[str, Text(16)] | None = Field(default=None, description="Hash of the spec that runs.")
    instance: JobInstance | None = Field(default=None, description="The BrevInstance of the job.")
    machine: JobMachine | None = Field(default=None, description="The machine behind it.")
    attempts: Annotated[list[JobAttempt], Newest(32, ("number",))] = Field(
        default_factory=list, description="Starts of the script, the last 32."
    )
    log_tail: Annotated[str, Text(MAX_TAIL_BYTES, keep_end=True)] | None = Field(
        default=None, description="End of the script's output, secrets masked. At most `logs.tailBytes`."
    )
    log_truncated: bool | None = Field(default=None, description="Whether there is more output than `logTail` shows.")
    log_bytes: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = Field(
        default=None, description="Size of the whole output on the machine, in bytes."
    )
    cost: CostStatus | None = Field(default=None, description="What the machine of the job has cost so far.")
    start_time: Timestamp | None = Field(default=None, description="When work on the job began.")
    completion_time: Timestamp | None = Field(default=None, description="When the job ended, its machine gone.")
    retry_at: Timestamp | None = Field(default=None, description="When the next try is due.")
    failures: int = Field(default=0, ge=0, description="Consecutive failures behind the present back-off.")


class BrevJob(Resource[BrevJobSpec, JobStatus]):
    """One run of a script on a machine of its own, followed to its end; then the machine is deleted."""

    kind: ClassVar[Kind] = Kind.JOB
    spec: BrevJobSpec
    status: JobStatus = Field(default_factory=JobStatus)
