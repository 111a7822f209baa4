"""What becomes of an object whose machine is stopped, vanishes, fails or turns unhealthy."""

from __future__ import annotations

from typing import Any

from controller.api.meta import Kind
from tests.integration.bench import TYPE, Bench, Gate, attempt_of, condition, gone, is_true, phase, status_of


async def _ready(bench: Bench, name: str = "box", *types: str) -> dict[str, Any]:
    """The machine of a new BrevInstance."""
    await bench.apply(bench.instance(name, *types))
    body = await bench.until(Kind.INSTANCE, name, phase("Ready"))
    [row] = [row for row in await bench.machines() if row["name"] == status_of(body)["brevName"]]
    return row


async def _list_after(bench: Bench, count: int = 3) -> None:
    """Until the operator has asked for this many more lists of machines."""
    for _ in range(count):
        last = max(call["startedAt"] for call in await bench.calls("ls"))
        await bench.called(
            lambda call, last=last: call["argv"][0] == "ls" and call["startedAt"] > last  # type: ignore[misc]
        )


async def _calls_to(bench: Bench, machine: str) -> list[list[str]]:
    """All calls that name a machine or could start one."""
    found = [call["argv"] for call in await bench.calls("exec", "copy", "refresh", "start", "stop", "reset")]
    return [argv for argv in found if argv[0] not in ("exec", "copy") or machine in argv[1] or machine in argv[-1]]


async def test_a_stopped_machine_is_told_and_never_woken(own: Bench) -> None:
    row = await _ready(own)
    await own.brev.event(row["id"], "stopped")
    body = await own.until(Kind.INSTANCE, "box", is_true("Stalled", "MachineStopped"))
    assert condition(body, "Reachable")["status"] == "False"
    assert "brev start" in condition(body, "Stalled")["message"], "a next step"
    before = await _calls_to(own, row["name"])
    await _list_after(own)
    assert await _calls_to(own, row["name"]) == before
    [stopped] = await own.machines()
    assert (stopped["status"], stopped["boots"]) == ("STOPPED", 1)
    await own.brev.event(row["id"], "running")
    await own.until(Kind.INSTANCE, "box", phase("Ready"))
    await own.delete(Kind.INSTANCE, "box")
    await own.until(Kind.INSTANCE, "box", gone)
    assert await own.machines() == []


async def test_the_machine_of_a_running_job_is_not_woken_and_the_job_says_so(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("stopped", gate.script))
    await own.until(Kind.JOB, "stopped", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "stopped")
    job = await own.until(Kind.JOB, "stopped", is_true("Unreachable"))
    assert condition(job, "Ready")["status"] != "True"
    await own.until(Kind.INSTANCE, attempt_of(job)["instance"], is_true("Stalled", "MachineStopped"))
    await _list_after(own, 1)
    before = await _calls_to(own, row["name"])
    await _list_after(own)
    assert await _calls_to(own, row["name"]) == before
    [stopped] = await own.machines()
    assert (stopped["status"], stopped["boots"]) == ("STOPPED", 1)


async def test_a_run_on_a_stopped_machine_is_given_up_at_its_deadline(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("stopped", gate.script, deadlines={"unreachable": "1s"}))
    await own.until(Kind.JOB, "stopped", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "stopped")
    job = await own.ended("stopped")
    assert (status_of(job)["phase"], attempt_of(job)["reason"]) == ("Failed", "Unreachable")
    assert await own.machines() == []
    assert await own.calls("start") == []
    assert gate.runs == 1


async def test_a_stopped_machine_can_be_deleted_without_being_started(own: Bench) -> None:
    row = await _ready(own)
    await own.brev.event(row["id"], "stopped")
    await own.until(Kind.INSTANCE, "box", is_true("Stalled", "MachineStopped"))
    await own.delete(Kind.INSTANCE, "box")
    await own.until(Kind.INSTANCE, "box", gone)
    assert await own.machines() == []
    assert await own.calls("start") == []


async def test_a_vanished_machine_is_told_and_not_replaced(own: Bench) -> None:
    row = await _ready(own)
    await own.brev.event(row["id"], "vanish")
    body = await own.until(Kind.INSTANCE, "box", is_true("Stalled", "MachineVanished"))
    assert condition(body, "Ready")["status"] == "False"
    await _list_after(own)
    assert len(await own.bill()) == 1, "what ran on it is lost; a new machine would not have it"
    await own.delete(Kind.INSTANCE, "box")
    await own.until(Kind.INSTANCE, "box", gone)


async def test_a_job_whose_machine_vanishes_fails_with_that_reason(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("lost", gate.script))
    await own.until(Kind.JOB, "lost", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "vanish")
    job = await own.ended("lost")
    assert (status_of(job)["phase"], attempt_of(job)["reason"]) == ("Failed", "MachineVanished")
    assert gate.runs == 1
    assert len(await own.bill()) == 1


