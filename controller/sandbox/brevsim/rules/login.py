"""`login` and `logout`: what they print, request and leave in HOME."""

from __future__ import annotations

import json
from collections.abc import Sequence

from controller.sandbox.brevsim.accounts import jwt_claims
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.session import Session, save_json
from controller.sandbox.brevsim.rules.simple import TOUR, onboarded

_BANNER = "\n   ▸     Starting Login\n\n"
_BASE = (
    Flag("token", "string", "", "", "Use an existing token"),
    Flag("skip-browser", "bool", "", False, "Print the login URL only"),
    Flag("email", "string", "", "", "Email to log in with"),
    Flag("auth", "string", "", "", "Authentication provider: nvidia or legacy"),
)
_KEY = (
    Flag("api-key", "string", "", "", "API key"),
    Flag("org-id", "string", "", "", "Organization of the API key"),
)


def flags(call: Call) -> Sequence[Flag]:
    return (*_BASE, *_KEY) if call.release.api_key_login else _BASE


async def login(call: Call, parsed: Parsed) -> int:
    if parsed.arguments:
        raise CliError(f'unknown command "{parsed.arguments[0]}" for "brev login"')
    if parsed["auth"] not in {"", "nvidia", "legacy"}:
        raise CliError("auth provider must be nvidia or legacy")
    if parsed.given & {"api-key", "org-id"}:
        return await _with_key(call, parsed)
    await call.out(_BANNER)
    if not parsed["token"]:
        await call.out("Enter your email: failed.\n\n" if not parsed["email"] else "failed.\n\n")
        raise CliError("EOF")
    return await _with_token(call, parsed["token"])


async def _with_key(call: Call, parsed: Parsed) -> int:
    """No request at all, so it cannot tell that the key is wrong."""
    key, organization = parsed.values.get("api-key", ""), parsed.values.get("org-id", "")
    if "api-key" in parsed.given and parsed.given & {"token", "skip-browser", "email", "auth"}:
        raise CliError("api-key cannot be used with token, skip-browser, email, or auth flags")
    if "api-key" not in parsed.given:
        raise CliError("org-id can only be used with api-key")
    if not key.startswith("bak-"):
        raise CliError("api key must start with bak-")
    if not organization:
        raise CliError("api key auth requires an org id; run brev login --api-key <api-key> --org-id <org-id>")
    session = Session(call, prompts=False)
    pod, taken = call.world.service_account_token, call.release.pod_token
    if taken and pod.exists():
        await session.token()
    saved = {"access_token": "", "refresh_token": "", **session.credentials()}
    if taken and pod.exists():
        # Measured (A15): the pod's cluster credential is saved with the login.
        saved |= {"access_token": pod.read_text().strip(), "refresh_token": ""}
    saved |= {"api_key": key, "api_key_org_id": organization}
    save_json(call, session.credentials_file, saved)
    save_json(call, session.organization_file, {"id": organization, "name": organization, "userNetworkId": ""})
    await call.out(f"API key saved for org {organization}\n")
    return 0


def _usable(call: Call, token: str) -> bool:
    claims, now = jwt_claims(token), call.world.clock.now()
    if claims is None:
        return False
    return bool(claims.get("exp", 0) > now and claims.get("nbf", 0) <= now and claims.get("iat", 0) <= now)


async def _with_token(call: Call, token: str) -> int:
    session = Session(call, prompts=False)
    access, refresh = (token, "auto-login") if _usable(call, token) else ("auto-login", token)
    # Saved before anything is known about it: garbage stays (§1.1).
    save_json(call, session.credentials_file, {"access_token": access, "refresh_token": refresh})
    user = await session.request("GET", "/api/me")
    organizations = await session.organizations()
    if not organizations:
        name = f"{user['username']}-hq"
        await call.out(f"Creating your first org {name} ...\n")
        await session.request("POST", "/api/organizations", {"name": name})
        await call.out("done!\n")
    await session.request("PUT", f"/api/users/{user['id']}", {"username": user["username"], "email": user["email"]})
    active = await session.organization()
    rows = await session.rows(active["id"])
    await _hints(call, active, await session.organizations(), rows, user["id"])
    if not (call.brev_directory / "onboarding_step.json").exists():
        save_json(
            call,
            call.brev_directory / "onboarding_step.json",
            json.loads('{"step": 0, "hasRunBrevShell": false, "hasRunBrevOpen": false}'),
        )
    if onboarded(call):
        return 0
    await call.out(TOUR.format(name=user["name"]))
    return 1


async def _hints(
    call: Call, active: dict[str, str], all_: list[dict[str, str]], rows: list[dict[str, str]], me: str
) -> None:
    text = f"current organization: {active['name']}\n"
    other = next((organization for organization in all_ if organization["id"] != active["id"]), None)
    if other:
        text += f"switch organizations:\n\tbrev set {other['name'].lower()}\n"
    theirs = next((row for row in rows if row["createdByUserId"] != me), None)
    if theirs:
        text += (
            f"list teammates instances:\n\tbrev ls --all\nclone a teammate's instance:\n\tbrev start {theirs['name']}\n"
        )
    elif not rows:
        text += "create an instance:\n"
    newcomer = not (call.brev_directory / "onboarding_step.json").exists() and not call.release.onboarding
    await call.out(text + ("\n👋 New to Brev? Run brev hello for a guided walkthrough.\n" if newcomer else ""))


async def logout(call: Call, _: Parsed) -> int:
    session = Session(call)
    session.credentials_file.unlink(missing_ok=True)
    session.organization_file.unlink(missing_ok=True)
    return 0
