"""`org`, `org ls`, `org set`, `set`, and the organisation tables of `ls orgs`."""

from __future__ import annotations

from typing import Any

from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.session import Session, save_json
from controller.sandbox.brevsim.rules.text import go_json, table

ORGS_FLAGS = (Flag("json", "bool", "", False, "output as JSON"),)


def pick(organizations: list[dict[str, Any]], name: str, many: str) -> dict[str, Any]:
    """By name, whatever the case, never by id; `many` is `org found` or `orgs exist` in the error text."""
    found = [organization for organization in organizations if organization["name"].lower() == name.lower()]
    if not found:
        raise CliError(f"no {many} with name {name}")
    if len(found) > 1:
        raise CliError(f"more than one {many.replace('orgs', 'org')} with name {name}")
    return found[0]


def organization_table(organizations: list[dict[str, Any]], active_id: str, switch: str) -> str:
    rows = [
        (f"* {organization['name']}" if organization["id"] == active_id else organization["name"], organization["id"])
        for organization in organizations
    ]
    text = "Your organizations:\n" + table(("NAME", "ID"), rows)
    other = next((organization for organization in organizations if organization["id"] != active_id), None)
    if other:
        text += f"\nSwitch orgs:\n\t{switch} <NAME> ex: {switch} {other['name']}\n"
    return text


async def org(call: Call, parsed: Parsed) -> int:
    match parsed.arguments:
        case ["set", *rest]:
            if not rest:
                raise CliError("requires at least 1 arg(s), only received 0")
            await call.out("\n")
            found = await _activate(call, rest[0])
            await call.out(f"Org {found['name']} is now active 🤙\n")
        case [] | ["ls" | "list"]:
            await _list(call)
        case [word, *_]:
            raise CliError(f'unknown command "{word}" for "brev org"')
    return 0


async def _list(call: Call) -> None:
    session = Session(call)
    organizations = await session.organizations()
    if not organizations:
        await call.out(f"You don't have any orgs. Create one! {call.world.url}/console\n")
        return
    active = await session.organization()
    await call.out(organization_table(organizations, active["id"], "brev org set"))


async def orgs(call: Call, parsed: Parsed) -> int:
    """`orgs --json` as the seeds read it: each organisation with its cloud credentials."""
    if not parsed["json"]:
        await _list(call)
        return 0
    session = Session(call)
    active = await session.organization()
    rows = []
    for found in await session.organizations():
        said = {"is_active": found["id"] == active["id"]} if call.release.orgs_say_active else {}
        rows.append({key: found[key] for key in ("name", "id", "cloudCredentials")} | said)
    await call.out(f"{go_json(rows)}\n")
    return 0


async def set_active(call: Call, parsed: Parsed) -> int:
    if not parsed.arguments:
        raise CliError("requires at least 1 arg(s), only received 0")
    if Session(call).api_key_organization():
        raise CliError(
            "api key auth is scoped to the org saved during login; "
            "run brev login --api-key <api-key> --org-id <org-id> to change it"
        )
    await _activate(call, parsed.arguments[0])
    return 0


async def _activate(call: Call, name: str) -> dict[str, Any]:
    """Written also with an API key, where it has no effect (A16)."""
    session = Session(call)
    found = pick(await session.organizations(), name, "orgs exist")
    save_json(call, session.organization_file, {key: found.get(key, "") for key in ("id", "name", "userNetworkId")})
    return found
