"""One BrevInstance through any order of events: never two machines, none left behind, and always an end."""

from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller.api.brevinstance import RemoteFacts
from controller.api.reasons import Reason
from controller.decide.types import Failure, Operation
from tests.builders import TIMING, USABLE, reread
from tests.unit.decide.world import BROKEN, LAG, World

REFUSALS = st.sampled_from([Reason.NO_CAPACITY, Reason.AUTHENTICATION_FAILED, Reason.UNKNOWN_MACHINE_TYPE])
LOST = Failure(Reason.API_UNAVAILABLE, "The answer was lost.", ambiguous=True)
TAKEN = Failure(Reason.CLI_FAILED, "The name is taken.", ambiguous=True)
REMOTE = RemoteFacts(home="/home/ubuntu", python_version="3.12.3", boot_id="b-1")


class Life(RuleBasedStateMachine):
    """Rules are what may happen; the invariants are the operator's first promise."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize(begun=st.booleans())
    def a_create_is_under_way(self, begun: bool) -> None:
        if begun:
            self.world.run_until_quiet()

    @rule(seconds=st.sampled_from([1.0, 6.0, 31.0, 400.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def a_pass_runs(self) -> None:
        self.world.run_pass()

    @rule()
    def a_list_succeeds(self) -> None:
        self.world.list_succeeds()

    @rule(seconds=st.sampled_from([0.0, 6.0, 31.0]))
    def the_operator_keeps_up(self, seconds: float) -> None:
        self.world.advance(seconds)
        self.world.list_succeeds()
        self.world.run_until_quiet()

    @precondition(lambda self: any(self.world.is_running(kind) for kind in Operation))
    @rule()
    def everything_goes_well(self) -> None:
        for _ in range(4):
            self.world.calm_step()

    @precondition(lambda self: self.world.is_running(Operation.CREATE))
    @rule(lag=st.sampled_from([0.0, LAG]))
    def a_create_is_accepted(self, lag: float) -> None:
        self.world.end(Operation.CREATE, None if self.world.take_effect(lag) else TAKEN)

    @precondition(lambda self: self.world.is_running(Operation.CREATE))
    @rule(arrived=st.booleans(), lag=st.sampled_from([0.0, LAG]))
    def the_answer_to_a_create_is_lost(self, arrived: bool, lag: float) -> None:
        if arrived:
            self.world.take_effect(lag)
        self.world.end(Operation.CREATE, LOST)

    @precondition(lambda self: self.world.is_running(Operation.CREATE) and Operation.CREATE not in self.world.ending)
    @rule(reason=REFUSALS)
    def a_create_is_refused(self, reason: Reason) -> None:
        self.world.end(Operation.CREATE, Failure(reason, "No."))

    @precondition(lambda self: self.world.is_running(Operation.DELETE))
    @rule(arrived=st.booleans(), failure=st.sampled_from([None, LOST, Failure(Reason.AUTHENTICATION_FAILED, "No.")]))
    def a_delete_ends(self, arrived: bool, failure: Failure | None) -> None:
        if arrived:
            self.world.delete_accepted()
        self.world.end(Operation.DELETE, failure)

    @precondition(lambda self: self.world.is_running(Operation.CONNECT))
    @rule(answered=st.booleans())
    def a_probe_ends(self, answered: bool) -> None:
        failure = None if answered else Failure(Reason.HOST_UNREACHABLE, "No answer.")
        self.world.end(Operation.CONNECT, failure, REMOTE if answered else None)

    @precondition(lambda self: self.world.machines)
    @rule(status=st.sampled_from(["RUNNING", "UNHEALTHY", "FAILURE", "STOPPED", "STARTING", "DELETING"]))
    def the_machine_changes(self, status: str) -> None:
        if self.world.machines[-1].status != "DELETING":
            self.world.machines[-1].status = status

    @precondition(lambda self: self.world.machines)
    @rule()
    def a_machine_that_is_being_deleted_goes(self) -> None:
        self.world.machines = [machine for machine in self.world.machines if machine.status != "DELETING"]

    @rule(arrived=st.booleans(), lag=st.sampled_from([0.0, LAG]))
    def the_operator_is_killed(self, arrived: bool, lag: float) -> None:
        if arrived and self.world.is_running(Operation.CREATE):
            self.world.take_effect(lag)
        if arrived and self.world.is_running(Operation.DELETE):
            self.world.delete_accepted()
        self.world.crash()

    @rule(usable=st.booleans())
    def the_account_changes(self, usable: bool) -> None:
        self.world.set_account(USABLE if usable else BROKEN)

    @rule()
    def somebody_edits_the_spec(self) -> None:
        self.world.ask_change()

    @rule()
    def somebody_deletes_the_object(self) -> None:
        self.world.ask_deletion()

    @invariant()
    def there_are_never_two_machines(self) -> None:
        assert len(self.world.machines) <= 1

    @invariant()
    def no_machine_outlives_its_object(self) -> None:
        assert self.world.instance is not None or not self.world.machines

    @invariant()
    def deciding_again_changes_nothing(self) -> None:
        if self.world.instance is None:
            return
        first = self.world.decide()
        if first.status is None or first.requeue == timedelta(0) or first.consumed:
            return
        before, self.world.instance.status = self.world.instance.status, reread(first.status)
        second = self.world.decide()
        self.world.instance.status = before
        if second.status is not None and second.action == first.action:
            assert reread(second.status) == reread(first.status)

    @invariant()
    def no_pass_repeats_for_ever(self) -> None:
        """A plan that changes nothing comes back after a while that somebody can wait, or when something happens."""
        world = self.world
        if world.instance is None:
            return
        before, seconds = world.instance.status, world.clock.seconds
        for _ in range(5):
            plan = world.decide()
            if plan.action is not None or plan.consumed or plan.requeue is None or plan.requeue.total_seconds() >= 0.5:
                break
            world.clock.advance(plan.requeue.total_seconds())
            if plan.status is not None:
                world.instance.status = reread(plan.status)
        else:
            raise AssertionError(f"a hot loop: {plan}")
        world.instance.status, world.clock.seconds = before, seconds

    def teardown(self) -> None:
        """The world calms down and the object is deleted: the machine is gone before it, in bounded time."""
        self.world.set_account(USABLE)
        self.world.ask_deletion()
        for _ in range(60):
            if self.world.instance is None:
                break
            self.world.calm_step()
            self.there_are_never_two_machines()
        assert self.world.instance is None, "the object is stuck"
        assert not self.world.machines
        assert TIMING.settle > LAG


Life.TestCase.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_no_order_of_events_breaks_the_first_promise = Life.TestCase
