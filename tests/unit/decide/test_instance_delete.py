"""Deleting a BrevInstance in every phase ends with its machine observed gone, and only then with the object's end."""

from collections.abc import Callable

import pytest

from controller.api.brevinstance import InstanceStatus
from controller.api.reasons import Reason
from controller.decide.instance import decide_instance
from controller.decide.types import AccountView, Cancel, Failure, Operation, RemoveFinalizer
from tests.builders import NOW, TIMING, USABLE, FakeClock, instance_obs, kstatus, make_instance, message_of, reason_of
from tests.unit.decide.lives import deployed, fails, ready, unreachable
from tests.unit.decide.world import LAG, World

GONE = AccountView(False, Reason.ACCOUNT_NOT_FOUND, "There is no such account.")
LOST = Failure(Reason.API_UNAVAILABLE, "The answer was lost.", ambiguous=True)
REFUSED = Failure(Reason.AUTHENTICATION_FAILED, "No.")


def keep_up(world: World, seconds: float = 0.0) -> None:
    world.advance(seconds)
    world.list_succeeds()
    world.run_until_quiet()


def of(world: World) -> InstanceStatus:
    assert world.instance is not None
    return world.instance.status


def new() -> World:
    world = World()
    world.run_pass()
    return world


def creating() -> World:
    world = World()
    world.run_until_quiet()
    return world


def intent_only() -> World:
    world = creating()
    world.crash()
    return world


def intent_and_machine() -> World:
    world = creating()
    world.take_effect(LAG)
    world.crash()
    return world


def accepted() -> World:
    world = creating()
    world.take_effect(LAG)
    world.end(Operation.CREATE)
    return world


def lost() -> World:
    world = creating()
    world.take_effect(LAG)
    world.end(Operation.CREATE, LOST)
    return world


def refused() -> World:
    world = creating()
    world.end(Operation.CREATE, Failure(Reason.NO_CAPACITY, "None."))
    keep_up(world)
    world.end(Operation.CREATE, Failure(Reason.NO_CAPACITY, "None."))
    keep_up(world)
    return world


def failed() -> World:
    world = deployed()
    world.machines[0].status = "FAILURE"
    keep_up(world, 5)
    return world


def failed_for_good() -> World:
    world = ready()
    fails(world)
    return world


def stopped() -> World:
    world = ready()
    world.machines[0].status = "STOPPED"
    keep_up(world, 60)
    return world


def deleting_by_somebody() -> World:
    world = ready()
    world.machines[0].status = "DELETING"
    keep_up(world, 60)
    return world


def vanished() -> World:
    world = ready()
    world.machines.clear()
    keep_up(world, 60)
    keep_up(world, 60)
    return world


PHASES: list[Callable[[], World]] = [
    World,
    new,
    creating,
    intent_only,
    intent_and_machine,
    accepted,
    lost,
    refused,
    deployed,
    lambda: deployed("RUNNING"),
    ready,
    unreachable,
    stopped,
    failed,
    failed_for_good,
    deleting_by_somebody,
    vanished,
]


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("phase", PHASES)
def test_deletion_in_any_phase_ends_with_no_machine_and_then_no_object(phase: Callable[[], World], crash: bool) -> None:
    world = phase()
    world.ask_deletion()
    world.run_until_quiet()
    if crash:
        world.crash()
    for _ in range(40):
        if world.instance is None:
            break
        world.calm_step()
        assert world.instance is not None or not world.machines
    assert world.instance is None
    assert not world.machines


def test_an_object_that_we_never_held_is_left_alone() -> None:
    instance = make_instance(held=False, deletionTimestamp="2026-01-01T00:00:00Z")
    instance.metadata.finalizers = ["example.com/other"]
    plan = decide_instance(instance, instance_obs(FakeClock()), NOW, TIMING)
    assert (plan.action, plan.status) == (None, None)


def test_the_finalizer_goes_at_once_where_nothing_was_ever_asked_for() -> None:
    instance = make_instance(deletionTimestamp="2026-01-01T00:00:00Z")
    assert isinstance(decide_instance(instance, instance_obs(FakeClock()), NOW, TIMING).action, RemoveFinalizer)


def test_an_object_with_an_invalid_spec_can_be_deleted_too() -> None:
    world = ready()
    world.ask_deletion()
    assert world.instance is not None
    world.instance.spec = None  # type: ignore[assignment]
    for _ in range(10):
        if world.instance is not None:
            world.calm_step()
    assert world.instance is None
    assert not world.machines


def test_a_create_in_flight_is_ended_and_its_settle_time_waited_out() -> None:
    world = creating()
    world.ask_deletion()
    plan = world.run_pass()
    assert plan is not None
    assert plan.action == Cancel(frozenset({Operation.CREATE}))
    for _ in range(10):
        keep_up(world, 10)
    assert world.instance is not None, "the create has not ended"
    world.take_effect(LAG)
    world.end(Operation.CREATE)
    keep_up(world, 1)
    keep_up(world, 6)
    assert not world.is_running(Operation.DELETE)
    assert world.instance is not None, "it may still appear"
    keep_up(world, LAG)
    assert world.is_running(Operation.DELETE)


