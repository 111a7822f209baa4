"""Getting a machine: the intent first, then the create, and the truth about every way in which that can end."""

from datetime import timedelta

import pytest

from controller.api.brevinstance import BrevInstance
from controller.api.meta import FINALIZER
from controller.api.reasons import Reason
from controller.decide.instance import decide_instance
from controller.decide.types import (
    AccountView,
    AddFinalizer,
    CatalogView,
    Failure,
    InventoryView,
    Need,
    Operation,
    Start,
)
from tests.builders import (
    NOW,
    STARTED,
    TIMING,
    FakeClock,
    instance_obs,
    kstatus,
    make_instance,
    message_of,
    offer,
    reason_of,
)
from tests.unit.decide.world import LAG, World

REFUSED = Failure(Reason.NO_CAPACITY, "There is none.")
LOST = Failure(Reason.API_UNAVAILABLE, "The answer was lost.", ambiguous=True)


def creating(candidates: int = 2) -> World:
    """A world in which the create of the first candidate is under way."""
    world = World()
    world.run_until_quiet()
    assert world.is_running(Operation.CREATE)
    return world


def status(world: World) -> BrevInstance:
    assert world.instance is not None
    return world.instance


def names(world: World) -> list[str]:
    return [attempt.brev_name for attempt in status(world).status.attempts]


def keep_up(world: World, seconds: float = 0.0) -> None:
    world.advance(seconds)
    world.list_succeeds()
    world.run_until_quiet()


def test_the_finalizer_comes_first_and_alone() -> None:
    plan = decide_instance(make_instance(held=False), instance_obs(FakeClock()), NOW, TIMING)
    assert isinstance(plan.action, AddFinalizer)
    assert plan.status is None
    assert not plan.notes


def test_other_finalizers_do_not_stand_for_ours() -> None:
    instance = make_instance(held=False)
    instance.metadata.finalizers = ["example.com/other"]
    assert isinstance(decide_instance(instance, instance_obs(FakeClock()), NOW, TIMING).action, AddFinalizer)


def test_the_intent_is_in_the_status_of_the_plan_that_starts_the_create() -> None:
    plan = decide_instance(make_instance(), instance_obs(FakeClock()), NOW, TIMING)
    assert plan.status is not None
    attempt = plan.status.attempts[0]
    assert plan.action == Start(Operation.CREATE, {"name": attempt.brev_name, "machine_type": "g5.xlarge"})
    assert (attempt.number, attempt.intended_at, attempt.price_micros) == (1, NOW, 1_000_000)
    assert (attempt.brev_id, attempt.released_at) == (None, None)
    assert plan.status.brev_name == attempt.brev_name
    assert (plan.status.account_name, plan.status.org_id) == ("default", "org-1")
    assert plan.status.cost is not None
    assert plan.status.cost.started_at == NOW


def test_an_invalid_spec_ends_in_a_condition_and_not_in_a_machine() -> None:
    instance = make_instance(held=False)
    plan = decide_instance(instance, instance_obs(FakeClock(), spec_problem="spec.candidates: too short"), NOW, TIMING)
    assert plan.action is None
    assert plan.status is not None
    assert kstatus(plan.status.conditions) == ("False", "False", "True")
    assert reason_of(plan.status) == Reason.INVALID_SPEC


@pytest.mark.parametrize("reason", [Reason.ACCOUNT_NOT_FOUND, Reason.NAMESPACE_NOT_ALLOWED, Reason.CLI_MISSING])
def test_an_account_that_cannot_be_used_stalls_the_object_and_is_looked_at_again(reason: Reason) -> None:
    obs = instance_obs(FakeClock(), account=AccountView(False, reason, "It cannot."))
    plan = decide_instance(make_instance(), obs, NOW, TIMING)
    assert plan.status is not None
    assert plan.action is None
    assert (kstatus(plan.status.conditions), reason_of(plan.status)) == (("False", "False", "True"), reason)
    assert plan.requeue == timedelta(seconds=TIMING.recheck)


def test_an_account_that_is_being_verified_is_waited_for() -> None:
    obs = instance_obs(FakeClock(), account=AccountView(False, Reason.AWAITING_ACCOUNT, "Soon."))
    plan = decide_instance(make_instance(), obs, NOW, TIMING)
    assert plan.status is not None
    assert kstatus(plan.status.conditions) == ("Unknown", "True", "False")


def test_the_catalog_is_asked_for_before_a_machine_is() -> None:
    plan = decide_instance(make_instance(), instance_obs(FakeClock(), catalog=CatalogView()), NOW, TIMING)
    assert (plan.action, plan.needs) == (None, frozenset({Need.CATALOG}))


