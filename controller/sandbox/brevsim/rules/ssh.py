"""The connection to a machine, in place of ssh: alias, address, key, and a command's streams."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.sandbox.brevsim.faults import Point
from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.session import Session, write_file

LOST = 255
"""ssh's exit code for everything that is not the remote command's own."""
_CHUNK = 64 * 1024
_MINTS = re.compile(r"^Match host (\S+) exec \"brev mint-cert", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Host:
    """One block of an ssh configuration."""

    alias: str
    address: str = ""
    port: int = 22
    user: str = "ubuntu"
    identity: str = ""
    mints: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    host: Host
    machine: Machine
    drop_after: float | None = None
    lingers: bool = False


@dataclass(frozen=True, slots=True)
class Unreached:
    """`text` is ssh's line, `waits` whether the program's probe goes on after it."""

    text: str
    waits: bool
    address: str = ""
    denied: bool = False


def read_config(path: Path) -> dict[str, Host]:
    """The blocks of a generated ssh_config by alias; a missing file has none."""
    hosts: dict[str, Host] = {}
    values: dict[str, str] = {}
    try:
        text = path.read_text()
    except OSError:
        return hosts
    lines = text.splitlines()
    minting = set(_MINTS.findall(text))
    for line in (*lines, "Host "):
        word, _, rest = line.strip().partition(" ")
        if word == "Host":
            if values.get("Host"):
                hosts.setdefault(values["Host"], _host(values, values["Host"] in minting))
            values = {}
        values[word] = rest.strip().strip('"')
    return hosts


def _host(values: dict[str, str], mints: bool) -> Host:
    port = values.get("Port", "22")
    return Host(
        alias=values["Host"],
        address=values.get("Hostname", ""),
        port=int(port) if port.isdigit() else 22,
        user=values.get("User", "ubuntu"),
        identity=values.get("IdentityFile", ""),
        mints=mints,
    )


async def connect(call: Call, alias: str) -> Reached | Unreached:
    """One attempt, as `ssh <alias>` would end: by the configuration in HOME and by nothing else."""
    await call.world.clock.sleep(call.world.profile.connect)
    host = read_config(call.brev_directory / "ssh_config").get(alias)
    if host is None:
        name = alias.lower()
        return Unreached(f"ssh: Could not resolve hostname {name}: Temporary failure in name resolution\r\n", False)
    drop_after: float | None = None
    lingers = False
    for action in call.world.faults.take(Point.SSH, verb=call.verb, name=alias):
        match action["type"]:
            case "drop":
                drop_after = float(action.get("after", 0.0))
            case "linger":
                lingers = True
            case kind:
                return await _faulty(call, host, kind)
    if host.mints and not await _minted(call, alias):
        return _denied(host)
    machine = call.world.at_address(host.address, host.port)
    if machine is None:
        await call.world.clock.sleep(call.world.profile.silent)
        return Unreached(_line(host, "Connection timed out"), True, host.address)
    if call.world.clock.now() < machine.ssh_up_at:
        return Unreached(_line(host, "Connection refused"), True, host.address)
    if not _admitted(host, machine):
        return _denied(host)
    return Reached(host, machine, drop_after, lingers)


async def _minted(call: Call, alias: str) -> bool:
    """What `brev mint-cert`, which ssh starts, would do: it needs a login, and leaves a certificate in HOME."""
    session = Session(call, prompts=False)
    try:
        if not await session.token():
            return False
        await session.request("GET", "/api/me/keys")
    except CliError:
        return False
    write_file(call, call.brev_directory / "ssh-certs" / alias, "certificate\n", 0o600)
    return True


async def _faulty(call: Call, host: Host, kind: str) -> Unreached:
    match kind:
        case "ssh_refused":
            return Unreached(_line(host, "Connection refused"), True, host.address)
        case "ssh_denied":
            return _denied(host)
        case "ssh_silent":
            await call.world.clock.sleep(call.world.profile.silent)
            return Unreached("Connection timed out during banner exchange\r\n", True, host.address)
    text = f"ssh: Could not resolve hostname {host.alias.lower()}: Temporary failure in name resolution\r\n"
    return Unreached(text, False)


def _line(host: Host, reason: str) -> str:
    return f"ssh: connect to host {host.address} port {host.port}: {reason}\r\n"


def _denied(host: Host) -> Unreached:
    # The probe's second line is the known-hosts warning, which counts as "wait" (A7).
    text = f"{host.user}@{host.address}: Permission denied (publickey).\r\n"
    return Unreached(text, True, host.address, denied=True)


def _admitted(host: Host, machine: Machine) -> bool:
    """Whether the identity file holds the machine's key and ssh would accept the file's mode."""
    path = Path(host.identity)
    try:
        return path.read_text() == machine.authorized_key and path.stat().st_mode & 0o077 == 0
    except OSError:
        return False


async def run_command(call: Call, reached: Reached, command: str, attempt: int) -> int:
    """Run a command there, stream its output, return ssh's exit code.

    If this task is cancelled (the local process was killed) the remote command goes on, with its output closed.
    """
    world, machine = call.world, reached.machine
    entry = world.ledger.command(world.clock.now(), machine, command, attempt)
    call.runs.append(entry)
    machine.used = True
    running = world.processes.start(machine.id, machine.home, command)
    running.finished.add_done_callback(lambda done: entry.update(exit=done.result(), endedAt=world.clock.now()))
    if reached.lingers:
        await call.streams.linger(running.pid)
    pumps = asyncio.gather(_pump(running.stdout, call.out), _pump(running.stderr, call.err))
    try:
        if reached.drop_after is None:
            await pumps
        else:
            await _broken(call, pumps, reached.drop_after)
            return LOST
    except BaseException:
        pumps.cancel()
        raise
    code = await running.finished
    world.settle()
    if machine.status != "RUNNING":
        await call.err(f"Connection to {reached.host.address} closed by remote host.\r\n")
    return code if code >= 0 else LOST


async def _broken(call: Call, pumps: asyncio.Future[tuple[None, None]], after: float) -> None:
    alarm = asyncio.ensure_future(call.world.clock.sleep(after))
    both: set[asyncio.Future[Any]] = {pumps, alarm}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for future in both:
        future.cancel()


async def _pump(descriptor: int, write: Callable[[bytes], Awaitable[None]]) -> None:
    """Copy a pipe to the client until its end; memory stays at one chunk."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK)
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        while data := await reader.read(_CHUNK):
            await write(data)
    finally:
        transport.close()