async def test_one_list_without_the_machine_is_no_verdict(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("flicker", gate.script))
    await own.until(Kind.JOB, "flicker", phase("Running"))
    await own.brev.add_fault({"match": {"verb": "list", "count": 1}, "action": {"type": "lost_rows"}})
    await _list_after(own, 2)
    gate.open()
    job = await own.ended("flicker")
    assert status_of(job)["phase"] == "Succeeded"


async def test_a_failed_list_concludes_nothing(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("blind", gate.script))
    await own.until(Kind.JOB, "blind", phase("Running"))
    fault = {"type": "half_write", "fraction": 0.4}
    await own.brev.add_fault({"match": {"verb": "ls", "count": 5}, "action": fault})
    await _list_after(own, 6)
    gate.open()
    job = await own.ended("blind")
    assert status_of(job)["phase"] == "Succeeded"
    assert len(await own.bill()) == 1


async def test_a_machine_that_fails_to_deploy_is_deleted_and_the_next_candidate_taken(own: Bench) -> None:
    await own.brev.add_fault({"match": {"verb": "create", "count": 1}, "action": {"type": "failure"}})
    job = await own.run(own.job("second", instanceTemplate={"spec": own.instance_spec("g6.xlarge", TYPE)}))
    assert status_of(job)["phase"] == "Succeeded"
    assert status_of(job)["machine"]["type"] == TYPE
    lines = await own.bill()
    assert [line["type"] for line in lines] == ["g6.xlarge", TYPE]
    assert all(line["closedAt"] is not None for line in lines)
    assert lines[0]["closedAt"] <= lines[1]["openedAt"], "never two at a time"


async def test_a_ready_machine_that_fails_is_a_verdict(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("broken", gate.script))
    await own.until(Kind.JOB, "broken", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "failure", "the GPU fell off the bus")
    job = await own.ended("broken")
    assert (status_of(job)["phase"], attempt_of(job)["reason"]) == ("Failed", "MachineFailed")
    [line] = await own.bill()
    assert line["closedAt"] is not None


async def test_an_unhealthy_machine_that_answers_is_used(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("pale", gate.script))
    await own.until(Kind.JOB, "pale", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "unhealthy")
    await _list_after(own)
    gate.open()
    job = await own.ended("pale")
    assert status_of(job)["phase"] == "Succeeded"
    assert gate.runs == 1


async def test_a_lost_connection_during_the_run_is_no_verdict(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("patient", gate.script))
    await own.until(Kind.JOB, "patient", phase("Running"))
    rule = await own.brev.add_fault({"match": {"verb": "exec", "every": True}, "action": {"type": "ssh_refused"}})
    assert rule
    await own.until(Kind.JOB, "patient", is_true("Unreachable"))
    await own.brev.clear_faults()
    job = await own.until(Kind.JOB, "patient", lambda body: condition(body, "Unreachable").get("status") == "False")
    assert status_of(job)["phase"] == "Running"
    gate.open()
    job = await own.ended("patient")
    assert status_of(job)["phase"] == "Succeeded"
    assert gate.runs == 1


async def test_a_half_copied_delivery_is_made_again_and_runs_once(own: Bench, gate: Gate) -> None:
    await own.brev.add_fault({"match": {"verb": "copy", "count": 1}, "action": {"type": "partial_copy"}})
    gate.open()
    job = await own.run(own.job("copied", gate.script))
    assert status_of(job)["phase"] == "Succeeded"
    assert gate.runs == 1
    assert len(await own.calls("copy")) == 2


async def test_a_start_whose_answer_is_lost_is_not_repeated(own: Bench, gate: Gate) -> None:
    """The connection breaks after the command began: the runner's lock decides, not the CLI's exit code."""
    await own.brev.add_fault({"match": {"verb": "exec", "nth": 2}, "action": {"type": "drop", "after": 0.05}})
    gate.open()
    job = await own.run(own.job("dropped", gate.script))
    assert status_of(job)["phase"] == "Succeeded"
    assert gate.runs == 1


async def test_a_rebooted_machine_loses_the_run_and_it_is_not_started_again(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("rebooted", gate.script))
    await own.until(Kind.JOB, "rebooted", phase("Running"))
    [row] = await own.machines()
    await own.brev.event(row["id"], "stopped")
    await own.until(Kind.JOB, "rebooted", is_true("Unreachable"))
    await own.brev.event(row["id"], "running")
    job = await own.ended("rebooted")
    assert (status_of(job)["phase"], attempt_of(job)["reason"]) == ("Failed", "RunLost")
    assert gate.runs == 1
    assert await own.machines() == []
