"""What the program says and does about logins, and what the client makes of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controller.brev import BrevSession, Credential, errors
from tests.integration import lying
from tests.integration.lying import ALL, MEASURED, SENTINEL, TYPE, WITH_TOKENS, Stage, lie, under

backend, generation, stage = lying.backend, lying.generation, lying.stage


def every_verb(session: BrevSession, source: Path) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "list": session.list,
        "create": lambda: session.create("bo-2", TYPE),
        "delete": lambda: session.delete("aaa000001"),
        "stop": lambda: session.stop("aaa000001"),
        "start": lambda: session.start("aaa000001"),
        "refresh": lambda: session.refresh("bo-1"),
        "copy": lambda: session.copy("bo-1", source, "/x"),
    }


@lie("A1", "A2", "G2", "§7 onboarding")
@under("v0.6.320", "v0.6.322")
async def test_the_first_use_questions_are_answered_before_they_are_asked(stage: Stage) -> None:
    session = await stage.session()
    assert (await session.version()).startswith("v0.6.32")
    await stage.running(session)
    assert [row.name for row in await session.list()] == ["bo-1"]
    assert [each.is_active for each in await session.organizations()] == [True, False]
    puts = [request for request in await stage.brev.requests() if request["method"] == "PUT"]
    assert len(puts) == 1, "the one harmless write of the first list"


@lie("A1")
@under("v0.6.322")
async def test_a_lost_onboarding_file_is_written_again_since_a_list_would_never_end(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    await stage.brev.settings(newcomer="user-1")
    (stage.account_home / "onboarding_step.json").unlink()
    assert [row.name for row in await session.list()] == ["bo-1"]


@lie("A1")
@under("v0.6.322")
async def test_a_list_that_never_ends_is_a_time_out_and_leaves_nothing(stage: Stage) -> None:
    await (await stage.session()).create("bo-1", TYPE)
    session = await stage.session(time_scale=0.02)
    await stage.brev.settings(newcomer="user-1")
    (stage.account_home / "onboarding_step.json").write_text('{"step": 0}')
    with pytest.raises(errors.CallTimeout) as caught:
        await session.list()
    assert '"bo-1"' in caught.value.stdout, "the JSON was there; a call that was killed proves nothing"


@lie("A3", "A21", "§5 #360", "§7 JWT expiry")
@under(*WITH_TOKENS)
async def test_an_expired_token_is_a_login_problem_on_every_verb_never_an_empty_answer(
    stage: Stage, tmp_path: Path
) -> None:
    token = await stage.brev.jwt()
    session = await stage.session(Credential("JWT", token, stage.brev.org_id))
    await stage.running(session)
    await stage.brev.advance(7200)
    for attempt in every_verb(session, tmp_path).values():
        with pytest.raises(errors.AuthRequired) as caught:
            await attempt()
        assert not caught.value.ambiguous
        assert token not in str(vars(caught.value))
    assert await stage.names() == ["bo-1"]


@lie("A3")
async def test_a_revoked_key_is_a_login_problem_on_every_verb(stage: Stage, tmp_path: Path) -> None:
    session = await stage.session()
    await stage.running(session)
    await stage.brev.settings(revoke=stage.brev.api_key)
    for attempt in every_verb(session, tmp_path).values():
        with pytest.raises(errors.AuthRequired):
            await attempt()
    assert await stage.names() == ["bo-1"]


@lie("A14", "G2")
@under("v0.6.320", "v0.6.322")
async def test_a_login_prompt_after_the_output_of_exec_is_no_failure(stage: Stage) -> None:
    session = await stage.session()
    await stage.running(session)
    output = await session.exec("bo-1", f"echo {SENTINEL}", 60)
    assert output.startswith(f"{SENTINEL}\nbo-1\nYou are currently logged out")


@lie("A15", "§5 PR 427", "§7 SA-token")
@under("v0.6.322", "v0.6.327", "v0.6.334", "v0.6.334-b")
async def test_the_pods_own_token_never_reaches_the_service(stage: Stage, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("cluster credential")
    session = await stage.session(service_account_token=token)
    for attempt in (session.version, session.list):
        with pytest.raises(errors.CliUnsupported, match="automountServiceAccountToken"):
            await attempt()
    assert await stage.brev.calls() == []
    token.unlink()
    assert await session.list() == []


@lie("A16")
async def test_another_active_organisation_in_the_file_has_no_effect_and_is_put_right(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    (stage.account_home / "active_org.json").write_text(json.dumps({"id": stage.brev.second_org_id, "name": "Beta"}))
    assert [row.name for row in await session.list()] == ["bo-1"]
    assert json.loads((stage.account_home / "active_org.json").read_text())["id"] == stage.brev.org_id
    assert await stage.calls("org") + await stage.calls("set") == []


@lie("A17")
@under(*MEASURED)
async def test_no_organisation_at_all_is_a_failure_of_the_program_and_a_mismatch_here(stage: Stage) -> None:
    session = await stage.session("JWT")
    await session.version()
    await stage.fault({"type": "fail", "stderr": "no orgs exist\n"}, verb="ls", name="orgs", every=True)
    assert await session.organizations() == []
    for attempt in (session.list, lambda: session.create("bo-1", TYPE), lambda: session.delete("aaa000001")):
        with pytest.raises(errors.OrganizationMismatch):
            await attempt()
    assert await stage.names() == []


@lie("§7 silent switch of organisation", "§5 #390")
@under(*WITH_TOKENS)
async def test_the_silent_switch_to_another_organisation_stops_everything(stage: Stage) -> None:
    session = await stage.session("JWT")
    machine_id = await stage.running(session)
    await stage.brev.settings(organizationOrder=[stage.brev.second_org_id, stage.brev.org_id, _OTHER])
    not_found = {"type": "refuse", "status": 404, "message": "organization not found"}
    await stage.fault(not_found, api=f"GET /api/organizations/{stage.brev.org_id}", every=True)
    for attempt in (session.list, lambda: session.create("bo-2", TYPE), lambda: session.delete(machine_id)):
        with pytest.raises(errors.OrganizationMismatch):
            await attempt()
    assert [(row["name"], row["status"]) for row in await stage.brev.machines()] == [("bo-1", "RUNNING")]


@lie("GS")
@under("seeds-b")
async def test_where_nothing_says_which_organisation_is_active_nothing_is_done(stage: Stage) -> None:
    session = await stage.session("JWT")
    for attempt in (session.list, lambda: session.create("bo-1", TYPE), lambda: session.delete("aaa000001")):
        with pytest.raises(errors.OrganizationMismatch, match="does not say which"):
            await attempt()
    assert await stage.names() == []


_OTHER = "org-2fSimOther000000000000003"


@lie("A12", "A24", "A28")
@under(*ALL)
async def test_nothing_of_our_environment_reaches_the_program(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("DEBUG_HTTP", "BREV_API_KEY", "BREV_API_TOKEN", "VERSION", "DEFAULT_CLUSTER_ID", "KUBECONFIG"):
        monkeypatch.setenv(name, "1")
    session = await stage.session()
    await stage.running(session)
    await session.copy("bo-1", tmp_path, await stage.place())
    await session.exec("bo-1", "true", 60)
    allowed = {"HOME", "PATH", "LANG", "NO_COLOR", "DO_NOT_TRACK", "BREV_NO_ANALYTICS", "SSH_AUTH_SOCK"}
    for call in await stage.brev.calls():
        assert set(call["envNames"]) - {"PWD", "SHLVL", "_", "OLDPWD"} == allowed | set(stage.brev.env()), call["argv"]
        assert call["env"]["SSH_AUTH_SOCK"] == "/nonexistent"
        assert (call["stdin"], call["stdout"], call["umask"]) == ("chardev", "pipe", 0o077)


@lie("A16", "A18", "A20", "A23", "A30", "§7 secrets on argv")
@under(*ALL)
async def test_only_words_whose_answers_are_known_are_ever_said(stage: Stage, tmp_path: Path) -> None:
    credential = await stage.credential()
    session = await stage.session(credential)
    machine_id = await stage.running(session)
    await session.search()
    await session.copy("bo-1", tmp_path, await stage.place())
    await session.exec("bo-1", "true", 60)
    if (await session.list())[0].instance_type == TYPE:
        await session.stop(machine_id)
        await stage.brev.wait_for(lambda rows: rows[0]["status"] == "STOPPED")
        await session.start(machine_id)
    await session.delete(machine_id)
    calls = [call["argv"] for call in await stage.brev.calls()]
    verbs = {argv[0] for argv in calls}
    assert verbs <= {"--version", "login", "ls", "orgs", "search", "create", "delete", "stop", "start", *_REMOTE}
    assert all(argv[-1] == "--help" for argv in calls if argv[0] == "login")
    assert not [argv for argv in calls if "--all" in argv or "--org" in argv or "--count" in argv]
    assert credential.secret not in str(calls)


_REMOTE = {"refresh", "copy", "exec"}


@lie("A32", "G2")
@under("v0.6.322")
async def test_the_extra_request_after_each_success_changes_no_answer(stage: Stage) -> None:
    session = await stage.session()
    await session.list()
    await stage.fault({"type": "refuse", "status": 500, "message": "x"}, api="GET /api/me", nth=1)
    offers = await session.search()
    assert offers


@lie("§7 non-atomic credentials", "§5 #360")
async def test_a_torn_login_is_written_anew_not_taken_for_logged_out(stage: Stage) -> None:
    session = await stage.session()
    await session.create("bo-1", TYPE)
    for torn in ("", '{"api_key": "ba', "[]"):
        (stage.account_home / "credentials.json").write_text(torn)
        assert [row.name for row in await session.list()] == ["bo-1"]


@lie("§5 PR 227", "§7 auto-login refresh path")
@under(*WITH_TOKENS)
async def test_a_refresh_credential_is_renewed_alone_and_a_refused_one_is_a_login_problem(stage: Stage) -> None:
    session = await stage.session("RefreshToken")
    answers = await asyncio.gather(*(session.list() for _ in range(8)))
    assert answers == [[]] * 8
    renewals = [request for request in await stage.brev.requests() if request["path"] == "/auth/token"]
    assert len(renewals) == 1
    bad = await stage.session(Credential("RefreshToken", "no:body", stage.brev.org_id), account="b")
    with pytest.raises(errors.AuthRequired):
        await bad.list()


@lie("A22")
@pytest.mark.parametrize(
    ("times", "error", "names"),
    [(1, None, ["bo-1"]), (2, errors.Refused, [])],
)
async def test_a_403_is_tried_again_by_the_program_itself_also_a_post(
    stage: Stage, times: int, error: type[errors.BrevError] | None, names: list[str]
) -> None:
    session = await stage.session()
    await stage.fault({"type": "refuse", "status": 403, "message": "forbidden"}, verb="create", count=times)
    if error is None:
        await session.create("bo-1", TYPE)
    else:
        with pytest.raises(error):
            await session.create("bo-1", TYPE)
    posts = [request for request in await stage.brev.requests() if request["method"] == "POST"]
    assert len(posts) == 2
    assert await stage.names() == names


@lie("A22")
async def test_a_post_that_was_accepted_and_repeated_is_a_duplicate_not_a_second_machine(stage: Stage) -> None:
    session = await stage.session()
    accepted: dict[str, Any] = {"type": "accept_then_fail", "status": 403}
    await stage.fault(accepted, verb="create")
    with pytest.raises(errors.DuplicateName):
        await session.create("bo-1", TYPE)
    assert await stage.names() == ["bo-1"]
