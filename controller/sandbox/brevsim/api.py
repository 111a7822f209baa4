"""The service's HTTP API, in the paths and bodies that nine releases of the real program accepted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.brevsim.accounts import Organization, RefusedError, User
from controller.sandbox.brevsim.faults import Action, Point
from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.world import World


@dataclass(slots=True)
class Request:
    method: str
    path: str
    """Without the query."""
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    bearer: str = ""
    device: str = ""

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.body or b"{}")
        except ValueError as error:
            raise RefusedError(400, "malformed body") from error
        if not isinstance(value, dict):
            raise RefusedError(400, "malformed body")
        return value


@dataclass(slots=True)
class Response:
    status: int
    value: Any = None
    """What the body says; encoded only where somebody wants bytes, since a long list is asked for all the time."""
    raw: bytes | None = None
    """A body that need not be JSON (faults)."""
    abort: bool = False
    """The connection breaks instead of an answer."""

    @property
    def payload(self) -> bytes:
        return json.dumps(self.value).encode() if self.raw is None else self.raw

    def decoded(self) -> Any:
        """The body as JSON, for reading only; raises ValueError if it is none."""
        return self.value if self.raw is None else json.loads(self.raw)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status, value)


def error_response(status: int, message: str, kind: str = "Error") -> Response:
    return json_response({"errors": [{"type": kind, "message": message}]}, status)


# The wire format is ours: nobody has seen it.
CATALOG = "/public/devplaneapi.v1.InstanceService/ListOrganizationAvailableInstanceTypes"
_WORKSPACE = re.compile(r"/api/workspaces/([^/]+)(?:/(stop|start|reset))?$")
_ORGANIZATION = re.compile(r"/api/organizations/([^/]+)(?:/(workspaces|users))?$")


class Api:
    """Answers requests of the HTTP front and of the executable's rules alike, with log and faults."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def handle(self, request: Request) -> Response:
        entry = {
            "at": self._world.clock.now(),
            "method": request.method,
            "path": request.path,
            "authenticated": bool(request.bearer),
            "status": None,
        }
        self._world.ledger.requests.append(entry)
        response = await self._with_faults(request)
        entry["status"] = response.status
        return response

    async def _with_faults(self, request: Request) -> Response:
        verb, name = self._subject(request)
        actions = self._world.faults.take(Point.API, verb=verb, name=name, api=f"{request.method} {request.path}")
        for action in actions:
            match action["type"]:
                case "slow":
                    await self._world.clock.sleep(float(action.get("seconds", 1.0)))
                case "refuse":
                    return _answer(action, 400)
                case "accept_then_fail":
                    self._answer(request)
                    return _answer(action, 502)
        # An answer never comes before other tasks had a turn, as over a network.
        await asyncio.sleep(0)
        return self._answer(request)

    def _subject(self, request: Request) -> tuple[str, str]:
        """What a request is about, for matching: (verb, name of the machine)."""
        match = _WORKSPACE.match(request.path)
        if match:
            machine = self._world.machines.get(match[1])
            verb = "delete" if request.method == "DELETE" else match[2] or "get"
            return verb, machine.name if machine else ""
        match = _ORGANIZATION.match(request.path)
        if match and match[2] == "workspaces":
            if request.method != "POST":
                return "list", ""
            try:
                return "create", str(request.json().get("name", ""))
            except RefusedError:
                return "create", ""
        return "", ""

    def _answer(self, request: Request) -> Response:
        self._world.settle()
        try:
            response = self._open_routes(request) or self._routes(request)
        except RefusedError as refusal:
            return error_response(refusal.status, refusal.message)
        if response is None:
            self._world.ledger.alarm(self._world.clock.now(), "route", f"{request.method} {request.path}")
            return error_response(404, f"no route {request.method} {request.path}")
        return response

    def _open_routes(self, request: Request) -> Response | None:
        """What needs no bearer."""
        world, path = self._world, request.path
        if path in {"/public/v1/instance/types", "/v1/instance/types"}:
            include_cpu = request.query.get("include_cpu") == "true"
            return json_response({"items": world.catalog.public(include_cpu=include_cpu)})
        if path.endswith("/devplaneapi.v1.ExternalNodeService/ListNodes"):
            return json_response({"Items": []})
        if path in {"/api/brevent", "/api/health"}:
            return json_response({})
        if path in {"/token", "/auth/token"}:
            user = world.accounts.sessions.get(f"{request.bearer}:{request.device}")
            if user is None:
                return json_response({"requestStatus": {"statusCode": "UNAUTHORIZED", "requestId": "r"}}, 401)
            status = {"statusCode": "SUCCESS", "statusDescription": "", "requestId": "r"}
            return json_response({"token": world.accounts.jwt(user, 3600), "requestStatus": status})
        return None

    def _routes(self, request: Request) -> Response | None:
        if not request.bearer:
            return error_response(401, "missing bearer token", "UnauthorizedError")
        user = self._world.accounts.user_of(request.bearer)
        if user is None:
            return error_response(403, "token is expired", "ForbiddenError")
        path = request.path
        if path == "/api/users" and request.method == "POST":
            return json_response({"user": user.wire()})
        if path == f"/api/users/{user.id}" and request.method == "PUT":
            given = request.json().get("onboardingData") or {}
            user.finished_onboarding = user.finished_onboarding or bool(given.get("finishedOnboarding"))
        if path == "/api/me" or re.fullmatch(r"/api/users(/[^/]+)?", path):
            return json_response(user.wire())
        if path == "/api/me/keys":
            return json_response({"privateKey": user.private_key(), "publicKey": "ssh-ed25519 AAAAsim"})
        if path == "/api/organizations":
            return self._organizations(request, user)
        if path == CATALOG:
            owner = self._organization(str(request.json().get("organizationId", "")), user, request)
            return json_response({"items": self._world.catalog.for_credential(owner.cloud_credentials[0])})
        if match := re.fullmatch(r"/api/instances/alltypesavailable/([^/]+)", path):
            self._organization(match[1], user, request)
            return json_response({"allInstanceTypes": self._world.catalog.for_organization()})
        if match := _ORGANIZATION.fullmatch(path):
            return self._in_organization(request, user, match[1], match[2])
        if match := _WORKSPACE.fullmatch(path):
            return self._workspace(request, user, match[1], match[2])
        if path.startswith("/api/launchables/"):
            return error_response(404, "launchable not found")
        return None

    def _organizations(self, request: Request, user: User) -> Response:
        accounts = self._world.accounts
        if request.method == "POST":
            name = str(request.json().get("name", ""))
            added = Organization(f"org-2fSimNew{len(accounts.organizations):019d}", name, [user.id])
            accounts.organizations.append(added)
            return json_response(added.wire())
        return json_response([organization.wire() for organization in accounts.organizations_of(user)])

    def _organization(self, organization_id: str, user: User, request: Request) -> Organization:
        """The organisation, if this bearer may use it: a key is bound to one."""
        accounts = self._world.accounts
        bound = accounts.api_keys.get(request.bearer, (user.id, organization_id))[1]
        found = next((o for o in accounts.organizations_of(user) if o.id == organization_id == bound), None)
        if found is None:
            raise RefusedError(404, "organization not found")
        return found

    def _in_organization(self, request: Request, user: User, organization_id: str, part: str | None) -> Response | None:
        organization = self._organization(organization_id, user, request)
        if part is None:
            return json_response(organization.wire())
        if part == "users":
            members = [self._world.accounts.users[member].wire() for member in organization.members]
            return json_response(members)
        if request.method == "POST":
            return json_response(self._world.create(user, organization.id, request.json()).wire())
        rows = self._world.visible(organization.id)
        for action in self._world.faults.take(Point.ROWS, verb="list"):
            rows = _lose(rows, action)
        return json_response([machine.wire() for machine in rows])

    def _workspace(self, request: Request, user: User, machine_id: str, verb: str | None) -> Response | None:
        machine = self._world.find(machine_id)
        self._organization(machine.organization_id, user, request)
        changes: dict[tuple[str, str | None], Callable[[Machine], None]] = {
            ("DELETE", None): self._world.delete,
            ("PUT", "stop"): self._world.stop,
            ("PUT", "start"): self._world.start,
            ("PUT", "reset"): self._world.reset,
            ("GET", None): lambda _: None,
        }
        change = changes.get((request.method, verb))
        if change is None:
            return None
        change(machine)
        return json_response(machine.wire())


def _lose(rows: list[Machine], action: Action) -> list[Machine]:
    if "hide" in action:
        hidden = re.compile(re.escape(str(action["hide"])).replace(r"\*", ".*") + "$")
        return [machine for machine in rows if not hidden.match(machine.name)]
    return rows[: int(action.get("keep", 0))]


def _answer(action: Action, status: int) -> Response:
    status = int(action.get("status", status))
    if "message" in action:
        return error_response(status, str(action["message"]))
    response = Response(status, raw=str(action.get("body", "bad gateway" if status == 502 else "")).encode())
    response.abort = bool(action.get("die"))
    return response
