"""`create`: which types are tried, what is sent, what is said, and what the exit code does not say."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.brevsim.api import CATALOG
from controller.sandbox.brevsim.rules import search
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.session import ApiError, Session
from controller.sandbox.brevsim.rules.text import trace

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
_LISTING_LOST = 'could not resolve workspace group for "{}" (instance-type listing was unavailable); please retry'
_NOTHING = "no GPU instances match the specified filters. Try 'brev search' to see available options"
_MODES = ("vm", "k8s", "container", "compose")
_FILTERS = (
    Flag("gpu-name", "string", "g", "", "Filter by GPU name (e.g., A100, H100)"),
    Flag("provider", "string", "", "", "Filter by provider/cloud (e.g., aws, gcp)"),
    Flag("min-vram", "float", "v", 0.0, "Minimum VRAM per GPU in GB"),
    Flag("min-total-vram", "float", "", 0.0, "Minimum total VRAM in GB"),
    Flag("min-capability", "float", "", 0.0, "Minimum GPU compute capability (e.g., 8.0)"),
    Flag("min-disk", "float", "", 0.0, "Minimum disk size in GB"),
    Flag("max-boot-time", "int", "", 0, "Maximum boot time in minutes"),
    Flag("stoppable", "bool", "", False, "Only use instances that can be stopped/restarted"),
    Flag("rebootable", "bool", "", False, "Only use instances that can be rebooted"),
    Flag("flex-ports", "bool", "", False, "Only use instances with configurable firewall rules"),
)
_BASE = (
    Flag("name", "string", "n", "", "Base name for the instances (or pass as first argument)"),
    Flag("type", "string", "t", "", "Comma-separated list of instance types to try"),
    Flag("count", "int", "c", 1, "Number of instances to create"),
    Flag("parallel", "int", "p", 1, "Number of parallel creation attempts"),
    Flag("detached", "bool", "d", False, "Don't wait for instances to be ready"),
    Flag("timeout", "int", "", 300, "Timeout in seconds for each instance to become ready"),
    Flag("startup-script", "string", "s", "", "Startup script to run on instance (string or @filepath)"),
    Flag("dry-run", "bool", "", False, "Show matching instance types without creating anything"),
    Flag("mode", "string", "m", "vm", "Build mode: vm (default), k8s, container, compose"),
    Flag("jupyter", "bool", "", True, "Install Jupyter (default true for vm/k8s modes)"),
    Flag("container-image", "string", "", "", "Container image URL (required for container mode)"),
    Flag("compose-file", "string", "", "", "Docker compose file path or URL (required for compose mode)"),
    Flag("sort", "string", "", "price", "Sort instance preference by: price, vram, boot-time, etc."),
    Flag("desc", "bool", "", False, "Sort in descending order"),
)
_LAUNCHABLE = Flag("launchable", "string", "l", "", "Launchable ID or URL to deploy (e.g., env-XXX or console URL)")


_PLACEMENT = (
    Flag("cloud-cred-id", "string", "", "", "Cloud credential to create the instance with"),
    Flag("workspace-group-id", "string", "", "", "Workspace group to create the instance in"),
)
_GPU = Flag("gpu", "string", "", "", "GPU and count (e.g., L40S:1)")


def flags(call: Call) -> Sequence[Flag]:
    release = call.release
    missing = {"type"} if not release.create_type else set()
    missing |= {"detached"} if not release.create_detached else set()
    base = tuple(flag for flag in (*_BASE, *_FILTERS) if flag.long not in missing)
    more: tuple[Flag, ...] = (_LAUNCHABLE,) if release.launchables else ()
    more += (_GPU,) if release.create_gpu else ()
    return (*base, *more, *_PLACEMENT) if release.placement_flags else (*base, *more)


@dataclass(frozen=True, slots=True)
class Wanted:
    type: str
    disk: int = 0
    """GB asked for; 0 = the default of 120 in the request."""

    def shown(self) -> str:
        return f"{self.type} ({self.disk}GB disk)" if self.disk else self.type


@dataclass(slots=True)
class Order:
    """One `create`: what to make and what came of it."""

    names: list[str]
    parsed: Parsed
    organization: dict[str, Any]
    listing: dict[str, list[dict[str, str]]] | None
    """Workspace groups by type, None if the listing could not be read."""
    credentials: dict[str, str]
    """Cloud credential by type, for releases without workspace groups."""
    script: str
    made: list[dict[str, Any]] = field(default_factory=list)
    duplicate: bool = False


async def run(call: Call, parsed: Parsed) -> int:
    stdin = await call.stdin_text()
    name = parsed["name"] or (parsed.arguments[0] if parsed.arguments else "")
    if call.release.launchables and parsed["launchable"]:
        word = parsed["launchable"]
        try:
            await Session(call).request("GET", f"/api/launchables/{word}/now")
        except ApiError as error:
            raise CliError(f'failed to fetch launchable "{word}": {error.text}') from error
    _check(parsed, name)
    script = _script(call, parsed["startup-script"])
    wanted = await _types(call, parsed, stdin)
    if parsed["dry-run"]:
        await call.out(f"{', '.join(item.shown() for item in wanted)}\n")
        return 0
    session = Session(call)
    await session.me()
    organization = await session.organization()
    names = [name] if parsed["count"] == 1 else [f"{name}-{number}" for number in range(1, parsed["count"] + 1)]
    grouped = call.release.workspace_groups
    listing = await _listing(call, session, organization) if grouped else {}
    credentials = {} if grouped else await _credentials(call, session, organization)
    order = Order(names, parsed, organization, listing, credentials, script)
    await _try_all(call, session, order, wanted)
    return await _result(call, session, order)


def _check(parsed: Parsed, name: str) -> None:
    if not name:
        raise CliError("name is required")
    if len(name) > 63:
        raise CliError(f"name must be 63 characters or fewer (got {len(name)})")
    if not _NAME.fullmatch(name):
        raise CliError(
            "name must start with a letter or digit and contain only letters, digits, hyphens, underscores, and dots"
        )
    if parsed["mode"] not in _MODES:
        raise CliError(f'invalid mode "{parsed["mode"]}": must be one of {", ".join(_MODES)}')
    if parsed["mode"] == "container" and not parsed["container-image"]:
        raise CliError("--container-image is required for container mode")
    if parsed["mode"] == "compose" and not parsed["compose-file"]:
        raise CliError("--compose-file is required for compose mode")
    if parsed["count"] < 1:
        raise CliError("--count must be at least 1")


def _script(call: Call, text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return call.path(text[1:]).read_text()
    except FileNotFoundError as error:
        raise CliError(f"open {text[1:]}: no such file or directory") from error


async def _types(call: Call, parsed: Parsed, stdin: str) -> list[Wanted]:
    """`--type`, then stdin; a filtered catalog only without both. The filters are ignored beside `--type`."""
    words = parsed.values.get("type", "").split(",")
    wanted = [Wanted(word.strip()) for word in words if word.strip()] + _from_stdin(stdin)
    if wanted:
        return wanted
    if parsed.values.get("gpu"):
        return await _of_gpu(call, parsed, parsed["gpu"])
    filters = dict(parsed.values)
    filters["min-total-vram"] = filters["min-total-vram"] or 20
    filters["min-capability"] = filters["min-capability"] or 8
    filters["min-disk"] = filters["min-disk"] or 500
    if not parsed.given & {flag.long for flag in _FILTERS}:
        filters["max-boot-time"] = 7
    rows = await search.find(call, Parsed(filters, parsed.given, []), cpu=False)
    if not rows:
        raise CliError(_NOTHING)
    return [Wanted(row["type"], int(row.get("target_disk_gb", 0))) for row in rows]


async def _of_gpu(call: Call, parsed: Parsed, text: str) -> list[Wanted]:
    """`L40S:1`: every type with exactly that GPU that many times, cheapest first."""
    gpu, _, count = text.partition(":")
    rows = await search.find(
        call, Parsed(parsed.values | {"sort": "price", "desc": False}, parsed.given, []), cpu=False
    )
    rows = [row for row in rows if (row["gpu_name"].lower(), str(row["gpu_count"])) == (gpu.lower(), count or "1")]
    if not rows:
        raise CliError(_NOTHING)
    return [Wanted(row["type"]) for row in rows]


def _from_stdin(text: str) -> list[Wanted]:
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            return [Wanted(str(row["type"]), int(row.get("target_disk_gb", 0))) for row in json.loads(stripped)]
        except (ValueError, KeyError, TypeError) as error:
            raise CliError(f"failed to parse JSON input: {error}") from error
    return [Wanted(line.split()[0]) for line in stripped.splitlines() if line.strip()]


async def _listing(
    call: Call, session: Session, organization: dict[str, Any]
) -> dict[str, list[dict[str, str]]] | None:
    try:
        found = await session.request("GET", f"/api/instances/alltypesavailable/{organization['id']}")
    except ApiError as error:
        await _say(call, f"Warning: could not fetch instance types with workspace groups: {error.text}\n")
        await _say(call, "Falling back to default workspace group\n")
        return None
    groups: dict[str, list[dict[str, str]]] = {}
    for item in found["allInstanceTypes"]:
        groups.setdefault(item["type"], []).extend(item["workspace_groups"])
    return groups


async def _credentials(call: Call, session: Session, organization: dict[str, Any]) -> dict[str, str]:
    """The catalog of the releases without workspace groups; what a failure does there nobody has seen."""
    try:
        found = await session.request("POST", CATALOG, {"organizationId": organization["id"]})
    except ApiError as error:
        await _say(call, f"Warning: could not fetch available instance types: {error.text}\n")
        return {}
    return {item["type"]: item["cloudCredId"] for item in found["items"]}


async def _say(call: Call, text: str) -> None:
    """Progress goes to stdout on a terminal, else to stderr."""
    await (call.err(text) if call.piped else call.out(text))


async def _try_all(call: Call, session: Session, order: Order, wanted: list[Wanted]) -> None:
    total, parallel = len(order.names), order.parsed["parallel"]
    await _say(call, f"Attempting to create {total} instance(s) with {parallel} parallel attempts\n")
    await _say(call, f"Instance types to try: {', '.join(item.shown() for item in wanted)}\n\n")
    open_names = list(order.names)
    for item in wanted:
        await _say(call, f"Trying {item.type} for {len(open_names)} instance(s)...\n")
        if await _skipped(call, order, item):
            failed = open_names
        else:
            failed = [name for name in open_names if not await _one(call, session, order, item, name)]
        open_names = failed
        if not open_names or order.duplicate:
            return
        await _say(call, f"\nType {item.type} had failures, trying next type...\n\n")


async def _skipped(call: Call, order: Order, item: Wanted) -> bool:
    """Only the newest release knows by itself that a type is unknown or sold out (A5)."""
    if not call.release.type_check or order.listing is None:
        return False
    if not call.release.workspace_groups:
        known, sold = item.type in order.credentials, not order.credentials.get(item.type)
    else:
        known, sold = item.type in order.listing, not order.listing.get(item.type)
    if not known:
        reason = "is not a recognized type; run 'brev search' to see available types"
    elif sold:
        reason = "is currently unavailable (no capacity); try again later or run 'brev search' to find another type"
    else:
        return False
    await _say(call, f'Skipping: instance type "{item.type}" {reason}\n')
    return True


async def _one(call: Call, session: Session, order: Order, item: Wanted, name: str) -> bool:
    await _say(call, f"[Worker 1] Trying {item.type} for instance '{name}'...\n")
    if order.listing is None and call.release.type_check:
        await _say(call, f"[Worker 1] {item.type} Failed: {_LISTING_LOST.format(item.type)}\n")
        return False
    path = f"/api/organizations/{order.organization['id']}/workspaces"
    try:
        made = await session.request("POST", path, _body(call, order, item, name))
    except ApiError as error:
        shown = trace("pkg/cmd/gpucreate.createWorkspace", 611) + error.text
        await _say(call, f"[Worker 1] {item.type} Failed: {shown}\n")
        if "duplicate workspace" in error.text:
            order.duplicate = True
            text = f"workspace '{name}' already exists. Use a different name or delete the existing workspace"
            await _say(call, f"\nError: {text}\n")
        return False
    order.made.append(made)
    await _say(call, f"[Worker 1] {item.type} Success! Created instance '{name}'\n")
    return True


def _place(call: Call, order: Order, item: Wanted) -> dict[str, str]:
    """Where the machine is to be: the first group, the catalog's credential, or what the flags say."""
    if not call.release.workspace_groups:
        return {"cloudCredId": order.credentials.get(item.type, "")}
    groups = (order.listing or {}).get(item.type) or [{"id": ""}]
    place = {"workspaceGroupId": groups[0]["id"]}
    for key, flag in (("workspaceGroupId", "workspace-group-id"), ("cloudCredId", "cloud-cred-id")):
        if order.parsed.values.get(flag):
            place[key] = order.parsed[flag]
    return place