def test_a_catalog_that_cannot_be_read_is_no_empty_catalog() -> None:
    failure = Failure(Reason.API_UNAVAILABLE, "It is down.")
    plan = decide_instance(make_instance(), instance_obs(FakeClock(), catalog=CatalogView(None, failure)), NOW, TIMING)
    assert plan.status is not None
    assert reason_of(plan.status) == Reason.API_UNAVAILABLE
    assert Need.CATALOG in plan.needs
    assert plan.requeue is not None
    assert not plan.status.rejected_offers


def test_no_usable_candidate_stalls_with_the_first_reason_and_the_whole_list_is_tried_again_later() -> None:
    clock = FakeClock()
    instance = make_instance(candidates=[{"type": "none"}, {"type": "dear", "maxPricePerHourUSD": "0.5"}])
    obs = instance_obs(clock, catalog=CatalogView((offer("dear"),)))
    plan = decide_instance(instance, obs, NOW, TIMING)
    assert plan.status is not None
    assert reason_of(plan.status) == Reason.UNKNOWN_MACHINE_TYPE
    assert "1 more" in message_of(plan.status)
    assert plan.requeue is not None
    instance.status = plan.status
    later = NOW + plan.requeue
    waiting = decide_instance(instance, obs, later, TIMING)
    assert waiting.status == plan.status, "a look that finds nothing new writes nothing"
    again = decide_instance(instance, instance_obs(clock, catalog=CatalogView((offer("none"),))), later, TIMING)
    assert isinstance(again.action, Start)


def test_the_account_of_an_object_never_changes_once_a_machine_was_asked_for() -> None:
    first = decide_instance(make_instance(), instance_obs(FakeClock()), NOW, TIMING).status
    assert first is not None
    first.attempts[0].released_at = NOW
    moved = make_instance(spec={"accountName": "other"}, status=first)
    plan = decide_instance(moved, instance_obs(FakeClock()), NOW, TIMING)
    assert isinstance(plan.action, Start)
    assert plan.status is not None
    assert plan.status.account_name == "default"


def test_an_accepted_create_is_found_by_name_in_a_list_asked_for_afterwards() -> None:
    world = creating()
    world.take_effect(0)
    world.end(Operation.CREATE)
    keep_up(world)
    assert status(world).status.brev_id == "m-1"
    assert status(world).status.attempts[0].brev_id == "m-1"
    assert Operation.CREATE not in world.operations


def test_a_list_asked_for_before_the_end_of_the_create_says_nothing() -> None:
    world = creating()
    world.advance(3)
    world.list_succeeds()
    world.advance(3)
    world.take_effect(0)
    world.end(Operation.CREATE)
    world.run_until_quiet()
    assert world.waiting
    assert status(world).status.brev_id is None
    assert not world.is_running(Operation.CREATE)


def test_an_accepted_machine_that_is_not_listed_yet_is_waited_for_and_not_created_again() -> None:
    world = creating()
    world.take_effect(LAG)
    world.end(Operation.CREATE)
    for _ in range(3):
        keep_up(world, 5)
    assert not world.is_running(Operation.CREATE)
    assert reason_of(status(world).status, "Provisioned") == Reason.DEPLOYING
    keep_up(world, LAG)
    assert status(world).status.brev_id == "m-1"


def test_a_definite_refusal_goes_to_the_next_candidate_under_a_new_name() -> None:
    world = creating()
    first = names(world)[0]
    world.end(Operation.CREATE, REFUSED)
    keep_up(world)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "b.two"
    assert len(set(names(world))) == 2
    assert first in names(world)
    attempt = status(world).status.attempts[0]
    assert (attempt.outcome, attempt.released_at is not None) == (Reason.NO_CAPACITY, True)
    assert [rejected.type for rejected in status(world).status.rejected_offers] == ["a.one"]


def test_after_a_refusal_a_fresh_list_is_looked_at_before_the_next_candidate_is_asked_for() -> None:
    world = creating()
    world.advance(3)
    world.list_succeeds()
    world.advance(3)
    world.end(Operation.CREATE, REFUSED)
    world.run_until_quiet()
    assert not world.is_running(Operation.CREATE)
    assert world.waiting
    keep_up(world, 1)
    assert world.is_running(Operation.CREATE)


def test_a_refused_create_that_made_a_machine_all_the_same_is_adopted() -> None:
    world = creating()
    world.take_effect(0)
    world.end(Operation.CREATE, REFUSED)
    keep_up(world)
    assert status(world).status.brev_id == "m-1"
    assert not world.is_running(Operation.CREATE)


