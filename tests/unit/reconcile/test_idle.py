"""A minute in which nothing happens writes nothing, whatever is looked at meanwhile."""

import copy
from pathlib import Path

from controller.api.meta import Kind, ObjectKey
from tests.builders import account_body, instance_body, job_body, stored
from tests.unit.decide.joblife import ask, exited, following
from tests.unit.decide.lives import of, ready
from tests.unit.reconcile.fakes import Bench, machine_row


def ready_instance() -> dict[str, object]:
    status = stored(of(ready()))
    return instance_body(status=status, uid="uid-of-gpu", candidates=[{"type": "a.one"}, {"type": "b.two"}])


def succeeded_job() -> dict[str, object]:
    life = following()
    ask(life, exited())
    life.step()
    life.child = None
    life.step()
    return job_body(status=stored(life.status), held=False, uid="uid-of-iris")


async def test_an_idle_minute_writes_nothing(bench: Bench) -> None:
    bench.login()
    account = bench.store(Kind.ACCOUNT, account_body())
    instance = bench.store(Kind.INSTANCE, ready_instance())
    job = bench.store(Kind.JOB, succeeded_job())
    await bench.settle()
    name = bench.body(instance)["status"]["brevName"]
    bench.sessions[0].machines = [machine_row(name, "m-1", "RUNNING")]
    await bench.engine.accounts.of("default").inventory._read()  # type: ignore[union-attr]
    await bench.settle()
    phases = [bench.body(key)["status"]["phase"] for key in (account, instance, job)]
    assert phases == ["Ready", "Ready", "Succeeded"]

    before, objects = len(bench.kube.log), copy.deepcopy(bench.kube.objects)
    for second in range(60):
        bench.clock.advance(1)
        for key in (account, instance, job):
            await bench.run_pass(key)
        if second % 5 == 0:
            await bench.engine.accounts.of("default").inventory._read()  # type: ignore[union-attr]
        if second % 20 == 0:
            await bench.operator.list_all()
        await bench.settle()
    assert bench.kube.log[before:] == []
    assert bench.kube.objects == objects


async def test_an_operator_that_starts_over_healthy_objects_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    """What was Ready before a restart stays Ready while account, list and machine are looked at anew."""
    bench.login()
    account = bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    await bench.engine.accounts.of("default").inventory._read()  # type: ignore[union-attr]
    await bench.settle()
    status = bench.body(account)["status"]
    await bench.operator.stop()

    fresh = Bench(tmp_path)
    fresh.login()
    fresh.store(Kind.ACCOUNT, account_body(status=status))
    fresh.store(Kind.INSTANCE, ready_instance())
    await fresh.settle()
    assert fresh.kube.log == []
    await fresh.operator.stop()


async def test_a_secret_with_a_common_word_does_not_touch_what_the_status_says(bench: Bench) -> None:
    bench.login()
    bench.kube.secrets["brev-operator", "brev-login"] |= {"NOTE": b"Unknown", "OTHER": b"Stalled", "MORE": b"default"}
    account = bench.store(Kind.ACCOUNT, account_body())
    await bench.settle()
    conditions = bench.body(account)["status"]["conditions"]
    assert {"Ready", "Stalled"} <= {condition["type"] for condition in conditions}
    assert all(condition["status"] in ("True", "False", "Unknown") for condition in conditions)
    assert isinstance(account, ObjectKey)
