"""A machine that exists: deployed, reached, lost, stopped, failed, vanished."""

from datetime import timedelta

import pytest

from controller.api.conditions import get_condition
from controller.api.reasons import Reason
from controller.decide.types import Failure, Operation
from tests.builders import STARTED, TIMING, kstatus, message_of, reason_of
from tests.unit.decide.lives import NO_ANSWER, becomes, deployed, fails, keep_up, of, ready, unreachable
from tests.unit.decide.world import BROKEN, REMOTE, World


def test_a_deploying_machine_is_waited_for_and_not_probed() -> None:
    world = deployed()
    assert not world.is_running(Operation.CONNECT)
    assert (kstatus(of(world).conditions), reason_of(of(world))) == (("Unknown", "True", "False"), Reason.DEPLOYING)


def test_the_first_probe_of_a_running_machine_refreshes_its_address_and_later_ones_do_not() -> None:
    world = deployed("RUNNING")
    assert world.starts[Operation.CONNECT].arguments == {"name": of(world).brev_name, "first": True}
    world.end(Operation.CONNECT, NO_ANSWER)
    world.run_until_quiet()
    world.advance(TIMING.poll_floor + 0.1)
    world.run_until_quiet()
    assert world.starts[Operation.CONNECT].arguments["first"] is False


def test_a_machine_is_ready_only_when_a_probe_came_back() -> None:
    world = deployed("RUNNING")
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")
    assert (of(world).remote, of(world).ready_at) == (REMOTE, world.clock.now())
    assert Operation.CONNECT not in world.operations


def test_failed_probes_of_a_booting_machine_cost_one_status_write_however_many_and_whatever_they_say() -> None:
    world = deployed("RUNNING")
    before = world.writes
    for number in range(20):
        world.end(Operation.CONNECT, Failure(Reason.HOST_UNREACHABLE, f"No answer {number}."))
        world.run_until_quiet()
        world.advance(TIMING.poll_floor + 0.1)
        world.run_until_quiet()
        assert world.is_running(Operation.CONNECT)
    assert world.writes - before == 1


def test_the_ready_deadline_is_a_verdict_then_a_release_then_silence() -> None:
    world = deployed("RUNNING")
    world.end(Operation.CONNECT, NO_ANSWER)
    world.advance(1201)
    world.run_until_quiet()
    assert reason_of(of(world)) == Reason.READY_DEADLINE_EXCEEDED
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    assert world.is_running(Operation.DELETE)
    world.delete_accepted()
    world.end(Operation.DELETE)
    world.machines.clear()
    keep_up(world, 5)
    keep_up(world, 5)
    assert of(world).attempts[0].released_at is not None
    assert reason_of(of(world)) == Reason.READY_DEADLINE_EXCEEDED
    writes = world.writes
    keep_up(world, 3600)
    assert (world.writes, world.timer, world.hurry) == (writes, None, False)


def test_a_refused_deletion_does_not_take_the_verdict_away() -> None:
    world = deployed("RUNNING")
    world.end(Operation.CONNECT, NO_ANSWER)
    world.set_account(BROKEN)
    world.advance(1201)
    world.run_until_quiet()
    writes = world.writes
    for _ in range(10):
        keep_up(world, 61)
    assert world.writes == writes, "the same thing is said once"
    assert reason_of(of(world), "Stalled") == Reason.READY_DEADLINE_EXCEEDED
    assert "may still cost money" in message_of(of(world))
    world.set_account(World().account)
    for _ in range(6):
        world.calm_step()
    assert of(world).attempts[0].released_at is not None
    assert "may still cost money" not in message_of(of(world))


def test_a_failed_machine_is_observed_gone_before_the_next_candidate_is_asked_for() -> None:
    world = deployed()
    becomes(world, "FAILURE")
    assert world.is_running(Operation.DELETE)
    world.delete_accepted()
    world.end(Operation.DELETE)
    keep_up(world, 5)
    assert not world.is_running(Operation.CREATE), "it is still in the list"
    world.machines.clear()
    keep_up(world, 5)
    assert not world.is_running(Operation.CREATE), "one list is not enough"
    keep_up(world, 5)
    assert world.is_running(Operation.CREATE)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "b.two"
    assert [rejected.reason for rejected in of(world).rejected_offers] == [Reason.MACHINE_FAILED]


def test_when_every_candidate_failed_the_list_is_tried_again_until_the_provision_deadline() -> None:
    world = deployed()
    fails(world)
    world.take_effect(0)
    world.end(Operation.CREATE)
    keep_up(world, 1)
    fails(world)
    assert reason_of(of(world)) == Reason.NO_CAPACITY
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    keep_up(world, 400)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "a.one"
    assert world.is_running(Operation.CREATE)


def test_a_machine_that_failed_after_it_was_ready_is_not_replaced() -> None:
    world = ready()
    becomes(world, "FAILURE")
    world.delete_accepted()
    world.end(Operation.DELETE)
    world.machines.clear()
    for _ in range(5):
        keep_up(world, 5)
    assert reason_of(of(world), "Stalled") == Reason.MACHINE_FAILED
    assert not world.is_running(Operation.CREATE)
    writes = world.writes
    keep_up(world, 3600)
    assert world.writes == writes


@pytest.mark.parametrize("was_ready", [True, False])
def test_a_stopped_machine_is_neither_probed_nor_woken(was_ready: bool) -> None:
    world = ready() if was_ready else deployed()
    becomes(world, "STOPPED")
    for _ in range(10):
        keep_up(world, 60)
        assert not any(world.is_running(kind) for kind in Operation)
    assert reason_of(of(world)) == Reason.MACHINE_STOPPED
    assert kstatus(of(world).conditions) == ("False", "False", "True")


