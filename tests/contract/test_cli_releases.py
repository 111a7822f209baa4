"""What differs between releases (A1, A4, A5, A14, A29 and the table of generations)."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from controller.sandbox.brevsim import Profile
from tests.contract.program import NEEDS_OURS, REAL, Program

pytestmark = [pytest.mark.skipif(REAL, reason=NEEDS_OURS), pytest.mark.releases("v0.6.327")]

SECOND = {"v0.6.320", "v0.6.322"}
OLD = ["v0.6.320", "v0.6.322", "v0.6.323", "v0.6.324", "v0.6.325", "v0.6.326"]
ALL = [*OLD, "v0.6.327"]


async def use(brev: Program, release: str) -> None:
    await brev.simulator.reset(release=release, profile=Profile.instant())
    # Without this file a release of the second generation shows a menu.
    brev.simulator.log_in(brev.home)
    await brev.log_in_by_jwt()


@pytest.mark.parametrize("release", ALL)
async def test_the_version_is_printed(brev: Program, release: str) -> None:
    await use(brev, release)
    assert (await brev("--version", "--no-check-latest")).stdout == f"Current Version: {release}\n"


@pytest.mark.parametrize(
    ("release", "empty"),
    [(release, "null\n" if release in SECOND else '{\n  "workspaces": null\n}\n') for release in ALL],
)
async def test_the_list_has_its_releases_shape(brev: Program, release: str, empty: str) -> None:
    await use(brev, release)
    assert (await brev("ls", "--json")).stdout == empty
    await brev.machine()
    found = (await brev("ls", "--json")).json()
    rows = found if isinstance(found, list) else found["workspaces"]
    assert isinstance(found, list) == (release in SECOND)
    assert [row["name"] for row in rows] == ["tj-1"]


@pytest.mark.parametrize("release", ALL)
async def test_stopping_an_unknown_name_proves_nothing_on_old_releases(brev: Program, release: str) -> None:
    await use(brev, release)
    result = await brev("stop", "nope")
    assert (result.rc, result.stdout) == ((0, "nope\n") if release in {*SECOND, "v0.6.323"} else (1, ""))


@pytest.mark.parametrize("release", ALL)
async def test_a_failure_while_waiting_is_explained_from_324(brev: Program, release: str) -> None:
    await use(brev, release)
    await brev.simulator.add_fault(
        {"match": {"verb": "create"}, "action": {"type": "failure", "message": "out of quota", "after": 0}}
    )
    result = await brev("create", "t-1", "--type", "e2-small")
    silent = release in {*SECOND, "v0.6.323"}
    text = "Timeout waiting for ready state" if silent else "instance t-1 failed: out of quota"
    assert (result.rc, result.stderr.endswith(f"  t-1: {text}\n")) == (0, True)


@pytest.mark.parametrize("release", ALL)
async def test_only_the_newest_knows_an_unknown_type_by_itself(brev: Program, release: str) -> None:
    await use(brev, release)
    result = await brev("create", "t-1", "--type", "bogus", "-d")
    posts = [request for request in await brev.simulator.requests() if request["method"] == "POST"]
    assert (result.rc, len(posts)) == (1, 0 if release == "v0.6.327" else 1)
    assert ("is not a recognized type" in result.stderr) == (release == "v0.6.327")


@pytest.mark.parametrize("release", ALL)
async def test_api_keys_exist_from_324(brev: Program, release: str) -> None:
    await use(brev, release)
    result = await brev("login", "--api-key", "bak-x", "--org-id", "o")
    old = release in {*SECOND, "v0.6.323"}
    assert (result.rc, result.stderr) == ((1, "unknown flag: --api-key\n") if old else (0, ""))


@pytest.mark.parametrize("release", ["v0.6.326", "v0.6.327"])
async def test_stoppable_is_checked_here_from_327(brev: Program, release: str) -> None:
    await use(brev, release)
    await brev.machine("ns", "latitude_c2")
    before = len(await brev.simulator.requests())
    assert (await brev("stop", "ns")).rc == 1
    puts = [request for request in (await brev.simulator.requests())[before:] if request["method"] == "PUT"]
    assert len(puts) == (0 if release == "v0.6.327" else 1)


async def test_a_newcomer_of_322_gets_a_menu_and_exit_1_although_the_login_worked(brev: Program) -> None:
    await use(brev, "v0.6.322")
    brev.file("onboarding_step.json").unlink()
    result = await brev("login", "--token", await brev.simulator.jwt())
    assert (result.rc, result.stderr) == (1, "")
    assert result.stdout.endswith("Prompt failed ^D\n")
    assert brev.file("credentials.json").exists()
    assert (await brev("--version", "--no-check-latest")).rc == 1


async def test_a_newcomers_list_of_322_has_text_after_the_json(brev: Program) -> None:
    await use(brev, "v0.6.322")
    brev.file("onboarding_step.json").unlink()
    result = await brev("ls", "--json")
    assert result.rc == 0
    assert result.stdout.startswith("null\nPlease create a running instance for this walk through. \n")


@pytest.mark.parametrize("argv", [("ls", "--json"), ("ls", "orgs", "--json")])
async def test_a_newcomers_list_of_322_never_ends_while_a_machine_runs(brev: Program, argv: tuple[str, ...]) -> None:
    await use(brev, "v0.6.322")
    await brev.machine()
    brev.file("onboarding_step.json").unlink()
    process = brev.spawn(*argv)
    assert process.stdout is not None
    read = b""
    while not read.endswith(b"run brev shell tj-1\n"):
        read += await asyncio.to_thread(process.stdout.read1, 65536)  # type: ignore[attr-defined]
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


async def test_step_1_makes_one_write_and_the_account_is_no_newcomer_any_more(brev: Program) -> None:
    await use(brev, "v0.6.322")
    assert (await brev("ls", "--json")).stdout == "null\n"
    brev.file("onboarding_step.json").unlink()
    assert (await brev("ls", "--json")).stdout == "null\n"
    puts = [request for request in await brev.simulator.requests() if request["method"] == "PUT"]
    assert len(puts) == 1


async def test_a_logged_out_exec_of_322_prompts_after_the_name(brev: Program) -> None:
    await use(brev, "v0.6.322")
    await brev.reachable()
    brev.log_out()
    result = await brev("exec", "tj-1", "echo hi")
    prompt = "You are currently logged out, would you like to log in? [Y/n]: "
    assert (result.rc, result.stdout) == (0, f"hi\ntj-1\n{prompt}")
    assert "ControlPath ~/.ssh/brev-control-%r@%h-%p\n" in brev.file("ssh_config").read_text()
