"""What only time tells ends in `Stalled` with a stable reason and a next step, and heals when the cause goes."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controller.api.meta import Kind
from controller.sandbox.brevsim.harness import Simulator
from tests.integration.bench import TYPE, Bench, Deploy, condition, is_true, over, phase, status_of
from tests.integration.deployment import SECRET, Wishes
from tests.integration.kubeapi import Body

JOB = "waits"
Heal = Callable[[Bench], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong at first, the reason that it has, and how a person puts it right."""

    reason: str
    heal: Heal
    spec: dict[str, Any] = field(default_factory=dict)
    word: str = ""
    """Something that the message has to name."""


def _map(data: dict[str, str] | None, **key: str) -> Heal:
    async def heal(bench: Bench) -> None:
        await bench.create("configmaps", "later", data=data)

    return heal


async def _secret(bench: Bench) -> None:
    await bench.create("secrets", "later", stringData={"key": "hidden-value"})


async def _key(bench: Bench) -> None:
    await bench.api.patch("configmaps", bench.namespace, "partial", {"data": {"key": "value"}})


async def _secret_key(bench: Bench) -> None:
    data = {"key": base64.b64encode(b"hidden-value").decode()}
    await bench.api.patch("secrets", bench.namespace, "partial", {"data": data})


def _from(kind: str, name: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": "key"}}}]}


SOURCES = {
    "no ConfigMap": Trouble("ConfigMapMissing", _map({"key": "value"}), _from("configMap", "later"), "later"),
    "no key in the ConfigMap": Trouble("ConfigMapKeyMissing", _key, _from("configMap", "partial"), '"key"'),
    "no Secret": Trouble("SecretMissing", _secret, _from("secret", "later"), "later"),
    "no key in the Secret": Trouble("SecretKeyMissing", _secret_key, _from("secret", "partial"), '"key"'),
}


@pytest.mark.parametrize("name", SOURCES)
async def test_a_missing_source_stalls_the_job_before_any_machine_and_heals(bench: Bench, name: str) -> None:
    trouble = SOURCES[name]
    await bench.create("configmaps", "partial", data={"other": "x"})
    await bench.create("secrets", "partial", stringData={"other": "longer-value"})
    await bench.apply(bench.job(JOB, "echo $A", **trouble.spec))
    job = await bench.until(Kind.JOB, JOB, is_true("Stalled", trouble.reason))
    assert trouble.word in condition(job, "Stalled")["message"]
    assert condition(job, "Ready")["status"] == "False"
    assert await bench.api.list(Kind.INSTANCE, bench.namespace) == [], "nothing is asked for before all is there"
    await bench.told(job, trouble.reason)
    await trouble.heal(bench)
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"


async def test_a_missing_source_is_given_up_at_the_deadline_with_its_reason(bench: Bench) -> None:
    spec = _from("configMap", "never") | {"deadlines": {"startup": "2s"}}
    job = await bench.run(bench.job(JOB, **spec))
    assert status_of(job)["phase"] == "Failed"
    failed = condition(job, "Failed")
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "never" in failed["message"]
    assert len(await bench.events(JOB)) <= 4


MACHINES: dict[str, tuple[str, list[dict[str, str]]]] = {
    "an unknown type": ("UnknownMachineType", [{"type": "no.such.type"}]),
    "a price above the maximum": ("PriceAboveMaximum", [{"type": TYPE, "maxPricePerHourUSD": "0.5"}]),
}


@pytest.mark.parametrize("name", MACHINES)
async def test_a_machine_that_cannot_be_had_stalls_instance_and_job_until_the_deadline(own: Bench, name: str) -> None:
    reason, candidates = MACHINES[name]
    template = {"spec": {"accountName": own.account, "candidates": candidates}}
    await own.apply(own.job(JOB, instanceTemplate=template, deadlines={"startup": "4s"}))
    job = await own.until(Kind.JOB, JOB, is_true("Stalled", reason))
    assert candidates[0]["type"] in condition(job, "Stalled")["message"]
    job = await own.ended(JOB)
    assert status_of(job)["phase"] == "Failed"
    assert "no usable candidate" in condition(job, "Failed")["message"]
    assert await own.calls("create") == []
    assert len(await own.calls("search")) <= 8, "two for each look, at most one look in a minute"
    assert await own.writes() <= 40


async def test_a_changed_spec_heals_an_instance_that_had_no_candidate(bench: Bench) -> None:
    await bench.apply(bench.instance("fixed", "no.such.type"))
    stalled = await bench.until(Kind.INSTANCE, "fixed", is_true("Stalled", "UnknownMachineType"))
    assert condition(stalled, "Stalled")["observedGeneration"] == 1
    await bench.api.patch(Kind.INSTANCE, bench.namespace, "fixed", {"spec": {"candidates": [{"type": TYPE}]}})
    ready = await bench.until(Kind.INSTANCE, "fixed", phase("Ready"))
    assert condition(ready, "Stalled")["status"] == "False"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        pytest.param("no capacity", "NoCapacity", id="capacity"),
        pytest.param("quota exceeded", "CreateRefused", id="quota"),
    ],
)
async def test_the_next_candidate_is_taken_when_the_first_has_no_machine(own: Bench, stderr: str, reason: str) -> None:
    if reason == "NoCapacity":
        await own.brev.settings(soldOut=["g6.xlarge"])
    else:
        rule = {"match": {"verb": "create", "count": 1}, "action": {"type": "refuse", "status": 400, "message": stderr}}
        await own.brev.add_fault(rule)
    template = {"spec": own.instance_spec("g6.xlarge", TYPE)}
    job = await own.run(own.job("second", instanceTemplate=template))
    assert status_of(job)["phase"] == "Succeeded"
    assert status_of(job)["machine"]["type"] == TYPE
    assert [line["type"] for line in await own.bill()] == [TYPE]


