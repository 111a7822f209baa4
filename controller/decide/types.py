"""What decisions take in and give out: observations, operations, actions and the Plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from controller.api.brevinstance import BrevInstance
from controller.api.cost import CostStatus
from controller.api.reasons import Reason
from controller.cost.offers import Offer

StatusT = TypeVar("StatusT")


class Operation(StrEnum):
    """The background operations of an object; at most one of each kind runs for one object."""

    CREATE = "create"
    DELETE = "delete"
    CONNECT = "connect"
    DELIVER = "deliver"
    POLL = "poll"
    STOP = "stop"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an operation ended without its result. `ambiguous`: it may have taken effect all the same."""

    reason: Reason
    message: str
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class OperationView:
    """One operation as a decision sees it. Times are monotonic seconds of this process; `finished` None = running."""

    started: float
    finished: float | None = None
    failure: Failure | None = None
    result: Any = None
    failures: int = 0
    """Consecutive failures of this kind of operation for this object, this one included; kept in memory only."""

    @property
    def running(self) -> bool:
        return self.finished is None


@dataclass(frozen=True, slots=True)
class MachineSeen:
    """One row of `brev ls --json`; `status` is the provider's word, upper case."""

    name: str
    id: str
    status: str


@dataclass(frozen=True, slots=True)
class InventoryView:
    """The account's machine list as far as one object needs it.

    `asked` is the monotonic second at which the newest good list was asked for; None means that no good list exists
    yet: unknown, which is never "empty". `row` is this object's machine in that list. `absences` are the asking
    times of the newest consecutive good lists without it, newest first.
    """

    asked: float | None = None
    row: MachineSeen | None = None
    absences: tuple[float, ...] = ()

    def shows(self, since: float) -> bool:
        """Whether the machine is in the newest good list, and that list was asked for at or after `since`."""
        return self.row is not None and self.asked is not None and self.asked >= since

    def lacks(self, since: float, lists: int = 2) -> bool:
        """Whether at least `lists` consecutive good lists asked for at or after `since` do not have the machine."""
        return self.row is None and sum(1 for asked in self.absences if asked >= since) >= lists


@dataclass(frozen=True, slots=True)
class AccountView:
    """The object's BrevAccount: usable for a new machine, or the reason and sentence why not."""

    usable: bool
    reason: Reason | None = None
    message: str = ""
    org_id: str = ""

    @property
    def can_delete(self) -> bool:
        """Whether machines can be deleted through it: what forbids new ones need not keep old ones alive."""
        return self.usable or self.reason in _NO_NEW_MACHINES


_NO_NEW_MACHINES = frozenset(
    {Reason.NAMESPACE_NOT_ALLOWED, Reason.AWAITING_ACCOUNT, Reason.ACCOUNT_DELETING, Reason.SHORT_SESSION}
)


@dataclass(frozen=True, slots=True)
class CatalogView:
    """The account's catalog: `offers` None while none has been fetched; `failure` is that of the newest try."""

    offers: tuple[Offer, ...] | None = None
    failure: Failure | None = None


class Need(StrEnum):
    """Shared observations that a decision asks for; the object is looked at again when they arrive."""

    INVENTORY = "inventory"
    CATALOG = "catalog"


@dataclass(frozen=True, slots=True)
class Note:
    """An Event to post: at transitions only."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold the object until what it owns is gone; alone in its pass."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the object go; alone in its pass."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a background operation; `arguments` are what the reconciler's method of that name takes."""

    operation: Operation
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a running operation and its process group; its end brings the object back."""

    operations: frozenset[Operation]


@dataclass(frozen=True, slots=True)
class CreateChild:
    """POST the BrevInstance of a job, with finalizer and owner in the one call."""

    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """DELETE the BrevInstance `name`, with its uid as a precondition."""

    name: str
    uid: str


Action = AddFinalizer | RemoveFinalizer | Start | Cancel | CreateChild | DeleteChild


@dataclass(frozen=True, slots=True)
class Plan(Generic[StatusT]):
    """What one pass does, in this order: write `status` if it differs, forget `consumed`, then one `action`.

    So an intent is in the status, under a resourceVersion precondition, before the action that it announces; a
    conflict ends the pass before the action. `requeue` None means that only an event brings the object back.
    """

    status: StatusT | None = None
    action: Action | None = None
    notes: tuple[Note, ...] = ()
    requeue: timedelta | None = None
    needs: frozenset[Need] = frozenset()
    consumed: frozenset[Operation] = frozenset()
    hurry: bool = False
    """Whether the shared inventory should be read at its fast pace for this object's sake."""


@dataclass(frozen=True, slots=True)
class InstanceObservation:
    """All that `decide_instance` knows besides the object. `process_started` is monotonic, as are operation times."""

    account: AccountView
    inventory: InventoryView
    catalog: CatalogView
    operations: Mapping[Operation, OperationView]
    monotonic: float
    process_started: float
    cluster_id: str
    spec_problem: str = ""
    """What the model finds wrong with a spec that an older CRD let pass; the object's `spec` is then not set."""


class ChildState(StrEnum):
    PRESENT = "Present"
    ABSENT = "Absent"
    """Confirmed by a live GET, never concluded from the cache."""
    FOREIGN = "Foreign"
    """An object of that name exists and belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class SourcesView:
    """Whether every ConfigMap and Secret key that a job names exists now; `failure` says which does not."""

    ready: bool
    failure: Failure | None = None


class RunWord(StrEnum):
    """What the runner on the machine says of a run."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RunView:
    """The runner's answer to `start` or `state`; times are the machine's own. `tail` is masked already."""

    word: RunWord
    exit_code: int | None = None
    signal: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    tail: str = ""
    truncated: bool = False
    log_bytes: int = 0
    detail: str = ""
    setup_failed: bool = False
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class JobObservation:
    """All that `decide_job` knows besides the object.

    `child` None means that nobody has looked, which says nothing. `last_cost` is the newest cost seen of the child,
    also when it is gone by now.
    """

    child: ChildState | None
    instance: BrevInstance | None
    last_cost: CostStatus | None
    sources: SourcesView
    operations: Mapping[Operation, OperationView]
    monotonic: float
    spec_hash: str
    spec_problem: str = ""
    refused: Failure | None = None
    """Why the API server refused the job's BrevInstance (quota, admission policy, role), if it did."""


@dataclass(frozen=True, slots=True)
class AccountObservation:
    """All that `decide_account` knows besides the object.

    `credential` is the kind of credential in the Secret, or `credential_failure` says what is wrong with it.
    `verified` is the newest finished VERIFY of this credential (its result is the CLI's version text), and `verifying`
    says whether another one runs.
    `inventory_asked` is the monotonic second of the newest good machine list, `inventory_failure` the failure of the
    newest one if it was not good.
    """

    credential: str | None
    credential_failure: Failure | None
    verified: OperationView | None
    verifying: bool
    inventory_asked: float | None
    inventory_failure: Failure | None
    monotonic: float
    spec_problem: str = ""
    identity: str = ""
    """This operator, as `clusterID/namespace`: what `status.servedBy` says of an account that is ours."""
    expires_at: datetime | None = None
    """When the credential dies (a raw JWT)."""
    users: tuple[str, ...] = ()
    """Some of the BrevInstances that use the account, as `namespace/name`; looked up live while it is being deleted."""
