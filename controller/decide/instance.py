"""The life of a BrevInstance: from the finalizer over one machine to "observed gone". Pure."""

from datetime import datetime

from controller.api.brevinstance import BrevInstance, InstancePhase, InstanceStatus
from controller.api.conditions import ConditionType
from controller.api.meta import FINALIZER
from controller.api.reasons import Reason
from controller.decide.acquire import acquire
from controller.decide.backoff import Timing
from controller.decide.deadlines import enforce_deadlines
from controller.decide.reach import reach
from controller.decide.release import release
from controller.decide.scope import Scope
from controller.decide.types import AddFinalizer, InstanceObservation, Plan, RemoveFinalizer
from controller.decide.watch import came_back, watch


def decide_instance(
    instance: BrevInstance, obs: InstanceObservation, now: datetime, timing: Timing
) -> Plan[InstanceStatus]:
    """The next step of one BrevInstance; idempotent, and the same answer for the same arguments.

    Every step returns a Plan when it has something to do or to wait for, and None when it is satisfied and the
    next one may look.
    """
    scope = Scope.of(instance, obs, now, timing)
    if instance.metadata.deletion_timestamp is not None:
        return _delete(scope)
    if FINALIZER not in instance.metadata.finalizers and not obs.spec_problem:
        return Plan(action=AddFinalizer())
    for step in (_accept, _settle_terminal, enforce_deadlines, acquire, watch, reach):
        plan = step(scope)
        if plan is not None:
            return plan
    scope.ready(f"{scope.title} is running and answers on machine {scope.status.brev_name}.")
    return scope.plan(hurry=False)


def _delete(scope: Scope) -> Plan[InstanceStatus]:
    if FINALIZER not in scope.instance.metadata.finalizers:
        return Plan()
    plan = release(scope, Reason.DELETING, "the object is being deleted", scope.instance.metadata.deletion_timestamp)
    if plan is not None:
        return plan
    return Plan(action=RemoveFinalizer())


def _accept(scope: Scope) -> Plan[InstanceStatus] | None:
    """Check what the schema checks too (an older CRD may not), and begin anew on a new spec generation."""
    status = scope.status
    generation = scope.instance.metadata.generation
    if status.observed_generation not in (0, generation):
        status.failures, status.retry_at = 0, None
        if scope.attempt is None:
            status.rejected_offers = []
    if status.started_at is None:
        status.started_at = scope.now
    problem = scope.obs.spec_problem
    if problem:
        scope.condition(ConditionType.ACCEPTED, "False", Reason.INVALID_SPEC, problem)
        scope.stall(InstancePhase.FAILED, Reason.INVALID_SPEC, problem)
        return scope.plan(hurry=False)
    scope.condition(ConditionType.ACCEPTED, "True", Reason.ACCEPTED, f"{scope.title} is valid.")
    return None


def _settle_terminal(scope: Scope) -> Plan[InstanceStatus] | None:
    """After a final verdict the machine goes, and then nothing moves until the spec changes."""
    verdict = scope.verdict()
    if verdict is None:
        return None
    same = verdict.observed_generation == scope.instance.metadata.generation
    if verdict.reason == Reason.MACHINE_VANISHED and scope.attempt is not None and same:
        return came_back(scope, scope.attempt)
    plan = release(scope, Reason.DELETING, "it failed for good", None)
    if plan is not None:
        return plan
    if verdict.observed_generation == scope.instance.metadata.generation:
        return scope.plan(hurry=False)
    status = scope.status
    status.started_at = scope.now
    status.ready_at = status.running_at = status.unreachable_since = None
    status.rejected_offers, status.failures, status.retry_at = [], 0, None
    scope.progress(InstancePhase.PENDING, Reason.PENDING, f"{scope.title} has a new spec and starts over.")
    return None
