"""A recording HTTP server in place of the API server: answers what a test queues, else something plausible."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from controller.kube.client import KubernetesClient
from controller.kube.transport import Transport


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cut_connection: bool = False
    never: bool = False


def refusal(code: int, reason: str, message: str = "no", causes: tuple[str, ...] = ()) -> Answer:
    details = {"causes": [{"reason": cause} for cause in causes]}
    status = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return Answer(code, {**status, "details": details})


class FakeApi:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: deque[Answer] = deque()
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else None
        headers = dict(request.headers)
        self.requests.append(Request(request.method, request.path, dict(request.query), headers, body))
        answer = self.answers.popleft() if self.answers else Answer(body=_plausible(request))
        if answer.cut_connection:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if answer.never:
            await asyncio.Event().wait()
        raw = answer.raw if answer.raw is not None else json.dumps(answer.body or {}).encode()
        return web.Response(status=answer.status, body=raw, headers={**answer.headers})


def _plausible(request: web.Request) -> dict[str, Any]:
    if request.method == "GET" and request.path.rsplit("/", 1)[-1] in ("brevjobs", "brevinstances", "brevaccounts"):
        return {"items": [], "metadata": {"resourceVersion": "1"}}
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}}


@dataclass
class Client:
    kube: KubernetesClient
    transport: Transport
    calls: list[tuple[str, str, str]]
    delays: list[float]


ConnectTo = Callable[..., Client]
