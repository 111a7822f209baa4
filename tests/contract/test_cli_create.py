"""`create`: what the exit code says, what it does not say, and what is left behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.contract.program import Case, Program, where

_HEAD = (
    r"Attempting to create 1 instance\(s\) with 1 parallel attempts\nInstance types to try: {}\n\n"
    r"Trying {} for 1 instance\(s\)\.\.\.\n"
)
_TAIL = r"\n\nWarning: Only created 0/1 instances\ncould only create 0/1 instances\n"


def head(machine_type: str) -> str:
    return _HEAD.format(machine_type, machine_type)


def refused(text: str) -> str:
    """A POST that the service refuses: noise, its text, and the two closing lines."""
    return (
        head("g6e.xlarge")
        + r"\[Worker 1\] Trying g6e.xlarge for instance 'tj-1'\.\.\.\n"
        + r"\[Worker 1\] g6e.xlarge Failed: \[error\] \n.*: "
        + text
        + r".*"
        + _TAIL
    )


async def names(brev: Program) -> list[str]:
    return [machine["name"] for machine in await brev.simulator.machines()]


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "accepted",
            ["create", "tj-1", "--type", "g6e.xlarge", "-d"],
            0,
            "tj-1\n",
            head("g6e.xlarge") + r"\[Worker 1\] Trying .*\n\[Worker 1\] g6e.xlarge Success! Created instance 'tj-1'\n",
            source="§6",
        ),
        Case(
            "unknown type",
            ["create", "tj-1", "--type", "bogus", "-d"],
            1,
            "",
            head("bogus")
            + r'Skipping: instance type "bogus" is not a recognized type; run \'brev search\' to see available types\n'
            + r"\nType bogus had failures, trying next type\.\.\.\n"
            + _TAIL,
            source="A5",
            fits=lambda rules: rules.type_check,
        ),
        Case(
            "sold out",
            ["create", "tj-1", "--type", "gpu_8x_b200", "-d"],
            1,
            "",
            head("gpu_8x_b200") + r"Skipping: .* is currently unavailable \(no capacity\); try again later .*" + _TAIL,
            source="A5",
            fits=lambda rules: rules.type_check,
        ),
        Case("odd name", ["create", "Foo.Bar_1", "--type", "e2-small", "-d"], 0, "Foo.Bar_1\n", ".*", source="§6"),
        Case("second word ignored", ["create", "x", "y", "--type", "e2-small", "-d"], 0, "x\n", ".*", source="§6"),
        Case("disk ignored", ["create", "x", "--type", "e2-small", "--min-disk", "900", "-d"], 0, "x\n", ".*"),
        Case("two", ["create", "tj", "--type", "e2-small", "--count", "2", "-d"], 0, "tj-1\ntj-2\n", ".*", source="§6"),
    ],
    ids=str,
)
async def test_create_says_what_was_measured(brev: Program, case: Case) -> None:
    await case.run(brev)
    assert await names(brev) == [line for line in case.stdout.splitlines() if line]


async def test_a_duplicate_name_is_refused_and_nothing_is_added(brev: Program) -> None:
    await brev.machine()
    result = await brev("create", "tj-1", "--type", "g6e.xlarge", "-d")
    assert (result.rc, result.stdout) == (1, "")
    assert "duplicate workspace with name tj-1\n" in result.stderr
    assert (
        "Error: workspace 'tj-1' already exists. Use a different name or delete the existing workspace\n"
        in result.stderr
    )
    assert result.stderr.endswith("could only create 0/1 instances\n")
    assert await names(brev) == ["tj-1"]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"status": 400, "message": "quota exceeded for g6e.xlarge"}, "quota exceeded for g6e.xlarge\n\n"),
        ({"status": 500, "body": "oops"}, ".* 500 Internal Server Error oops\n"),
        ({"status": 401, "message": "unauthorized"}, "unauthorized\n\n"),
    ],
)
async def test_a_refusal_of_the_service_is_shown_with_noise(
    brev: Program, action: dict[str, object], text: str
) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "refuse", **action}})
    result = await brev("create", "tj-1", "--type", "g6e.xlarge", "-d")
    Case("", [], 1, "", refused(text)).check(result)
    assert await names(brev) == []


async def test_an_organisation_without_credits_is_refused(brev: Program) -> None:
    await brev.simulator.settings(credits={brev.simulator.org_id: False})
    result = await brev("create", "tj-1", "--type", "g6e.xlarge", "-d")
    assert result.rc == 1
    assert "there was issues with your credits You have run out of credits" in result.stderr


async def test_the_next_type_is_tried_after_a_refusal(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "refuse", "message": "quota"}})
    result = await brev("create", "tj-1", "--type", "g6e.xlarge,g5.xlarge", "-d")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert [machine["type"] for machine in await brev.simulator.machines()] == ["g5.xlarge"]


async def test_an_accepted_create_that_answers_502_fails_and_leaves_the_machine(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": "accept_then_fail"})
    result = await brev("create", "tj-1", "--type", "g6e.xlarge", "-d")
    assert (result.rc, result.stdout) == (1, "")
    assert "502 Bad Gateway bad gateway" in result.stderr
    assert await names(brev) == ["tj-1"]


async def test_a_create_that_is_killed_while_the_post_is_pending_leaves_what_the_service_accepted(
    brev: Program,
) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "accept_then_fail", "die": True}})
    result = await brev("create", "tj-1", "--type", "g6e.xlarge", "-d")
    assert result.rc != 0
    assert await names(brev) == ["tj-1"]


async def test_a_partial_count_fails_silently_on_stdout_and_keeps_what_was_made(brev: Program) -> None:
    await brev.simulator.add_fault(
        {"match": {"verb": "create", "name": "tj-1"}, "action": {"type": "refuse", "message": "quota exceeded"}}
    )
    result = await brev("create", "tj", "--type", "e2-small", "--count", "3", "-d")
    assert (result.rc, result.stdout) == (1, "")
    assert "Successfully created instances:\n  - tj-2 (ID: " in result.stderr
    assert result.stderr.endswith("could only create 2/3 instances\n")
    assert await names(brev) == ["tj-2", "tj-3"]


async def test_waiting_ends_with_ready_at_running_whatever_the_build_says(brev: Program) -> None:
    await brev.simulator.set_latency(build=10_000)
    result = await brev("create", "tj-1", "--type", "e2-small")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert result.stderr.endswith(
        "\nWaiting for instance(s) to be ready...\nYou can safely ctrl+c to exit\n  tj-1: Ready\n"
    )


@where(lambda rules: rules.failure_text)
async def test_a_failure_while_waiting_is_exit_0_with_the_reason(brev: Program) -> None:
    await brev.simulator.add_fault(
        {"match": {"verb": "create"}, "action": {"type": "failure", "message": "out of quota", "after": 0}}
    )
    result = await brev("create", "tj-1", "--type", "e2-small")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert result.stderr.endswith("  tj-1: instance tj-1 failed: out of quota\n")
    (row,) = (await brev("ls", "--json")).rows()
    assert (row["status"], row["shell_status"]) == ("FAILURE", "NOT READY")


async def test_a_time_out_while_waiting_is_exit_0(brev: Program) -> None:
    await brev.simulator.set_latency(deploy=10_000)
    result = await brev("create", "tj-1", "--type", "e2-small", "--timeout", "0")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert result.stderr.endswith("  tj-1: Timeout waiting for ready state\n")


async def test_a_json_row_on_stdin_chooses_type_and_disk(brev: Program, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([{"type": "g6e.xlarge", "target_disk_gb": 500}]))
    with rows.open("rb") as stdin:
        process = brev.spawn("create", "x", "-d", stdin=stdin)
        out, _ = await asyncio.to_thread(process.communicate, None, 60)
    assert (process.returncode, out) == (0, b"x\n")
    (machine,) = await brev.simulator.machines()
    assert (machine["type"], machine["disk"]) == ("g6e.xlarge", "500Gi")


async def test_without_a_type_the_cheapest_that_passes_the_defaults_is_taken(brev: Program) -> None:
    result = await brev("create", "x", "--dry-run")
    assert result.rc == 0
    shown = result.stdout.strip().split(", ")
    assert shown[0] == "g6.xlarge (500GB disk)"
    assert not any("T4" in item or "massedcompute" in item for item in shown)


async def test_filters_alone_search_without_a_boot_limit(brev: Program) -> None:
    result = await brev("create", "x", "-g", "L40S", "--dry-run")
    assert result.stdout == "massedcompute_L40S (500GB disk), g6e.xlarge (500GB disk), g6e.xlarge (500GB disk)\n"


async def test_an_open_pipe_on_stdin_is_waited_for(brev: Program) -> None:
    process = brev.spawn("create", "x", "--type", "e2-small", "-d", stdin=subprocess.PIPE)
    assert process.stdin is not None
    # It can only go on when the pipe is closed, so nothing exists before that.
    assert await names(brev) == []
    assert process.poll() is None
    out, _ = await asyncio.to_thread(process.communicate, b"", 60)
    assert (process.returncode, out) == (0, b"x\n")
