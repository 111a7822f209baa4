"""Objects, observations and a clock with good defaults, so that a test names only what it is about."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from controller.api.base import StatusModel, status_dict
from controller.api.brevaccount import AccountStatus, BrevAccount
from controller.api.brevinstance import BrevInstance, InstanceStatus
from controller.api.brevjob import BrevJob, JobStatus
from controller.api.conditions import Condition, get_condition
from controller.api.meta import API_VERSION, FINALIZER, Kind
from controller.api.reasons import Reason
from controller.cost.offers import Offer
from controller.decide.backoff import Timing
from controller.decide.types import (
    AccountObservation,
    AccountView,
    CatalogView,
    ChildState,
    Failure,
    InstanceObservation,
    InventoryView,
    JobObservation,
    MachineSeen,
    OperationView,
    RunView,
    RunWord,
    SourcesView,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STARTED = 1000.0
"""Monotonic second at which the process of a test began."""
TIMING = Timing()
UID = "5d0c1e7a-0000-4000-8000-000000000001"
Body = dict[str, Any]
StatusT = TypeVar("StatusT", bound=StatusModel)


@dataclass(slots=True)
class FakeClock:
    """Wall and monotonic time that only the test moves; has the interface of `controller.reconcile.clock.Clock`."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return STARTED + self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def metadata(name: str, *, namespace: str = "team-a", uid: str = UID, held: bool = True, **more: Any) -> Body:
    """Kubernetes metadata; `held` puts our finalizer in."""
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [FINALIZER] if held else [],
        **more,
    }


def instance_body(
    name: str = "gpu", *, candidates: Sequence[Body] = ({"type": "g5.xlarge"},), spec: Body | None = None, **more: Any
) -> Body:
    """A BrevInstance as the API server stores it; `more` goes into its metadata, `status` apart."""
    status = more.pop("status", None)
    return {
        "apiVersion": API_VERSION,
        "kind": str(Kind.INSTANCE),
        "metadata": metadata(name, **more),
        "spec": {"candidates": list(candidates), **(spec or {})},
        **({"status": _plain(status)} if status is not None else {}),
    }


def make_instance(name: str = "gpu", **more: Any) -> BrevInstance:
    """The same, parsed."""
    return BrevInstance.parse(instance_body(name, **more))


def job_body(name: str = "iris", *, spec: Body | None = None, **more: Any) -> Body:
    """A BrevJob as the API server stores it."""
    status = more.pop("status", None)
    return {
        "apiVersion": API_VERSION,
        "kind": str(Kind.JOB),
        "metadata": metadata(name, **more),
        "spec": {
            "instanceTemplate": {"spec": {"candidates": [{"type": "g5.xlarge"}]}},
            "script": {"text": "echo hello"},
            **(spec or {}),
        },
        **({"status": _plain(status)} if status is not None else {}),
    }


def make_job(name: str = "iris", **more: Any) -> BrevJob:
    """The same, parsed."""
    return BrevJob.parse(job_body(name, **more))


def account_body(
    name: str = "default", *, namespaces: Sequence[str] = ("team-a",), spec: Body | None = None, **more: Any
) -> Body:
    """A BrevAccount as the API server stores it."""
    status = more.pop("status", None)
    meta = metadata(name, **{"uid": f"uid-of-{name}", **more})
    del meta["namespace"]
    return {
        "apiVersion": API_VERSION,
        "kind": str(Kind.ACCOUNT),
        "metadata": meta,
        "spec": {
            "secretName": "brev-login",
            "orgID": "org-1",
            "allowedNamespaces": {"names": list(namespaces)},
            **(spec or {}),
        },
        **({"status": _plain(status)} if status is not None else {}),
    }


def make_account(name: str = "default", **more: Any) -> BrevAccount:
    """The same, parsed."""
    return BrevAccount.parse(account_body(name, **more))


def _plain(status: StatusModel | Mapping[str, Any]) -> Body:
    return stored(status) if isinstance(status, StatusModel) else dict(status)


def stored(status: StatusModel) -> Body:
    """The status after its way through the API server: JSON, times cut to milliseconds, texts to their limits."""
    copy: Body = json.loads(json.dumps(status_dict(status)))
    return copy


