"""Credentials: what logs in, what is left in HOME, and how a logged-out program behaves."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from tests.contract.program import KEYS, Case, Program, where

PROMPT = "You are currently logged out, would you like to log in? [Y/n]: "
_RESTY = r"\S+ \S+ WARN RESTY (\[error\] \n.*: )?EOF, Attempt 1\n\S+ \S+ ERROR RESTY (\[error\] \n.*: )?EOF\n"
_BANNER = "\n   ▸     Starting Login\n\n"


@pytest.fixture
def nobody(brev: Program) -> Program:
    brev.log_out()
    return brev


@pytest.mark.parametrize(
    ("argv", "end"),
    [
        (["ls", "--json"], "EOF\n"),
        (["create", "x", "--type", "g6e.xlarge", "-d"], "EOF\n"),
        (["stop", "x"], r"1 error occurred:\n\t\* \[error\] \n.*: EOF\n\n\n"),
        (["delete", "x"], r"1 error occurred:\n\t\* \[error\] \n.*: EOF\n\n\n"),
    ],
)
async def test_a_logged_out_program_prompts_on_stdout_and_fails(nobody: Program, argv: list[str], end: str) -> None:
    Case("", [], 1, re.escape(PROMPT), _RESTY + end, source="A3").check(await nobody(*argv))


async def test_a_logged_out_search_works(nobody: Program) -> None:
    assert (await nobody("search", "--json")).rc == 0


async def test_declining_is_named(nobody: Program) -> None:
    result = await nobody("ls", stdin=b"n\n")
    assert (result.rc, result.stdout) == (1, PROMPT)
    assert result.stderr.endswith("declined to login\n")


async def test_a_login_without_anything_ends_with_eof(nobody: Program) -> None:
    Case("", [], 1, re.escape(f"{_BANNER}Enter your email: failed.\n\n"), "EOF\n").check(await nobody("login"))


async def test_a_jwt_login_leaves_the_token_and_a_placeholder(nobody: Program) -> None:
    token = await nobody.simulator.jwt()
    result = await nobody("login", "--token", token)
    assert (result.rc, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{_BANNER}current organization: acme\n")
    assert json.loads(nobody.file("credentials.json").read_text()) == {
        "access_token": token,
        "refresh_token": "auto-login",
    }
    assert json.loads(nobody.file("onboarding_step.json").read_text())["step"] in {0, 1}


async def test_a_garbage_token_fails_without_a_prompt_and_stays_saved(nobody: Program) -> None:
    result = await nobody("login", "--token", "garbage")
    text = f"{_BANNER}WARN: malformed refresh token, logging out\n"
    assert (result.rc, result.stdout, result.stderr) == (1, text, "missing bearer token\n\n")
    assert json.loads(nobody.file("credentials.json").read_text())["refresh_token"] == "garbage"
    bad = nobody.file(".invalid-refresh-token")
    assert (bad.read_text(), stat.S_IMODE(bad.stat().st_mode)) == ("garbage", 0o600)


async def test_a_refresh_credential_fetches_a_token_and_saves_it(nobody: Program) -> None:
    result = await nobody("login", "--token", nobody.simulator.refresh_credential)
    assert result.rc == 0
    saved = json.loads(nobody.file("credentials.json").read_text())
    assert saved["refresh_token"] == nobody.simulator.refresh_credential
    assert saved["access_token"].count(".") == 2


async def test_an_expired_jwt_prompts_and_the_world_decides_what_expired_means(nobody: Program) -> None:
    await nobody.log_in_by_jwt(lifetime=3600)
    assert (await nobody("ls", "--json")).rc == 0
    await nobody.simulator.advance(3601)
    result = await nobody("ls", "--json")
    assert (result.rc, result.stdout) == (1, f"WARN: malformed refresh token, logging out\n{PROMPT}")


@KEYS
async def test_an_api_key_login_asks_nobody(nobody: Program) -> None:
    before = len(await nobody.simulator.requests())
    result = await nobody("login", "--api-key", "bak-wrong", "--org-id", "org-x")
    assert (result.rc, result.stdout, result.stderr) == (0, "API key saved for org org-x\n", "")
    assert len(await nobody.simulator.requests()) == before
    assert json.loads(nobody.file("credentials.json").read_text()) == {
        "access_token": "",
        "refresh_token": "",
        "api_key": "bak-wrong",
        "api_key_org_id": "org-x",
    }
    assert json.loads(nobody.file("active_org.json").read_text()) == {
        "id": "org-x",
        "name": "org-x",
        "userNetworkId": "",
    }


@KEYS
async def test_a_wrong_api_key_is_noticed_by_the_first_call(nobody: Program) -> None:
    nobody.simulator.log_in(nobody.home, api_key="bak-wrong")
    result = await nobody("ls", "--json")
    assert (result.rc, result.stdout, result.stderr) == (1, "", "token is expired\n\n")


async def test_logout_removes_both_files_and_is_silent(brev: Program) -> None:
    for _ in range(2):
        result = await brev("logout")
        assert (result.rc, result.stdout, result.stderr) == (0, "", "")
    assert not brev.file("credentials.json").exists()
    assert not brev.file("active_org.json").exists()


@pytest.mark.parametrize("name", ["credentials.json", "active_org.json"])
@pytest.mark.parametrize("content", ["", '{"access_token": "a'])
async def test_a_torn_state_file_is_an_error_and_not_a_logout(brev: Program, name: str, content: str) -> None:
    await brev.log_in_by_jwt()
    brev.file(name).write_text(content)
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("unexpected end of JSON input\n")


@where(lambda rules: rules.list_is_object)
async def test_a_token_of_another_issuer_is_announced_before_the_json(brev: Program) -> None:
    await brev.log_in_by_jwt()
    brev.extra["BREV_AUTH_ISSUER_URL"] = "http://elsewhere.invalid"
    result = await brev("ls", "--json")
    assert result.stdout == 'no oauth found for token\n{\n  "workspaces": null\n}\n'


@where(lambda rules: rules.pod_token and rules.api_key_login)
async def test_a_service_account_token_wins_over_every_login(brev: Program, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("cluster.credential.x")
    await brev.simulator.settings(serviceAccountToken=str(token))
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout, result.stderr) == (1, "no oauth found for token\n", "token is expired\n\n")
    await brev("login", "--api-key", "bak-x", "--org-id", "org-x")
    assert json.loads(brev.file("credentials.json").read_text())["access_token"] == "cluster.credential.x"
