"""`ls`: JSON rows, tables, and the words that it silently does not know."""

from __future__ import annotations

from typing import Any

from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.orgs import organization_table, pick
from controller.sandbox.brevsim.rules.session import Session
from controller.sandbox.brevsim.rules.simple import onboarded
from controller.sandbox.brevsim.rules.text import go_json, table

FLAGS = (
    Flag("all", "bool", "", False, "show all instances in org"),
    Flag("json", "bool", "", False, "output as JSON"),
    Flag("org", "string", "o", "", "organization (will override active org)"),
)
_KEY_REFUSES = {
    "orgs": "organizations",
    "org": "organizations",
    "organizations": "organizations",
    "organization": "organizations",
    "users": "users",
    "user": "users",
    "hosts": "hosts",
    "host": "hosts",
}
_WALK = (
    "\nThe command brev ls shows your instances\nIf the instance is RUNNING, you can open it.\n\n"
    "Try opening a terminal SSHed in your instance\nIn a new terminal, run brev shell {name}\n"
)
_NO_WALK = (
    "Please create a running instance for this walk through. \n\tYou can do that here: {url}/console/environments/new\n"
    "\nRun: brev hello to resume this walk through when your instance is ready\n"
)
_INSTANCES = {"", "instances", "instance", "workspaces", "workspace"}


async def run(call: Call, parsed: Parsed) -> int:
    session = Session(call)
    bound = session.api_key_organization()
    if bound and parsed["org"]:
        raise CliError("api key auth is scoped to the org saved during login; --org is not supported")
    user = await session.me()
    if parsed["org"]:
        organization = pick(await session.organizations(), parsed["org"], "org found")
    else:
        organization = await session.organization()
    if len(parsed.arguments) > 1:
        raise CliError("too many args provided")
    word = parsed.arguments[0] if parsed.arguments else ""
    if bound and word in _KEY_REFUSES:
        raise CliError(f"api key auth cannot list {_KEY_REFUSES[word]}")
    if word in _INSTANCES:
        await _instances(call, session, parsed, organization, user)
    elif word in {"orgs", "org", "organizations", "organization"}:
        await _organizations(call, session, parsed, organization)
        await _newcomer(call, session, user, await session.rows(organization["id"]) if _strange(call, user) else [])
    elif word in {"nodes", "node"} and parsed["json"]:
        await call.out("[]\n")
    return 0


async def _organizations(call: Call, session: Session, parsed: Parsed, active: dict[str, Any]) -> None:
    found = await session.organizations()
    if parsed["json"]:
        rows = [{"name": o["name"], "id": o["id"], "is_active": o["id"] == active["id"]} for o in found]
        await call.out(f"{go_json(rows)}\n")
    else:
        await call.out(organization_table(found, active["id"], "brev org set"))


async def _instances(
    call: Call, session: Session, parsed: Parsed, organization: dict[str, Any], user: dict[str, Any] | None
) -> None:
    rows = await session.rows(organization["id"])
    if user is not None and not parsed["all"]:
        rows = [row for row in rows if user["id"] in {row["createdByUserId"], *row["additionalUsers"]}]
    gpus = await _gpu_names(session)
    shown = [_row(call, row, gpus) for row in rows]
    if parsed["json"]:
        value: Any = shown or None
        await call.out(f"{go_json({'workspaces': value} if call.release.list_is_object else value)}\n")
        await _newcomer(call, session, user, rows)
        return
    await call.out(_table(call, organization["name"], shown, everybody=parsed["all"], bound=user is None))


def _strange(call: Call, user: dict[str, Any] | None) -> bool:
    """Whether an old release takes the user for one who has not been shown around."""
    return call.release.onboarding and user is not None and not user["onboardingData"]["finishedOnboarding"]


async def _newcomer(call: Call, session: Session, user: dict[str, Any] | None, rows: list[dict[str, Any]]) -> None:
    """Old releases say more after the JSON, and with a running machine never end (A1)."""
    if user is None or not _strange(call, user):
        return
    if onboarded(call):
        data = {"finishedOnboarding": True, "usedCLI": True}
        await session.request("PUT", f"/api/users/{user['id']}", {"username": user["username"], "onboardingData": data})
        return
    await session.request("PUT", f"/api/users/{user['id']}", {"username": user["username"]})
    running = next((row["name"] for row in rows if row["status"] == "RUNNING"), "")
    if running:
        await call.out(_WALK.format(name=running))
        await call.world.clock.sleep(10**9)
    await call.out(_NO_WALK.format(url=call.world.url))
    await call.world.clock.sleep(call.world.profile.poll)


async def _gpu_names(session: Session) -> dict[str, str]:
    """Types that the catalog knows, with their GPU; a failure of the catalog is swallowed."""
    try:
        found = await session.request("GET", "/public/v1/instance/types?include_cpu=true", auth=False)
    except CliError:
        return {}
    return {
        item["type"]: item["supported_gpus"][0]["name"] for item in reversed(found["items"]) if item["supported_gpus"]
    }


def _row(call: Call, row: dict[str, Any], gpus: dict[str, str]) -> dict[str, str]:
    status, build, health = row["status"], row["verbBuildStatus"], row["healthStatus"]
    instance_type = row["instanceType"] or row["workspaceClassId"]
    gpu = gpus.get(instance_type)
    group = {"workspaceGroupId": row["workspaceGroupId"]} if call.release.groups_in_list else {}
    return {
        "name": row["name"],
        "id": row["id"],
        "status": "UNHEALTHY" if (status, health) == ("RUNNING", "UNHEALTHY") else status,
        "build_status": build,
        "shell_status": "READY" if (status, build) == ("RUNNING", "COMPLETED") else "NOT READY",
        "health_status": health,
        "instance_type": instance_type,
        "instance_kind": "gpu" if gpu else "cpu",
        "gpu": gpu or "-",
        **group,
    }


def _table(call: Call, organization: str, rows: list[dict[str, str]], *, everybody: bool, bound: bool) -> str:
    if not rows:
        return f"No instances in org {organization}\n\nStart a new instance:\n"
    head = f"You have {len(rows)} instances in Org {organization}\n"
    if bound:
        head = f"Org {organization} has {len(rows)} instances\n"
    elif everybody and call.release.nodes_in_list:
        head = f"{len(rows)} instances in Org {organization}\n"
    keys = ("name", "status", "build_status", "shell_status", "id", "instance_type", "gpu")
    header = ("NAME", "STATUS", "BUILD", "SHELL", "ID", "MACHINE", "GPU")
    return head + table(header, [[row[key] for key in keys] for row in rows]) + "\n"
