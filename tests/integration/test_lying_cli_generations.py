"""Every generation from create to gone, builds that do not say what they are, and placements."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from controller.brev import Credential, Homes, Placement, errors
from tests.integration import lying
from tests.integration.lying import ALL, MEASURED, SEEDS, SENTINEL, TYPE, WITH_TOKENS, Stage, lie, under

backend, generation, stage = lying.backend, lying.generation, lying.stage

PLACE = Placement("cc-2", "wg-b")
PLACES = {"cloudCredentials": ["cc-1", "cc-2"], "workspaceGroups": ["wg-a", "wg-b"]}


@lie("G2", "G4", "GS", "§7 generations")
@under(*ALL)
async def test_a_machine_from_create_to_gone(stage: Stage, generation: str, tmp_path: Path) -> None:
    session = await stage.session()
    assert (await session.capabilities()).version.startswith(generation.partition("-")[0].replace("seeds", "unversion"))
    assert await session.list() == []
    machine_id = await stage.running(session)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "a file").write_bytes(bytes(range(256)))
    place = await stage.place()
    await session.copy("bo-1", bundle, place)
    digest = await session.exec("bo-1", f"sha256sum < '{place}/a file'", 60)
    assert digest.startswith("40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880")
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60)
    await session.delete(machine_id)
    await stage.brev.wait_for(lambda rows: rows == [])
    assert await session.list() == []
    session.forget("bo-1")


@lie("§7 unknown flags", "G4")
@under("v0.6.320", "v0.6.327", "v0.6.334", "seeds")
async def test_an_executable_is_asked_once_by_whoever_is_first(stage: Stage) -> None:
    one, other = await stage.session(), await stage.session(account="b")
    await one.list()
    count = len([call for call in await stage.brev.calls() if {"--version", "--help"} & set(call["argv"])])
    await other.list()
    await one.version()
    asked = [call["argv"] for call in await stage.brev.calls() if {"--version", "--help"} & set(call["argv"])]
    assert len(asked) == count <= 3
    assert not any(call["hasCredentials"] for call in (await stage.brev.calls())[:count])


@lie("A13", "A20", "§7 generations")
@pytest.mark.parametrize(
    ("stdout", "reason"),
    [
        ("Current Version: v0.6.319\n", r"v0\.6\.319 is too old; v0\.6\.320 or later"),
        ("Current Version: v0.6.316\n", "too old"),
        ("something else entirely\n", "does not name a brev release"),
        ("", "does not name a brev release"),
        ("Current Version: banana\n", "no release"),
        ("Current Version: \n", "no version"),
    ],
)
async def test_an_unsupported_program_is_named_and_nothing_is_tried_against_it(
    stage: Stage, stdout: str, reason: str, tmp_path: Path
) -> None:
    await stage.fault({"type": "exit0", "stdout": stdout}, verb="", every=True)
    await stage.fault({"type": "exit0", "stdout": ""}, verb="create", every=True)
    for account in ("a", "b"):
        session = await stage.session(account=account)
        for attempt in (session.version, session.list, session.search, session.capabilities):
            with pytest.raises(errors.CliUnsupported, match=reason):
                await attempt()
        with pytest.raises(errors.CliUnsupported, match=reason):
            await session.create("bo-1", TYPE)
    calls = [call["argv"] for call in await stage.brev.calls()]
    assert len(calls) == len({tuple(argv) for argv in calls}) <= 2


@lie("§7 generations")
async def test_a_program_that_does_not_answer_for_its_version_is_asked_again(stage: Stage) -> None:
    await stage.fault("die", verb="")
    session = await stage.session()
    with pytest.raises(errors.BrevError):
        await session.version()
    assert await session.version() == "v0.6.327"


@lie("§7 generations")
async def test_another_file_is_another_program(stage: Stage, tmp_path: Path) -> None:
    copy = tmp_path / "brev"
    copy.write_bytes(stage.brev.cli.read_bytes())
    copy.chmod(0o755)
    await stage.fault({"type": "exit0", "stdout": "Current Version: v0.6.300\n"}, verb="", count=1)
    session = await stage.session(executable=str(copy))
    with pytest.raises(errors.CliUnsupported):
        await session.version()
    copy.write_text(copy.read_text() + "\n")
    assert await session.version() == "v0.6.327"


@lie("G4", "§7 generations")
@pytest.mark.parametrize("version", ["", "dev"])
async def test_a_build_without_a_release_is_known_by_its_flags(stage: Stage, version: str) -> None:
    await stage.fault({"type": "exit0", "stdout": f"Current Version: {version}\n"}, verb="", every=True)
    session = await stage.session()
    found = await session.capabilities()
    assert (found.generation, found.untested, found.api_keys) == ("G3", True, True)
    await stage.running(session)
    assert SENTINEL in await session.exec("bo-1", f"echo {SENTINEL}", 60)


@lie("G2", "§7 api-key logins")
@under("v0.6.320", "v0.6.322", "v0.6.323", "seeds")
async def test_an_api_key_for_a_release_without_keys_is_told_so_before_any_call(stage: Stage) -> None:
    session = await stage.session(Credential("APIKey", stage.brev.api_key, stage.brev.org_id))
    for attempt in (session.capabilities, session.list, lambda: session.create("bo-1", TYPE), session.organizations):
        with pytest.raises(errors.CliUnsupported, match=r"cannot use API keys.*BREV_API_TOKEN"):
            await attempt()
    asked = {"--version", "create", "login"}
    assert {call["argv"][0] for call in await stage.brev.calls()} <= asked


@lie("GS", "§7 placement")
@under(*MEASURED, *lying.FOURTH)
async def test_a_placement_that_the_release_cannot_take_is_refused_before_any_create(stage: Stage) -> None:
    session = await stage.session()
    for placement in (PLACE, Placement("cc-2"), Placement("", "wg-b")):
        with pytest.raises(errors.PlacementUnsupported, match=re.escape(stage.rules.version)):
            await session.create("bo-1", TYPE, placement)
    assert [argv for argv in (call["argv"] for call in await stage.calls("create")) if "--help" not in argv] == []
    await session.create("bo-1", TYPE, Placement())
    assert await stage.names() == ["bo-1"]


@lie("GS", "§7 placement")
@under(*SEEDS)
async def test_a_placement_reaches_the_machine(stage: Stage) -> None:
    await stage.brev.settings(placement={stage.brev.org_id: PLACES})
    session = await stage.session()
    await session.create("bo-1", TYPE, PLACE)
    [row] = await stage.brev.machines()
    assert (row["cloudCredential"], row["workspaceGroup"]) == ("cc-2", "wg-b")


@lie("GS", "§7 placement")
@under(*(each for each in SEEDS if each in WITH_TOKENS))
async def test_a_refusal_for_want_of_a_placement_names_the_ids_that_are_known(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-0", TYPE)
    await stage.brev.settings(placement={stage.brev.org_id: PLACES})
    with pytest.raises(errors.PlacementRequired) as caught:
        await session.create("bo-1", TYPE)
    assert (caught.value.cloud_cred_ids, caught.value.workspace_group_ids) == (("cc-1", "cc-2"), ("wg-aws",))
    assert not caught.value.ambiguous
    with pytest.raises(errors.PlacementRequired, match="workspaceGroupId"):
        await session.create("bo-1", TYPE, Placement("cc-2"))
    assert await stage.names() == ["bo-0"]


@lie("GS", "§7 placement")
@under("v0.6.322", "v0.6.327")
async def test_a_release_without_the_flags_says_that_a_placement_is_wanted(stage: Stage) -> None:
    await stage.brev.settings(placement={stage.brev.org_id: PLACES})
    session = await stage.session()
    with pytest.raises(errors.PlacementRequired, match="required") as caught:
        await session.create("bo-1", TYPE)
    assert caught.value.cloud_cred_ids == ()
    assert await stage.names() == []


@lie("GS")
@under("seeds-b")
async def test_a_program_that_knows_gpus_only_is_asked_for_the_types_gpu(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    argv = (await stage.calls("create"))[-1]["argv"]
    assert argv == ["create", "bo-1", "--gpu", "L40S:1"]
    [row] = await session.list()
    assert row.instance_type != TYPE, "it chose the cheapest: whoever pays must compare"
    with pytest.raises(errors.UnknownType):
        await session.create("bo-2", "n2d-standard-4")


@lie("G4")
@under(*lying.FOURTH)
async def test_a_key_in_our_environment_never_wins(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREV_API_KEY", stage.brev.second_org_api_key)
    session = await stage.session()
    await session.create("bo-1", TYPE)
    assert [row["organization"] for row in await stage.brev.machines()] == [stage.brev.org_id]
    assert not any("BREV_API_KEY" in call["envNames"] for call in await stage.brev.calls())


@lie("§7 one HOME per credential")
@under(*ALL)
async def test_a_restart_knows_its_machines_and_mixes_no_accounts(stage: Stage) -> None:
    one = await stage.session()
    other_login: dict[str, Any] = {"account": "b"}
    other = await stage.session(**other_login)
    await stage.running(one)
    stage.homes = Homes(stage.state, search_path=os.environ["PATH"])
    again = await stage.session()
    assert (again.remembered(), other.remembered()) == ({"bo-1"}, set())
    assert SENTINEL in await again.exec("bo-1", f"echo {SENTINEL}", 60)
    with pytest.raises((errors.HostUnreachable, errors.NotRunning)):
        await other.exec("bo-1", "true", 60)
