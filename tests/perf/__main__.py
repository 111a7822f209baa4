"""Measure one job's life, its writes, Events and CLI calls, the operator's memory, and the simulated CLI's start.

Prints a Markdown table. Run it on an idle machine: `make bench`.
"""

import asyncio
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from controller.api.meta import API_VERSION, GROUP, VERSION, Kind
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.controlplane import ControlPlane
from controller.sandbox.world import CRDS, Sandbox, SandboxOptions

NAMESPACE = "default"
SMALLEST_SCALE = 0.002


@dataclass(frozen=True, slots=True)
class Life:
    """One job, from the POST of the object to its terminal condition."""

    seconds: float
    writes: int
    events: int
    calls: int
    memory_mb: float


def job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": str(Kind.JOB),
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "instanceTemplate": {"spec": {"candidates": [{"type": "g6e.xlarge"}]}},
            "script": {"text": "echo done\n"},
        },
    }


async def life(sandbox: Sandbox, name: str) -> Life:
    """Run one job to its end; the figures are differences to what was counted before."""
    memory = _resident_mb(sandbox.operator.pid)
    writes = await _writes(sandbox)
    calls = len(await _calls(sandbox))
    started = time.monotonic()
    jobs = f"/apis/{GROUP}/{VERSION}/namespaces/{NAMESPACE}/{Kind.JOB.plural}"
    answer = await asyncio.to_thread(sandbox.cluster.request, "POST", jobs, job(name))
    if answer.status != 201:
        raise RuntimeError(str(answer.body))
    await asyncio.to_thread(
        sandbox.cluster.kubectl, "wait", "--for=condition=Complete", f"bjob/{name}", "-n", NAMESPACE, "--timeout=120s"
    )
    seconds = time.monotonic() - started
    await asyncio.sleep(1)  # the finalizer and the Events follow the last condition
    events = await asyncio.to_thread(sandbox.cluster.request, "GET", f"/api/v1/namespaces/{NAMESPACE}/events")
    told = [event for event in events.body["items"] if event["involvedObject"]["name"].startswith(name)]
    return Life(seconds, await _writes(sandbox) - writes, len(told), len(await _calls(sandbox)) - calls, memory)


async def _writes(sandbox: Sandbox) -> int:
    """Writes to BrevJobs and BrevInstances that the API server answered, by the operator's own count."""
    total = 0
    pattern = (
        r'brev_kubernetes_requests_total\{code="2\d\d",resource="(brevjobs|brevinstances)[^"]*",verb="(\w+)"\} (\S+)'
    )
    for _, verb, count in re.findall(pattern, await sandbox.operator.metrics()):
        if verb in ("create", "patch", "delete"):
            total += int(float(count))
    return total


async def _calls(sandbox: Sandbox) -> list[list[str]]:
    """CLI calls besides polls: no `ls`, no `state`, no probe that failed."""
    found = []
    for call in await sandbox.simulator.calls():
        argv = call["argv"]
        poll = argv[0] == "ls" or (argv[0] == "exec" and " state " in argv[-1])
        failed_probe = argv[0] == "exec" and "probe" in argv[-1] and call["rc"] != 0
        if not poll and not failed_probe:
            found.append(argv)
    return found


def _resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        match = re.search(r"VmRSS:\s+(\d+) kB", status.read())
    return int(match[1]) / 1024 if match else 0.0


def cli_start_ms(sandbox: Sandbox, runs: int = 40) -> float:
    """Median wall time of `brev --version --no-check-latest` of the simulator, in milliseconds."""
    environment = {**sandbox.simulator.env(), "HOME": str(sandbox.directory), "PATH": os.defpath}
    figures = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(
            [str(sandbox.simulator.cli), "--version", "--no-check-latest"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        figures.append((time.perf_counter() - started) * 1000)
    return statistics.median(figures)


async def measure(plane: ControlPlane, profile: Profile, scale: float, runs: int) -> tuple[list[Life], float]:
    """`runs` jobs, one after the other, in one sandbox on `plane`; and the CLI's start."""
    base = SandboxOptions(profile=profile)
    options = replace(base, operator=replace(base.operator, time_scale=scale))
    async with Sandbox(options, cluster=plane.cluster) as sandbox:
        start = cli_start_ms(sandbox)
        lives = [await life(sandbox, f"bench-{time.time_ns() % 10**9}") for _ in range(runs)]
        await asyncio.to_thread(sandbox.cluster.kubectl, "delete", "bacct", options.account, "--timeout=60s")
        secret = f"/api/v1/namespaces/{options.operator.namespace}/secrets/brev-login"
        await asyncio.to_thread(sandbox.cluster.request, "DELETE", secret)
    return lives, start


async def main() -> None:
    plane = await asyncio.to_thread(ControlPlane.start, crds=sorted(CRDS.glob("*.yaml")))
    try:
        quick, start = await measure(plane, replace(Profile.instant()), SMALLEST_SCALE, runs=5)
        usual, _ = await measure(plane, Profile.default(), 0.1, runs=2)
    finally:
        await asyncio.to_thread(plane.stop)
    rows = [
        ("one job, zero latencies, smallest time scale: seconds, median of 5", _median(quick), "≤ 3"),
        ("one job, default profile of the sandbox: seconds, median of 2", _median(usual), ""),
        ("object writes of one job, at most", str(max(each.writes for each in quick)), "≤ 16"),
        ("Events of one job, at most", str(max(each.events for each in quick)), "≤ 8"),
        ("CLI calls of one job besides polls, at most", str(max(each.calls for each in quick)), "≤ 12"),
        ("operator memory at start, MB resident", f"{quick[0].memory_mb:.0f}", "≤ 120"),
        ("start of the simulated brev executable: ms, median of 40", f"{start:.0f}", "≤ 40"),
    ]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.machine()}\n")
    print("| figure | measured | bound |\n| --- | --- | --- |")
    print("\n".join(f"| {name} | {value} | {bound} |" for name, value, bound in rows))


def _median(lives: list[Life]) -> str:
    return f"{statistics.median(each.seconds for each in lives):.2f}"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
