"""Several jobs at once: each has its own machine, and none waits for another's slow call."""

from __future__ import annotations

import asyncio

from controller.api.meta import Kind
from tests.integration.bench import Bench, Deploy, attempt_of, condition, gone, is_true, phase, status_of
from tests.integration.deployment import Wishes


async def test_ten_jobs_at_once_have_ten_machines_and_their_own_results(bench: Bench) -> None:
    names = [f"job-{number}" for number in range(10)]
    for number, name in enumerate(names):
        await bench.apply(bench.job(name, f"echo I am {name}; exit {number % 3}"))
    jobs = await asyncio.gather(*(bench.ended(name) for name in names))
    assert [status_of(job)["logTail"] for job in jobs] == [f"I am {name}\n" for name in names]
    assert [attempt_of(job)["exitCode"] for job in jobs] == [number % 3 for number in range(10)]
    machines = [status_of(job)["machine"]["brevName"] for job in jobs]
    lines = await bench.bill(*machines)
    assert len(set(machines)) == len(lines) == 10
    assert all(line["closedAt"] is not None for line in lines)


async def test_two_accounts_act_each_in_its_own_organization(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    deployment, brev = bench.deployment, bench.brev
    other = f"{bench.account}-other"
    login = {"BREV_API_KEY": brev.other_account_api_key, "BREV_ORG_ID": brev.other_account_org_id}
    await bench.api.create("secrets", deployment.home, {"metadata": {"name": "other"}, "stringData": login})
    deployment.create_account(other, brev.other_account_org_id, deployment.tenants, "other")
    deployment.watch_also(other)
    bench.operator.start()
    template = {"spec": bench.instance_spec() | {"accountName": other}}
    await bench.apply(bench.job("first"))
    await bench.apply(bench.job("second", instanceTemplate=template))
    jobs = [await bench.ended("first"), await bench.ended("second")]
    assert [status_of(job)["phase"] for job in jobs] == ["Succeeded"] * 2
    organizations = {line["name"]: line["organization"] for line in await bench.bill()}
    names = [status_of(job)["machine"]["brevName"] for job in jobs]
    assert [organizations[name] for name in names] == [brev.org_id, brev.other_account_org_id]
    homes = {call["env"]["HOME"]: call["argv"][1] for call in await bench.calls("create")}
    assert sorted(homes.values()) == sorted(names), "no HOME has the login of two accounts"
    await bench.api.send("DELETE", f"/apis/brev.nvidia.com/v1alpha1/brevaccounts/{other}")


async def test_one_dead_account_does_not_hold_up_another(deploy: Deploy) -> None:
    bench = deploy(Wishes())
    deployment, brev = bench.deployment, bench.brev
    other = f"{bench.account}-dead"
    login = {"BREV_API_KEY": "bak-sim-unknown", "BREV_ORG_ID": brev.other_account_org_id}
    await bench.api.create("secrets", deployment.home, {"metadata": {"name": "other"}, "stringData": login})
    deployment.create_account(other, brev.other_account_org_id, deployment.tenants, "other")
    deployment.watch_also(other)
    bench.operator.start()
    template = {"spec": bench.instance_spec() | {"accountName": other}}
    await bench.apply(bench.job("stuck", instanceTemplate=template))
    await bench.apply(bench.job("fine"))
    assert status_of(await bench.ended("fine"))["phase"] == "Succeeded"
    stuck = await bench.until(Kind.JOB, "stuck", is_true("Stalled", "AuthenticationFailed"))
    assert other in condition(stuck, "Stalled")["message"]
    await bench.api.send("DELETE", f"/apis/brev.nvidia.com/v1alpha1/brevaccounts/{other}")


async def test_a_hanging_create_delays_neither_another_job_nor_its_own_deletion(own: Bench) -> None:
    fault = {"match": {"verb": "create", "count": 1}, "action": {"type": "hang"}}
    await own.brev.add_fault(fault)
    await own.apply(own.job("hangs"))
    await own.called(lambda call: call["argv"][0] == "create")
    assert status_of(await own.run(own.job("passes")))["phase"] == "Succeeded"
    await own.delete(Kind.JOB, "hangs")
    await own.until(Kind.JOB, "hangs", gone)
    assert await own.machines() == []


async def test_a_slow_cli_does_not_delay_the_deletion_of_what_needs_no_call(own: Bench) -> None:
    await own.apply(own.instance("waits", "no.such.type"))
    await own.until(Kind.INSTANCE, "waits", is_true("Stalled"))
    await own.apply(own.instance("ready"))
    await own.until(Kind.INSTANCE, "ready", phase("Ready"))
    await own.brev.set_latency(cli=2.0)
    names = [f"slow-{number}" for number in range(6)]
    for name in names:
        await own.apply(own.job(name))
    await own.called(lambda call: call["argv"][0] == "create" and "slow" in call["argv"][1])
    creating = [call for call in await own.calls("create") if call["rc"] is None]
    assert creating
    await own.delete(Kind.INSTANCE, "waits")
    await own.until(Kind.INSTANCE, "waits", gone)
    assert any(call["rc"] is None for call in await own.calls("create")), "it was gone before one slow call ended"
    await own.brev.set_latency(cli=0.0)
    for name in names:
        await own.delete(Kind.JOB, name)
    for name in names:
        await own.until(Kind.JOB, name, gone)
    assert len(await own.machines()) == 1