async def test_credits_that_come_back_heal_a_stalled_instance(own: Bench) -> None:
    await own.brev.settings(credits={own.brev.org_id: False})
    await own.apply(own.job(JOB))
    await own.until(Kind.JOB, JOB, is_true("Stalled", "OutOfCredits"))
    await own.brev.settings(credits={own.brev.org_id: True})
    assert status_of(await own.ended(JOB))["phase"] == "Succeeded"
    assert len(await own.bill()) == 1


async def _account_stalls(bench: Bench, reason: str) -> Body:
    account = await bench.until(Kind.ACCOUNT, bench.account, is_true("Stalled", reason))
    job = await bench.until(Kind.JOB, JOB, is_true("Stalled", reason))
    assert condition(account, "Ready")["status"] == "False"
    assert bench.account in condition(job, "Stalled")["message"]
    return account


async def _start(bench: Bench) -> None:
    bench.operator.start()
    await bench.operator.wait_ready()
    await bench.apply(bench.job(JOB))


async def test_without_brev_on_the_path_everything_waits_and_heals_when_it_is_there(
    deploy: Deploy, tmp_path: Path
) -> None:
    cli = tmp_path / "bin" / "brev"
    bench = deploy(Wishes(cli=cli))
    await _start(bench)
    account = await _account_stalls(bench, "CLIMissing")
    assert str(cli) in condition(account, "Stalled")["message"] or "brev" in condition(account, "Stalled")["message"]
    assert condition(account, "CLISupported")["status"] == "False"
    cli.parent.mkdir()
    cli.symlink_to(bench.brev.cli)
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"


async def test_an_unsupported_release_of_the_cli_is_told_and_nothing_is_created(deploy: Deploy, tmp_path: Path) -> None:
    cli = tmp_path / "brev"
    cli.write_text("#!/bin/sh\necho 'Current Version: v0.6.310'\n")
    cli.chmod(0o755)
    bench = deploy(Wishes(cli=cli))
    await _start(bench)
    account = await _account_stalls(bench, "CLIUnsupported")
    assert "v0.6.310" in condition(account, "CLISupported")["message"]
    assert await bench.calls() == []
    cli.unlink()
    cli.symlink_to(bench.brev.cli)
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"


