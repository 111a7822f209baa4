"""`delete`, `stop`, `start`, `reset`."""

from __future__ import annotations

from typing import Any

from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.session import LoggedOutError, Session
from controller.sandbox.brevsim.rules.text import multierror, resty, spinner, trace

STOP_FLAGS = (Flag("all", "bool", "a", False, "stop all instances"),)
START_FLAGS = (
    Flag("detached", "bool", "d", False, "run the command in the background"),
    Flag("org", "string", "o", "", "organization (will override active org)"),
    Flag("name", "string", "n", "", "name your instance when creating a new one"),
    Flag("gpu", "string", "g", "n1-highmem-4:nvidia-tesla-t4:1", "GPU instance type"),
)
_NEEDS_NAME = "instance name required: provide as argument or pipe from another command"


async def _names(call: Call, parsed: Parsed) -> list[str]:
    names = parsed.arguments + await call.stdin_lines()
    if not names:
        raise CliError(_NEEDS_NAME)
    return names


async def _collect(call: Call, errors: list[str], error: CliError, prefix: str) -> None:
    """Note one name's failure for the multierror; the HTTP library has logged a login failure already."""
    if isinstance(error, LoggedOutError):
        await call.err(resty(error.logged, call.world.clock.now()))
    errors.append(prefix + error.text)


async def delete(call: Call, parsed: Parsed) -> int:
    """Asynchronous; names are printed only if all were accepted."""
    names = await _names(call, parsed)
    errors: list[str] = []
    for name in names:
        session = Session(call)
        try:
            machine_id = await _deletable(session, name)
            await session.request("DELETE", f"/api/workspaces/{machine_id}")
        except CliError as error:
            prefix = trace("pkg/cmd/delete.deleteWorkspace", 78) + trace("pkg/cmd/delete.handleAdminUser", 111)
            await _collect(call, errors, error, prefix)
            continue
        if not call.piped:
            await call.out(f"Deleting instance {name}. This can take a few minutes. Run 'brev ls' to check status\n")
    return await _named(call, names, errors)


async def _deletable(session: Session, name: str) -> str:
    """The id to delete; an admin's unknown word is taken for an id (§1.9)."""
    try:
        return str((await session.find(name))["id"])
    except LoggedOutError:
        raise
    except CliError as error:
        if "not found" not in error.text:
            raise
        user = await session.me()
        if user is None or user["globalUserType"] != "Admin":
            raise
        return name


async def _named(call: Call, names: list[str], errors: list[str]) -> int:
    if errors:
        raise CliError(multierror(errors))
    if call.piped:
        await call.out("".join(f"{name}\n" for name in names))
    return 0


async def stop(call: Call, parsed: Parsed) -> int:
    if parsed["all"]:
        return await _stop_all(call)
    names = await _names(call, parsed)
    errors: list[str] = []
    for name in names:
        session = Session(call)
        try:
            await session.me()
            await _stop_one(call, session, name)
        except CliError as error:
            plain = "does not support stop" in error.text
            await _collect(call, errors, error, "" if plain else trace("pkg/cmd/stop.stopWorkspace", 167))
            continue
        if not call.piped:
            await call.out(
                f"Stopping instance {name}.\nNote: this can take a few seconds. Run 'brev ls' to check status\n"
            )
    return await _named(call, names, errors)


async def _stop_one(call: Call, session: Session, name: str) -> None:
    try:
        machine = await session.find(name)
    except LoggedOutError:
        raise
    except CliError:
        if call.release.stop_unknown_fails:
            raise
        return
    if call.release.stop_checks_stoppable and not (machine.get("instanceTypeInfo") or {}).get("stoppable"):
        raise CliError(f'instance "{name}" does not support stop.')
    await session.request("PUT", f"/api/workspaces/{machine['id']}/stop")


async def _stop_all(call: Call) -> int:
    session = Session(call)
    organization, user = await session.organization(), await session.me()
    for row in await session.rows(organization["id"]):
        mine = user is None or user["id"] == row["createdByUserId"]
        if mine and row["status"] == "RUNNING":
            await session.request("PUT", f"/api/workspaces/{row['id']}/stop")
    return 0


async def start(call: Call, parsed: Parsed) -> int:
    """Only the first argument counts; what it does not know is taken for a local path, with exit code 0 (A23)."""
    if "gpu" in parsed.given:
        text = f"invalid GPU instance type: {parsed['gpu']}, more information can be found on "
        raise CliError(f"{text}https://docs.brevsim.invalid/quick-start.html#select-your-compute")
    names = parsed.arguments[:1] + ([] if parsed.arguments else await call.stdin_lines())
    if parsed.arguments:
        await call.stdin_lines()
    if not names:
        raise CliError(_NEEDS_NAME)
    for name in names:
        await _start_one(call, name, detached=parsed["detached"])
        if call.piped:
            await call.out(f"{name}\n")
    return 0


async def _start_one(call: Call, name: str, *, detached: bool) -> None:
    session = Session(call)
    try:
        machine = await session.find(name)
    except LoggedOutError:
        raise
    except CliError as error:
        if "not found" not in error.text:
            raise
        if call.path(name).is_dir():
            raise CliError(f"Could not read .git/config at {name}") from error
        await call.out("tried to start with local path but path not found\n")
        return
    if machine["status"] != "STOPPED":
        raise CliError(f"Instance is not stopped status={machine['status']}")
    await session.request("PUT", f"/api/workspaces/{machine['id']}/start")
    await call.out(
        f"Instance {name} is starting. \nNote: this can take about a minute. Run 'brev ls' to check status\n\n"
    )
    if not detached:
        await call.out("You can safely ctrl+c to exit\n\n")
        await until_running(call, session, machine["id"])
        await call.out(
            f"Your instance is ready!\n\nConnect to the instance:\n"
            f"\tbrev open {name}\t# brev open <NAME> -> open instance in VS Code\n"
            f"\tbrev shell {name}\t# brev shell <NAME> -> ssh into instance (shortcut)\n"
        )


async def until_running(call: Call, session: Session, machine_id: str, text: str = "hang tight 🤙") -> dict[str, Any]:
    """Poll without an end, after a first sleep even if the machine runs; FAILURE is waited on too (§1.0.5)."""
    await call.err(spinner(text))
    while True:
        await call.world.clock.sleep(call.world.profile.poll)
        row: dict[str, Any] = await session.request("GET", f"/api/workspaces/{machine_id}")
        if row["status"] == "RUNNING":
            return row
        if not call.world.profile.poll:
            await call.world.clock.sleep(0.01)


async def reset(call: Call, parsed: Parsed) -> int:
    for name in parsed.arguments:
        session = Session(call)
        machine = await session.find(name)
        await session.request("PUT", f"/api/workspaces/{machine['id']}/reset")
        await call.out(
            f"Instance {name} is resetting.\nNote: this can take a few seconds. Run 'brev ls' to check status\n"
        )
    return 0
