"""The demo: a manifest applied to a sandbox, its jobs followed by watch, and what came of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob, JobPhase
from controller.api.meta import Kind
from controller.api.money import format_usd
from controller.sandbox.manifest import Manifest, read_manifest
from controller.sandbox.report import Result, job_report
from controller.sandbox.terminal import Terminal, printable
from controller.sandbox.timeline import Line, Timeline
from controller.sandbox.watching import Seen, watch
from controller.sandbox.world import Sandbox, SandboxError, SandboxOptions, allowing

PHASE_WIDTH = max(len(phase) for phase in JobPhase)
HEAD_WIDTH = 8 + 2 + PHASE_WIDTH + 2 + 9 + 2
FAILURE_LOG_LINES = 15


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says."""

    sample: Path
    sandbox: SandboxOptions
    timeout: float
    """Seconds from the apply after which the jobs are given up."""
    keep_logs: Path | None = None


async def run_demo(options: DemoOptions, terminal: Terminal) -> int:
    """Exit code 0 if every job succeeded and no machine is left, else 1. Raises what keeps the sandbox from working."""
    manifest = read_manifest(options.sample)
    return await _Demo(options, manifest, terminal).run()


class _Demo:
    def __init__(self, options: DemoOptions, manifest: Manifest, terminal: Terminal) -> None:
        self._options = options
        self._manifest = manifest
        self._terminal = terminal
        self._timeline = Timeline(manifest.jobs)
        self._begun = time.monotonic()
        self._applied = self._begun

    async def run(self) -> int:
        terminal, manifest = self._terminal, self._manifest
        terminal.line(terminal.style(f"brev-operator demo: {_shown(manifest.path)}", "bold"))
        world = allowing(self._options.sandbox, manifest.namespaces, manifest.own_namespaces)
        sandbox = Sandbox(world, say=self._say, keep_logs=self._options.keep_logs)
        async with sandbox:
            finished = await self._follow(sandbox)
            code = await self._conclude(sandbox, finished)
        if self._options.keep_logs is not None:
            terminal.line(f"logs: {self._options.keep_logs}")
        return code

    def _say(self, text: str) -> None:
        terminal = self._terminal
        terminal.line(terminal.style(f"{time.monotonic() - self._begun:7.1f}s  {text}", "dim"))

    async def _follow(self, sandbox: Sandbox) -> bool:
        """Apply, and print what happens until every job is over; False when that took too long."""
        events: asyncio.Queue[Seen] = asyncio.Queue()
        helpers = [
            _task(_pump(sandbox, Kind.JOB, events)),
            _task(_pump(sandbox, Kind.INSTANCE, events)),
            _task(sandbox.supervise()),
        ]
        follower = _task(self._apply_and_print(sandbox, events))
        try:
            async with asyncio.timeout(self._options.timeout):
                done, _ = await asyncio.wait({follower, *helpers}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except TimeoutError:
            return False
        finally:
            for task in (follower, *helpers):
                task.cancel()
            await asyncio.gather(follower, *helpers, return_exceptions=True)
        return True

    async def _apply_and_print(self, sandbox: Sandbox, events: asyncio.Queue[Seen]) -> None:
        self._applied = time.monotonic()
        arguments = ("apply", "--server-side", "-f", str(self._manifest.path))
        applied = await asyncio.to_thread(sandbox.cluster.kubectl, *arguments, check=False)
        if applied.returncode != 0:
            raise SandboxError(f"kubectl apply refused {self._manifest.path}:\n{applied.stderr.strip()}")
        self._say("applied: " + ", ".join(line.split(" ")[0] for line in applied.stdout.splitlines()))
        self._heading()
        while not self._timeline.over:
            seen = await events.get()
            for line in self._lines(seen):
                self._print(line)

    def _lines(self, seen: Seen) -> list[Line]:
        now = datetime.now(UTC)
        if seen.kind is Kind.JOB:
            return self._timeline.see_job(BrevJob.parse(seen.body), now, deleted=seen.deleted)
        return self._timeline.see_instance(BrevInstance.parse(seen.body), now, deleted=seen.deleted)

    def _heading(self) -> None:
        terminal = self._terminal
        head = f"\n{'seconds':>8}  {'phase':<{PHASE_WIDTH}}  {'cost USD':>9}  what happens"
        terminal.line(terminal.style(head, "dim"))

    def _print(self, line: Line) -> None:
        terminal = self._terminal
        several = len(self._timeline.jobs) > 1
        text = f"{line.job[1]}: {line.text}" if several else line.text
        first, *rest = terminal.wrapped(printable(text).replace("\n", " "), HEAD_WIDTH)
        seconds = terminal.style(f"{time.monotonic() - self._applied:8.1f}", "dim")
        cost = terminal.style(f"{format_usd(line.cost_micros, 5):>9}", "yellow")
        body = [terminal.style(part, "red") if line.trouble else part for part in (first, *rest)]
        terminal.line(f"{seconds}  {terminal.phase(line.phase, PHASE_WIDTH)}  {cost}  {body[0]}")
        for part in body[1:]:
            terminal.line(" " * HEAD_WIDTH + part)

    async def _conclude(self, sandbox: Sandbox, finished: bool) -> int:
        terminal = self._terminal
        elapsed = time.monotonic() - self._applied
        invoice = (await sandbox.simulator.invoice())["lines"]
        for name, job in self._timeline.jobs.items():
            machines = self._timeline.machines(name)
            charged = sum(line["micros"] for line in invoice if line["name"] in machines)
            job_report(terminal, Result(name, job, charged))
        machines_left = await sandbox.simulator.machines()
        terminal.line()
        terminal.line(f"from apply to result: {elapsed:.1f} s")
        colour = "red" if machines_left else "green"
        terminal.line(terminal.style(f"machines left: {len(machines_left)}", "bold", colour))
        for machine in machines_left:
            terminal.line(f"  {machine.get('name')} is {machine.get('status')}")
        problem = self._problem(finished, len(machines_left))
        if not problem:
            return 0
        terminal.line(terminal.style(problem, "red"))
        terminal.line(f"the operator's last log lines (of {len(sandbox.operator.log().splitlines())}):")
        for logged in sandbox.operator.log_tail(FAILURE_LOG_LINES).splitlines():
            terminal.line(terminal.style(f"  {logged}", "dim"))
        return 1

    def _problem(self, finished: bool, machines_left: int) -> str:
        """Why the demo has not succeeded; empty when it has."""
        if not finished:
            return f"not over after {self._options.timeout:.0f} s"
        jobs = self._timeline.jobs
        failed = [name[1] for name, job in jobs.items() if job is None or job.status.phase is not JobPhase.SUCCEEDED]
        if failed:
            return f"not succeeded: {', '.join(failed)}"
        return "machines are left" if machines_left else ""


async def _pump(sandbox: Sandbox, kind: Kind, events: asyncio.Queue[Seen]) -> None:
    async for seen in watch(sandbox.cluster, kind):
        events.put_nowait(seen)


def _shown(path: Path) -> str:
    """As short as it can be written from here."""
    return min(str(path), os.path.relpath(path), key=len)


def _task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)
