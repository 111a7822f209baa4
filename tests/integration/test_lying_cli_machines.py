"""Creates, deletions, stops and starts: false successes, false failures, and answers that never came."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from controller.brev import Credential, errors
from tests.integration import lying
from tests.integration.lying import ALL, FOURTH, MEASURED, NEWEST, TYPE, WITH_TYPES, Stage, lie, under

backend, generation, stage = lying.backend, lying.generation, lying.stage

OLD_STOP = ("v0.6.320", "v0.6.322", "v0.6.323")
NO_CHECK = ("v0.6.322", "v0.6.326", "v0.6.334")
REFUSE: dict[str, Any] = {"type": "refuse"}
CATALOG = "GET /api/instances/alltypesavailable/*"


@dataclass(frozen=True, slots=True)
class Row:
    """What the program does at `create bo-1`, what the client raises, and which machines there are then."""

    id: str
    fault: dict[str, Any]
    error: type[errors.BrevError] | None
    machines: tuple[str, ...] = ()
    ambiguous: bool = False
    slow: bool = False
    api: str = ""

    def __str__(self) -> str:
        return self.id


CREATES = [
    Row("§7 accepted, then 502", {"type": "accept_then_fail", "status": 502}, errors.UnknownFailure, ("bo-1",), True),
    Row("§5 #1249 killed after the POST", {"type": "die"}, errors.UnknownFailure, ("bo-1",), True),
    Row("§7 hangs after the POST", {"type": "hang", "when": "after"}, errors.CallTimeout, ("bo-1",), True, slow=True),
    Row("§7 hangs before the POST", {"type": "hang"}, errors.CallTimeout, (), True, slow=True),
    Row("§7 exit 0, nothing made", {"type": "exit0", "stdout": "bo-1\n"}, None),
    Row("§5 #391 panic", {"type": "fail", "rc": 2, "stderr": "panic: x\n\ngoroutine 1\n"}, errors.CliPanic, (), True),
    Row("§7 exit 1 and silence", {"type": "fail"}, errors.UnknownFailure, (), True),
    Row("§7 quota", {"type": "refuse", "message": "quota exceeded for g6e.xlarge"}, errors.Refused),
    Row("§5 #390 credits", {"type": "refuse", "message": "You have run out of credits"}, errors.OutOfCredits),
    Row("§7 429", {"type": "refuse", "status": 429, "message": "slow down"}, errors.Refused),
    Row("§7 500", {"type": "refuse", "status": 500, "body": "oops"}, errors.UnknownFailure, (), True),
    Row("A3 401", {"type": "refuse", "status": 401, "message": "unauthorized"}, errors.AuthRequired),
    Row("A5 listing lost", REFUSE | {"status": 500, "body": "x"}, errors.UnknownFailure, (), True, api=CATALOG),
    Row("§7 slow, and right", {"type": "slow", "seconds": 30}, None, ("bo-1",)),
]


@lie("A5", "A22", "§5 #1249", "§5 #390", "§5 #391", "§7 create faults")
@pytest.mark.parametrize("row", CREATES, ids=str)
async def test_what_came_of_a_create_is_never_told_wrongly(stage: Stage, row: Row) -> None:
    session = await stage.session()
    await session.version()
    await stage.brev.settings(factor=1000)
    if row.api:
        await stage.fault(row.fault, api=row.api)
    else:
        await stage.fault(row.fault, verb="create")
    if row.slow:
        session = await stage.session(time_scale=0.01)
    if row.error is None:
        await session.create("bo-1", TYPE)
    else:
        with pytest.raises(row.error) as caught:
            await session.create("bo-1", TYPE)
        assert type(caught.value) is row.error
        assert caught.value.ambiguous == row.ambiguous
        assert caught.value.message
        assert "\n" not in caught.value.message
    await stage.ended()
    assert await stage.names() == list(row.machines)
    assert [each.name for each in await (await stage.session()).list()] == list(row.machines)


@lie("A5")
@pytest.mark.parametrize(
    ("generation", "unknown", "sold_out"),
    [
        *((name, errors.Refused, errors.Refused) for name in NO_CHECK),
        (NEWEST, errors.UnknownType, errors.NoCapacity),
        ("v0.6.334-b", errors.UnknownType, errors.NoCapacity),
        ("seeds", errors.UnknownType, errors.NoCapacity),
    ],
)
async def test_an_unknown_type_and_a_sold_out_one_are_refusals_in_every_generation(
    stage: Stage, unknown: type[errors.BrevError], sold_out: type[errors.BrevError]
) -> None:
    session = await stage.session()
    await stage.brev.settings(soldOut=[TYPE])
    for machine_type, error in (("no-such-type", unknown), (TYPE, sold_out)):
        with pytest.raises(error) as caught:
            await session.create("bo-1", machine_type)
        assert not caught.value.ambiguous
    assert await stage.names() == []


@lie("A22", "§7 duplicate names")
@under(*ALL)
async def test_a_name_that_exists_is_a_duplicate_and_nothing_is_added(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    with pytest.raises(errors.DuplicateName):
        await session.create("bo-1", TYPE)
    assert await stage.names() == ["bo-1"]


@lie("A6", "§5 #218")
@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("no_build", ("RUNNING", "", "NOT READY")),
        ("build_failed", ("RUNNING", "CREATE_FAILED", "NOT READY")),
        ("stuck", ("DEPLOYING", "", "NOT READY")),
        ({"type": "failure", "after": 0}, ("FAILURE", "", "NOT READY")),
    ],
)
async def test_a_create_that_was_accepted_says_nothing_of_the_machine(
    stage: Stage, fault: str | dict[str, Any], shown: tuple[str, ...]
) -> None:
    session = await stage.session()
    await stage.fault(fault, verb="create", name="bo-1")
    await session.create("bo-1", TYPE)
    await stage.brev.advance(100_000)
    [row] = await session.list()
    assert (row.status, row.build_status, row.shell_status) == shown


@lie("A4", "G2")
@under(*OLD_STOP)
async def test_the_false_success_of_stopping_an_unknown_machine_is_not_believed(stage: Stage) -> None:
    session = await stage.session()
    with pytest.raises(errors.InstanceNotFound):
        await session.stop("aaa000001")
    assert await stage.calls("stop") == []


@lie("A4", "A22", "§5 PR 416")
@under(*WITH_TYPES)
async def test_a_stop_is_accepted_again_and_refused_where_the_type_cannot(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await session.create("bo-2", "massedcompute_L40S")
    ids = {row.name: row.id for row in await session.list()}
    await session.stop(ids["bo-1"])
    await stage.brev.wait_for(lambda rows: any(row["status"] == "STOPPED" for row in rows))
    await session.stop(ids["bo-1"])
    assert len(await stage.calls("stop")) == 1
    with pytest.raises(errors.Refused, match="does not support stop"):
        await session.stop(ids["bo-2"])
    assert await stage.statuses() == ["STOPPED", "RUNNING"]


@lie("A4")
async def test_a_stop_that_claims_success_and_did_nothing_shows_in_the_list(stage: Stage) -> None:
    session = await stage.session()
    machine_id = await stage.running(session)
    await stage.fault({"type": "exit0", "stdout": f"{machine_id}\n"}, verb="stop")
    await session.stop(machine_id)
    assert [row.status for row in await session.list()] == ["RUNNING"]


@lie("A23", "§7 start")
@under(*ALL)
async def test_the_false_success_of_starting_an_unknown_machine_is_not_believed(stage: Stage) -> None:
    session = await stage.session()
    with pytest.raises(errors.InstanceNotFound):
        await session.start("aaa000001")
    assert await stage.calls("start") == []
    assert await stage.names() == []


@lie("A23")
async def test_a_machine_that_goes_between_list_and_start_is_not_taken_for_started(stage: Stage) -> None:
    session = await stage.session()
    machine_id = await stage.stopped(session)
    hidden = {"type": "lost_rows", "hide": "bo-1"}
    await stage.fault(hidden, verb="list", nth=2)
    with pytest.raises(errors.InstanceNotFound):
        await session.start(machine_id)
    assert await stage.statuses() == ["STOPPED"]


@lie("A23")
@under(*MEASURED, *FOURTH)
async def test_a_start_is_one_machine_by_id_and_harmless_when_it_runs(stage: Stage) -> None:
    session = await stage.session()
    one, other = await stage.stopped(session, "bo-1"), await stage.stopped(session, "bo-2")
    await session.start(one)
    await stage.brev.wait_for(lambda rows: rows[0]["status"] == "RUNNING")
    await session.start(one)
    assert await stage.statuses() == ["RUNNING", "STOPPED"]
    assert [call["argv"] for call in await stage.calls("start")] == [["start", one, "--detached"]]
    await stage.brev.event(other, "failure")
    with pytest.raises(errors.NotRunning, match="FAILURE"):
        await session.start(other)


@lie("§7 delete", "§5 #261")
@under(*ALL)
async def test_an_accepted_deletion_is_not_gone_and_may_be_asked_again(stage: Stage) -> None:
    session = await stage.session()
    machine_id = await stage.running(session)
    await stage.fault("stuck", verb="delete")
    for _ in range(2):
        await session.delete(machine_id)
    await stage.brev.advance(1000)
    assert [row.status for row in await session.list()] == ["DELETING"]
    await stage.brev.event(machine_id, "vanish")
    assert await session.list() == []
    with pytest.raises(errors.InstanceNotFound):
        await session.delete(machine_id)


@lie("§7 delete")
@pytest.mark.parametrize(
    ("fault", "error", "left"),
    [
        ({"type": "exit0", "stdout": "bo-1\n"}, None, ["RUNNING"]),
        ({"type": "accept_then_fail", "status": 502}, errors.UnknownFailure, []),
        ({"type": "die"}, errors.UnknownFailure, []),
        ({"type": "refuse", "message": "workspace is already being deleted"}, None, ["RUNNING"]),
        ({"type": "refuse", "status": 403, "message": "forbidden"}, errors.Refused, ["RUNNING"]),
        ({"type": "refuse", "status": 500, "body": "x"}, errors.UnknownFailure, ["RUNNING"]),
    ],
)
async def test_what_came_of_a_deletion_is_never_told_wrongly(
    stage: Stage, fault: dict[str, Any], error: type[errors.BrevError] | None, left: list[str]
) -> None:
    session = await stage.session()
    machine_id = await stage.running(session)
    await stage.fault(fault, verb="delete", every=True)
    if error is None:
        await session.delete(machine_id)
    else:
        with pytest.raises(error) as caught:
            await session.delete(machine_id)
        assert not isinstance(caught.value, errors.InstanceNotFound)
    await stage.brev.clear_faults()
    assert await stage.statuses() == left


@lie("§7 silent switch of organisation")
async def test_a_machine_of_another_organisation_is_not_found_there_and_kept(stage: Stage) -> None:
    session = await stage.session()
    machine_id = await stage.running(session)
    other = await stage.session(
        Credential("APIKey", stage.brev.second_org_api_key, stage.brev.second_org_id), account="b"
    )
    for attempt in (other.delete, other.stop, other.start):
        with pytest.raises(errors.InstanceNotFound):
            await attempt(machine_id)
    assert await stage.statuses() == ["RUNNING"]


@lie("A8", "A9", "§5 #391")
@pytest.mark.parametrize("word", ["tj-1; echo INJECTED >&2; true", "-rf", "https://x/y.git", "a b", "", "../x", "@f"])
async def test_a_word_that_would_be_more_than_a_name_starts_no_process(stage: Stage, word: str) -> None:
    session = await stage.session()
    for attempt in (session.delete, session.stop, session.start, session.refresh):
        with pytest.raises(ValueError, match="name"):
            await attempt(word)
    with pytest.raises(ValueError, match="name"):
        await session.create(word, TYPE)
    with pytest.raises(ValueError, match="name"):
        await session.exec(word, "true", 10)
    assert {call["argv"][0] for call in await stage.brev.calls()} <= {"--version"}


@lie("§7 create faults")
async def test_cancelling_a_create_leaves_no_process_and_perhaps_a_machine(stage: Stage) -> None:
    session = await stage.session()
    await session.version()
    await stage.fault({"type": "hang", "when": "after"}, verb="create")
    task = asyncio.ensure_future(session.create("bo-1", TYPE))
    await stage.brev.wait_for(bool)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stage.ended()
    assert [row.name for row in await session.list()] == ["bo-1"]