def test_a_machine_that_was_ready_and_is_stopped_is_kept_for_as_long_as_it_takes() -> None:
    world = ready()
    world.advance(1500)
    becomes(world, "STOPPED")
    for _ in range(30):
        keep_up(world, 3600)
    assert reason_of(of(world)) == Reason.MACHINE_STOPPED
    assert len(world.machines) == 1
    assert world.timer is None


def test_a_machine_that_is_started_again_is_refreshed_and_probed_anew_before_it_is_ready() -> None:
    world = ready()
    becomes(world, "STOPPED")
    becomes(world, "RUNNING")
    assert world.starts[Operation.CONNECT].arguments["first"] is True
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")


def test_the_answer_of_an_earlier_run_of_the_machine_does_not_count() -> None:
    world = deployed("RUNNING")
    world.machines[0].status = "STOPPED"
    world.end(Operation.CONNECT, result=REMOTE)
    keep_up(world, 1)
    becomes(world, "RUNNING")
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    assert world.is_running(Operation.CONNECT)


def test_the_answer_of_an_earlier_machine_does_not_count_for_the_next() -> None:
    world = deployed("RUNNING")
    world.machines[0].status = "FAILURE"
    world.end(Operation.CONNECT, result=REMOTE)
    keep_up(world, 1)
    for _ in range(6):
        if world.is_running(Operation.DELETE):
            world.end_well(Operation.DELETE)
        world.machines.clear()
        keep_up(world, 5)
    world.take_effect(0)
    world.machines[0].status = "RUNNING"
    world.end(Operation.CREATE)
    keep_up(world, 1)
    assert world.is_running(Operation.CONNECT)
    assert of(world).ready_at is None


def test_an_unhealthy_machine_stays_ready_while_it_answers() -> None:
    world = ready()
    becomes(world, "UNHEALTHY")
    assert world.is_running(Operation.CONNECT)
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")


def test_a_machine_that_stops_answering_is_waited_for_and_kept() -> None:
    world = unreachable()
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    assert of(world).unreachable_since == world.clock.now()
    assert len(world.machines) == 1


def test_past_its_unreachable_deadline_it_is_stalled_and_kept_without_a_hot_loop_and_the_next_answer_ends_it() -> None:
    world = unreachable()
    for _ in range(400):
        world.advance(TIMING.poll_floor + 0.1)
        world.run_until_quiet()
        if world.is_running(Operation.CONNECT):
            world.run_pass()
            assert world.timer is None or world.timer - world.clock.monotonic() > 1.0
            world.end(Operation.CONNECT, NO_ANSWER)
            world.run_until_quiet()
            assert world.timer is not None
            assert world.timer - world.clock.monotonic() > 1.0
    assert reason_of(of(world)) == Reason.UNREACHABLE
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    assert len(world.machines) == 1
    assert not world.hurry
    world.advance(TIMING.poll_floor + 0.1)
    world.run_until_quiet()
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")
    assert of(world).unreachable_since is None


def test_a_new_generation_after_an_outage_does_not_inherit_its_deadline() -> None:
    world = unreachable()
    world.advance(3600)
    becomes(world, "FAILURE")
    for _ in range(6):
        if world.is_running(Operation.DELETE):
            world.end_well(Operation.DELETE)
        world.machines.clear()
        keep_up(world, 5)
    assert reason_of(of(world), "Stalled") == Reason.MACHINE_FAILED
    world.set_account(BROKEN)
    world.ask_change()
    world.run_until_quiet()
    assert of(world).unreachable_since is None
    for _ in range(25):
        keep_up(world, 60)
    assert reason_of(of(world)) == Reason.PROVISION_DEADLINE_EXCEEDED


def test_an_edit_while_the_machine_is_still_being_released_gives_every_candidate_a_new_chance() -> None:
    world = World()
    world.run_until_quiet()
    world.end(Operation.CREATE, Failure(Reason.NO_CAPACITY, "None."))
    keep_up(world, 1)
    world.take_effect(0)
    world.end(Operation.CREATE)
    keep_up(world, 1)
    keep_up(world, 1300)
    assert reason_of(of(world)) == Reason.PROVISION_DEADLINE_EXCEEDED
    assert world.is_running(Operation.DELETE)
    world.ask_change()
    world.run_until_quiet()
    world.end_well(Operation.DELETE)
    world.machines.clear()
    keep_up(world, 5)
    keep_up(world, 5)
    assert world.starts[Operation.CREATE].arguments["machine_type"] == "a.one"
    assert of(world).observed_generation == 2


def test_a_delete_call_that_has_not_ended_holds_back_the_next_machine() -> None:
    world = deployed()
    becomes(world, "FAILURE")
    world.machines.clear()
    for _ in range(4):
        keep_up(world, 5)
    assert world.is_running(Operation.DELETE)
    assert not world.is_running(Operation.CREATE)
    world.end(Operation.DELETE)
    keep_up(world, 5)
    keep_up(world, 5)
    assert world.is_running(Operation.CREATE)
    assert Operation.DELETE not in world.operations


def test_a_ready_machine_that_loses_its_account_stays_ready() -> None:
    world = ready()
    world.set_account(BROKEN)
    keep_up(world, 60)
    assert kstatus(of(world).conditions) == ("True", "False", "False")


def test_an_edit_of_a_ready_machine_is_acknowledged_and_changes_nothing() -> None:
    world = ready()
    world.ask_change()
    world.run_until_quiet()
    assert of(world).observed_generation == 2
    condition = get_condition(of(world).conditions, "Ready")
    assert condition is not None
    assert (condition.observed_generation, condition.status) == (2, "True")
    assert len(world.machines) == 1
    assert of(world).started_at is not None
    assert of(world).started_at <= world.clock.now() - timedelta(0)  # type: ignore[operator]
    assert world.process_started == STARTED
