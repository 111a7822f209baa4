"""The backend's HTTP front: the service's API, the control endpoints below `/sim`, and the executable's door."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from controller.sandbox.brevsim.api import Api, Request
from controller.sandbox.brevsim.door import serve_call
from controller.sandbox.brevsim.ledger import invoice
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.brevsim.world import World

WORLD = web.AppKey("world", World)
API = web.AppKey("api", Api)


def application(world: World) -> web.Application:
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app[WORLD] = world
    app[API] = Api(world)
    app.router.add_post("/sim/cli", _cli)
    app.router.add_route("*", "/sim/{tail:.*}", _control)
    app.router.add_route("*", "/{tail:.*}", _api)
    return app


async def _api(request: web.Request) -> web.StreamResponse:
    answer = await request.app[API].handle(
        Request(
            request.method,
            request.path,
            dict(request.query),
            await request.read(),
            request.headers.get("Authorization", "").removeprefix("Bearer ").strip(),
            request.headers.get("x-device-id", ""),
        )
    )
    if answer.abort and request.transport is not None:
        request.transport.abort()
    return web.Response(status=answer.status, body=answer.payload, content_type="application/json")


async def _cli(request: web.Request) -> web.StreamResponse:
    return await serve_call(request, request.app[WORLD], request.app[API])


async def _control(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    try:
        value = await control(request.app[WORLD], request.method, request.match_info["tail"], body)
    except (ValueError, TypeError, KeyError) as error:
        return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)
    return web.json_response(value)


async def control(world: World, method: str, path: str, body: bytes) -> Any:
    """What tests ask and tell the world; raises ValueError for what does not exist."""
    given: dict[str, Any] = json.loads(body) if body else {}
    world.settle()
    match method, path:
        case "GET", "machines":
            return machines(world)
        case "GET", "invoice":
            return invoice(world.history, world.clock.now())
        case "GET", "calls" | "requests" | "commands" | "alarms":
            return list(getattr(world.ledger, path))
        case "GET", "faults":
            return [dataclasses.asdict(rule) for rule in world.faults.rules]
        case "POST", "faults":
            return {"id": world.faults.add(given).id}
        case "DELETE", "faults":
            world.faults.clear()
            return {}
        case "POST", "advance":
            return {"now": world.advance(float(given["seconds"]))}
        case "POST", "reset":
            profile = Profile().changed(given["profile"]) if "profile" in given else world.profile
            world.restart(given.get("release", world.release.version), profile, given.get("variant", "a"))
            return {}
        case "POST", "settings":
            return settings(world, given)
        case "POST", "event":
            world.happen(world.find(given["machine"]), given["event"], given.get("message", ""))
            return machines(world)
        case "POST", "change":
            if world.version == given.get("after", -1):
                await world.change(float(given.get("timeout", 10.0)))
            return {"version": world.version, "machines": machines(world)}
        case "POST", "jwt":
            return {"jwt": world.accounts.jwt(given.get("user", "user-1"), float(given.get("lifetime", 3600)))}
    raise ValueError(f"no such endpoint: {method} /sim/{path}")


def machines(world: World) -> list[dict[str, Any]]:
    """Every machine that is not gone, with the live processes on it."""
    living = world.processes.living() if any(machine.used for machine in world.machines.values()) else {}
    return [
        {
            "id": machine.id,
            "name": machine.name,
            "organization": machine.organization_id,
            "owner": machine.owner_id,
            "type": machine.instance_type,
            "status": machine.status,
            "buildStatus": machine.build_status,
            "healthStatus": machine.health_status,
            "statusMessage": machine.status_message,
            "disk": machine.disk,
            "cloudCredential": machine.cloud_cred_id,
            "workspaceGroup": machine.workspace_group_id,
            "boots": machine.boots,
            "bootId": machine.boot_id_file.read_text().strip() if machine.boots else "",
            "home": str(machine.home),
            "createdAt": machine.created_at,
            "processes": len(living.get(machine.id, [])),
            "pids": living.get(machine.id, []),
        }
        for machine in world.machines.values()
    ]


def settings(world: World, given: dict[str, Any]) -> dict[str, Any]:
    """Change latencies, clock, catalog and accounts; an unknown key raises ValueError."""
    for key, value in given.items():
        match key:
            case "latency":
                world.profile = world.profile.changed({name: float(seconds) for name, seconds in value.items()})
            case "factor":
                world.clock.set_factor(float(value))
            case "soldOut":
                world.catalog.sold_out = set(value)
            case "offers":
                world.catalog.offers = list(value)
            case "serviceAccountToken":
                world.service_account_token = Path(value)
            case "online":
                world.online = bool(value)
            case _:
                world.accounts.change(key, value)
    return {"latency": world.profile.as_dict(), "factor": world.clock.factor, "now": world.clock.now()}
