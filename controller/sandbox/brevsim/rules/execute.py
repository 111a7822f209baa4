"""`exec`: ssh first, then the slow path, and the command a second time."""

from __future__ import annotations

import re

from controller.sandbox.brevsim.rules import refresh, ssh
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed, at_least
from controller.sandbox.brevsim.rules.power import until_running
from controller.sandbox.brevsim.rules.session import LocalFileError, LoggedOutError, Session
from controller.sandbox.brevsim.rules.text import multierror, resty, spinner, trace

FLAGS = (Flag("host", "bool", "", False, "ssh to the host machine instead of the container"),)
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PROBES = 41
_LOCAL_ARGUMENT = 131072 - 1
"""Linux refuses a longer single argument, and the whole local command line is one (A25)."""
_WRAPPER = 142
"""The local script around alias and command."""
_TO_KNOWN_HOSTS = "Warning: Permanently added '{}' (ED25519) to the list of known hosts.\r"


async def run(call: Call, parsed: Parsed) -> int:
    """The last argument is the command; all before it, and the lines of stdin, are names."""
    at_least(parsed, 1)
    *names, command = _words(call, parsed)
    if call.release.exec_needs_login:
        await Session(call).me()
    command = _command(call, command)
    names += await call.stdin_lines()
    if not names:
        raise CliError("instance name required: provide as argument or pipe from another command")
    if len(names) == 1:
        await _one(call, names[0], command, host=parsed["host"])
        return 0
    errors = []
    for name in names:
        await call.err(f"\n=== {name} ===\n")
        try:
            await _one(call, name, command, host=parsed["host"])
        except CliError as error:
            text = trace("pkg/cmd/exec.runExecCommand", 188) + error.text
            await call.err(f"Error on {name}: {text}\n")
            errors.append(text)
    if errors:
        raise CliError(multierror(errors))
    return 0


def _words(call: Call, parsed: Parsed) -> list[str]:
    """The arguments, where the seeds' program takes everything after `--` for one command."""
    if not call.release.exec_joins_words or "--" not in call.argv:
        return parsed.arguments
    behind = call.argv[call.argv.index("--") + 1 :]
    return [*parsed.arguments[: len(parsed.arguments) - len(behind)], " ".join(behind)]


def _command(call: Call, text: str) -> str:
    """A leading `@` reads a local file."""
    if text.startswith("@"):
        try:
            text = call.path(text[1:]).read_text() if text != "@" else ""
        except FileNotFoundError as error:
            raise CliError(f"open {text[1:]}: no such file or directory") from error
        if not text and call.argv[-1] == "@":
            raise CliError("open : no such file or directory")
        text = text.rstrip("\n")
    if not text:
        raise CliError("command is required")
    return text


async def _one(call: Call, name: str, command: str, *, host: bool) -> None:
    alias = f"{name}-host" if host else name
    if not _SAFE.fullmatch(name):
        # The real program pastes the name into a local shell (A8); here that ends loudly and nothing runs.
        call.world.ledger.alarm(call.world.clock.now(), "unsafe-name", name)
        raise CliError(f"brevsim: refused: the name {name!r} would run in a shell on this machine")
    code = await _attempt(call, alias, command, 1)
    if code == 0:
        await _name_line(call, name)
        return
    if code != ssh.LOST and not call.release.exec_replays:
        raise _ended(call, code)
    await call.err("Connection failed, checking instance status...\n")
    await _slow(call, name, alias, command)
    await _name_line(call, name)


async def _name_line(call: Call, name: str) -> None:
    """Glued to output without a final newline."""
    if call.piped:
        await call.out(f"{name}\n")


async def _attempt(call: Call, alias: str, command: str, attempt: int) -> int:
    """ssh's exit code; what stops it from connecting is on stderr."""
    if _WRAPPER + len(alias) + len(command.encode()) + 3 * command.count("'") > _LOCAL_ARGUMENT:
        if attempt == 1:
            return ssh.LOST
        raise CliError("fork/exec /usr/bin/bash: argument list too long")
    if command.startswith("-"):
        return await _eaten(call, command)
    reached = await ssh.connect(call, alias)
    if isinstance(reached, ssh.Unreached):
        await call.err(reached.text)
        return ssh.LOST
    if not command.strip():
        return 0
    return await ssh.run_command(call, reached, command, attempt)


