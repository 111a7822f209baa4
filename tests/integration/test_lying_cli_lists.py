"""Lists and catalogs: a failed, partial or unreadable one is unknown, never empty."""

import json
from typing import Any

import pytest

from controller.brev import Credential, errors
from tests.integration import lying
from tests.integration.lying import ALL, MEASURED, TYPE, WITH_TOKENS, Stage, lie, under

backend, generation, stage = lying.backend, lying.generation, lying.stage

ROW = {"name": "bo-1", "id": "aaa000001", "status": "RUNNING"}
HALF = '{\n  "workspaces": [\n    {\n      "name": "bo-1",\n'
WALK = "\n\nThe command brev ls shows your instances\nIn a new terminal, run brev shell tj-1\n"


@lie("A2", "§7 text after the JSON", "§7 list shapes")
@pytest.mark.parametrize(
    ("stdout", "names"),
    [
        ("null\n", []),
        ('{\n  "workspaces": null\n}\n', []),
        ("[]\n", []),
        (json.dumps([ROW]) + WALK, ["bo-1"]),
        (json.dumps({"workspaces": [ROW]}, indent=2) + WALK, ["bo-1"]),
        ("no oauth found for token\n" + json.dumps([ROW], indent=2), ["bo-1"]),
        ("WARN: malformed refresh token, logging out\nno oauth found for token\nnull\n\nHi Dev!\n", []),
        (json.dumps({"workspaces": [ROW], "nodes": [{"name": "x"}]}), ["bo-1"]),
        ("Agent pid 7\n[error] x\n" + json.dumps([ROW]), ["bo-1"]),
    ],
)
async def test_a_list_is_read_in_any_shape_and_among_any_text(stage: Stage, stdout: str, names: list[str]) -> None:
    session = await stage.session()
    await session.version()
    await stage.fault({"type": "exit0", "stdout": stdout}, verb="ls")
    assert [row.name for row in await session.list()] == names


@lie("§7 half-written answers", "§7 exit 0 on failure", "A17")
@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "\n",
        HALF,
        HALF[:14],
        "[\n",
        "{}\n",
        '{"workspaces": {}}',
        '{"workspaces": [1]}',
        '[{"id": "a"}]',
        '[{"name": "", "id": "a"}]',
        "No instances in org acme\n\nStart a new instance:\n",
        "You are currently logged out, would you like to log in? [Y/n]: ",
        " NAME  STATUS\n bo-1  RUNNING\n",
    ],
)
async def test_an_answer_that_is_no_list_is_unknown_not_empty(stage: Stage, stdout: str) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await stage.fault({"type": "exit0", "stdout": stdout}, verb="ls")
    with pytest.raises(errors.Unparsable):
        await session.list()
    assert [row.name for row in await session.list()] == ["bo-1"]


@lie("A3", "§7 a failed list")
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"type": "refuse", "status": 500, "body": "<html>"}, errors.UnknownFailure),
        ({"type": "refuse", "status": 429, "message": "slow down"}, errors.UnknownFailure),
        ({"type": "refuse", "status": 200, "body": "not json"}, errors.UnknownFailure),
        ({"type": "refuse", "status": 401, "message": "unauthorized"}, errors.AuthRequired),
        ({"type": "accept_then_fail", "die": True}, errors.UnknownFailure),
    ],
)
@under("v0.6.322", "v0.6.327", "v0.6.334", "seeds")
async def test_a_list_that_failed_in_the_service_is_an_error(
    stage: Stage, fault: dict[str, Any], error: type[errors.BrevError]
) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await stage.fault(fault, verb="list", every=True)
    with pytest.raises(error):
        await session.list()


@lie("§7 half-written answers")
@under(*ALL)
async def test_a_list_that_is_cut_anywhere_is_an_error(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    for fraction in (0.0, 0.1, 0.5, 0.9):
        for end in ({}, {"die": True}, {"rc": 1}):
            await stage.fault({"type": "half_write", "fraction": fraction, **end}, verb="ls")
            with pytest.raises(errors.BrevError):
                await session.list()
            await stage.brev.clear_faults()


@lie("§7 slow calls")
async def test_a_slow_list_is_waited_for_and_one_that_never_ends_is_a_time_out(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await stage.fault({"type": "delay", "seconds": 0.3}, verb="ls")
    assert len(await session.list()) == 1
    for when in ("before", "after"):
        await stage.fault({"type": "hang", "when": when}, verb="ls")
        with pytest.raises(errors.CallTimeout):
            await (await stage.session(time_scale=0.01)).list()
        await stage.ended()


@lie("A31", "§7 catalog failure swallowed")
@under("v0.6.322", "v0.6.327", "v0.6.334", "seeds")
async def test_without_a_catalog_the_list_stands_and_a_search_fails(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await stage.fault({"type": "refuse", "status": 500, "body": "x"}, api="GET /public/*", every=True)
    [row] = await session.list()
    assert (row.name, row.status, row.gpu, row.instance_kind) == ("bo-1", "RUNNING", "-", "cpu")
    with pytest.raises(errors.UnknownFailure):
        await session.search()


@lie("A19")
@under(*MEASURED)
async def test_a_machine_without_a_type_has_its_class_for_one(stage: Stage) -> None:
    session = await stage.session()
    await stage.fault("untyped", verb="create")
    await session.create("bo-1", TYPE)
    assert [row.instance_type for row in await session.list()] == ["2x8"]


@lie("A18")
@under(*WITH_TOKENS)
async def test_a_teammates_machine_is_not_in_the_list_of_a_token(stage: Stage) -> None:
    token = await stage.brev.jwt(user="user-2")
    teammate = await stage.session(Credential("JWT", token, stage.brev.org_id), account="b")
    mine = await stage.session("JWT")
    await mine.create("bo-1", TYPE)
    machine_id = (await mine.list())[0].id
    assert [row.name for row in await mine.list()] == ["bo-1"]
    if [each.id for each in await teammate.organizations() if each.is_active] == [stage.brev.org_id]:
        assert await teammate.list() == []
        for attempt in (teammate.delete, teammate.stop, teammate.start):
            with pytest.raises(errors.InstanceNotFound):
                await attempt(machine_id)
    assert await stage.statuses() == ["RUNNING"]


@lie("§7 unhealthy")
@under(*ALL)
async def test_a_machine_shown_unhealthy_still_runs(stage: Stage) -> None:
    session = await stage.session()
    machine_id = await stage.running(session)
    await stage.brev.event(machine_id, "unhealthy")
    [row] = await session.list()
    assert (row.status, row.shell_status) == ("UNHEALTHY", "READY")
    assert "bo-1" in await session.exec("bo-1", "true", 60)


@lie("§7 search")
@pytest.mark.parametrize("stdout", ["", "null x", '[{"type": "a", "price_per_hour": "x"}]', "[{"])
async def test_a_catalog_that_cannot_be_read_is_unknown(stage: Stage, stdout: str) -> None:
    session = await stage.session()
    await session.version()
    await stage.fault({"type": "exit0", "stdout": stdout}, verb="search")
    with pytest.raises(errors.Unparsable):
        await session.search()
