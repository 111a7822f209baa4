"""What nobody has seen: the fourth generation and the program that the seeds describe, each in its variants."""

from __future__ import annotations

import json

import pytest

from tests.contract.program import NEEDS_OURS, REAL, Program, where

pytestmark = pytest.mark.skipif(REAL, reason=NEEDS_OURS)

CODES = where(lambda rules: rules.exec_tells_code)
CERTIFICATES = where(lambda rules: rules.ssh_certificates)
SLEEPS_ON = where(lambda rules: not rules.exec_wakes)
SEEDS = where(lambda rules: rules.placement_flags)
PROMPT = "You are currently logged out, would you like to log in? [Y/n]: "
ORG = "org-2fSimAcme0000000000000001"


@CODES
@pytest.mark.parametrize("code", [2, 3, 254])
async def test_the_remote_exit_code_is_that_of_exec_and_nothing_runs_twice(brev: Program, code: int) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", f"echo out; exit {code}")
    assert (result.rc, result.stdout, result.stderr) == (code, "out\n", f"command exited with status {code}\n")
    assert len(await brev.simulator.commands()) == 1


@SLEEPS_ON
async def test_exec_does_not_start_a_stopped_machine(brev: Program) -> None:
    machine = await brev.reachable()
    await brev.simulator.event(machine["id"], "stopped")
    result = await brev("exec", "tj-1", "echo hi")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("instance tj-1 is not running, please start it with: brev start tj-1\n")
    assert [row["status"] for row in await brev.simulator.machines()] == ["STOPPED"]


@CERTIFICATES
async def test_ssh_needs_a_login_for_its_certificate(brev: Program) -> None:
    await brev.reachable()
    config = brev.file("ssh_config").read_text()
    assert config.count('brev mint-cert tj-1"\n') == 1
    assert (await brev("exec", "tj-1", "echo hi")).stdout == "hi\ntj-1\n"
    assert brev.file("ssh-certs/tj-1").exists()
    brev.log_out()
    result = await brev("exec", "tj-1", "echo hi")
    assert (result.rc, result.stdout) == (1, PROMPT)
    assert "Permission denied (publickey)" in result.stderr
    assert len(await brev.simulator.commands()) == 1


@SEEDS
async def test_the_seeds_program_names_no_release(brev: Program) -> None:
    result = await brev("--version", "--no-check-latest")
    assert (result.rc, "Current Version" in result.stdout) == (0, False)


@SEEDS
async def test_organisations_have_cloud_credentials_and_machines_their_group(brev: Program) -> None:
    await brev.log_in_by_jwt()
    result = (await brev("orgs", "--json")).json()
    assert result[0]["cloudCredentials"][0]["id"] == "cc-1"
    assert ("is_active" in result[0]) == brev.generation.rules.orgs_say_active
    await brev.machine()
    assert (await brev("ls", "--json")).rows()[0]["workspaceGroupId"] == "wg-aws"


@SEEDS
async def test_a_create_with_several_credentials_needs_a_placement(brev: Program) -> None:
    places = {"cloudCredentials": ["cc-1", "cc-2"], "workspaceGroups": ["wg-a", "wg-b"]}
    await brev.simulator.settings(placement={ORG: places})
    refused = await brev.create("tj-1", "g6e.xlarge")
    assert refused.rc == 1
    assert "placement error: cloudCredId / workspaceGroupId required" in refused.stderr
    half = await brev.create("tj-1", "g6e.xlarge", "--cloud-cred-id", "cc-2")
    assert "placement error: workspaceGroupId required" in half.stderr
    assert await brev.simulator.machines() == []
    made = await brev.create("tj-1", "g6e.xlarge", "--cloud-cred-id", "cc-2", "--workspace-group-id", "wg-b")
    assert made.rc == 0
    (row,) = await brev.simulator.machines()
    assert (row["cloudCredential"], row["workspaceGroup"]) == ("cc-2", "wg-b")


@SEEDS
async def test_gpu_and_count_choose_the_cheapest_type_that_has_exactly_them(brev: Program) -> None:
    assert (await brev("create", "tj-1", "--gpu", "L40S:1")).rc == 0
    assert [row["type"] for row in await brev.simulator.machines()] == ["massedcompute_L40S"]
    none = await brev("create", "tj-2", "--gpu", "L40S:16")
    assert (none.rc, none.stderr) == (
        1,
        "no GPU instances match the specified filters. Try 'brev search' to see available options\n",
    )


@SEEDS
async def test_words_after_two_dashes_are_one_command(brev: Program) -> None:
    await brev.reachable()
    assert (await brev("exec", "tj-1", "--", "echo", "-n", "a", "b")).stdout == "a btj-1\n"
    assert (await brev("exec", "tj-1", "--", "true")).rc == 0


@SEEDS
async def test_exec_without_a_login_prompts_and_runs_nothing(brev: Program) -> None:
    await brev.reachable()
    brev.log_out()
    result = await brev("exec", "tj-1", "--", "true")
    assert (result.rc, result.stdout) == (1, PROMPT)
    assert result.stderr.endswith("EOF\n")
    assert await brev.simulator.commands() == []


@where(lambda rules: rules.api_key_env)
async def test_a_key_in_the_environment_is_an_alarm_since_it_would_win(brev: Program) -> None:
    brev.extra["BREV_API_KEY"] = "bak-other"
    await brev("ls", "--json")
    assert {alarm["kind"] for alarm in await brev.simulator.alarms()} == {"key-in-environment"}


@SEEDS
async def test_a_login_by_the_seeds_own_words_works(brev: Program) -> None:
    brev.log_out()
    assert (await brev("login", "--token", await brev.simulator.jwt())).rc == 0
    assert json.loads(brev.file("credentials.json").read_text())["refresh_token"] == "auto-login"
    assert (await brev("ls")).rc == 0