async def _eaten(call: Call, command: str) -> int:
    """ssh takes a command that begins with `-` for an option of its own, and nothing runs (A9)."""
    call.world.ledger.alarm(call.world.clock.now(), "command-is-option", command)
    if command in {"-V", "-v"}:
        await call.err("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19 27 Jan 2026\r\n")
        return 0
    await call.err(f"unknown option -- {command[1:2]}\r\n")
    return ssh.LOST


async def _slow(call: Call, name: str, alias: str, command: str) -> None:
    session = Session(call)
    row = await _look_up(call, session, name, _last_exit(call))
    if row["status"] != "RUNNING" and not call.release.exec_wakes:
        stopped = f", please start it with: brev start {name}"
        other = f" (status: {row['status']}); run 'brev ls' to check on it"
        raise CliError(f"instance {name} is not running{stopped if row['status'] == 'STOPPED' else other}")
    if row["status"] == "STOPPED":
        await session.request("PUT", f"/api/workspaces/{row['id']}/start")
        await call.out(f"Instance {name} is starting. \n\n")
        row = await until_running(call, session, row["id"])
        await call.err(spinner("waiting for instance to be ready..."))
    elif row["status"] != "RUNNING":
        raise CliError(f'instance "{name}" is in state "{row["status"]}" — please check with: brev ls')
    await refresh.rewrite(call)
    real = f"{row['name']}-host" if alias != name else row["name"]
    await wait_for_ssh(call, name, real)
    code = await _attempt(call, real, command, 2)
    if code != 0:
        raise _ended(call, code)


def _ended(call: Call, code: int) -> CliError:
    if call.release.exec_tells_code and code != ssh.LOST:
        return CliError(f"command exited with status {code}", code=code)
    return CliError(f"exit status {code}")


def _last_exit(call: Call) -> int:
    """The first attempt's ssh code, for the look-up's error text."""
    mine = [entry for entry in call.runs if entry["exit"] is not None]
    code = int(mine[-1]["exit"]) if mine else ssh.LOST
    return code if code >= 0 else ssh.LOST


async def _look_up(call: Call, session: Session, name: str, code: int) -> dict[str, str]:
    """A failure hides its own cause: the text shows the ssh error (§1.11)."""
    try:
        return await session.find(name)
    except CliError as error:
        if isinstance(error, LoggedOutError | LocalFileError):
            await call.err(resty(error.logged, call.world.clock.now()))
        prefix = trace("pkg/cmd/exec.runExecCommand", 151)
        raise CliError(
            f'ssh connection failed and could not look up instance "{name}": {prefix}exit status {code}\n'
            "Please check your instances with: brev ls"
        ) from error


async def wait_for_ssh(call: Call, name: str, alias: str, *, copying: bool = False) -> None:
    """41 probes; only a text that the program does not know ends them early. A wrong key is not such a text (A7)."""
    await call.err(spinner("waiting for SSH connection to be available"))
    outcome: ssh.Reached | ssh.Unreached | None = None
    for _ in range(_PROBES):
        outcome = await ssh.connect(call, alias)
        if isinstance(outcome, ssh.Reached):
            return
        if not outcome.waits:
            break
        await call.world.clock.sleep(call.world.profile.probe)
    line = _last_line(outcome) if isinstance(outcome, ssh.Unreached) else ""
    if copying:
        raise CliError(f"\n{line}")
    prefix = trace("pkg/util.WaitForSSHToBeAvailable", 77)
    raise CliError(f'could not connect to instance "{name}": {prefix}\n{line}\nPlease check with: brev ls')


def _last_line(outcome: ssh.Unreached) -> str:
    if outcome.denied:
        return _TO_KNOWN_HOSTS.format(outcome.address)
    return outcome.text.rstrip("\n") if outcome.waits else ""
