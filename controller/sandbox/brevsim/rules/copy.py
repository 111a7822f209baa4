"""`copy`: the waits of the real program, then what scp would do."""

from __future__ import annotations

import asyncio
import time

from controller.sandbox.brevsim.faults import Point
from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.rules import refresh, ssh
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.execute import wait_for_ssh
from controller.sandbox.brevsim.rules.flags import Flag, Parsed, exactly
from controller.sandbox.brevsim.rules.power import until_running
from controller.sandbox.brevsim.rules.session import Session
from controller.sandbox.brevsim.transfer import TransferError, cut_short, remote_path, transfer

FLAGS = (Flag("host", "bool", "", False, "copy to/from the host machine instead of the container"),)
_ONE_SIDE = "exactly one of source or destination must be an instance path (format: instance_name:/path)"


async def run(call: Call, parsed: Parsed) -> int:
    exactly(parsed, 2)
    source, destination = parsed.arguments
    upload = ":" in destination
    if upload == (":" in source):
        raise CliError(_ONE_SIDE)
    name, _, there = (destination if upload else source).partition(":")
    if ":" in there or not name or not there:
        raise CliError("invalid instance path format, use instance_name:/path")
    if upload and not call.path(source).exists():
        raise CliError(f"local file or directory does not exist: {source}")
    machine = await _reach(call, name)
    started = time.monotonic()
    try:
        await asyncio.to_thread(_move, call, machine, source if upload else destination, there, upload)
    except TransferError as error:
        raise CliError(f"scp failed: exit status 1\nOutput: {error}\r\n") from error
    took = max(1, round((time.monotonic() - started) * 1000))
    await call.out(f"\n✓ Successfully copied {source} → {destination} ({took}ms)\n\n")
    return 0


def _move(call: Call, machine: Machine, here: str, there: str, upload: bool) -> None:
    local, remote = call.path(here), remote_path(machine.directory, machine.home, there)
    if upload:
        transfer(local, remote, 0o022, shown=there, source_shown=here)
    else:
        transfer(remote, local, call.umask, shown=here, source_shown=there)
    for action in call.world.faults.take(Point.COPY, verb="copy", name=machine.name, machine=machine.id):
        cut_short(remote if upload else local, float(action.get("fraction", 0.5)))
        raise TransferError("scp: Connection closed")


async def _reach(call: Call, name: str) -> Machine:
    """Start it if it is stopped, wait without an end until it runs, refresh, wait for ssh."""
    session = Session(call)
    row = await session.find(name)
    if row["status"] == "STOPPED":
        await session.request("PUT", f"/api/workspaces/{row['id']}/start")
        await call.out(f"Instance {name} is starting. \n\n")
    await until_running(call, session, row["id"], "waiting for instance to be ready...")
    await refresh.rewrite(call)
    await wait_for_ssh(call, name, row["name"], copying=True)
    reached = await ssh.connect(call, row["name"])
    if isinstance(reached, ssh.Unreached):
        raise CliError(f"scp failed: exit status 255\nOutput: {reached.text}")
    return reached.machine
