"""Where a machine can stand, and the steps that bring it there: the vocabulary of the tables about instances."""

from controller.api.brevinstance import InstanceStatus
from controller.api.reasons import Reason
from controller.decide.types import Failure, Operation
from tests.builders import kstatus
from tests.unit.decide.world import REMOTE, World

NO_ANSWER = Failure(Reason.HOST_UNREACHABLE, "No answer.")


def deployed(status: str = "DEPLOYING") -> World:
    """A world with a machine of the first candidate in the given state, seen by the operator."""
    world = World()
    world.run_until_quiet()
    world.take_effect(0)
    world.end(Operation.CREATE)
    world.machines[0].status = status
    keep_up(world)
    return world


def ready() -> World:
    world = deployed("RUNNING")
    world.end(Operation.CONNECT, result=REMOTE)
    world.run_until_quiet()
    assert kstatus(of(world).conditions) == ("True", "False", "False")
    return world


def of(world: World) -> InstanceStatus:
    assert world.instance is not None
    return world.instance.status


def keep_up(world: World, seconds: float = 0.0) -> None:
    world.advance(seconds)
    world.list_succeeds()
    world.run_until_quiet()


def becomes(world: World, status: str) -> None:
    world.machines[0].status = status
    keep_up(world, 5)


def fails(world: World) -> None:
    """The provider reports a failure; the machine is deleted and observed gone."""
    becomes(world, "FAILURE")
    assert world.is_running(Operation.DELETE)
    world.end_well(Operation.DELETE)
    world.machines.clear()
    keep_up(world, 5)
    keep_up(world, 5)


def unreachable() -> World:
    world = ready()
    becomes(world, "UNHEALTHY")
    world.end(Operation.CONNECT, NO_ANSWER)
    world.run_until_quiet()
    return world
