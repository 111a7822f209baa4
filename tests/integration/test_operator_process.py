"""The process itself: probes and metrics, its end, and the lease between two of them."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from http import HTTPStatus

import aiohttp
import pytest

from controller.api.meta import Kind
from tests.integration.bench import Bench, Deploy, Gate, attempt_of, is_true, logged, phase, status_of
from tests.integration.deployment import Wishes


async def _get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def _lease_holder(bench: Bench) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{bench.deployment.home}/leases"
    _, leases = await bench.api.send("GET", path)
    [lease] = leases["items"]
    holder: str = lease["spec"].get("holderIdentity") or ""
    return holder


async def test_probes_and_metrics_tell_what_the_operator_does(own: Bench) -> None:
    await own.run(own.job("hello"))
    assert await _get(f"{own.operator.url}/healthz") == (HTTPStatus.OK, "ok\n")
    assert await _get(f"{own.operator.url}/readyz") == (HTTPStatus.OK, "ok\n")
    samples = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in await own.samples()}
    assert samples["brev_lease_held",] == 1
    assert samples["brev_job_phase", ("phase", "Succeeded")] == 1
    assert samples["brev_job_duration_seconds_count", ("outcome", "Succeeded")] == 1
    assert samples["brev_cli_calls_total", ("outcome", "ok"), ("verb", "create")] == 1
    assert samples["brev_cli_calls_total", ("outcome", "ok"), ("verb", "delete")] == 1
    assert samples["brev_queue_depth",] == 0
    assert samples["brev_inventory_age_seconds", ("account", own.account)] >= 0
    assert not any(name == "brev_reconcile_errors_total" for name, *_ in samples)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_cleanly_and_leaves_the_job_running(
    own: Bench, gate: Gate, number: signal.Signals
) -> None:
    await own.apply(own.job("goes-on", gate.script))
    await own.until(Kind.JOB, "goes-on", phase("Running"))
    os.kill(own.operator.pid, number)
    assert await own.operator.wait_ended(20) == 0
    assert await _lease_holder(own) == "", "given back, so that nobody waits for it"
    assert "Traceback" not in own.operator.log()
    [row] = await own.machines()
    assert row["processes"] > 0
    gate.open(4)
    own.operator.start()
    job = await own.ended("goes-on")
    assert (attempt_of(job)["exitCode"], gate.runs) == (4, 1)


async def test_a_signal_during_a_create_ends_it_and_the_next_process_has_one_machine(own: Bench, gate: Gate) -> None:
    gate.open()
    await own.brev.add_fault({"match": {"verb": "create", "count": 1}, "action": {"type": "hang", "when": "after"}})
    await own.apply(own.job("cut-off", gate.script))
    await own.seen(bool)
    assert await own.operator.stop() == 0
    own.deployment.restart()
    job = await own.ended("cut-off")
    assert status_of(job)["phase"] == "Succeeded"
    assert len(await own.bill()) == 1
    assert gate.runs == 1


async def test_a_second_operator_waits_for_the_lease_and_takes_over(deploy: Deploy, gate: Gate) -> None:
    own = deploy(Wishes(patient=False))
    own.operator.start()
    await own.apply(own.job("handed-over", gate.script))
    await own.until(Kind.JOB, "handed-over", phase("Running"))
    second = own.deployment.another_operator("second")
    second.start()
    try:
        holder = await _lease_holder(own)
        log = await logged(second, "Waiting for the lease")
        assert "The operator is at work" not in log
        own.operator.kill()
        await second.wait_ready()
        assert await _lease_holder(own) not in ("", holder)
        gate.open()
        job = await own.ended("handed-over")
        assert status_of(job)["phase"] == "Succeeded"
        assert gate.runs == 1
        assert len(await own.bill()) == 1
    finally:
        await second.stop()


async def test_wrong_settings_end_the_process_with_all_of_them_named(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    options = replace(bench.deployment.options, cluster_id="Not Good", extra={"BREV_OPERATOR_WORKERZ": "3"})
    operator = bench.deployment.another_operator("wrong", options)
    operator.start()
    assert await operator.wait_ended() != 0
    assert "BREV_OPERATOR_CLUSTER_ID" in operator.log()
    assert "BREV_OPERATOR_WORKERZ" in operator.log()


async def test_a_broken_kubeconfig_ends_the_process_with_a_sentence(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    broken = bench.operator.log_file.parent / "kubeconfig"
    broken.write_text("not: [a kubeconfig")
    options = replace(bench.deployment.options, extra={"BREV_OPERATOR_KUBECONFIG": str(broken)})
    operator = bench.deployment.another_operator("broken", options)
    operator.start()
    assert await operator.wait_ended() == 1
    assert "Traceback" not in operator.log()


async def test_objects_from_before_the_start_are_served(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    await bench.apply(bench.job("early"))
    await bench.apply(bench.instance("early"))
    bench.operator.start()
    assert status_of(await bench.ended("early"))["phase"] == "Succeeded"
    await bench.until(Kind.INSTANCE, "early", is_true("Ready"))


async def test_objects_outside_the_watched_namespaces_are_left_alone(own: Bench) -> None:
    stranger = own.deployment.home
    body = own.job("elsewhere")
    body["metadata"]["namespace"] = stranger
    await own.api.create(Kind.JOB, stranger, body)
    await own.run(own.job("here"))
    found = await own.api.get(Kind.JOB, stranger, "elsewhere")
    assert found is not None
    assert "status" not in found
    assert "finalizers" not in found["metadata"]