def reread(status: StatusT) -> StatusT:
    """The status as the next pass reads it."""
    return type(status).model_validate(stored(status), context={"wire": True})


def offer(type_: str = "g5.xlarge", price: int | None = 1_000_000, **more: Any) -> Offer:
    """One row of the catalog; price in micro-USD an hour."""
    rest: Body = {"provider": "aws", "gpu": "A10G", "gpu_count": 1, "stoppable": True, "boot_time_seconds": 120, **more}
    return Offer(type=type_, price_micros=price, **rest)


def running(started: float = STARTED) -> OperationView:
    """An operation that has not ended."""
    return OperationView(started)


def ended(
    finished: float, failure: Failure | None = None, result: Any = None, failures: int | None = None
) -> OperationView:
    """An operation that has."""
    streak = failures if failures is not None else int(failure is not None)
    return OperationView(finished - 1, finished, failure, result, streak)


def failed(finished: float, reason: Reason, *, ambiguous: bool = False, failures: int = 1) -> OperationView:
    """One that ended without its result."""
    return ended(finished, Failure(reason, f"It ended in {reason}.", ambiguous), failures=failures)


def absent(*asked: float) -> InventoryView:
    """Good lists without the machine, newest first."""
    return InventoryView(asked[0] if asked else None, None, asked)


def shown(asked: float, status: str, name: str = "bo-test-gpu", machine_id: str = "m-1") -> InventoryView:
    """A good list with the machine."""
    return InventoryView(asked, MachineSeen(name, machine_id, status))


USABLE = AccountView(True, org_id="org-1")


def instance_obs(clock: FakeClock, **more: Any) -> InstanceObservation:
    """What a pass over a BrevInstance sees; a usable account, a catalog with one offer, no list yet."""
    defaults: Body = {
        "account": USABLE,
        "inventory": InventoryView(),
        "catalog": CatalogView((offer(),)),
        "operations": {},
        "monotonic": clock.monotonic(),
        "process_started": STARTED,
        "cluster_id": "test",
    }
    return InstanceObservation(**{**defaults, **more})


def job_obs(clock: FakeClock, **more: Any) -> JobObservation:
    """What a pass over a BrevJob sees; nothing exists yet."""
    defaults: Body = {
        "child": None,
        "instance": None,
        "last_cost": None,
        "sources": SourcesView(True),
        "operations": {},
        "monotonic": clock.monotonic(),
        "spec_hash": "0123456789abcdef",
    }
    if "instance" in more and "child" not in more:
        more["child"] = ChildState.PRESENT
    return JobObservation(**{**defaults, **more})


def account_obs(clock: FakeClock, **more: Any) -> AccountObservation:
    """What a pass over a BrevAccount sees; an API key, verified, with a good list."""
    defaults: Body = {
        "credential": "APIKey",
        "credential_failure": None,
        "verified": ended(STARTED, result="v0.6.327"),
        "verifying": False,
        "inventory_asked": STARTED,
        "inventory_failure": None,
        "monotonic": clock.monotonic(),
    }
    return AccountObservation(**{**defaults, **more})


def run_view(word: RunWord, **more: Any) -> RunView:
    """The runner's answer."""
    return RunView(word, **more)


def kstatus(conditions: Sequence[Condition]) -> tuple[str | None, str | None, str | None]:
    """Status of Ready, Reconciling and Stalled."""
    found = [get_condition(list(conditions), type_) for type_ in ("Ready", "Reconciling", "Stalled")]
    ready, reconciling, stalled = (condition.status if condition else None for condition in found)
    return ready, reconciling, stalled


def reason_of(status: InstanceStatus | JobStatus | AccountStatus, type_: str = "Ready") -> str:
    """The reason of one condition, "" if it is not there."""
    condition = get_condition(status.conditions, type_)
    return condition.reason if condition else ""


def message_of(status: InstanceStatus | JobStatus | AccountStatus, type_: str = "Ready") -> str:
    """The message of one condition, "" if it is not there."""
    condition = get_condition(status.conditions, type_)
    return condition.message if condition else ""
