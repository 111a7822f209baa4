"""Credentials, organisation and API calls of one invocation."""

from __future__ import annotations

import json
import os
from http import HTTPStatus
from pathlib import Path
from typing import Any

from controller.sandbox.brevsim.accounts import jwt_claims
from controller.sandbox.brevsim.api import Request
from controller.sandbox.brevsim.rules.call import Call, CliError, KilledError
from controller.sandbox.brevsim.rules.text import trace

_PLACEHOLDER = "auto-login"
PROMPT = "You are currently logged out, would you like to log in? [Y/n]: "


class ApiError(CliError):
    """A non-2xx answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def write_file(call: Call, path: Path, text: str, mode: int = 0o644) -> None:
    """Write as the program does: truncate, then write; its umask counts."""
    path.parent.mkdir(mode=0o770 & ~call.umask, parents=True, exist_ok=True)
    fresh = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    if fresh:
        os.fchmod(descriptor, mode & ~call.umask)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def read_json(path: Path, *, resty: bool = False) -> dict[str, Any] | None:
    """The object in a file, None if there is no file; Go's error text if it is not JSON."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        shown = trace("pkg/files.ReadJSON", 212) + "unexpected end of JSON input"
        raise LocalFileError("unexpected end of JSON input", shown if resty else "") from error
    return value if isinstance(value, dict) else {}


class LocalFileError(CliError):
    """A state file that is not JSON; inside an API call the HTTP library logs it too."""

    def __init__(self, text: str, logged: str) -> None:
        super().__init__(text, resty=bool(logged))
        self.logged = logged


class LoggedOutError(CliError):
    """No usable credential, and nobody answered the prompt."""

    def __init__(self, text: str) -> None:
        super().__init__(text, resty=True)
        self.logged = trace("pkg/auth.Auth.GetFreshAccessTokenOrLogin", 141) + text


