"""A list that is wrong for a while, as `null` with exit code 0 is: nothing is let go, and nothing is left behind."""

from __future__ import annotations

from typing import Any

from controller.api.meta import Kind
from tests.integration.bench import Bench, Gate, attempt_of, condition, gone, is_true, phase, status_of

NOTHING: dict[str, Any] = {"match": {"verb": "list", "every": True}, "action": {"type": "lost_rows"}}


async def _hidden(own: Bench) -> str:
    """A machine that was ready, and that no list has had for so long that it counts as vanished; its id."""
    await own.apply(own.instance("box"))
    await own.until(Kind.INSTANCE, "box", is_true("Ready"))
    [row] = await own.machines()
    await own.brev.add_fault(NOTHING)
    await own.until(Kind.INSTANCE, "box", is_true("Stalled", "MachineVanished"))
    return str(row["id"])


async def test_a_machine_that_a_wrong_list_hides_is_deleted_with_its_object(own: Bench) -> None:
    machine = await _hidden(own)
    await own.delete(Kind.INSTANCE, "box")
    call = await own.brev.wait_for_call(lambda call: call["argv"] == ["delete", machine] and call["rc"] is not None, 60)
    assert call["rc"] == 1, "the CLI looks the machine up in the same wrong list"
    await own.brev.clear_faults()
    await own.until(Kind.INSTANCE, "box", gone)
    [line] = await own.bill()
    assert line["closedAt"] is not None, "no machine is left"


async def test_a_machine_that_comes_back_into_the_list_is_ready_again(own: Bench) -> None:
    machine = await _hidden(own)
    await own.brev.clear_faults()
    body = await own.until(Kind.INSTANCE, "box", is_true("Ready"))
    assert condition(body, "Stalled")["status"] == "False"
    assert (attempt_of(body)["brevID"], attempt_of(body).get("outcome")) == (machine, None)
    assert "endedAt" not in status_of(body)["cost"]
    assert len(await own.bill()) == 1


async def test_a_run_outlives_a_list_that_is_wrong_for_a_while(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("patient", gate.script))
    await own.until(Kind.JOB, "patient", phase("Running"))
    await own.brev.add_fault(NOTHING)
    await own.until(Kind.JOB, "patient", is_true("Unreachable"))
    await own.brev.clear_faults()
    gate.open()
    job = await own.ended("patient")
    assert (status_of(job)["phase"], gate.runs) == ("Succeeded", 1)
    assert condition(job, "Unreachable")["status"] == "False"
    assert await own.machines() == []
