"""A machine that is missing from good lists: not given up at once, never given up silently, and taken back."""

from controller.api.conditions import get_condition
from controller.api.reasons import Reason
from controller.decide.scope import VANISHED_AFTER
from controller.decide.types import Cancel, Failure, Operation
from tests.builders import TIMING, kstatus, reason_of
from tests.unit.decide.lives import becomes, deployed, keep_up, of, ready
from tests.unit.decide.world import REMOTE, World

CERTAIN = VANISHED_AFTER * TIMING.settle + 1
NOT_FOUND = Failure(Reason.MACHINE_VANISHED, "There is no such machine.")


def vanished() -> tuple[World, list[object]]:
    """A machine that had been ready and got the verdict; and what the list will show when it comes back."""
    world = ready()
    rows: list[object] = list(world.machines)
    world.machines.clear()
    for _ in range(2):
        keep_up(world, 5)
    keep_up(world, CERTAIN)
    assert reason_of(of(world), "Stalled") == Reason.MACHINE_VANISHED
    return world, rows


def wait_out(world: World) -> None:
    """Lists at the usual pace for as long as it takes to be certain; Brev goes on knowing no such machine."""
    for _ in range(int(CERTAIN / 5) + 5):
        keep_up(world, 5)
        if world.is_running(Operation.DELETE):
            world.advance(0.1)
            world.end(Operation.DELETE, NOT_FOUND)
            world.run_until_quiet()


def test_a_machine_that_was_ready_is_missing_for_a_while_before_it_counts_as_vanished() -> None:
    world = ready()
    world.machines.clear()
    keep_up(world, 60)
    assert kstatus(of(world).conditions) == ("True", "False", "False"), "one list says nothing"
    keep_up(world, 5)
    assert kstatus(of(world).conditions) == ("Unknown", "True", "False")
    assert reason_of(of(world), "Reachable") == Reason.MACHINE_VANISHED
    assert world.timer is not None, "nothing else brings the object back while the list stays the same"
    keep_up(world, CERTAIN)
    assert kstatus(of(world).conditions) == ("False", "False", "True")
    assert of(world).attempts[0].released_at is None, "nobody has asked for its end"
    assert of(world).cost is not None
    assert of(world).cost.ended_at is not None  # type: ignore[union-attr]
    assert not world.is_running(Operation.CREATE), "what ran on it cannot be made again"


def test_a_machine_that_comes_back_before_that_goes_on_as_if_nothing_had_been() -> None:
    world = ready()
    rows = list(world.machines)
    world.machines.clear()
    for _ in range(2):
        keep_up(world, 5)
    world.machines.extend(rows)
    keep_up(world, 5)
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")
    assert of(world).unreachable_since is None


def test_a_machine_that_comes_back_after_the_verdict_is_taken_back_with_its_cost() -> None:
    world, rows = vanished()
    writes = world.writes
    keep_up(world, 3600)
    assert world.writes == writes, "the verdict is held without a word"
    world.machines.extend(rows)  # type: ignore[arg-type]
    keep_up(world, 5)
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    status = of(world)
    assert kstatus(status.conditions) == ("True", "False", "False")
    assert (status.attempts[0].outcome, status.attempts[0].released_at) == (None, None)
    assert status.cost is not None
    assert status.cost.ended_at is None
    assert len(status.attempts) == 1


def test_deleting_an_object_whose_machine_vanished_tells_brev_to_delete_it_by_id() -> None:
    world, _ = vanished()
    world.ask_deletion()
    world.run_until_quiet()
    assert world.is_running(Operation.DELETE)
    assert world.starts[Operation.DELETE].arguments["machine_id"] == of(world).attempts[0].brev_id
    world.advance(1)
    world.end(Operation.DELETE, NOT_FOUND)
    for _ in range(4):
        keep_up(world, 5)
    assert world.instance is not None, "the call looks the machine up in the list that may be wrong"
    wait_out(world)
    assert world.instance is None


def test_a_machine_that_shows_up_while_its_object_waits_to_go_is_deleted() -> None:
    world, rows = vanished()
    world.ask_deletion()
    world.run_until_quiet()
    world.advance(1)
    world.end(Operation.DELETE, NOT_FOUND)
    keep_up(world, 5)
    world.machines.extend(rows)  # type: ignore[arg-type]
    keep_up(world, 5)
    assert world.is_running(Operation.DELETE)
    world.end_well(Operation.DELETE)
    world.machines.clear()
    wait_out(world)
    assert world.instance is None


def test_a_machine_that_was_there_all_the_time_is_deleted_with_its_object() -> None:
    world, rows = vanished()
    world.ask_deletion()
    world.run_until_quiet()
    world.machines.extend(rows)  # type: ignore[arg-type]
    world.delete_accepted()
    world.end(Operation.DELETE)
    for _ in range(3):
        keep_up(world, 5)
    assert world.instance is not None, "it is still in the list"
    world.machines.clear()
    wait_out(world)
    assert world.instance is None


def test_a_new_spec_after_a_vanished_machine_first_deletes_the_old_one_by_id() -> None:
    world, _ = vanished()
    world.ask_change()
    world.run_until_quiet()
    assert world.is_running(Operation.DELETE)
    assert not world.is_running(Operation.CREATE)
    world.end(Operation.DELETE, NOT_FOUND)
    wait_out(world)
    assert world.is_running(Operation.CREATE)
    assert of(world).attempts[-1].number == 2


def test_a_machine_that_vanishes_before_it_was_ever_ready_is_told_at_once() -> None:
    world = deployed("RUNNING")
    world.end(Operation.CONNECT, Failure(Reason.HOST_UNREACHABLE, "No answer."))
    world.machines.clear()
    for _ in range(2):
        keep_up(world, 5)
    assert reason_of(of(world), "Stalled") == Reason.MACHINE_VANISHED
    assert get_condition(of(world).conditions, "Provisioned") is not None


def test_a_machine_that_somebody_else_deletes_is_waited_out_and_then_vanished() -> None:
    world = ready()
    becomes(world, "DELETING")
    assert not world.is_running(Operation.DELETE)
    assert reason_of(of(world)) == Reason.DELETING
    world.machines.clear()
    for _ in range(2):
        keep_up(world, 5)
    keep_up(world, CERTAIN)
    assert reason_of(of(world), "Stalled") == Reason.MACHINE_VANISHED


def test_a_probe_under_way_is_ended_when_its_machine_vanished() -> None:
    world = deployed("RUNNING")
    world.machines.clear()
    world.list_succeeds()
    world.run_until_quiet()
    world.advance(5)
    world.list_succeeds()
    plan = world.run_pass()
    assert plan is not None
    assert plan.action == Cancel(frozenset({Operation.CONNECT}))


def test_lists_of_an_earlier_process_do_not_count_for_an_absence() -> None:
    world = ready()
    world.machines.clear()
    keep_up(world, 5)
    world.crash()
    keep_up(world, 5)
    assert kstatus(of(world).conditions) == ("True", "False", "False")
