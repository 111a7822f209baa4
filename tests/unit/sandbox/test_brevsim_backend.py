"""The backend as a process: its HTTP API, and that nothing outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.brevsim import Profile, Simulator


@pytest.fixture
async def simulator(tmp_path: Path) -> AsyncIterator[Simulator]:
    simulator = await Simulator.start(tmp_path / "sim", profile=Profile.instant())
    try:
        yield simulator
    finally:
        await simulator.stop()


def request(simulator: Simulator, method: str, path: str, body: Any = None, *, key: str = "") -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"{simulator.url}{path}", data=data, method=method)
    if key:
        asked.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def test_the_http_api_takes_a_machine_from_create_to_gone(simulator: Simulator) -> None:
    key, organization = simulator.api_key, simulator.org_id
    rows = f"/api/organizations/{organization}/workspaces"
    status, made = request(simulator, "POST", rows, {"name": "m", "instanceType": "e2-small"}, key=key)
    assert (status, made["status"], made["instanceTypeInfo"]) == (200, "DEPLOYING", {"stoppable": True})
    status, (row,) = request(simulator, "GET", rows, key=key)
    assert (row["id"], row["status"], row["verbBuildStatus"], row["sshUser"]) == (
        made["id"],
        "RUNNING",
        "COMPLETED",
        "ubuntu",
    )
    assert request(simulator, "PUT", f"/api/workspaces/{made['id']}/stop", key=key)[1]["status"] == "STOPPING"
    assert request(simulator, "PUT", f"/api/workspaces/{made['id']}/start", key=key)[1]["status"] == "STARTING"
    assert request(simulator, "DELETE", f"/api/workspaces/{made['id']}", key=key)[1]["status"] == "DELETING"
    assert request(simulator, "GET", rows, key=key) == (200, [])
    (line,) = (await simulator.invoice())["lines"]
    assert (line["name"], line["type"], line["pricePerHourMicros"]) == ("m", "e2-small", 16_800)
    assert line["closedAt"] >= line["openedAt"]


async def test_a_bearer_is_needed_and_is_bound_to_its_organisations(simulator: Simulator) -> None:
    assert request(simulator, "GET", "/api/me")[0] == 401
    assert request(simulator, "GET", "/api/me", key="bak-unknown")[0] == 403
    other = f"/api/organizations/{simulator.other_account_org_id}/workspaces"
    assert request(simulator, "GET", other, key=simulator.api_key)[0] == 404
    second = f"/api/organizations/{simulator.second_org_id}"
    assert request(simulator, "GET", second, key=simulator.api_key)[0] == 404
    assert request(simulator, "GET", second, key=simulator.second_org_api_key)[0] == 200


async def test_the_catalog_needs_no_bearer_and_the_organisations_listing_shows_capacity(simulator: Simulator) -> None:
    items = request(simulator, "GET", "/public/v1/instance/types?include_cpu=true")[1]["items"]
    assert {"g4dn.xlarge", "g6e.xlarge", "e2-small"} <= {item["type"] for item in items}
    path = f"/api/instances/alltypesavailable/{simulator.org_id}"
    listed = request(simulator, "GET", path, key=simulator.api_key)[1]["allInstanceTypes"]
    assert {item["type"] for item in listed if not item["workspace_groups"]} == {"gpu_8x_b200"}


async def test_a_route_that_nobody_wrote_is_an_alarm(simulator: Simulator) -> None:
    assert request(simulator, "GET", "/api/credits", key=simulator.api_key)[0] == 404
    assert [alarm["kind"] for alarm in await simulator.alarms()] == ["route"]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


async def gone(pids: list[int]) -> None:
    """Wait by their pidfds until these processes have ended."""
    loop = asyncio.get_running_loop()
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        loop.add_reader(descriptor, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), 30)
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


async def work(simulator: Simulator, home: Path) -> list[int]:
    """Start a process on a machine that left its session and cleared its environment; its pid."""
    simulator.log_in(home)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **simulator.env()}
    for argv in (
        ["create", "m", "--type", "e2-small", "-d"],
        ["refresh"],
        ["exec", "m", "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 &"],
    ):
        process = await asyncio.create_subprocess_exec(
            simulator.cli, *argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert await process.wait() == 0
    (machine,) = await simulator.wait_for(lambda rows: rows[0]["processes"] == 1)
    pids: list[int] = machine["pids"]
    assert all(alive(pid) for pid in pids)
    return pids


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_what_runs_on_machines_ends_with_the_backend_however_that_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    simulator = await Simulator.start(tmp_path / "sim", profile=Profile.instant())
    pids = await work(simulator, tmp_path / "home")
    os.kill(simulator.pid, number)
    await gone([*pids, simulator.pid])
    await simulator.stop()
    assert not any(alive(pid) for pid in pids)


_PARENT = """
import asyncio, sys, time
from pathlib import Path
from controller.sandbox.brevsim import Profile, Simulator
simulator = asyncio.run(Simulator.start(Path(sys.argv[1]), profile=Profile.instant()))
print(simulator.pid, simulator.url, simulator.cli, flush=True)
time.sleep(600)
"""


async def test_the_backend_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PARENT, str(tmp_path / "sim"), stdout=subprocess.PIPE, cwd=root
    )
    assert parent.stdout is not None
    pid, url, cli = (await parent.stdout.readline()).decode().split()
    borrowed = Simulator.__new__(Simulator)
    borrowed.url, borrowed.cli = url, Path(cli)
    pids = await work(borrowed, tmp_path / "home")
    parent.kill()
    await parent.wait()
    await gone([int(pid), *pids])
    assert not any(alive(process) for process in [int(pid), *pids])


async def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    simulator = await Simulator.start(tmp_path / "sim", profile=Profile.instant())
    await simulator.stop()
    await simulator.stop()
    assert not alive(simulator.pid)
