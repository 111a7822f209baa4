"""One BrevInstance in a small world: a provider with lags and lies, one account's list, and an engine that crashes.

It carries a Plan out as `controller.reconcile.engine` does, and it wakes the object only when something would: a timer,
an ended operation, a list that was waited for or that changed, an event, a change of the account.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from controller.api.brevinstance import BrevInstance, InstanceStatus, RemoteFacts
from controller.api.meta import FINALIZER
from controller.api.reasons import Reason
from controller.decide.instance import decide_instance
from controller.decide.types import (
    AccountView,
    AddFinalizer,
    Cancel,
    CatalogView,
    Failure,
    InstanceObservation,
    InventoryView,
    MachineSeen,
    Need,
    Operation,
    OperationView,
    Plan,
    RemoveFinalizer,
    Start,
)
from tests.builders import STARTED, TIMING, USABLE, FakeClock, make_instance, offer, reread

FAST, SLOW = 5.0, 60.0
LAG = TIMING.settle - 5
"""Seconds that an accepted machine may stay out of the list: less than the operator is told to wait."""
BROKEN = AccountView(False, Reason.AUTHENTICATION_FAILED, "The login is refused.", "org-1")


@dataclass(slots=True)
class Machine:
    """What the provider has; `shows_at` is when the list begins to tell of it."""

    id: str
    name: str
    status: str
    shows_at: float


@dataclass(slots=True)
class World:
    """Time moves only by `advance`."""

    clock: FakeClock = field(default_factory=FakeClock)
    instance: BrevInstance | None = field(
        default_factory=lambda: make_instance(held=False, candidates=[{"type": "a.one"}, {"type": "b.two"}])
    )
    machines: list[Machine] = field(default_factory=list)
    operations: dict[Operation, OperationView] = field(default_factory=dict)
    starts: dict[Operation, Start] = field(default_factory=dict)
    ending: set[Operation] = field(default_factory=set)
    """Cancelled and not yet ended."""
    streaks: dict[Operation, int] = field(default_factory=dict)
    lists: list[tuple[float, tuple[MachineSeen, ...]]] = field(default_factory=list)
    account: AccountView = USABLE
    process_started: float = STARTED
    dirty: bool = True
    timer: float | None = None
    waiting: bool = False
    hurry: bool = False
    created: int = 0
    writes: int = 0

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.timer is not None and self.clock.monotonic() >= self.timer:
            self.timer, self.dirty = None, True

    # What the operator sees.

    def observe(self) -> InstanceObservation:
        return InstanceObservation(
            account=self.account,
            inventory=self._inventory(),
            catalog=CatalogView((offer("a.one"), offer("b.two"))),
            operations=dict(self.operations),
            monotonic=self.clock.monotonic(),
            process_started=self.process_started,
            cluster_id="test",
        )

    def _inventory(self) -> InventoryView:
        attempts = self.instance.status.attempts if self.instance else []
        if not attempts:
            return InventoryView()
        asked = self.lists[0][0] if self.lists else None
        absences: list[float] = []
        for moment, rows in self.lists:
            last = attempts[-1]
            row = next((r for r in rows if (r.id == last.brev_id if last.brev_id else r.name == last.brev_name)), None)
            if row is not None:
                return InventoryView(asked, None if absences else row, tuple(absences))
            absences.append(moment)
        return InventoryView(asked, None, tuple(absences))

    # One pass, as the engine makes it.

    def decide(self) -> Plan[InstanceStatus]:
        assert self.instance is not None
        return decide_instance(self.instance, self.observe(), self.clock.now(), TIMING)

    def run_pass(self) -> Plan[InstanceStatus] | None:
        """One pass; None when the object is gone."""
        self.dirty, self.timer = False, None
        if self.instance is None:
            return None
        plan = self.decide()
        if plan.status is not None:
            status = reread(plan.status)
            self.writes += status != self.instance.status
            self.instance.status = status
        for kind in plan.consumed:
            if kind in self.operations and not self.operations[kind].running:
                del self.operations[kind]
        self._act(plan)
        if plan.requeue is not None:
            self.timer = self.clock.monotonic() + plan.requeue.total_seconds()
            if plan.requeue <= timedelta(0):
                self.timer, self.dirty = None, True
        self.waiting |= Need.INVENTORY in plan.needs
        self.dirty |= Need.CATALOG in plan.needs
        self.hurry = plan.hurry
        return plan

    def _act(self, plan: Plan[InstanceStatus]) -> None:
        assert self.instance is not None
        meta = self.instance.metadata
        if isinstance(plan.action, AddFinalizer):
            meta.finalizers = [*meta.finalizers, FINALIZER]
            self.dirty = True
        elif isinstance(plan.action, RemoveFinalizer):
            meta.finalizers = []
            if meta.deletion_timestamp is not None:
                self.instance = None
        elif isinstance(plan.action, Cancel):
            self.ending |= {kind for kind in plan.action.operations if self.is_running(kind)}
        elif isinstance(plan.action, Start):
            self._start(plan.action)

    def _start(self, start: Start) -> None:
        assert self.instance is not None
        assert not self.is_running(start.operation), f"{start.operation} was started twice"
        assert FINALIZER in self.instance.metadata.finalizers
        if start.operation is Operation.CREATE:
            attempt = self.instance.status.attempts[-1]
            assert attempt.released_at is None, "the intent has to be stored before the create"
            assert attempt.brev_name == start.arguments["name"]
        self.operations[start.operation] = OperationView(self.clock.monotonic())
        self.starts[start.operation] = start

    def is_running(self, kind: Operation) -> bool:
        return kind in self.operations and self.operations[kind].running

    # What the provider and the CLI do.

    def end(self, kind: Operation, failure: Failure | None = None, result: object = None) -> None:
        """The operation ends; a cancelled one as such."""
        if kind in self.ending:
            self.ending.discard(kind)
            failure, result = Failure(Reason.DELETING, "It was ended.", ambiguous=True), None
        self.streaks[kind] = self.streaks.get(kind, 0) + 1 if failure else 0
        self.operations[kind] = replace(
            self.operations[kind],
            finished=self.clock.monotonic(),
            failure=failure,
            result=result,
            failures=self.streaks[kind],
        )
        self.dirty = True

    def take_effect(self, lag: float) -> bool:
        """The running create reaches the provider; False when the name is taken."""
        name = self.starts[Operation.CREATE].arguments["name"]
        if any(machine.name == name for machine in self.machines):
            return False
        self.created += 1
        machine = Machine(f"m-{self.created}", name, "DEPLOYING", self.clock.monotonic() + lag)
        self.machines.append(machine)
        return True

    def list_succeeds(self) -> None:
        now = self.clock.monotonic()
        rows = tuple(MachineSeen(m.name, m.id, m.status) for m in self.machines if m.shows_at <= now)
        self.dirty |= self.waiting or not self.lists or self.lists[0][1] != rows
        self.waiting = False
        self.lists = [(now, rows), *self.lists[:3]]

    def crash(self) -> None:
        """All operations are lost, and so is everything in memory."""
        self.operations.clear()
        self.ending.clear()
        self.streaks.clear()
        self.lists.clear()
        self.process_started = self.clock.monotonic()
        self.waiting, self.timer, self.dirty = False, None, True

    def set_account(self, account: AccountView) -> None:
        self.dirty |= account != self.account
        self.account = account

    def ask_deletion(self) -> None:
        """Somebody deletes the object; without a finalizer it is gone at once."""
        if self.instance is None or self.instance.metadata.deletion_timestamp is not None:
            return
        if not self.instance.metadata.finalizers:
            self.instance = None
            return
        self.instance.metadata.deletion_timestamp = self.clock.now()
        self.instance.metadata.generation += 1
        self.dirty = True

    def ask_change(self) -> None:
        """Somebody edits the spec."""
        if self.instance is not None:
            self.instance.metadata.generation += 1
            self.dirty = True

    # A calm world, in which only what is planned happens.

    def run_until_quiet(self, passes: int = 12) -> None:
        """Passes that follow each other without time between them; more than `passes` is a hot loop."""
        for _ in range(passes):
            if not self.dirty:
                return
            self.run_pass()
        raise AssertionError(f"a hot loop: {self.instance.status if self.instance else None}")

    def calm_step(self) -> None:
        """Everything that is due comes well: operations end, the list is read, time goes on to the next thing."""
        for kind in [kind for kind in self.operations if self.is_running(kind)]:
            self.end_well(kind)
        self.machines = [machine for machine in self.machines if machine.status != "DELETING"]
        for machine in self.machines:
            machine.status = "RUNNING" if machine.status == "DEPLOYING" else machine.status
        self.run_until_quiet()
        pace = FAST if self.hurry or self.waiting else SLOW
        next_list = (self.lists[0][0] if self.lists else self.clock.monotonic()) + pace
        moments = [next_list, *([self.timer] if self.timer is not None else [])]
        self.advance(max(min(moments) - self.clock.monotonic(), 0.0))
        if self.clock.monotonic() >= next_list:
            self.list_succeeds()
        self.run_until_quiet()

    def end_well(self, kind: Operation) -> None:
        if kind in self.ending:
            self.end(kind)
        elif kind is Operation.CREATE:
            taken = not self.take_effect(0)
            self.end(kind, Failure(Reason.CLI_FAILED, "The name is taken.", ambiguous=True) if taken else None)
        elif kind is Operation.DELETE:
            self.delete_accepted()
            self.end(kind)
        else:
            self.end(kind, result=REMOTE)

    def delete_accepted(self) -> None:
        wanted = self.starts[Operation.DELETE].arguments["machine_id"]
        for machine in self.machines:
            if machine.id == wanted:
                machine.status = "DELETING"


REMOTE = RemoteFacts(home="/home/ubuntu", python_version="3.12.3", boot_id="b-1")
