"""What an operator does when there is nothing to do, and how much one job may cost it."""

from __future__ import annotations

from controller.api.meta import Kind
from tests.integration.bench import Bench, Deploy, Gate, is_true, phase, status_of
from tests.integration.deployment import TIME_SCALE, Wishes

MINUTE = 60 * TIME_SCALE
"""Of the operator's own time, in seconds of ours."""


async def _let_pass(bench: Bench, seconds: float) -> None:
    """Until the operator asks for a list of machines at least so much later: it has been awake all the time."""
    now = (await bench.brev.settings())["now"]
    await bench.called(lambda call: call["argv"][0] == "ls" and call["startedAt"] >= now + seconds)


async def test_an_idle_minute_writes_nothing(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    bench.operator.start()
    await bench.operator.wait_ready()
    await bench.apply(bench.instance("ready"))
    await bench.until(Kind.INSTANCE, "ready", phase("Ready"))
    await bench.run(bench.job("done"))
    await bench.run(bench.job("failed", "exit 3"))
    missing = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "never", "key": "key"}}}]
    await bench.apply(bench.job("stalled", env=missing))
    await bench.told(await bench.until(Kind.JOB, "stalled", is_true("Stalled", "ConfigMapMissing")), "ConfigMapMissing")
    await bench.apply(bench.instance("no-offer", "no.such.type"))
    await bench.told(await bench.until(Kind.INSTANCE, "no-offer", is_true("Stalled")), "UnknownMachineType")
    await _let_pass(bench, MINUTE)
    versions, writes, events = await bench.versions(), await bench.writes(), len(await bench.events())
    calls = len(await bench.calls())
    await _let_pass(bench, 2 * MINUTE)
    assert await bench.versions() == versions
    assert await bench.writes() == writes
    assert len(await bench.events()) == events
    assert {call["argv"][0] for call in (await bench.calls())[calls:]} <= {"ls", "search"}
    assert len(await bench.calls()) - calls <= 10


async def test_a_waiting_run_writes_nothing_between_its_transitions(own: Bench, gate: Gate) -> None:
    await own.apply(own.job("long", gate.script))
    await own.told(await own.until(Kind.JOB, "long", phase("Running")), "Running")
    await _let_pass(own, MINUTE / 4)
    versions, writes = await own.versions(), await own.writes()
    await _let_pass(own, MINUTE)
    assert await own.versions() == versions
    assert await own.writes() == writes
    gate.open()
    assert status_of(await own.ended("long"))["phase"] == "Succeeded"


async def test_one_job_costs_sixteen_writes_eight_events_and_twelve_calls(own: Bench) -> None:
    await own.until(Kind.ACCOUNT, own.account, is_true("Ready"))
    before = await own.writes("brevjobs", "brevinstances")
    known = len(await own.calls())
    job = await own.run(own.job("frugal"))
    await own.told(job, "Completed")
    writes = await own.writes("brevjobs", "brevinstances") - before
    events = sum(event.get("count", 1) for event in await own.events())
    commands = [call["argv"] for call in (await own.calls())[known:]]
    calls = [argv for argv in commands if argv[0] not in ("ls",) and not (argv[0] == "exec" and " state " in argv[-1])]
    assert writes <= 16, writes
    assert events <= 8
    assert len(calls) <= 12, [argv[:2] for argv in calls]
    conflicts = [
        sample
        for sample in await own.samples()
        if sample.name == "brev_kubernetes_requests_total" and sample.labels["code"] == "409"
    ]
    assert sum(sample.value for sample in conflicts) == 0, "a pass on an old object costs a write for nothing"
