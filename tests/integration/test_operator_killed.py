"""`kill -9` at any moment: the job ends once, right, on one machine, and none is left."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controller.api.meta import FINALIZER, Kind
from tests.integration.bench import Bench, Deploy, Gate, attempt_of, phase, status_of
from tests.integration.deployment import Wishes
from tests.integration.kubeapi import Body

JOB = "victim"
Moment = Callable[[Bench], Awaitable[object]]


def _job(wanted: Callable[[Body], object]) -> Moment:
    return lambda bench: bench.until(Kind.JOB, JOB, lambda body: body is not None and wanted(body))


def _instance(wanted: Callable[[Body], object]) -> Moment:
    async def moment(bench: Bench) -> object:
        job = await bench.until(Kind.JOB, JOB, lambda body: attempt_of(body).get("instance"))
        name = attempt_of(job)["instance"]
        return await bench.until(Kind.INSTANCE, name, lambda body: body is not None and wanted(body))

    return moment


def _call(verb: str, text: str = "") -> Moment:
    def wanted(call: dict[str, Any]) -> bool:
        return bool(call["argv"][0] == verb and text in call["argv"][-1])

    return lambda bench: bench.called(wanted)


async def _machine(bench: Bench) -> object:
    return await bench.seen(bool)


async def _machine_gone(bench: Bench) -> object:
    await _machine(bench)
    return await bench.seen(lambda rows: not rows)


async def _instance_gone(bench: Bench) -> object:
    job = await bench.until(Kind.JOB, JOB, lambda body: attempt_of(body).get("finishedAt"))
    return await bench.until(Kind.INSTANCE, attempt_of(job)["instance"], lambda body: body is None)


MOMENTS: dict[str, Moment] = {
    "applied": _job(lambda _: True),
    "finalizer": _job(lambda body: FINALIZER in body["metadata"].get("finalizers", [])),
    "job-intent": _job(attempt_of),
    "instance-made": _instance(lambda _: True),
    "create-intent": _instance(lambda body: attempt_of(body).get("brevName")),
    "create-call": _call("create"),
    "machine-made": _machine,
    "id-known": _instance(lambda body: attempt_of(body).get("brevID")),
    "address": _call("refresh"),
    "probe": _call("exec"),
    "ready": _instance(phase("Ready")),
    "copy": _call("copy"),
    "start": _call("exec", " start "),
    "running": _job(phase("Running")),
    "ended": _job(phase("Running")),
    "verdict": _job(lambda body: attempt_of(body).get("finishedAt")),
    "delete-call": _call("delete"),
    "machine-gone": _machine_gone,
    "instance-gone": _instance_gone,
}
HELD = ("running", "ended")
"""Moments at which the script is still running."""


@pytest.mark.parametrize("group", [False, True], ids=["leader", "group"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.full
async def test_killed_at_a_moment(deploy: Deploy, gate: Gate, moment: str, group: bool) -> None:
    await _kill_once(deploy, gate, moment, group)


SLICE = random.Random(3).sample([(moment, group) for moment in MOMENTS for group in (False, True)], 4)


@pytest.mark.parametrize(("moment", "group"), [*SLICE, ("create-call", False), ("start", True), ("ended", False)])
async def test_killed_at_a_moment_of_the_slice(deploy: Deploy, gate: Gate, moment: str, group: bool) -> None:
    await _kill_once(deploy, gate, moment, group)


async def _kill_once(deploy: Deploy, gate: Gate, moment: str, group: bool) -> None:
    bench = deploy(Wishes())
    await bench.brev.set_latency(cli=0.05, deploy=0.2, build=0.1, ssh=0.1, delete=0.2, connect=0.05)
    bench.operator.start()
    await bench.operator.wait_ready()
    await bench.apply(bench.job(JOB, gate.script))
    if moment not in HELD:
        gate.open(7)
    await MOMENTS[moment](bench)
    (bench.operator.kill_group if group else bench.operator.kill)()
    if moment in HELD:
        gate.open(7)
    if moment == "ended":
        await bench.seen(lambda rows: not any(row["processes"] for row in rows))
    bench.deployment.restart()
    await _ended_once(bench, gate, await bench.ended(JOB))


async def _ended_once(bench: Bench, gate: Gate, job: Body) -> None:
    assert (status_of(job)["phase"], attempt_of(job)["exitCode"]) == ("Failed", 7), job["status"]
    assert status_of(job)["logTail"] == "leaving with 7\n"
    assert gate.runs == 1
    assert len(status_of(job)["attempts"]) == 1
    [line] = await bench.bill()
    assert line["closedAt"] is not None, "no machine is left"
    assert await bench.brev.machines() == []
    assert await bench.brev.alarms() == []
    assert await bench.api.list(Kind.INSTANCE, bench.namespace) == []


async def test_killed_again_and_again_the_job_still_ends_once(deploy: Deploy, gate: Gate) -> None:
    bench = deploy(Wishes())
    bench.operator.start()
    await bench.apply(bench.job(JOB, gate.script))
    for moment in ("job-intent", "create-call", "probe", "copy", "running"):
        await MOMENTS[moment](bench)
        bench.operator.kill()
        bench.deployment.restart()
    gate.open(7)
    await MOMENTS["verdict"](bench)
    bench.operator.kill()
    bench.deployment.restart()
    await _ended_once(bench, gate, await bench.ended(JOB))
