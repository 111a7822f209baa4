"""The working state of one decision about a BrevJob: a draft of its status and the helpers that fill it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.api import defaults
from controller.api.brevjob import BrevJob, JobAttempt, JobPhase, JobStatus
from controller.api.conditions import ConditionStatus, ConditionType, get_condition, set_condition
from controller.api.duration import parse_duration
from controller.api.reasons import Reason
from controller.decide.backoff import Timing, recheck_delay, retry_delay
from controller.decide.types import (
    Action,
    JobObservation,
    Note,
    Operation,
    OperationView,
    Plan,
    RunView,
    RunWord,
)


@dataclass(slots=True)
class JobScope:
    """Everything one `decide_job` call looks at, and the draft of the status that it will return."""

    job: BrevJob
    obs: JobObservation
    now: datetime
    timing: Timing
    status: JobStatus
    notes: list[Note] = field(default_factory=list)
    consumed: set[Operation] = field(default_factory=set)

    @classmethod
    def of(cls, job: BrevJob, obs: JobObservation, now: datetime, timing: Timing) -> "JobScope":
        return cls(job, obs, now, timing, job.status.model_copy(deep=True))

    @property
    def uid(self) -> str:
        return self.job.metadata.uid

    @property
    def title(self) -> str:
        return f'BrevJob "{self.job.metadata.name}"'

    @property
    def attempt(self) -> JobAttempt | None:
        return self.status.attempts[-1] if self.status.attempts else None

    def operation(self, kind: Operation) -> OperationView | None:
        return self.obs.operations.get(kind)

    def known_run(self) -> RunView | None:
        """The machine's word that the run has begun, not yet taken over."""
        for kind in (Operation.DELIVER, Operation.POLL):
            view = self.operation(kind)
            if view is not None and view.result is not None:
                run: RunView = view.result
                if run.word not in (RunWord.ABSENT, RunWord.STARTING):
                    return run
        return None

    def machine_ready(self) -> bool:
        """Whether the BrevInstance is Ready, which is what the first delivery and the question after a crash need."""
        instance = self.obs.instance
        if instance is None or instance.metadata.deletion_timestamp is not None:
            return False
        ready = get_condition(instance.status.conditions, ConditionType.READY)
        return ready is not None and ready.status == "True"

    def running(self) -> frozenset[Operation]:
        return frozenset(kind for kind, view in self.obs.operations.items() if view.running)

    def condition(self, type_: ConditionType, value: ConditionStatus, reason: str, message: str) -> None:
        generation = self.job.metadata.generation
        set_condition(self.status.conditions, type_, value, reason, message, self.now, generation)

    def is_true(self, type_: ConditionType) -> bool:
        condition = get_condition(self.status.conditions, type_)
        return condition is not None and condition.status == "True"

    def note(self, reason: str, message: str, warning: bool = False) -> None:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message))

    def progress(self, phase: JobPhase, reason: str, message: str) -> None:
        """Waiting for something that is expected to come: kstatus "InProgress"."""
        self.status.phase = phase
        self.condition(ConditionType.READY, "Unknown", reason, message)
        self.condition(ConditionType.RECONCILING, "True", reason, message)
        self.condition(ConditionType.STALLED, "False", reason, message)

    def stall(self, phase: JobPhase, reason: str, message: str) -> None:
        """Nothing will move until somebody or time changes something: kstatus "Failed". Posts an Event once."""
        previous = get_condition(self.status.conditions, ConditionType.STALLED)
        if previous is None or previous.status != "True" or previous.reason != reason:
            self.note(reason, message, warning=True)
        self.status.phase = phase
        self.condition(ConditionType.READY, "False", reason, message)
        self.condition(ConditionType.RECONCILING, "False", reason, message)
        self.condition(ConditionType.STALLED, "True", reason, message)

    def failed_again(self) -> timedelta:
        """Count one more failure and set the time before which nothing is tried again; survives a restart."""
        self.status.failures += 1
        delay = retry_delay(self.timing, self.status.failures, self.uid)
        self.status.retry_at = self.now + delay
        return delay

    def succeeded_again(self) -> None:
        self.status.failures, self.status.retry_at = 0, None

    def recheck(self) -> timedelta:
        """When to look again at what stalls the object, where looking costs nothing and changes nothing."""
        stalled = get_condition(self.status.conditions, ConditionType.STALLED)
        since = stalled.last_transition_time if stalled is not None else self.now
        return recheck_delay(self.timing, since, self.now, self.uid)

    def wait_for_retry(self) -> timedelta | None:
        if self.status.retry_at is None or self.status.retry_at <= self.now:
            return None
        return self.status.retry_at - self.now

    def end(self, reason: Reason, message: str, finished_at: datetime | None = None) -> None:
        """Record how the attempt ended, before anything is torn down. The first verdict stands."""
        attempt = self.attempt
        if attempt is None:
            attempt = JobAttempt(number=1)
            self.status.attempts.append(attempt)
        if attempt.finished_at is not None:
            return
        attempt.finished_at = finished_at or self.now
        attempt.reason = reason
        attempt.message = message
        self.succeeded_again()
        self.note(reason, message, warning=reason is not Reason.SUCCEEDED)

    def startup_limit(self) -> timedelta:
        """`deadlines.startup`; where that is the default, twice the machine's advertised boot time if it is more."""
        limit = self.job.spec.deadlines.startup
        offer = self.obs.instance.status.offer if self.obs.instance is not None else None
        if offer is None or offer.boot_time is None or limit != parse_duration(str(defaults.STARTUP.value)):
            return limit
        return max(limit, 2 * parse_duration(offer.boot_time))

    def startup_over(self) -> bool:
        """Whether the startup deadline has passed."""
        return self.now >= (self.status.start_time or self.now) + self.startup_limit()

    def startup_left(self) -> timedelta:
        """Time until the startup deadline, and a hair more, so that a pass at that time is past it.

        Past it, where the last answer of the machine is still awaited, a short and bounded time.
        """
        start_time = self.status.start_time or self.now
        left = start_time + self.startup_limit() - self.now
        return left + timedelta(milliseconds=1) if left > timedelta(0) else timedelta(seconds=self.timing.retry_base)

    def plan(self, action: Action | None = None, *, requeue: timedelta | None = None) -> Plan[JobStatus]:
        self.status.observed_generation = self.job.metadata.generation
        return Plan(
            status=self.status,
            action=action,
            notes=tuple(self.notes),
            requeue=requeue,
            consumed=frozenset(self.consumed),
        )
