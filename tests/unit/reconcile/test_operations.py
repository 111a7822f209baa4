"""Background operations: one of a kind for an object, each with an end that its object hears of."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.brev import errors as brev
from controller.brev.credentials import CredentialInvalid
from controller.decide.types import Failure, Operation
from controller.kube.errors import Forbidden, Unavailable
from controller.reconcile.failures import translate
from controller.reconcile.operations import OperationFailed, Operations
from tests.builders import STARTED, FakeClock
from tests.unit.reconcile.fakes import yield_to_others

KEY, UID = ObjectKey(Kind.INSTANCE, "a", "gpu"), "u-1"
POLL, STOP = Operation.POLL, Operation.STOP


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.told: list[ObjectKey] = []
        self.operations = Operations(self.told.append, self.clock.monotonic, translate)
        self.gate = asyncio.Event()

    async def waits(self) -> str:
        await self.gate.wait()
        return "answer"

    async def raises(self, error: Exception) -> None:
        raise error

    async def fail(self, error: Exception) -> Failure:
        self.operations.start(KEY, UID, POLL, self.raises(error))
        await yield_to_others()
        failure = self.operations.views(UID)[POLL].failure
        assert failure is not None
        return failure


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.operations.drain()


async def test_an_operation_is_seen_running_then_ended_with_its_result_and_its_object_is_told(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    assert bench.operations.views(UID)[POLL].running
    assert not bench.told
    bench.clock.advance(7)
    bench.gate.set()
    await yield_to_others()
    view = bench.operations.views(UID)[POLL]
    assert (view.started, view.finished, view.result, view.failure) == (STARTED, STARTED + 7, "answer", None)
    assert bench.told == [KEY]


async def test_a_second_one_of_a_kind_is_refused_and_another_kind_is_not(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    with pytest.raises(RuntimeError, match="runs already"):
        bench.operations.start(KEY, UID, POLL, bench.waits())
    bench.operations.start(KEY, UID, STOP, bench.waits())
    bench.operations.start(KEY, "u-2", POLL, bench.waits())
    assert set(bench.operations.views(UID)) == {POLL, STOP}


async def test_a_cancelled_operation_ends_as_an_ambiguous_failure_and_tells_its_object(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    await yield_to_others()
    bench.operations.cancel(UID, [POLL])
    await yield_to_others()
    failure = bench.operations.views(UID)[POLL].failure
    assert failure is not None
    assert failure.ambiguous
    assert bench.told == [KEY]


async def test_an_operation_that_is_cancelled_before_its_first_step_ends_too(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    bench.operations.cancel(UID, [POLL])
    await yield_to_others()
    assert not bench.operations.views(UID)[POLL].running
    assert bench.told == [KEY]


async def test_an_operation_that_takes_long_to_end_is_not_cancelled_twice(bench: Bench) -> None:
    interruptions = 0

    async def stubborn() -> None:
        nonlocal interruptions
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await bench.gate.wait()
            except asyncio.CancelledError:
                interruptions += 1
            raise

    bench.operations.start(KEY, UID, POLL, stubborn())
    await yield_to_others()
    for _ in range(3):
        bench.operations.cancel(UID, [POLL])
        await yield_to_others()
    assert bench.operations.views(UID)[POLL].running
    bench.gate.set()
    await yield_to_others()
    assert interruptions == 0
    assert not bench.operations.views(UID)[POLL].running


async def test_the_end_counts_from_the_work_itself_so_that_a_list_it_asks_for_is_later(bench: Bench) -> None:
    asked: list[float] = []

    async def works() -> None:
        bench.clock.advance(1)
        asyncio.get_running_loop().call_soon(lambda: asked.append(bench.clock.monotonic()))

    bench.operations.start(KEY, UID, POLL, works())
    await yield_to_others()
    finished = bench.operations.views(UID)[POLL].finished
    assert finished is not None
    assert asked[0] >= finished == STARTED + 1


async def test_consuming_forgets_what_ended_and_leaves_what_runs(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    bench.operations.consume(UID, [POLL, STOP])
    assert bench.operations.views(UID)[POLL].running
    bench.gate.set()
    await yield_to_others()
    bench.operations.consume(UID, [POLL])
    assert bench.operations.views(UID) == {}


async def test_failures_in_a_row_are_counted_through_consumption_and_a_success_ends_the_row(bench: Bench) -> None:
    streaks = []
    for _ in range(3):
        await bench.fail(brev.HostUnreachable("no"))
        streaks.append(bench.operations.views(UID)[POLL].failures)
        bench.operations.consume(UID, [POLL])
    bench.gate.set()
    bench.operations.start(KEY, UID, POLL, bench.waits())
    await yield_to_others()
    streaks.append(bench.operations.views(UID)[POLL].failures)
    assert streaks == [1, 2, 3, 0]


async def test_the_newest_end_is_known_while_another_one_runs(bench: Bench) -> None:
    await bench.fail(brev.HostUnreachable("no"))
    bench.operations.start(KEY, UID, POLL, bench.waits())
    last = bench.operations.last_finished(UID, POLL)
    assert bench.operations.views(UID)[POLL].running
    assert last is not None
    assert last.failures == 1


async def test_a_forgotten_object_has_no_operations_and_is_not_told_of_their_end(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    await yield_to_others()
    bench.operations.forget(UID)
    await yield_to_others()
    assert (bench.operations.views(UID), bench.told) == ({}, [])
    assert not bench.operations._failures
    assert UID not in bench.operations._slots


async def test_draining_ends_everything_and_waits_for_it(bench: Bench) -> None:
    bench.operations.start(KEY, UID, POLL, bench.waits())
    await bench.operations.drain()
    await yield_to_others()
    assert not bench.operations.views(UID)[POLL].running


@pytest.mark.parametrize(
    ("error", "reason", "ambiguous"),
    [
        (brev.CliMissing("no"), Reason.CLI_MISSING, False),
        (brev.CliUnsupported("no"), Reason.CLI_UNSUPPORTED, False),
        (brev.AuthRequired("no"), Reason.AUTHENTICATION_FAILED, False),
        (brev.OrganizationMismatch("no"), Reason.ORGANIZATION_MISMATCH, False),
        (brev.NoCapacity("no"), Reason.NO_CAPACITY, False),
        (brev.UnknownType("no"), Reason.UNKNOWN_MACHINE_TYPE, False),
        (brev.OutOfCredits("no"), Reason.OUT_OF_CREDITS, False),
        (brev.Refused("no"), Reason.CREATE_REFUSED, False),
        (brev.DuplicateName("no"), Reason.CLI_FAILED, True),
        (brev.CallTimeout("no"), Reason.API_UNAVAILABLE, True),
        (brev.UnknownFailure("no"), Reason.CLI_FAILED, True),
        (brev.CliPanic("no"), Reason.CLI_FAILED, True),
        (brev.Unparsable("no"), Reason.CLI_FAILED, True),
        (brev.InstanceNotFound("no"), Reason.MACHINE_VANISHED, False),
        (CredentialInvalid("no"), Reason.CREDENTIAL_INVALID, False),
        (Forbidden("no"), Reason.FORBIDDEN, False),
        (Unavailable("no"), Reason.API_UNAVAILABLE, True),
        (OSError("no"), Reason.CLI_FAILED, True),
        (TimeoutError("no"), Reason.CLI_FAILED, True),
        (ZeroDivisionError("no"), Reason.CLI_FAILED, True),
        (OperationFailed(Failure(Reason.INTERPRETER_MISSING, "No python.")), Reason.INTERPRETER_MISSING, False),
    ],
)
async def test_every_error_has_a_reason_and_is_honest_about_its_effect(
    bench: Bench, error: Exception, reason: Reason, ambiguous: bool
) -> None:
    failure = await bench.fail(error)
    assert (failure.reason, failure.ambiguous) == (reason, ambiguous)
    assert failure.message[0].isupper()
    assert failure.message.endswith(".")