def _body(call: Call, order: Order, item: Wanted, name: str) -> dict[str, Any]:
    build: dict[str, Any] = {}
    if order.parsed["jupyter"] and order.parsed["mode"] == "vm":
        build["forceJupyterInstall"] = True
    if order.script and order.parsed["mode"] in {"vm", "k8s"}:
        build["lifeCycleScriptAttr"] = {"script": order.script}
    body: dict[str, Any] = {
        "name": name,
        **_place(call, order, item),
        "workspaceClassId": "2x8",
        "isStoppable": False,
        "instanceType": item.type,
        "diskStorage": f"{item.disk or 120}Gi",
        "vmOnlyMode": False,
        "labels": None,
        "workspaceVersion": "v1",
    }
    if order.parsed["mode"] == "container":
        return body | {"customContainer": {"containerUrl": order.parsed["container-image"]}}
    return body | {"vmBuild": build}


async def _result(call: Call, session: Session, order: Order) -> int:
    made, total = order.made, len(order.names)
    if len(made) < total:
        text = f"\nWarning: Only created {len(made)}/{total} instances\n"
        if made:
            text += "Successfully created instances:\n"
            text += "".join(f"  - {machine['name']} (ID: {machine['id']})\n" for machine in made)
        await _say(call, text)
        raise CliError(f"could only create {len(made)}/{total} instances")
    if not order.parsed.values.get("detached"):
        await _wait(call, session, order)
    if call.piped:
        await call.out("".join(f"{machine['name']}\n" for machine in made))
    else:
        await call.out(_for_people(made))
    return 0


