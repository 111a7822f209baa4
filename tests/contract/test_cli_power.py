"""`delete`, `stop`, `start`, `reset`."""

from __future__ import annotations

import json
import re

import pytest

from tests.contract.program import KEYS, Case, Program, where

_NOT_FOUND = r"1 error occurred:\n\t\* \[error\] \n.*: instance with id/name {} not found\n\n\n"
_NO_STOP = '1 error occurred:\n\t* instance "{}" does not support stop.\n\n\n'


async def test_delete_prints_the_names_once_all_are_accepted(brev: Program) -> None:
    first = await brev.machine("tj-1")
    await brev.machine("tj-2")
    result = await brev("delete", first["id"], "tj-2")
    assert (result.rc, result.stdout, result.stderr) == (0, f"{first['id']}\ntj-2\n", "")
    await brev.simulator.wait_for(lambda machines: not machines)


async def test_delete_is_not_gone_and_a_second_one_is_accepted(brev: Program) -> None:
    await brev.simulator.set_latency(delete=60)
    await brev.machine()
    for _ in range(2):
        assert (await brev("delete", "tj-1")).rc == 0
    (row,) = (await brev("ls", "--json")).rows()
    assert row["status"] == "DELETING"
    await brev.simulator.advance(61)
    assert (await brev("ls", "--json")).rows() == []


@pytest.mark.parametrize("verb", ["delete", "stop"])
@where(lambda rules: rules.stop_unknown_fails)
async def test_an_unknown_name_is_a_noisy_exit_1(brev: Program, verb: str) -> None:
    Case("", [], 1, "", _NOT_FOUND.format("nope")).check(await brev(verb, "nope"))


async def test_one_unknown_name_hides_the_accepted_one(brev: Program) -> None:
    await brev.machine()
    result = await brev("delete", "tj-1", "nope")
    Case("", [], 1, "", _NOT_FOUND.format("nope")).check(result)
    await brev.simulator.wait_for(lambda machines: not machines)


async def test_a_refusal_of_the_service_is_passed_on(brev: Program) -> None:
    await brev.machine()
    await brev.simulator.add_fault({"match": {"verb": "delete"}, "action": {"type": "refuse", "message": "not now"}})
    result = await brev("delete", "tj-1")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith(": not now\n\n\n\n")
    assert [machine["status"] for machine in await brev.simulator.machines()] == ["RUNNING"]


async def test_a_name_may_come_from_stdin(brev: Program) -> None:
    await brev.machine()
    result = await brev("delete", stdin=b"tj-1\n")
    assert (result.rc, result.stdout) == (0, "tj-1\n")


@KEYS
async def test_with_a_jwt_a_teammates_machine_is_not_found(brev: Program) -> None:
    teammate = await brev.simulator.jwt(user="user-2")
    brev.file("credentials.json").write_text(json.dumps({"access_token": teammate, "refresh_token": "auto-login"}))
    brev.file("active_org.json").unlink()
    await brev.machine("theirs")
    await brev.log_in_by_jwt()
    Case("", [], 1, "", _NOT_FOUND.format("theirs")).check(await brev("delete", "theirs"))
    brev.simulator.log_in(brev.home)
    assert (await brev("delete", "theirs")).rc == 0


async def test_a_deletion_that_never_ends_stays_deleting(brev: Program) -> None:
    await brev.machine()
    await brev.simulator.add_fault({"match": {"verb": "delete"}, "action": "stuck"})
    assert (await brev("delete", "tj-1")).rc == 0
    await brev.simulator.advance(100_000)
    assert [machine["status"] for machine in await brev.simulator.machines()] == ["DELETING"]


async def test_stop_keeps_the_disk_and_start_boots_anew(brev: Program) -> None:
    machine = await brev.machine()
    assert (await brev("stop", "tj-1")).stdout == "tj-1\n"
    await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "STOPPED")
    started = await brev("start", "tj-1", "-d")
    text = "Instance tj-1 is starting. \nNote: this can take about a minute. Run 'brev ls' to check status\n\ntj-1\n"
    assert (started.rc, started.stdout, started.stderr) == (0, text, "")
    (again,) = await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "RUNNING")
    assert (again["id"], again["home"]) == (machine["id"], machine["home"])
    assert again["bootId"] != machine["bootId"]


@where(lambda rules: rules.stop_checks_stoppable)
async def test_stop_of_a_type_that_cannot_stop_is_refused_here(brev: Program) -> None:
    await brev.machine("ns", "latitude_c2")
    result = await brev("stop", "ns")
    assert (result.rc, result.stdout, result.stderr) == (1, "", _NO_STOP.format("ns"))


async def test_start_of_a_running_machine_fails(brev: Program) -> None:
    await brev.machine()
    Case("", [], 1, "", re.escape("Instance is not stopped status=RUNNING\n")).check(await brev("start", "tj-1", "-d"))


async def test_start_of_an_unknown_name_is_exit_0_and_does_nothing(brev: Program) -> None:
    result = await brev("start", "nope", "-d")
    assert (result.rc, result.stdout) == (0, "tried to start with local path but path not found\nnope\n")
    assert await brev.simulator.machines() == []


async def test_start_takes_only_its_first_argument(brev: Program) -> None:
    for name in ("a", "b"):
        await brev.machine(name)
        await brev("stop", name)
    await brev.simulator.wait_for(lambda rows: all(row["status"] == "STOPPED" for row in rows))
    assert (await brev("start", "a", "b", "-d")).rc == 0
    rows = await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "RUNNING")
    assert [row["status"] for row in rows] == ["RUNNING", "STOPPED"]


async def test_reset_says_so_and_an_unknown_name_fails_without_noise(brev: Program) -> None:
    await brev.machine()
    text = "Instance tj-1 is resetting.\nNote: this can take a few seconds. Run 'brev ls' to check status\n"
    result = await brev("reset", "tj-1")
    assert (result.rc, result.stdout) == (0, text)
    unknown = await brev("reset", "nope")
    assert (unknown.rc, unknown.stderr) == (1, "instance with id/name nope not found\n")
