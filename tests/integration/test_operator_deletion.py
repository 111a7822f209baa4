"""Deleting an object in any phase, in any way, removes its machine; nothing is left and nothing is stuck."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.api.meta import FINALIZER, Kind
from controller.sandbox.controlplane import Cluster
from tests.integration.bench import Bench, Deploy, Gate, attempt_of, gone, phase, status_of
from tests.integration.deployment import Wishes
from tests.integration.kubeapi import Body
from tests.integration.slow_api import SlowApi

Reach = Callable[[Bench, str], Awaitable[object]]
"""Waits until the named object is where it is to be deleted."""

FOREVER = 86400.0


def _until(kind: Kind, wanted: Callable[[Body], object]) -> Reach:
    return lambda bench, name: bench.until(kind, name, lambda body: body is not None and wanted(body))


def _call(verb: str) -> Reach:
    return lambda bench, _: bench.called(lambda call: call["argv"][0] == verb and call["rc"] is None)


JOB_PHASES: dict[str, Reach] = {
    "at once": _until(Kind.JOB, lambda _: True),
    "finalizer": _until(Kind.JOB, lambda body: FINALIZER in body["metadata"].get("finalizers", [])),
    "intent": _until(Kind.JOB, attempt_of),
    "creating": _call("create"),
    "deploying": lambda bench, _: bench.seen(bool),
    "probing": _call("exec"),
    "copying": _call("copy"),
    "running": _until(Kind.JOB, phase("Running")),
}


async def _nothing_is_left(bench: Bench) -> None:
    """What was deleted is gone, so the invoice is final: every machine that ever was is closed."""
    assert await bench.api.list(Kind.JOB, bench.namespace) == []
    assert await bench.api.list(Kind.INSTANCE, bench.namespace) == []
    assert all(line["closedAt"] is not None for line in await bench.bill())
    assert await bench.machines() == []


async def _held_up(bench: Bench, where: str) -> None:
    """Make the world slow where the object is to be caught."""
    slow = {"creating": "create", "probing": "exec", "copying": "copy"}
    if where in slow:
        await bench.brev.add_fault({"match": {"verb": slow[where], "every": True}, "action": {"type": "hang"}})
    if where == "deploying":
        await bench.brev.set_latency(deploy=FOREVER)


@pytest.mark.parametrize("where", JOB_PHASES)
async def test_deleting_a_job_removes_its_machine(own: Bench, gate: Gate, where: str) -> None:
    await _held_up(own, where)
    await own.apply(own.job("doomed", gate.script))
    await JOB_PHASES[where](own, "doomed")
    await own.delete(Kind.JOB, "doomed")
    await own.until(Kind.JOB, "doomed", gone)
    await _nothing_is_left(own)
    assert gate.runs == (where == "running")


async def test_deleting_an_instance_removes_its_machine_in_each_phase(own: Bench) -> None:
    await own.apply(own.instance("pending", "no.such.type"))
    await own.until(Kind.INSTANCE, "pending", lambda body: FINALIZER in (body or {})["metadata"].get("finalizers", []))
    await own.apply(own.instance("ready"))
    await own.until(Kind.INSTANCE, "ready", phase("Ready"))
    await own.brev.set_latency(deploy=FOREVER)
    await own.apply(own.instance("deploying"))
    await own.until(Kind.INSTANCE, "deploying", lambda body: attempt_of(body).get("brevID"))
    for name in ("pending", "ready", "deploying"):
        await own.delete(Kind.INSTANCE, name)
    for name in ("pending", "ready", "deploying"):
        await own.until(Kind.INSTANCE, name, gone)
    await _nothing_is_left(own)


@pytest.mark.parametrize("propagation", ["Foreground", "Background", "Orphan"])
async def test_every_way_of_deleting_ends_without_machine(bench: Bench, gate: Gate, propagation: str) -> None:
    await bench.apply(bench.job("doomed", gate.script))
    job = await bench.until(Kind.JOB, "doomed", phase("Running"))
    await bench.delete(Kind.JOB, "doomed", propagation)
    await bench.until(Kind.JOB, "doomed", gone)
    await bench.until(Kind.INSTANCE, attempt_of(job)["instance"], gone)
    [line] = await bench.bill(status_of(job)["machine"]["brevName"])
    assert line["closedAt"] is not None


async def test_replace_by_force_runs_the_new_job_on_a_machine_of_its_own(bench: Bench, gate: Gate) -> None:
    await bench.apply(bench.job("twice", gate.script))
    first = await bench.until(Kind.JOB, "twice", phase("Running"))
    manifest = bench.job("twice", "echo the new one")
    kubectl = bench.deployment.cluster.kubectl
    arguments = ("replace", "--force", "--grace-period=0", "-f", "-")
    await asyncio.to_thread(kubectl, *arguments, input=json.dumps(manifest))
    second = await bench.until(
        Kind.JOB,
        "twice",
        lambda body: "completionTime" in status_of(body) and body["metadata"]["uid"] != first["metadata"]["uid"],  # type: ignore[index]
    )
    assert status_of(second)["logTail"] == "the new one\n"
    names = [status_of(job)["machine"]["brevName"] for job in (first, second)]
    assert names[0] != names[1]
    assert all(line["closedAt"] is not None for line in await bench.bill(*names))


async def test_deleting_a_namespace_removes_the_machines_in_it(bench: Bench, gate: Gate) -> None:
    await bench.apply(bench.job("doomed", gate.script))
    job = await bench.until(Kind.JOB, "doomed", phase("Running"))
    await bench.apply(bench.instance("spare"))
    instance = await bench.until(Kind.INSTANCE, "spare", phase("Ready"))
    await bench.api.send("DELETE", f"/api/v1/namespaces/{bench.namespace}")
    await bench.api.until("namespaces", "", bench.namespace, gone)
    names = [status_of(job)["machine"]["brevName"], status_of(instance)["brevName"]]
    lines = await bench.bill(*names)
    assert len(lines) == 2
    assert all(line["closedAt"] is not None for line in lines)


async def test_what_is_deleted_while_the_operator_is_down_is_removed_when_it_is_back(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("doomed", gate.script))
    await own.until(Kind.JOB, "doomed", phase("Running"))
    await own.apply(own.instance("spare"))
    await own.until(Kind.INSTANCE, "spare", phase("Ready"))
    own.operator.kill()
    await own.delete(Kind.JOB, "doomed")
    await own.delete(Kind.INSTANCE, "spare")
    assert len(await own.machines()) == 2
    own.deployment.restart()
    await own.until(Kind.JOB, "doomed", gone)
    await own.until(Kind.INSTANCE, "spare", gone)
    await _nothing_is_left(own)


async def test_a_create_whose_answer_is_lost_leaves_no_machine_behind_a_deletion(own: Bench) -> None:
    """The machine appears after the call was killed by the deletion, before anybody knew its id."""
    await own.brev.add_fault({"match": {"verb": "create", "every": True}, "action": {"type": "hang", "when": "after"}})
    await own.apply(own.job("doomed"))
    await own.seen(bool)
    await own.delete(Kind.JOB, "doomed")
    await own.until(Kind.JOB, "doomed", gone)
    assert len(await own.bill()) == 1
    await _nothing_is_left(own)


async def test_a_delete_that_fails_is_tried_until_the_machine_is_gone(own: Bench) -> None:
    await own.brev.add_fault(
        {"match": {"verb": "delete", "count": 2}, "action": {"type": "fail", "rc": 1, "stderr": "Error: 502\n"}}
    )
    job = await own.run(own.job("hello"))
    assert status_of(job)["phase"] == "Succeeded"
    assert len(await own.calls("delete")) == 3
    assert await own.machines() == []


@pytest.mark.case(23)
@pytest.mark.parametrize("trouble", ["create hangs", "deploys for ever", "never answers"])
async def test_case_23_deletion_begins_at_once_though_the_machine_never_gets_ready(own: Bench, trouble: str) -> None:
    if trouble == "create hangs":
        await own.brev.add_fault({"match": {"verb": "create", "every": True}, "action": {"type": "hang"}})
    elif trouble == "deploys for ever":
        await own.brev.set_latency(deploy=FOREVER)
    else:
        await own.brev.set_latency(ssh=FOREVER, probe=FOREVER)
    await own.apply(own.job("doomed"))
    await own.called(lambda call: call["argv"][0] == ("exec" if trouble == "never answers" else "create"))
    if trouble != "create hangs":
        await own.seen(bool)
    await own.delete(Kind.JOB, "doomed")
    await own.until(Kind.JOB, "doomed", gone)
    await _nothing_is_left(own)
    running = [call for call in await own.calls("create", "exec") if call["rc"] is None]
    assert running == [], "what was waiting has been killed"


@pytest.mark.case(32)
@pytest.mark.parametrize("slow", [0.0, pytest.param(0.5, marks=pytest.mark.full)], ids=["quick-api", "slow-api"])
async def test_case_32_applied_and_deleted_in_the_same_second_fifty_times(
    deploy: Deploy, control_plane: Cluster, tmp_path: Path, slow: float
) -> None:
    async with SlowApi(control_plane, tmp_path, {"PATCH": slow}) as api:
        bench = deploy(Wishes(extra={"BREV_OPERATOR_KUBECONFIG": str(api.kubeconfig)}))
        await bench.brev.set_latency(cli=0.05)
        bench.operator.start()
        await bench.operator.wait_ready()
        names = [f"brief-{number}" for number in range(50)]
        for number, name in enumerate(names):
            await bench.apply(bench.job(name))
            if slow and number % 5 == 0:
                # Between the finalizer and the machine, where a patch that is on its way meets the deletion.
                await bench.until(Kind.JOB, name, lambda body: (body or {})["metadata"].get("finalizers"))
            await bench.delete(Kind.JOB, name)
        for name in names:
            await bench.until(Kind.JOB, name, gone)
        # The API server may delete a job that got its finalizer a moment ago (it looks first and deletes later); the
        # garbage collector then deletes what the job owns.
        for orphan in await bench.api.list(Kind.INSTANCE, bench.namespace):
            await bench.until(Kind.INSTANCE, orphan["metadata"]["name"], gone)
        await _nothing_is_left(bench)
        await bench.operator.stop()