def _for_people(made: list[dict[str, Any]]) -> str:
    text = f"\nSuccessfully created {len(made)} instance(s)!\n\n"
    for machine in made:
        name = machine["name"]
        text += f"\nInstance: {name}\n  ID: {machine['id']}\n  Type: {machine['instanceType']}\n"
        text += f"  Connect:\n    brev open {name}\n    brev shell {name}\n\n"
    return text


async def _wait(call: Call, session: Session, order: Order) -> None:
    """Looks in the rhythm of the program's own sleep; a failure or time-out changes the text, not the exit code."""
    await _say(call, "\nWaiting for instance(s) to be ready...\nYou can safely ctrl+c to exit\n")
    for machine in order.made:
        name = machine["name"]
        deadline = call.world.clock.now() + order.parsed["timeout"]
        verdict = ""
        while not verdict:
            row = await session.request("GET", f"/api/workspaces/{machine['id']}")
            if row["status"] == "RUNNING":
                verdict = "Ready"
            elif row["status"] == "FAILURE" and call.release.failure_text:
                verdict = f"instance {name} failed: {row['statusMessage']}"
            elif row["status"] == "FAILURE" or call.world.clock.now() >= deadline:
                verdict = "Timeout waiting for ready state"
            else:
                await call.world.clock.sleep(call.world.profile.poll or 0.01)
        await _say(call, f"  {name}: {verdict}\n")
