"""The commands of a few lines: no command at all, version, healthcheck."""

from __future__ import annotations

from collections.abc import Sequence

from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Parsed
from controller.sandbox.brevsim.rules.session import ApiError, Session, read_json

_HINT = "\n👋 New to Brev? Run brev hello for a guided walkthrough.\n"
TOUR = (
    "\n\nHi {name}! Looks like it's your first time using Brev!\n"
    "\rUse the arrow keys to navigate: ↓ ↑ → ← \n\r? Want a quick tour?: \n\r  ▸ Yes!\n"
    "\r    No, I'll read docs later\n\r\r\r\r\r\nPrompt failed ^D\n"
)


def onboarded(call: Call) -> bool:
    """Whether older releases would leave one alone: step 1 or later in the local file (A1)."""
    saved = read_json(call.brev_directory / "onboarding_step.json")
    return not call.release.onboarding or bool(saved and saved.get("step"))


async def root(call: Call, parsed: Parsed, commands: Sequence[str]) -> int:
    """`brev`, `brev --help`, `brev --version`."""
    usage = "Usage:\n  brev [flags]\n  brev [command]\n\nCommands:\n" + "".join(f"  {name}\n" for name in commands)
    if parsed["help"]:
        await call.out(usage)
        return 0
    if not parsed["version"]:
        await call.out(_HINT)
        await call.err(usage)
        return 0
    text = call.release.version_text
    if call.release.onboarding:
        return await _old_version(call, text)
    await call.out(text)
    return 0


async def _old_version(call: Call, text: str) -> int:
    """Up to v0.6.322 the version asks who one is, and a newcomer gets a menu and exit code 1 (A1)."""
    session = Session(call, prompts=False)
    try:
        user = await session.request("GET", "/api/me")
    except ApiError:
        await call.out(text)
        return 0
    if onboarded(call):
        await call.out(text)
        return 0
    await call.out(text + TOUR.format(name=user["name"]))
    return 1


async def healthcheck(call: Call, _: Parsed) -> int:
    try:
        await Session(call).request("GET", "/api/health", auth=False)
    except CliError:
        await call.out("Not Healthy!\n")
        raise
    await call.out("Healthy!\n")
    return 0