async def test_a_catalog_that_cannot_be_read_is_asked_for_with_back_off(own: Bench) -> None:
    fault = {"type": "fail", "rc": 1, "stderr": "Error: the catalog is closed\n"}
    await own.brev.add_fault({"match": {"verb": "search", "every": True}, "action": fault})
    await own.apply(own.job(JOB))
    await own.until(Kind.JOB, JOB, lambda body: condition(body, "Stalled").get("status") == "True")
    started = (await own.calls("search"))[0]["startedAt"]
    # Ninety of the operator's own seconds.
    await own.called(lambda call: call["argv"][0] == "ls" and call["startedAt"] > started + 1.8)
    assert len(await own.calls("search")) <= 8
    await own.brev.clear_faults()
    assert status_of(await own.ended(JOB))["phase"] == "Succeeded"


LOGINS: dict[str, tuple[dict[str, str], str]] = {
    "a refused key": ({"BREV_API_KEY": "bak-sim-unknown", "BREV_ORG_ID": Simulator.org_id}, "AuthenticationFailed"),
    "no key at all": ({"OTHER": "x"}, "CredentialInvalid"),
    "a malformed key": ({"BREV_API_KEY": "two\nlines", "BREV_ORG_ID": Simulator.org_id}, "CredentialInvalid"),
    "another organization": (
        {"BREV_API_KEY": Simulator.second_org_api_key, "BREV_ORG_ID": Simulator.second_org_id},
        "OrganizationMismatch",
    ),
    "no Secret": ({}, "CredentialSecretMissing"),
}


@pytest.mark.parametrize("name", LOGINS)
async def test_a_wrong_login_stalls_and_heals_when_the_secret_is_put_right(deploy: Deploy, name: str) -> None:
    values, reason = LOGINS[name]
    bench = deploy(Wishes(secret=values))
    await _start(bench)
    await _account_stalls(bench, reason)
    assert await bench.calls("create") == []
    right = {"BREV_API_KEY": bench.brev.api_key, "BREV_ORG_ID": bench.brev.org_id}
    if values:
        await bench.api.patch("secrets", bench.deployment.home, SECRET, {"stringData": right})
    else:
        await bench.api.create("secrets", bench.deployment.home, {"metadata": {"name": SECRET}, "stringData": right})
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"


async def test_a_key_that_is_revoked_while_a_job_runs_stalls_and_the_run_is_not_lost(own: Bench, gate: Any) -> None:
    await own.apply(own.job(JOB, gate.script))
    await own.until(Kind.JOB, JOB, phase("Running"))
    await own.brev.settings(revoke=own.brev.api_key)
    await own.until(Kind.ACCOUNT, own.account, is_true("Stalled", "AuthenticationFailed"))
    gate.open()
    job = await own.until(Kind.JOB, JOB, lambda body: (status_of(body).get("attempts") or [{}])[-1].get("finishedAt"))
    assert status_of(job)["attempts"][-1]["exitCode"] == 0
    assert not over(job), "its machine cannot be deleted yet"
    assert len(await own.machines()) == 1
    assert gate.runs == 1


async def test_an_account_that_does_not_allow_the_namespace_stalls_until_it_does(deploy: Deploy) -> None:
    bench = deploy(Wishes(allowed=False))
    await _start(bench)
    job = await bench.until(Kind.JOB, JOB, is_true("Stalled", "NamespaceNotAllowed"))
    assert bench.account in condition(job, "Stalled")["message"]
    assert await bench.calls("create") == []
    change = {"spec": {"allowedNamespaces": {"names": [bench.namespace]}}}
    await bench.api.patch(Kind.ACCOUNT, "", bench.account, change)
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"


async def test_a_job_waits_for_an_account_that_is_created_later(deploy: Deploy) -> None:
    bench = deploy(Wishes(account=False))
    await _start(bench)
    await bench.until(Kind.JOB, JOB, is_true("Stalled", "AccountNotFound"))
    bench.deployment.create_account(bench.account, bench.brev.org_id, bench.deployment.tenants)
    assert status_of(await bench.ended(JOB))["phase"] == "Succeeded"
