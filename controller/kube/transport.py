"""One HTTP request to the API server: time-out, hooks, retries, typed errors, and a count of every attempt.

The generated API classes are not used: they guess the content type of a patch from the type of its body. The
`ApiClient` below them supplies TLS, proxy and authentication.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client

from controller import __version__
from controller.kube.connect import Connection
from controller.kube.errors import KubeError, Unauthorized, Unavailable, clean_message, error_from_response

log = logging.getLogger(__name__)

ATTEMPTS = 5
FIRST_DELAY = 0.2
"""Seconds before the second attempt; doubled each time, then spread by ± 50 %: about 3 s in all."""
LONGEST_RETRY_AFTER = 30.0
"""Seconds; a server that wants more patience than this is reported, and the caller's own back-off takes over."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a request does, in the terms of RBAC. `resource` includes the subresource; `namespace` may be ""."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str

    @property
    def writes(self) -> bool:
        """Whether the request changes something."""
        return self.verb not in ("get", "list", "watch")


OnCall = Callable[[str, str, str], None]
"""Called after each attempt with verb, resource, and the HTTP status, `timeout` or `error`."""
BeforeWrite = Callable[[Call], None]
"""Called directly before each attempt of a write; raising means that it is not sent."""
Sleep = Callable[[float], Awaitable[None]]


class Transport:
    """Sends requests over one pool of connections. Close it when done."""

    def __init__(
        self,
        connection: Connection,
        *,
        request_timeout: float,
        on_call: OnCall,
        before_write: Sequence[BeforeWrite],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._client = client.ApiClient(connection.configuration)
        self._client.user_agent = f"brev-operator/{__version__}"
        self._request_timeout = request_timeout
        self._on_call = on_call
        self._before_write = list(before_write)
        self._sleep = sleep

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def add_before_write(self, hook: BeforeWrite) -> None:
        """Run this hook before each write from now on, after those already there."""
        self._before_write.append(hook)

    async def request(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        attempts: int = ATTEMPTS,
        timeout: float | None = None,
        fenced: bool = True,
    ) -> dict[str, Any]:
        """Send until there is a final answer, and return its body. Raises `KubeError`, and whatever a hook raises.

        `timeout` in seconds replaces the configured one. `fenced=False` leaves the `before_write` hooks out.
        """
        request = _Request(
            call, method, path, query or {}, body, content_type, timeout or self._request_timeout, fenced
        )
        renewed = False
        attempt = 1
        while True:
            try:
                return await self._send(request)
            except Unauthorized:
                if renewed:
                    raise
                renewed = True
                await self._connection.renew()
            except _Retry as failure:
                delay = _delay(attempt, failure.retry_after)
                if attempt >= attempts or delay is None:
                    raise failure.error from failure
                log.info("Trying %s %s again in %.1f s: %s", call.verb, call.resource, delay, failure.error.message)
                attempt += 1
                await self._sleep(delay)

    async def _send(self, request: _Request) -> dict[str, Any]:
        call = request.call
        headers = {
            "Accept": "application/json",
            "Content-Type": request.content_type,
            "User-Agent": self._client.user_agent,
        }
        auth = ["BearerToken"]
        await self._client.update_params_for_auth(headers, [], auth, request.path, request.method, request.body)
        if call.writes and request.fenced:
            for hook in self._before_write:
                hook(call)
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = self._connection.configuration.host + request.path + query
        timeout = aiohttp.ClientTimeout(total=request.timeout)
        try:
            response = await self._client.call_api(request.method, url, headers, request.body, _request_timeout=timeout)
            payload: bytes = await response.read()
        except TimeoutError as error:
            self._on_call(call.verb, call.resource, "timeout")
            raise _Retry(Unavailable(f"the API server did not answer in {request.timeout:g} s")) from error
        except (aiohttp.ClientError, OSError) as error:
            self._on_call(call.verb, call.resource, "error")
            raise _Retry(Unavailable(clean_message(f"the API server cannot be reached: {error}"))) from error
        self._on_call(call.verb, call.resource, str(response.status))
        return _decode(response.status, response.headers, payload)


@dataclass(frozen=True, slots=True)
class _Request:
    call: Call
    method: str
    path: str
    query: Mapping[str, str | int]
    body: Any
    content_type: str
    timeout: float
    fenced: bool


class _Retry(Exception):  # noqa: N818 (not an error by itself: a request to try again)
    """An attempt failed in a way that another one may cure. `retry_after` in seconds, as the server asked."""

    def __init__(self, error: KubeError, retry_after: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after


def _decode(status: int, headers: Mapping[str, str], payload: bytes) -> dict[str, Any]:
    if not 200 <= status < 300:
        error = error_from_response(status, payload)
        if isinstance(error, Unavailable):
            raise _Retry(error, _retry_after(headers))
        raise error
    try:
        decoded = json.loads(payload)
    except ValueError as error:
        raise _Retry(Unavailable(f"something answered HTTP {status} without JSON", code=status)) from error
    if not isinstance(decoded, dict):
        raise _Retry(Unavailable(f"something answered HTTP {status} with another thing than an object", code=status))
    return decoded


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The header in seconds; the API server never sends the date form."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None


def _delay(attempt: int, retry_after: float | None) -> float | None:
    """Seconds to wait after this attempt, or None when the server asks for more than we wait here."""
    spread = random.uniform(0.5, 1.5)  # noqa: S311 (jitter, not a secret)
    if retry_after is None:
        return FIRST_DELAY * 2.0 ** (attempt - 1) * spread
    return None if retry_after > LONGEST_RETRY_AFTER else retry_after + FIRST_DELAY * spread
