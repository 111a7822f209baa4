"""Faults by rule: each reaches the caller as its name says."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from controller.sandbox.brevsim.harness import SimulatorError
from tests.contract.program import NEEDS_OURS, REAL, Program

pytestmark = pytest.mark.skipif(REAL, reason=NEEDS_OURS)


async def test_a_call_fails_with_what_the_rule_says(brev: Program) -> None:
    action = {"type": "fail", "rc": 7, "stdout": "half", "stderr": "boom\n"}
    await brev.simulator.add_fault({"match": {"verb": "ls"}, "action": action})
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout, result.stderr) == (7, "half", "boom\n")
    assert (await brev("ls", "--json")).rc == 0


async def test_only_the_nth_call_of_a_name_fails(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "delete", "name": "a*", "nth": 2}, "action": "fail"})
    for name in ("a1", "b1", "a2"):
        await brev.machine(name)
    assert [(await brev("delete", name)).rc for name in ("a1", "b1", "a2", "a2")] == [0, 0, 1, 0]


async def test_exit_0_claims_a_success_that_did_not_happen(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "exit0", "stdout": "tj-1\n"}})
    result = await brev("create", "tj-1", "--type", "e2-small", "-d")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert await brev.simulator.machines() == []


async def test_half_of_the_json_is_written(brev: Program) -> None:
    whole = (await brev("search", "--json")).stdout
    await brev.simulator.add_fault({"match": {"verb": "search"}, "action": "half_write"})
    result = await brev("search", "--json")
    assert (result.rc, result.stdout) == (0, whole[: len(whole) // 2])


async def test_a_process_may_die_of_a_signal_after_its_work(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": "die"})
    result = await brev("create", "tj-1", "--type", "e2-small", "-d")
    assert (result.rc, result.stdout) == (-signal.SIGKILL, "")
    assert [machine["name"] for machine in await brev.simulator.machines()] == ["tj-1"]


@pytest.mark.parametrize(("when", "machines"), [("before", 0), ("after", 1)])
async def test_a_call_hangs_until_it_is_killed(brev: Program, when: str, machines: int) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "hang", "when": when}})
    process = brev.spawn("create", "tj-1", "--type", "e2-small", "-d")
    if when == "after":
        await brev.simulator.wait_for(lambda rows: len(rows) == 1)
    else:
        await brev.simulator.wait_for_call(lambda call: call["argv"][0] == "create")
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    await brev.simulator.wait_for_call(lambda call: call["rc"] == -signal.SIGKILL)
    assert len(await brev.simulator.machines()) == machines


async def test_a_killed_call_does_nothing_more(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": {"type": "delay", "seconds": 1000}})
    process = brev.spawn("create", "tj-1", "--type", "e2-small", "-d")
    await brev.simulator.wait_for_call(lambda call: call["argv"][0] == "create")
    os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    await brev.simulator.wait_for_call(lambda call: call["rc"] == -signal.SIGKILL)
    await brev.simulator.advance(2000)
    assert await brev.simulator.machines() == []


@pytest.mark.parametrize("action", [{"type": "lost_rows"}, {"type": "lost_rows", "hide": "a*"}])
async def test_rows_get_lost_for_one_look(brev: Program, action: dict[str, str]) -> None:
    await brev.machine("a1")
    await brev.simulator.add_fault({"match": {"verb": "list"}, "action": action})
    assert (await brev("ls", "--json")).rows() == []
    assert len((await brev("ls", "--json")).rows()) == 1


async def test_a_machine_is_stuck_in_deploying(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": "stuck"})
    await brev("create", "tj-1", "--type", "e2-small", "-d")
    await brev.simulator.advance(100_000)
    assert [machine["status"] for machine in await brev.simulator.machines()] == ["DEPLOYING"]
    assert (await brev("delete", "tj-1")).rc == 0
    assert await brev.simulator.machines() == []


async def test_a_machine_vanishes_with_its_processes(brev: Program) -> None:
    machine = await brev.reachable()
    process = brev.spawn("exec", "tj-1", "echo on; sleep 1000")
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"on\n"
    await brev.simulator.event(machine["id"], "vanish")
    _, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1
    assert b"closed by remote host" in err
    assert (await brev("ls", "--json")).rows() == []


async def test_a_build_fails(brev: Program) -> None:
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": "build_failed"})
    await brev.machine()
    (row,) = (await brev("ls", "--json")).rows()
    assert (row["status"], row["build_status"], row["shell_status"]) == ("RUNNING", "CREATE_FAILED", "NOT READY")


@pytest.mark.parametrize(
    "rule",
    [
        {"match": {"verb": "ls"}, "action": "explode"},
        {"match": {"verbs": "ls"}, "action": "fail"},
        {"match": {}, "action": "fail", "often": True},
    ],
)
async def test_a_rule_that_no_code_honours_is_refused(brev: Program, rule: dict[str, object]) -> None:
    with pytest.raises(SimulatorError, match="unknown"):
        await brev.simulator.add_fault(rule)


async def test_a_command_without_rules_is_an_alarm_and_no_success(brev: Program) -> None:
    result = await brev("port-forward", "tj-1")
    assert result.rc == 70
    assert [alarm["kind"] for alarm in await brev.simulator.alarms()] == ["unmodelled"]