class Session:
    def __init__(self, call: Call, *, prompts: bool = True) -> None:
        self._call = call
        self._prompts = prompts

    @property
    def credentials_file(self) -> Path:
        return self._call.brev_directory / "credentials.json"

    @property
    def organization_file(self) -> Path:
        return self._call.brev_directory / "active_org.json"

    def credentials(self) -> dict[str, Any]:
        return read_json(self.credentials_file, resty=True) or {}

    def api_key_organization(self) -> str:
        """The organisation of the saved API key, "" without one (or where a service-account token hides it)."""
        if self._pod_token() or not self._call.release.api_key_login:
            return ""
        found = self.credentials()
        return str(found.get("api_key_org_id", "")) if found.get("api_key") else ""

    def _pod_token(self) -> str:
        """The cluster's credential, where the release takes it for its own."""
        pod = self._call.world.service_account_token
        return pod.read_text().strip() if self._call.release.pod_token and pod.exists() else ""

    async def _notice(self, token: str) -> None:
        issuer = self._call.env.get("BREV_AUTH_ISSUER_URL", "https://login.nvidia.com")
        claims = jwt_claims(token)
        if claims is not None and claims.get("iss") in {issuer, "https://brevdev.us.auth0.com/"}:
            return
        if not self._call.noticed:
            self._call.noticed = True
            await self._call.out("no oauth found for token\n")

    async def token(self) -> str:
        """A bearer: the pod's token if there is one, API key, valid JWT, a refreshed one; else the prompt."""
        if token := self._pod_token():
            await self._notice(token)
            return token
        if self._call.release.api_key_env and "BREV_API_KEY" in self._call.names:
            self._call.world.ledger.alarm(self._call.world.clock.now(), "key-in-environment", self._call.verb)
        found = self.credentials()
        if found.get("api_key") and self._call.release.api_key_login:
            return str(found["api_key"])
        access, refresh = str(found.get("access_token", "")), str(found.get("refresh_token", ""))
        if access and (self._prompts or access != _PLACEHOLDER):
            await self._notice(access)
        if self._valid(access):
            return access
        fresh = await self._refreshed(refresh) if refresh else ""
        if fresh:
            write_file(self._call, self.credentials_file, _pretty({"access_token": fresh, "refresh_token": refresh}))
            return fresh
        if self._prompts:
            await self._prompt()
        return ""

    def _valid(self, token: str) -> bool:
        claims, now = jwt_claims(token), self._call.world.clock.now()
        if claims is None:
            return False
        return bool(claims.get("exp", 0) > now and claims.get("nbf", 0) <= now and claims.get("iat", 0) <= now)

    async def _refreshed(self, refresh: str) -> str:
        if refresh.count(":") != 1:
            await self._call.out("WARN: malformed refresh token, logging out\n")
            write_file(self._call, self._call.brev_directory / ".invalid-refresh-token", refresh, 0o600)
            return ""
        key, device = refresh.split(":")
        answer = await self._call.api.handle(Request("GET", "/auth/token", bearer=key, device=device))
        text = answer.payload.decode(errors="replace")
        if answer.status < 400:
            return str(json.loads(text)["token"])
        if "UNAUTHORIZED" in text:
            return ""
        raise CliError(f"error retrieving token, status code: {answer.status}, body: {text}")

    async def _prompt(self) -> None:
        await self._call.out(PROMPT)
        answer = await self._call.streams.read_stdin(line=True) if self._call.stdin != "closed" else b""
        raise LoggedOutError("declined to login" if answer.strip().lower() in {b"n", b"no"} else "EOF")

    async def request(self, method: str, path: str, body: Any = None, *, auth: bool = True) -> Any:
        """One API call; a 403 is tried once more, whatever the method. Raises ApiError, LoggedOutError."""
        payload = b"" if body is None else json.dumps(body).encode()
        for attempt in (1, 2):
            bearer = await self.token() if auth else ""
            target, _, query = path.partition("?")
            wanted = dict(item.split("=", 1) for item in query.split("&")) if query else {}
            answer = await self._call.api.handle(Request(method, target, wanted, payload, bearer))
            if answer.abort:
                raise KilledError
            if answer.status != HTTPStatus.FORBIDDEN or attempt == 2 or not auth:
                break
        if answer.status >= 300:
            raise ApiError(answer.status, self._error_text(target, answer.status, answer.payload, local=auth))
        try:
            return answer.decoded()
        except ValueError as error:
            raise CliError("unexpected end of JSON input", resty=True) from error

    def _error_text(self, path: str, status: int, payload: bytes, *, local: bool) -> str:
        text = payload.decode(errors="replace")
        try:
            return "".join(f"{item['message']}\n" for item in json.loads(text)["errors"])
        except (ValueError, KeyError, TypeError):
            base = self._call.env.get("BREV_API_URL", "http://127.0.0.1")
            query = f"cli_version={self._call.release.version}&{'local=true&' if local else ''}os=linux&utm_source=cli"
            try:
                phrase = HTTPStatus(status).phrase
            except ValueError:
                phrase = ""
            return f"{base}{path}?{query} {status} {phrase} {text}"

    async def me(self) -> dict[str, Any] | None:
        """The user; not asked for with an API key."""
        if self.api_key_organization():
            return None
        user: dict[str, Any] = await self.request("GET", "/api/me")
        return user

    async def organizations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.request("GET", "/api/organizations")
        return found

    async def organization(self) -> dict[str, Any]:
        """The active organisation: the API key's, the saved one if it still exists, else the first of the list."""
        bound = self.api_key_organization()
        saved = {"id": bound} if bound else read_json(self.organization_file)
        if saved is not None:
            try:
                found: dict[str, Any] = await self.request("GET", f"/api/organizations/{saved['id']}")
            except ApiError as error:
                if bound and error.status == HTTPStatus.NOT_FOUND:
                    return {"id": bound, "name": bound}
                if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                    raise
            else:
                return found
        organizations = await self.organizations()
        if not organizations:
            raise CliError("no orgs exist")
        return organizations[0]

    async def rows(self, organization_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.request("GET", f"/api/organizations/{organization_id}/workspaces")
        return found

    async def find(self, word: str) -> dict[str, Any]:
        """The machine with this name or id; with a JWT only one's own and the first of several."""
        await self.me()
        organization = await self.organization()
        user = await self.me()
        rows = [row for row in await self.rows(organization["id"]) if word in {row["name"], row["id"]}]
        if user is not None:
            rows = [row for row in rows if user["id"] in {row["createdByUserId"], *row["additionalUsers"]}]
            if not rows:
                raise CliError(f"instance with id/name {word} not found")
            return rows[0]
        if not rows:
            raise CliError(f"instance with id/name {word} not found")
        if len(rows) > 1:
            rows = [row for row in rows if row["status"] != "FAILURE"]
            if not rows:
                raise CliError(f"instance with id/name {word} is a failed workspace")
        if len(rows) > 1:
            raise CliError(f"multiple instances found with id/name {word}")
        return rows[0]


def _pretty(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1)


def save_json(call: Call, path: Path, value: dict[str, Any]) -> None:
    write_file(call, path, _pretty(value))
