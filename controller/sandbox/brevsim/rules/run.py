"""Which command an invocation means, the faults on its way, and how its failure is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from controller.sandbox.brevsim.faults import Action, Point
from controller.sandbox.brevsim.rules import copy, create, execute, login, ls, orgs, power, refresh, search, simple
from controller.sandbox.brevsim.rules.call import Call, CliError, KilledError, PanicError, Streams
from controller.sandbox.brevsim.rules.flags import Flag, Parsed, help_text, parse
from controller.sandbox.brevsim.rules.session import LocalFileError, LoggedOutError, Session
from controller.sandbox.brevsim.rules.text import resty, trace


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    flags: Callable[[Call], Sequence[Flag]]
    run: Callable[[Call, Parsed], Awaitable[int]]
    exists: Callable[[Call], bool] = lambda _: True


def _fixed(*flags: Flag) -> Callable[[Call], Sequence[Flag]]:
    return lambda _: flags


COMMANDS: dict[str, Command] = {
    "create": Command("create [name] [flags]", create.flags, create.run),
    "delete": Command("delete [flags]", _fixed(), power.delete),
    "stop": Command("stop [flags]", _fixed(*power.STOP_FLAGS), power.stop),
    "start": Command("start [flags]", _fixed(*power.START_FLAGS), power.start),
    "reset": Command("reset [flags]", _fixed(), power.reset),
    "ls": Command("ls [flags]", _fixed(*ls.FLAGS), ls.run),
    "org": Command("org [flags]", _fixed(), orgs.org),
    "orgs": Command("orgs [flags]", _fixed(*orgs.ORGS_FLAGS), orgs.orgs, lambda call: call.release.orgs_command),
    "set": Command("set [flags]", _fixed(), orgs.set_active),
    "search": Command("search [gpu|cpu] [flags]", search.flags, search.run),
    "login": Command("login [flags]", login.flags, login.login),
    "logout": Command("logout [flags]", _fixed(), login.logout),
    "refresh": Command("refresh [flags]", _fixed(), refresh.run),
    "exec": Command("exec [instance...] <command> [flags]", _fixed(*execute.FLAGS), execute.run),
    "copy": Command("copy <source> <destination> [flags]", _fixed(*copy.FLAGS), copy.run),
    "healthcheck": Command("healthcheck [flags]", _fixed(), simple.healthcheck),
}
_ALIASES = {"list": "ls", "provision": "create", "cp": "copy", "scp": "copy"}
# fmt: off
_UNMODELLED = (
    "shell", "ssh", "open", "port-forward", "status", "ssh-key", "upgrade", "scale", "invite", "redeem", "ollama",
    "background", "agent-skill", "register", "deregister", "enable-ssh", "grant-ssh", "revoke-ssh", "hello",
    "run-tasks",
)
# fmt: on


async def run(call: Call) -> int:
    """Run one invocation and return its exit code. Raises KilledError where a fault wants the process dead."""
    words = _command_words(call.argv)
    call.verb = _ALIASES.get(words[0], words[0]) if words else ""
    await call.world.clock.sleep(call.world.profile.cli)
    name = next((word for word in call.argv[1:] if not word.startswith("-") and word != call.verb), "")
    actions = call.world.faults.take(Point.CALL, verb=call.verb, name=_machine_name(call.verb, name))
    for action in actions:
        code = await _before(call, action)
        if code is not None:
            return code
    mute = next((action for action in actions if action["type"] in {"half_write", "die"}), None)
    if mute is not None:
        return await _muted(call, mute)
    code = await _shown(call)
    for action in actions:
        await _after(call, action)
    return code


def _machine_name(verb: str, word: str) -> str:
    return word.partition(":")[0] if verb == "copy" else word


async def _before(call: Call, action: Action) -> int | None:
    match action["type"]:
        case "fail":
            await call.out(str(action.get("stdout", "")))
            await call.err(str(action.get("stderr", "")))
            return int(action.get("rc", 1))
        case "exit0":
            await call.out(str(action.get("stdout", "")))
            return 0
        case "hang" if action.get("when", "before") == "before":
            await asyncio.Event().wait()
        case "delay" if action.get("when", "before") == "before":
            await call.world.clock.sleep(float(action.get("seconds", 1.0)))
    return None


async def _after(call: Call, action: Action) -> None:
    match action["type"]:
        case "hang" if action.get("when") == "after":
            await asyncio.Event().wait()
        case "delay" if action.get("when") == "after":
            await call.world.clock.sleep(float(action.get("seconds", 1.0)))


@dataclass(slots=True)
class _Captured:
    """Holds stdout back, so that only a part of it is written."""

    real: Streams
    held: bytearray

    async def out(self, data: bytes) -> None:
        self.held.extend(data)

    async def err(self, data: bytes) -> None:
        await self.real.err(data)

    async def read_stdin(self, *, line: bool) -> bytes:
        return await self.real.read_stdin(line=line)

    async def linger(self, pid: int) -> None:
        await self.real.linger(pid)


async def _muted(call: Call, action: Action) -> int:
    captured = _Captured(call.streams, bytearray())
    call.streams = captured
    await _shown(call)
    call.streams = captured.real
    if action["type"] == "die":
        raise KilledError
    part = int(len(captured.held) * float(action.get("fraction", 0.5)))
    await call.out(bytes(captured.held[:part]))
    if action.get("die"):
        raise KilledError
    return int(action.get("rc", 0))


async def _shown(call: Call) -> int:
    """Run the command and print its failure as the real program does."""
    try:
        return await _dispatch(call)
    except PanicError as panic:
        await call.err(f"panic: {panic} [recovered, repanicked]\n\ngoroutine 1 [running]:\n")
        return 2
    except CliError as error:
        if error.resty:
            logged = error.logged if isinstance(error, LoggedOutError | LocalFileError) else error.text
            await call.err(resty(logged, call.world.clock.now()))
        await call.err(f"{error.text}\n")
        return error.code


async def _dispatch(call: Call) -> int:
    words = _command_words(call.argv)
    if not words:
        return await simple.root(call, parse(call.argv, ()), sorted(COMMANDS))
    command = COMMANDS.get(call.verb)
    if command is None or not command.exists(call):
        return await _unknown(call, words[0])
    flags = command.flags(call)
    parsed = parse(_without_first(call.argv, words[0]), flags)
    if parsed["help"]:
        await call.out(help_text(command.usage, flags))
        return 0
    if parsed["user"] and not parsed["user"].isdigit():
        raise CliError(f'strconv.Atoi: parsing "{parsed["user"]}": invalid syntax')
    code = await command.run(call, parsed)
    if code == 0 and call.release.me_after_success and call.verb not in {"login", "logout"}:
        await _late_check(call)
    return code


async def _late_check(call: Call) -> None:
    session = Session(call, prompts=False)
    try:
        await session.request("GET", "/api/me")
    except CliError:
        if call.verb == "exec" and call.release.late_login_prompt:
            await call.err(
                resty(trace("pkg/auth.Auth.GetFreshAccessTokenOrLogin", 141) + "EOF", call.world.clock.now())
            )
            await call.out("You are currently logged out, would you like to log in? [Y/n]: ")


async def _unknown(call: Call, word: str) -> int:
    if word in _UNMODELLED:
        call.world.ledger.alarm(call.world.clock.now(), "unmodelled", " ".join(call.argv))
        await call.err(f"brevsim: the simulator has no rules for `brev {word}`\n")
        return 70
    known = (*(name for name, command in COMMANDS.items() if command.exists(call)), *_UNMODELLED)
    close = [name for name in known if _distance(word, name) <= 2 or name.startswith(word)]
    lines = "".join(f"\t{name}\n" for name in close)
    raise CliError(f'unknown command "{word}" for "brev"\n' + (f"\nDid you mean this?\n{lines}" if close else ""))


def _distance(left: str, right: str) -> int:
    """Levenshtein distance."""
    previous = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (a != b)))
        previous = current
    return previous[-1]


def _command_words(argv: Sequence[str]) -> list[str]:
    """The words before any flag value could confuse: cobra takes the first that is no flag."""
    words = iter(argv)
    for word in words:
        if word == "--user":
            next(words, None)
        elif not word.startswith("-"):
            return [word, *words]
        elif word == "--":
            return list(words)
    return []


def _without_first(argv: Sequence[str], word: str) -> list[str]:
    where = list(argv).index(word)
    return [*argv[:where], *argv[where + 1 :]]
