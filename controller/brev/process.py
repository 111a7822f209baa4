"""The only place of the product that starts a process.

A child gets a session and process group of its own, no terminal, `/dev/null` or a regular file as stdin, umask 077, and
SIGKILL when the operator dies. It is waited for by pid, never by the end of its pipes: a process that left the group
(an ssh connection master does) can hold stderr open long after the call is over. Linux only.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from controller.brev.drain import Drain
from controller.brev.errors import CliMissing

Hook = Callable[[Sequence[str]], None]

before_spawn: list[Hook] = []
"""Called with the argv directly before each start, in order; one that raises prevents it (lease check, failpoints)."""
after_exit: list[Hook] = []
"""Called with the argv when the child is reaped, however it ended."""

DEFAULT_GRACE_SECONDS = 2.0

# The parent is compared after the death signal is armed: it may have died in between, and then nobody would tell us.
_GUARD_SH = '[ "$PPID" = "$0" ] && exec "$@"'
_GUARD_PY = (
    "import ctypes,os,signal,sys\n"
    "ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit(143)\n"
    "try: os.execv(sys.argv[2], sys.argv[2:])\n"
    "except OSError as error:\n"
    "  sys.stderr.write(f'exec: {sys.argv[2]}: {error.strerror}')\n"
    "  sys.exit(127)\n"
)


@dataclass(frozen=True, slots=True)
class Completed:
    """How a process ended. `returncode` is negative for a signal, as in `subprocess`. Output is cut at its cap."""

    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    timed_out: bool
    seconds: float


async def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout: float,
    stdin: Path | None = None,
    stdout_cap: int,
    stderr_cap: int,
    grace: float = DEFAULT_GRACE_SECONDS,
) -> Completed:
    """Run `argv` to its end, its time-out (seconds) or the cancellation of this task.

    In each case the whole process group is gone and the child reaped when this returns or raises. A time-out is SIGTERM
    for the group, `grace` seconds, then SIGKILL; the result says `timed_out`. Raises CliMissing when the executable
    cannot be started, and whatever a hook raises.
    """
    executable = _find(argv[0], env)
    for hook in before_spawn:
        hook(argv)
    started = time.monotonic()
    process = _spawn([executable, *argv[1:]], env, cwd, stdin)
    stdout, stderr = Drain(_pipe(process.stdout), stdout_cap), Drain(_pipe(process.stderr), stderr_cap)
    timed_out = False
    try:
        async with asyncio.timeout(timeout) as deadline:
            await _exited(process.pid)
    except TimeoutError:
        timed_out = deadline.expired()
        await _end(process, grace)
    except asyncio.CancelledError:
        await _end(process, grace)
        raise
    finally:
        _reap(process)
        stdout.finish()
        stderr.finish()
        for hook in after_exit:
            hook(argv)
    result = Completed(
        process.returncode,
        stdout.data,
        stderr.data,
        stdout.truncated,
        stderr.truncated,
        timed_out,
        time.monotonic() - started,
    )
    if result.returncode in (126, 127) and f"exec: {executable}".encode() in result.stderr:
        raise CliMissing(f"{argv[0]} cannot be started", detail=result.stderr.decode(errors="replace")[-500:])
    return result


def _find(name: str, env: Mapping[str, str]) -> str:
    """The absolute path of an executable; CliMissing says which of missing and not executable it is."""
    path = shutil.which(name, path=env.get("PATH", os.defpath))
    if path is not None:
        return str(Path(path).absolute())
    if "/" in name and Path(name).exists():
        raise CliMissing(f"{name} is not an executable file")
    raise CliMissing(f"there is no executable {name!r}" + ("" if "/" in name else " on PATH"))


def _spawn(argv: list[str], env: Mapping[str, str], cwd: Path, stdin: Path | None) -> subprocess.Popen[bytes]:
    source: IO[bytes] | int = subprocess.DEVNULL if stdin is None else stdin.open("rb")
    try:
        return subprocess.Popen(
            [*_guard(), *argv],
            env=dict(env),
            cwd=cwd,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            umask=0o077,
            bufsize=0,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise CliMissing(f"{argv[0]} cannot be started: {error.strerror}") from error
    finally:
        if not isinstance(source, int):
            source.close()


def _guard() -> list[str]:
    """The words before the command that tie its life to this process.

    The kernel sends the signal when the *thread* that forked ends, so `run` belongs on the main thread's event loop.
    """
    tools = _guard_tools()
    if tools is not None:
        setpriv, shell = tools
        return [setpriv, "--pdeathsig", "KILL", shell, "-c", _GUARD_SH, str(os.getpid())]
    return [sys.executable, "-IS", "-c", _GUARD_PY, str(os.getpid())]


@lru_cache(maxsize=1)
def _guard_tools() -> tuple[str, str] | None:
    """util-linux's setpriv and a shell; None where they are missing (busybox has a setpriv without this option)."""
    setpriv, shell = shutil.which("setpriv"), shutil.which("sh")
    if setpriv is None or shell is None:
        return None
    probe = subprocess.run([setpriv, "--pdeathsig", "KILL", shell, "-c", ":"], capture_output=True, check=False)
    return (setpriv, shell) if probe.returncode == 0 else None


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise AssertionError("a child is always started with pipes")
    return stream


async def _exited(pid: int) -> None:
    """Return when the process has ended, without reaping it: its pid and group id stay ours until `_reap`."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # kernels and sandboxes without pidfd_open
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """SIGTERM, `grace` seconds, SIGKILL; returns when the leader has ended. If cancelled, `_reap` does the rest."""
    _signal_group(process, signal.SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(grace):
            await _exited(process.pid)
            return
    _signal_group(process, signal.SIGKILL)
    await _exited(process.pid)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group while the unreaped leader still keeps its id from being given away, then wait."""
    _signal_group(process, signal.SIGKILL)
    process.wait()
