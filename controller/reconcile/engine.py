"""What every reconciler shares, and the one way in which a Plan is carried out."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.api.base import StatusModel, status_dict
from controller.api.meta import FINALIZER, Kind, ObjectKey
from controller.brev.session import BrevSession
from controller.decide.backoff import Timing
from controller.decide.types import (
    Action,
    AddFinalizer,
    Cancel,
    CreateChild,
    Note,
    Operation,
    Plan,
    RemoveFinalizer,
    Start,
)
from controller.kube.errors import NotFound
from controller.kube.events import EventRecorder, EventType
from controller.kube.protocol import KubeClient
from controller.kube.status import merge_patch, pruned_fields
from controller.logs import mask
from controller.metrics import Metrics
from controller.reconcile.accounts import Accounts
from controller.reconcile.cache import Body, Cache, owner_key
from controller.reconcile.clock import Clock
from controller.reconcile.operations import Operations
from controller.reconcile.queue import WorkQueue

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Engine:
    """The parts that all reconcilers use; one per process."""

    cluster_id: str
    namespace: str
    kube: KubeClient
    cache: Cache
    queue: WorkQueue
    operations: Operations
    accounts: Accounts
    events: EventRecorder
    metrics: Metrics
    clock: Clock
    timing: Timing
    process_started: float
    probe_timeout: float = 20.0
    exec_timeout: float = 60.0
    reported_pruned: set[str] = field(default_factory=set)

    def session(self, account_name: str) -> BrevSession | None:
        """The login behind an account, if it has a usable one now."""
        account = self.accounts.of(account_name)
        return account.session if account is not None else None

    def stored(self, key: ObjectKey, body: Body) -> None:
        """Take over the API server's answer to a write of our own, and tell the owner.

        The watch event that follows is no news any more, so this is the only time that the owner hears of it.
        """
        self.cache.put(key.kind, body)
        owner = owner_key(body) if key.kind is Kind.INSTANCE else None
        if owner is not None:
            self.queue.add(owner)


class Performer(Protocol):
    """Carries out the actions that only one kind has."""

    async def perform(self, key: ObjectKey, body: Body, action: Action) -> None: ...


async def carry_out(engine: Engine, key: ObjectKey, body: Body, plan: Plan[Any], performer: Performer) -> None:
    """Write the status if it differs, tell the Events, forget what was consumed, do the one action, plan the next look.

    Raises Conflict when the object has moved on: nothing after the status has happened then, and the pass is repeated
    on the newer object. Where an old CRD drops the intent from the status, nothing is begun that only the intent would
    find again.
    """
    body, forgetful = await _write_status(engine, key, body, plan.status)
    if forgetful and _begins(plan.action):
        engine.queue.add_after(key, engine.timing.recheck)
        return
    _tell(engine, key, body, plan.notes)
    uid = body["metadata"]["uid"]
    engine.operations.consume(uid, plan.consumed)
    if isinstance(plan.action, AddFinalizer | RemoveFinalizer):
        await _set_finalizer(engine, key, body, isinstance(plan.action, AddFinalizer))
    elif isinstance(plan.action, Cancel):
        engine.operations.cancel(uid, plan.action.operations)
    elif plan.action is not None:
        await performer.perform(key, body, plan.action)
    if plan.requeue is not None:
        engine.queue.add_after(key, plan.requeue.total_seconds())


def _begins(action: Action | None) -> bool:
    """Whether the action makes something that has to be found again after a crash."""
    return isinstance(action, CreateChild) or (
        isinstance(action, Start) and action.operation in (Operation.CREATE, Operation.DELIVER)
    )


async def _write_status(engine: Engine, key: ObjectKey, body: Body, status: StatusModel | None) -> tuple[Body, bool]:
    """The object as stored, and whether the API server dropped a part of the attempts, which are the intents."""
    if status is None:
        return body, False
    wanted = _masked(status_dict(status))
    patch = merge_patch(body.get("status") or {}, wanted)
    if not patch:
        return body, False
    log.debug("Writing the status: %s", ", ".join(sorted(patch)))
    stored = await engine.kube.patch_status(key, patch, body["metadata"]["resourceVersion"])
    engine.stored(key, stored)
    pruned = pruned_fields(patch, stored.get("status") or {})
    for path in pruned:
        if path not in engine.reported_pruned:
            engine.reported_pruned.add(path)
            log.error(
                "The served CRD of %s has no status.%s: it is older than this operator; apply crds/", key.kind, path
            )
    return stored, any(path.startswith("attempts") for path in pruned)


_FREE_TEXT = frozenset({"message", "logTail"})
"""Status fields whose words come from outside. Names, ids, reasons and times are never masked: a Secret whose value
happens to be "Running" or a machine's name must not change what the operator acts on."""


def _masked(value: Any, field_name: str = "") -> Any:
    """A second net under the texts of status: no registered secret leaves, whatever message carries it."""
    if isinstance(value, str):
        return mask(value) if field_name in _FREE_TEXT else value
    if isinstance(value, Mapping):
        return {name: _masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, field_name) for item in value]
    return value


def _tell(engine: Engine, key: ObjectKey, body: Body, notes: tuple[Note, ...]) -> None:
    for note in notes:
        log.info("%s: %s", note.reason, note.message)
        engine.events.record(key, body["metadata"]["uid"], EventType(note.type), note.reason, note.message)


async def _set_finalizer(engine: Engine, key: ObjectKey, body: Body, wanted: bool) -> None:
    metadata = body["metadata"]
    others = [name for name in metadata.get("finalizers", []) if name != FINALIZER]
    finalizers = [*others, FINALIZER] if wanted else others
    try:
        stored = await engine.kube.set_finalizers(key, finalizers, metadata["resourceVersion"])
    except NotFound:
        return
    engine.stored(key, stored)
    if wanted:
        # The next step belongs to another pass: the finalizer is stored before anything can cost money.
        engine.queue.add(key)
