"""No secret leaves its place: a canary in a Secret and the account's key are looked for wherever things are written."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from controller.api.meta import Kind
from tests.integration.bench import Bench, Deploy, Gate, attempt_of, phase, status_of
from tests.integration.deployment import Wishes


def _forms(value: str) -> list[str]:
    raw = value.encode()
    return [value, base64.b64encode(raw).decode().rstrip("="), raw.hex(), json.dumps(value)[1:-1]]


async def _written(bench: Bench) -> dict[str, str]:
    """Everything that people and programs can read, by where it is."""
    calls = await bench.calls()
    objects = [await bench.api.list(kind, bench.namespace) for kind in (Kind.JOB, Kind.INSTANCE)]
    return {
        "argv": json.dumps([call["argv"] for call in calls]),
        "environment of the CLI": json.dumps([call["env"] for call in calls]),
        "remote commands": json.dumps(await bench.brev.commands()),
        "log": bench.operator.log(),
        "environment of the operator": Path(f"/proc/{bench.operator.pid}/environ").read_text(),
        "command line of the operator": Path(f"/proc/{bench.operator.pid}/cmdline").read_text(),
        "events": json.dumps(await bench.events()),
        "objects": json.dumps(objects),
        "account": json.dumps(await bench.api.get(Kind.ACCOUNT, "", bench.account)),
        "metrics": await bench.operator.metrics(),
        "health": "".join(map(str, await bench.operator.health())),
    }


async def test_secret_values_and_the_api_key_are_nowhere_to_be_read(deploy: Deploy, gate: Gate) -> None:
    canary = f"canary-{secrets.token_hex(8)} ü\"'$x"
    bench = deploy(Wishes(log_level="DEBUG"))
    bench.operator.start()
    await bench.operator.wait_ready()
    await bench.create("secrets", "keys", stringData={"token": canary})
    reference = {"secretKeyRef": {"name": "keys", "key": "token"}}
    script = f'echo "the token is $TOKEN."; cat token; echo; {gate.script}'
    job = bench.job("careless", script, env=[{"name": "TOKEN", "valueFrom": reference}])
    job["spec"]["files"] = [{"path": "token", **reference}]
    await bench.apply(job)
    await bench.until(Kind.JOB, "careless", phase("Running"))
    gate.open(3)
    ended = await bench.ended("careless")
    await bench.told(ended, "Completed")
    assert "the token is ***." in status_of(ended)["logTail"].replace("*" * 8, "***"), status_of(ended)["logTail"]
    for place, text in (await _written(bench)).items():
        for form in [*_forms(canary), *_forms(bench.brev.api_key)]:
            assert form not in text, f"{form} in {place}"


async def test_a_secret_that_the_cli_repeats_in_an_error_is_masked(own: Bench) -> None:
    fault = {"type": "fail", "rc": 1, "stderr": f"Error: bad key {own.brev.api_key} for this organization\n"}
    await own.brev.add_fault({"match": {"verb": "create", "count": 1}, "action": fault})
    job = await own.run(own.job("told"))
    await own.told(job, "Completed")
    for place, text in (await _written(own)).items():
        assert own.brev.api_key not in text, place


async def test_secrets_are_removed_from_the_machine_when_the_script_has_ended(own: Bench, tmp_path: Path) -> None:
    """Seen from the machine itself: its deletion is held up, and its home searched for the value."""
    canary = f"canary-{secrets.token_hex(8)}"
    await own.create("secrets", "keys", stringData={"token": canary})
    reference = {"secretKeyRef": {"name": "keys", "key": "token"}}
    await own.brev.set_latency(delete=86400)
    await own.apply(own.job("left", "cat $PWD/token", files=[{"path": "token", **reference}]))
    job = await own.until(Kind.JOB, "left", lambda body: attempt_of(body).get("finishedAt"))
    [row] = await own.seen(lambda rows: [each["status"] for each in rows] == ["DELETING"])
    files = [path for path in Path(row["home"]).rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if canary.encode() in path.read_bytes() and path.name != "log"] == []
    assert canary not in json.dumps(job)
    await own.brev.advance(90000)
    await own.ended("left")


async def test_bundles_do_not_stay_on_the_operators_disk(own: Bench) -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    await own.create("secrets", "keys", stringData={"token": canary})
    env = [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
    await own.run(own.job("tidy", env=env))
    state = own.operator.log_file.parent
    assert [path for path in state.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()] == []