def test_a_create_of_a_dead_process_gets_its_settle_time_from_that_death() -> None:
    world = creating()
    world.advance(500)
    world.take_effect(LAG)
    world.crash()
    world.ask_deletion()
    keep_up(world)
    keep_up(world, 6)
    keep_up(world, 6)
    assert world.instance is not None
    keep_up(world, LAG)
    assert world.is_running(Operation.DELETE)


def test_one_list_without_the_machine_is_not_gone_and_a_failed_one_is_nothing() -> None:
    world = ready()
    world.ask_deletion()
    world.run_until_quiet()
    world.end_well(Operation.DELETE)
    world.machines.clear()
    keep_up(world, 5)
    for _ in range(10):
        world.advance(60)
        world.run_until_quiet()
    assert world.instance is not None
    keep_up(world, 5)
    assert world.instance is None


def test_an_accepted_deletion_is_not_gone_while_the_list_has_the_machine() -> None:
    world = ready()
    world.ask_deletion()
    world.run_until_quiet()
    world.end_well(Operation.DELETE)
    writes = world.writes
    for _ in range(100):
        keep_up(world, 30)
    assert world.instance is not None
    assert world.writes - writes <= 1
    assert reason_of(of(world)) == Reason.DELETING


def test_an_accepted_deletion_without_effect_is_asked_for_again() -> None:
    world = ready()
    world.ask_deletion()
    world.run_until_quiet()
    world.end(Operation.DELETE)
    keep_up(world, 5)
    assert not world.is_running(Operation.DELETE)
    keep_up(world, 4 * TIMING.settle)
    assert world.is_running(Operation.DELETE)


def test_a_refused_deletion_says_what_it_may_cost_and_is_tried_again_with_back_off_and_without_flapping() -> None:
    world = ready()
    world.ask_deletion()
    world.run_until_quiet()
    world.end(Operation.DELETE, REFUSED)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    assert "may still cost money" in message_of(of(world))
    tries = 0
    since = message_of(of(world))
    for _ in range(120):
        keep_up(world, 10)
        assert message_of(of(world)) == since
        if world.is_running(Operation.DELETE):
            tries += 1
            world.end(Operation.DELETE, REFUSED)
            world.run_until_quiet()
    assert 4 <= tries <= 10
    keep_up(world, 400)
    for _ in range(8):
        if world.instance is not None:
            world.calm_step()
    assert world.instance is None


def test_a_back_off_of_the_creation_does_not_delay_the_deletion() -> None:
    world = creating()
    for _ in range(4):
        world.end(Operation.CREATE, REFUSED)
        keep_up(world)
        for _ in range(60):
            if not world.is_running(Operation.CREATE):
                keep_up(world, 5)
    world.take_effect(0)
    world.end(Operation.CREATE, REFUSED)
    world.run_until_quiet()
    world.ask_deletion()
    keep_up(world, 1)
    assert world.is_running(Operation.DELETE)


def test_without_its_account_an_object_waits_says_why_and_goes_on_when_it_is_back() -> None:
    world = ready()
    world.set_account(GONE)
    world.lists.clear()
    world.ask_deletion()
    world.run_until_quiet()
    assert reason_of(of(world)) == Reason.ACCOUNT_NOT_FOUND
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    assert world.timer is not None
    world.set_account(USABLE)
    for _ in range(8):
        if world.instance is not None:
            world.calm_step()
    assert world.instance is None
    assert not world.machines


def test_an_account_that_is_being_verified_after_a_restart_is_no_alarm() -> None:
    world = ready()
    world.ask_deletion()
    world.run_until_quiet()
    world.crash()
    world.set_account(AccountView(False, Reason.AWAITING_ACCOUNT, "Soon."))
    keep_up(world, 1)
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    assert not world.is_running(Operation.DELETE)
    world.set_account(USABLE)
    world.run_until_quiet()
    assert world.is_running(Operation.DELETE)


def test_a_namespace_that_lost_its_permission_can_still_give_its_machine_back() -> None:
    world = ready()
    world.set_account(AccountView(False, Reason.NAMESPACE_NOT_ALLOWED, "No more."))
    world.ask_deletion()
    world.run_until_quiet()
    assert world.is_running(Operation.DELETE)


def test_the_cost_is_closed_when_the_machine_is_observed_gone() -> None:
    world = ready()
    world.advance(3600)
    world.ask_deletion()
    world.run_until_quiet()
    world.end_well(Operation.DELETE)
    world.machines.clear()
    keep_up(world, 5)
    world.advance(5)
    world.list_succeeds()
    plan = world.run_pass()
    assert plan is not None
    assert plan.status is not None
    assert plan.status.cost is not None
    assert plan.status.cost.ended_at == world.clock.now()
    assert (plan.status.cost.accrued_micros or 0) >= 1_000_000
