"""What a person is told while jobs run: a line whenever something happens. Pure: objects and times in, lines out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from controller.api.brevinstance import BrevInstance, InstancePhase
from controller.api.brevjob import BrevJob, JobPhase
from controller.api.conditions import Condition, ConditionType, get_condition
from controller.api.cost import CostStatus
from controller.api.reasons import Reason
from controller.cost.accrual import refreshed

JobName = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of the timeline."""

    job: JobName
    phase: str
    text: str
    cost_micros: int
    trouble: bool = False


@dataclass(slots=True)
class _Track:
    """What is known of one job."""

    job: BrevJob | None = None
    uid: str = ""
    deleted: bool = False
    cost: CostStatus | None = None
    machines: set[str] = field(default_factory=set)
    told: set[tuple[str, str, str]] = field(default_factory=set)


class Timeline:
    """Follows the named jobs and the machines that they own. Each thing that happens is told once."""

    def __init__(self, jobs: tuple[JobName, ...]) -> None:
        self._tracks: dict[JobName, _Track] = {name: _Track() for name in jobs}

    @property
    def jobs(self) -> dict[JobName, BrevJob | None]:
        """The newest state of every job; None for one that was not seen yet."""
        return {name: track.job for name, track in self._tracks.items()}

    def machines(self, name: JobName) -> frozenset[str]:
        """Names at Brev of every machine that was asked for on behalf of a job."""
        return frozenset(self._tracks[name].machines)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: every job is complete, failed, or deleted."""
        return all(track.deleted or (track.job is not None and is_over(track.job)) for track in self._tracks.values())

    def see_job(self, job: BrevJob, now: datetime, *, deleted: bool = False) -> list[Line]:
        """Take over a job's state; lines for what is new. Other jobs are ignored."""
        name = (job.metadata.namespace, job.metadata.name)
        track = self._tracks.get(name)
        if track is None:
            return []
        track.job, track.uid, track.deleted = job, job.metadata.uid, deleted
        track.cost = job.status.cost or track.cost
        if deleted:
            return self._tell(name, ("job", "Deleted", ""), "Deleted", "The job was deleted.", now, trouble=True)
        ready = get_condition(job.status.conditions, ConditionType.READY)
        if job.status.phase is None or ready is None or ready.reason == Reason.AWAITING_INSTANCE:
            return []
        key = ("job", str(job.status.phase), ready.reason)
        return self._tell(name, key, str(job.status.phase), _job_text(job, ready), now, trouble=_is_trouble(job, ready))

    def see_instance(self, instance: BrevInstance, now: datetime, *, deleted: bool = False) -> list[Line]:
        """Take over the state of a machine that one of the jobs owns."""
        owners = {owner.uid for owner in instance.metadata.owner_references}
        found = [(name, track) for name, track in self._tracks.items() if track.uid in owners and track.uid]
        if not found or deleted:
            return []
        name, track = found[0]
        track.machines.update(attempt.brev_name for attempt in instance.status.attempts)
        track.cost = instance.status.cost or track.cost
        ready = get_condition(instance.status.conditions, ConditionType.READY)
        if ready is None or instance.status.phase is None or instance.status.phase is InstancePhase.DELETING:
            return []
        phase = str(track.job.status.phase or "") if track.job else ""
        key = (instance.metadata.name, str(instance.status.phase), ready.reason)
        trouble = get_condition(instance.status.conditions, ConditionType.STALLED)
        stalled = trouble is not None and trouble.status == "True"
        return self._tell(name, key, phase or str(JobPhase.PROVISIONING), ready.message, now, trouble=stalled)

    def _tell(
        self, name: JobName, key: tuple[str, str, str], phase: str, text: str, now: datetime, *, trouble: bool
    ) -> list[Line]:
        track = self._tracks[name]
        if key in track.told:
            return []
        track.told.add(key)
        return [Line(name, phase, text, cost_so_far(track.cost, now), trouble)]


def is_over(job: BrevJob) -> bool:
    """Whether the job has its verdict and its machine is gone."""
    return any(
        condition is not None and condition.status == "True"
        for condition in (
            get_condition(job.status.conditions, ConditionType.COMPLETE),
            get_condition(job.status.conditions, ConditionType.FAILED),
        )
    )


def cost_so_far(cost: CostStatus | None, now: datetime) -> int:
    """Micro-dollars until `now`, or in whole once the meter has stopped."""
    return (refreshed(cost, now).accrued_micros or 0) if cost is not None else 0


def _job_text(job: BrevJob, ready: Condition) -> str:
    attempt = job.status.attempts[-1] if job.status.attempts else None
    if job.status.phase is JobPhase.TEARING_DOWN and attempt is not None and attempt.message:
        return f"{attempt.message} The machine is being deleted."
    if is_over(job):
        return "The machine is gone." if job.status.machine is not None else ready.message
    return ready.message


def _is_trouble(job: BrevJob, ready: Condition) -> bool:
    attempt = job.status.attempts[-1] if job.status.attempts else None
    failed = attempt is not None and attempt.reason is not None and attempt.reason != Reason.SUCCEEDED
    return failed or ready.status == "False"
