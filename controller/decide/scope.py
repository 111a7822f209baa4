"""The working state of one decision about a BrevInstance: a draft of its status and the helpers that fill it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from controller.api.brevinstance import BrevInstance, InstanceAttempt, InstancePhase, InstanceStatus
from controller.api.conditions import Condition, ConditionStatus, ConditionType, get_condition, set_condition
from controller.api.reasons import Reason
from controller.decide.backoff import Timing, recheck_delay, retry_delay
from controller.decide.types import Action, InstanceObservation, Need, Note, Operation, OperationView, Plan

TERMINAL = frozenset(
    {
        Reason.PROVISION_DEADLINE_EXCEEDED,
        Reason.READY_DEADLINE_EXCEEDED,
        Reason.MACHINE_VANISHED,
        Reason.MACHINE_FAILED,
    }
)
"""Reasons of a `Stalled` condition after which the machine is released and only a new spec generation helps."""

VANISHED_AFTER = 10
"""Settle times that a machine may be missing from good lists before that is believed without any other sign: five
minutes by default."""


@dataclass(slots=True)
class Scope:
    """Everything one `decide_instance` call looks at, and the draft of the status that it will return."""

    instance: BrevInstance
    obs: InstanceObservation
    now: datetime
    timing: Timing
    status: InstanceStatus
    notes: list[Note] = field(default_factory=list)
    consumed: set[Operation] = field(default_factory=set)

    @classmethod
    def of(cls, instance: BrevInstance, obs: InstanceObservation, now: datetime, timing: Timing) -> "Scope":
        return cls(instance, obs, now, timing, instance.status.model_copy(deep=True))

    @property
    def uid(self) -> str:
        return self.instance.metadata.uid

    @property
    def title(self) -> str:
        return f'BrevInstance "{self.instance.metadata.name}"'

    @property
    def attempt(self) -> InstanceAttempt | None:
        """The attempt whose machine may exist: the newest one that is not known to be released."""
        attempts = self.status.attempts
        return attempts[-1] if attempts and attempts[-1].released_at is None else None

    def operation(self, kind: Operation) -> OperationView | None:
        return self.obs.operations.get(kind)

    def running(self, kind: Operation) -> bool:
        view = self.operation(kind)
        return view is not None and view.running

    def since(self, *kinds: Operation) -> float:
        """The monotonic second from which a list counts as fresh: the end of the newest of these operations."""
        ends = [view.finished for kind in kinds if (view := self.operation(kind)) and view.finished is not None]
        return max([self.obs.process_started, *ends])

    def condition(self, type_: ConditionType, value: ConditionStatus, reason: str, message: str) -> None:
        generation = self.instance.metadata.generation
        set_condition(self.status.conditions, type_, value, reason, message, self.now, generation)

    def is_true(self, type_: ConditionType) -> bool:
        condition = get_condition(self.status.conditions, type_)
        return condition is not None and condition.status == "True"

    def note(self, reason: str, message: str, warning: bool = False) -> None:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message))

    def progress(self, phase: InstancePhase, reason: str, message: str) -> None:
        """Waiting for something that is expected to come: kstatus "InProgress"."""
        self.status.phase = phase
        self.condition(ConditionType.READY, "Unknown", reason, message)
        self.condition(ConditionType.RECONCILING, "True", reason, message)
        self.condition(ConditionType.STALLED, "False", reason, message)

    def ready(self, message: str) -> None:
        """kstatus "Current"."""
        self.status.phase = InstancePhase.READY
        self.condition(ConditionType.READY, "True", Reason.READY, message)
        self.condition(ConditionType.RECONCILING, "False", Reason.READY, message)
        self.condition(ConditionType.STALLED, "False", Reason.READY, message)

    def stall(self, phase: InstancePhase, reason: str, message: str) -> None:
        """Nothing will move until somebody or time changes something: kstatus "Failed". Posts an Event once."""
        previous = get_condition(self.status.conditions, ConditionType.STALLED)
        if previous is None or previous.status != "True" or previous.reason != reason:
            self.note(reason, message, warning=True)
        self.status.phase = phase
        self.condition(ConditionType.READY, "False", reason, message)
        self.condition(ConditionType.RECONCILING, "False", reason, message)
        self.condition(ConditionType.STALLED, "True", reason, message)

    def verdict(self) -> Condition | None:
        """The `Stalled` condition by which an earlier pass ended a spec generation for good."""
        stalled = get_condition(self.status.conditions, ConditionType.STALLED)
        if stalled is None or stalled.status != "True" or stalled.reason not in TERMINAL:
            return None
        return stalled

    def failed_again(self) -> timedelta:
        """Count one more failure and set the time before which nothing is tried again; survives a restart."""
        self.status.failures = self.status.failures + 1
        delay = retry_delay(self.timing, self.status.failures, self.uid)
        self.status.retry_at = self.now + delay
        return delay

    def recheck(self) -> timedelta:
        """When to look again at what stalls the object, where looking costs nothing and changes nothing."""
        stalled = get_condition(self.status.conditions, ConditionType.STALLED)
        since = stalled.last_transition_time if stalled is not None else self.now
        return recheck_delay(self.timing, since, self.now, self.uid)

    def wait_for_retry(self) -> timedelta | None:
        """How long the back-off of an earlier failure still lasts; None when the next try is due."""
        if self.status.retry_at is None or self.status.retry_at <= self.now:
            return None
        return self.status.retry_at - self.now

    def plan(
        self,
        action: Action | None = None,
        *,
        requeue: timedelta | None = None,
        needs: frozenset[Need] = frozenset(),
        hurry: bool = True,
    ) -> Plan[InstanceStatus]:
        self.status.observed_generation = self.instance.metadata.generation
        return Plan(
            status=self.status,
            action=action,
            notes=tuple(self.notes),
            requeue=requeue,
            needs=needs,
            consumed=frozenset(self.consumed),
            hurry=hurry,
        )


INVENTORY = frozenset({Need.INVENTORY})
CATALOG = frozenset({Need.CATALOG})


def settled_at(scope: Scope, attempt: InstanceAttempt) -> float:
    """The monotonic second after which a create that nobody saw succeed must have shown in the list.

    A create of an earlier process was under way until that process died at the latest, however old its intent is.
    """
    view = scope.operation(Operation.CREATE)
    if view is not None and view.finished is not None:
        return view.finished + scope.timing.settle
    age = (scope.now - (attempt.intended_at or scope.now)).total_seconds()
    return max(scope.obs.monotonic - age, scope.obs.process_started) + scope.timing.settle
