"""`kill -9` before and after every step that changes something, and three mistakes that this suite must notice.

The steps are recorded from a clean run. Two scenarios: the job goes on after the restart and ends once; the job is
deleted while no operator runs, and nothing is left. `Promise broken` is what a run of a mutant must end in.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from controller.api.meta import Kind
from tests.integration.bench import Bench, Deploy, attempt_of, gone, over, status_of
from tests.integration.deployment import Wishes

JOB = "victim"
KILL_AT = "FAILING_OPERATOR_KILL_AT"
CALLS = ("create", "refresh", "copy", "exec", "delete")
WRITES = 15
"""Writes of one job whose machine runs at once: the benchmarks' figure; one more where it is first seen deploying."""


def clean_steps() -> list[str]:
    """Every point of a clean run; `test_the_steps_of_a_clean_run_are_the_ones_that_are_swept` holds it to the truth."""
    counts = {"create brevinstances": 1, "patch brevjobs": 2, "patch brevjobs/status": 5, "delete brevinstances": 1}
    counts |= {"patch brevinstances/status": 5, "patch brevinstances": 1}
    counts |= {f"call {verb}": 1 for verb in CALLS}
    names = [f"{number} {what}" for what, count in counts.items() for number in range(1, count + 1)]
    return [f"{when} {name}" for name in names for when in ("before", "after")]


class Bomb:
    """A deployment whose operator kills itself at a point."""

    def __init__(self, deploy: Deploy, directory: Path, point: str = "", mutant: str = "", group: bool = False) -> None:
        self._steps = directory / "steps"
        self._steps.touch()
        extra = {"FAILING_OPERATOR_STEPS": str(self._steps), KILL_AT: point, "FAILING_OPERATOR_MUTANT": mutant}
        extra |= {"FAILING_OPERATOR_GROUP": "1"} if group else {}
        self.bench = deploy(Wishes(extra=extra, module="tests.integration.failing_operator"))
        self._ran = directory / "ran"

    @property
    def steps(self) -> list[str]:
        return self._steps.read_text().splitlines()

    @property
    def starts(self) -> int:
        """How often the script began."""
        return self._ran.read_text().count("begun") if self._ran.exists() else 0

    async def recorded(self, point: str) -> None:
        """Return when the operator has written this point down; the object's watch may be faster than its answer."""
        async with asyncio.timeout(60):
            while point not in self.steps:  # noqa: ASYNC110 (a file has no watch)
                await asyncio.sleep(0.02)

    async def run(self) -> None:
        """Apply the job and return when the operator has killed itself, or the job is over."""
        bench = self.bench
        bench.operator.start()
        await bench.apply(bench.job(JOB, f"echo begun >> {self._ran}; exit 7"))
        ended = asyncio.create_task(bench.operator.wait_ended(None))
        done = asyncio.create_task(bench.until(Kind.JOB, JOB, over))
        await asyncio.wait({ended, done}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, done):
            task.cancel()
        await asyncio.gather(ended, done, return_exceptions=True)

    def restart(self) -> None:
        """The same program on the same state, without the bomb."""
        self.bench.deployment.without(KILL_AT)
        self.bench.operator.kill()
        self.bench.deployment.restart()


async def _nothing_left(bench: Bench) -> None:
    lines = await bench.bill()
    assert len(lines) <= 1, "one machine per intent"
    assert [line["name"] for line in lines if line["closedAt"] is None] == [], "no machine is left"
    assert await bench.machines() == []


async def _goes_on(bomb: Bomb) -> None:
    await bomb.run()
    bomb.restart()
    job = await bomb.bench.ended(JOB)
    assert (status_of(job)["phase"], attempt_of(job)["exitCode"], bomb.starts) == ("Failed", 7, 1), job["status"]
    await _nothing_left(bomb.bench)


async def _deleted_while_down(bomb: Bomb) -> None:
    await bomb.run()
    await bomb.bench.delete(Kind.JOB, JOB)
    bomb.restart()
    await bomb.bench.until(Kind.JOB, JOB, gone)
    for body in await bomb.bench.api.list(Kind.INSTANCE, bomb.bench.namespace):
        await bomb.bench.until(Kind.INSTANCE, body["metadata"]["name"], gone)
    assert bomb.starts <= 1
    await _nothing_left(bomb.bench)


SCENARIOS = {"goes-on": _goes_on, "deleted-while-down": _deleted_while_down}
ALL = [(point, scenario, group) for point in clean_steps() for scenario in SCENARIOS for group in (False, True)]
SLICE = random.Random(7).sample(ALL, 6)


async def test_the_steps_of_a_clean_run_are_the_ones_that_are_swept(deploy: Deploy, tmp_path: Path) -> None:
    bomb = Bomb(deploy, tmp_path)
    await bomb.run()
    await bomb.recorded("after 2 patch brevjobs")
    swept = set(clean_steps())
    assert len(swept) == 2 * (WRITES + len(CALLS))
    assert swept <= set(bomb.steps)
    assert len(bomb.steps) <= len(swept) + 2, "a step that is never swept"


@pytest.mark.parametrize(("point", "scenario", "group"), SLICE)
async def test_killed_at_a_step_of_the_slice(
    deploy: Deploy, tmp_path: Path, point: str, scenario: str, group: bool
) -> None:
    await SCENARIOS[scenario](Bomb(deploy, tmp_path, point, group=group))


@pytest.mark.full
@pytest.mark.parametrize(("point", "scenario", "group"), ALL)
async def test_killed_at_a_step(deploy: Deploy, tmp_path: Path, point: str, scenario: str, group: bool) -> None:
    await SCENARIOS[scenario](Bomb(deploy, tmp_path, point, group=group))


@pytest.mark.parametrize(
    ("mutant", "point", "scenario"),
    [
        ("no-write-ahead", "after 1 call create", "deleted-while-down"),
        ("late-finalizer", "after 1 call create", "deleted-while-down"),
        ("no-look-up", "after 1 call create", "goes-on"),
    ],
)
async def test_the_suite_notices_a_broken_rule(
    deploy: Deploy, tmp_path: Path, mutant: str, point: str, scenario: str
) -> None:
    bomb = Bomb(deploy, tmp_path, point, mutant)
    with pytest.raises(AssertionError, match=r"no machine is left|one machine per intent"):
        await SCENARIOS[scenario](bomb)