def test_a_refusal_of_every_candidate_stalls_and_backs_off() -> None:
    world = creating()
    for _ in range(2):
        world.end(Operation.CREATE, REFUSED)
        keep_up(world)
    assert kstatus(status(world).status.conditions) == ("False", "False", "True")
    assert reason_of(status(world).status) == Reason.NO_CAPACITY
    assert not world.is_running(Operation.CREATE)
    assert world.timer is not None
    keep_up(world, 600)
    assert world.is_running(Operation.CREATE)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "a.one"


def test_a_lost_answer_is_settled_by_looking_and_adopts_by_name() -> None:
    world = creating()
    world.take_effect(LAG)
    world.end(Operation.CREATE, LOST)
    keep_up(world, 1)
    assert not world.is_running(Operation.CREATE)
    keep_up(world, TIMING.settle)
    assert status(world).status.brev_id == "m-1"
    assert world.created == 1


def test_a_create_that_was_lost_for_good_is_asked_for_again_under_the_same_name_only_after_settling_and_looking() -> (
    None
):
    world = creating()
    world.end(Operation.CREATE, LOST)
    keep_up(world, TIMING.settle - 2)
    assert not world.is_running(Operation.CREATE)
    world.advance(2.1)
    world.run_until_quiet()
    assert not world.is_running(Operation.CREATE), "the last list is older than the settle time"
    keep_up(world, 1)
    keep_up(world, 30)
    assert world.is_running(Operation.CREATE)
    assert len(names(world)) == 1
    assert world.starts[Operation.CREATE].arguments["name"] == names(world)[0]


def test_a_name_that_is_taken_is_our_own_machine_and_is_adopted() -> None:
    world = creating()
    world.take_effect(LAG)
    world.end(Operation.CREATE, Failure(Reason.CLI_FAILED, "The name is taken.", ambiguous=True))
    keep_up(world, TIMING.settle)
    assert status(world).status.brev_id == "m-1"


@pytest.mark.parametrize("reason", [Reason.AUTHENTICATION_FAILED, Reason.CLI_MISSING, Reason.CLI_FAILED])
def test_a_failure_of_login_or_cli_stalls_and_tries_the_same_name_again_with_back_off(reason: Reason) -> None:
    world = creating()
    world.end(Operation.CREATE, Failure(reason, "It did not work."))
    keep_up(world)
    assert kstatus(status(world).status.conditions) == ("False", "False", "True")
    assert reason_of(status(world).status) == reason
    assert status(world).status.failures == 1
    assert not world.is_running(Operation.CREATE)
    for _ in range(10):
        keep_up(world, 6)
    assert world.is_running(Operation.CREATE)
    assert len(names(world)) == 1


@pytest.mark.parametrize("arrived", [True, False])
def test_after_a_crash_with_an_intent_the_list_is_asked_before_anything_is_created(arrived: bool) -> None:
    world = creating()
    world.advance(600)
    if arrived:
        world.take_effect(LAG)
    world.crash()
    keep_up(world)
    assert not world.is_running(Operation.CREATE), "the create of the dead process may still take effect"
    for _ in range(8):
        keep_up(world, 5)
    assert (status(world).status.brev_id == "m-1") == arrived
    assert world.is_running(Operation.CREATE) != arrived
    assert len(names(world)) == 1


def test_a_list_that_fails_is_unknown_and_creates_nothing() -> None:
    world = creating()
    world.crash()
    for _ in range(20):
        world.advance(30)
        world.run_until_quiet()
    assert not world.is_running(Operation.CREATE)
    assert world.waiting


def test_an_unknown_list_never_means_that_there_is_no_machine() -> None:
    view = InventoryView()
    assert not view.lacks(0.0, lists=1)
    assert not view.shows(0.0)


def test_the_provision_deadline_ends_the_search_for_good() -> None:
    world = creating()
    world.end(Operation.CREATE, REFUSED)
    world.advance(1201)
    world.run_until_quiet()
    assert reason_of(status(world).status) == Reason.PROVISION_DEADLINE_EXCEEDED
    keep_up(world, 3600)
    assert not world.is_running(Operation.CREATE)
    assert world.timer is None


def test_a_new_generation_starts_over_after_a_verdict() -> None:
    world = creating()
    world.end(Operation.CREATE, REFUSED)
    keep_up(world, 1201)
    for _ in range(20):
        keep_up(world, 6)
        if world.is_running(Operation.CREATE):
            world.end(Operation.CREATE, LOST)
    assert reason_of(status(world).status) == Reason.PROVISION_DEADLINE_EXCEEDED
    assert not status(world).status.attempts or status(world).status.attempts[-1].released_at is not None
    world.ask_change()
    world.run_until_quiet()
    assert world.is_running(Operation.CREATE)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "a.one", "what was refused before may be had now"
    assert status(world).status.attempts[-1].number == len(status(world).status.attempts)
    assert FINALIZER in status(world).metadata.finalizers
    assert world.process_started >= STARTED
