"""How a child is started, limited, ended and reaped. The children are small shell scripts."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from controller.brev import process
from controller.brev.drain import Drain
from controller.brev.errors import CliMissing
from controller.brev.process import Completed
from tests.unit.brev.support import eventually

PATH = os.environ["PATH"]
Run = Callable[..., Awaitable[Completed]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    async def start(script: str, **options: object) -> Completed:
        defaults: dict[str, object] = {"timeout": 60.0, "stdout_cap": 10_000, "stderr_cap": 10_000, "grace": 0.05}
        arguments = defaults | {"env": {"PATH": PATH}, "cwd": tmp_path} | options
        return await process.run(["bash", "-c", script], **arguments)  # type: ignore[arg-type]

    return start


@pytest.fixture
async def strays(tmp_path: Path) -> AsyncIterator[Path]:
    """A file where scripts write the pids of children that they leave on purpose; ended afterwards."""
    path = tmp_path / "pids"
    yield path
    for pid in path.read_text().split() if path.exists() else ():
        if not gone(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


def gone(pid: int) -> bool:
    """No such process, or one that has ended and waits to be reaped by somebody else."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids(path: Path, count: int) -> list[int]:
    found = path.read_text().split() if path.exists() else []
    return [int(pid) for pid in found] if len(found) == count else []


async def test_output_and_exit_code_come_back(run: Run) -> None:
    result = await run("echo out; echo err >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert [result.timed_out, result.stdout_truncated, result.stderr_truncated] == [False] * 3


async def test_a_child_gets_nothing_but_what_it_was_given(run: Run, tmp_path: Path) -> None:
    result = await run(
        "readlink /proc/self/fd/0; umask; pwd; ps -o sid= -p $$ | tr -d ' '; echo $$; echo ${HOME-none}",
    )
    stdin, mask, directory, session, pid, home = result.stdout.decode().split()
    assert (stdin, mask, directory, home) == ("/dev/null", "0077", str(tmp_path), "none")
    assert session == pid


async def test_stdin_can_be_a_regular_file(run: Run, tmp_path: Path) -> None:
    row = tmp_path / "row.json"
    row.write_text("[{}]")
    assert (await run("cat", stdin=row)).stdout == b"[{}]"


async def test_a_time_out_ends_the_whole_group_though_it_ignores_term(run: Run, strays: Path) -> None:
    script = f"trap '' TERM; (trap '' TERM; sleep 300) & echo $! $$ > {strays}; wait; sleep 300"
    result = await run(script, timeout=1)
    assert result.timed_out
    assert result.returncode == -signal.SIGKILL
    assert pids(strays, 2)
    await eventually(lambda: all(gone(pid) for pid in pids(strays, 2)))


async def test_a_child_that_obeys_term_is_not_killed(run: Run) -> None:
    result = await run("trap 'echo bye; exit 7' TERM; echo up; sleep 300 & wait", timeout=1, grace=60)
    assert (result.timed_out, result.returncode, result.stdout) == (True, 7, b"up\nbye\n")


async def test_cancelling_the_task_ends_and_reaps_the_group(run: Run, strays: Path) -> None:
    task = asyncio.ensure_future(run(f"trap '' TERM; sleep 300 & echo $! $$ > {strays}; wait; sleep 300"))
    await eventually(lambda: bool(pids(strays, 2)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    leader = pids(strays, 2)[1]
    assert not Path(f"/proc/{leader}").exists(), "reaped, not a zombie"
    await eventually(lambda: all(gone(pid) for pid in pids(strays, 2)))


async def test_a_second_cancellation_does_not_leave_the_group_half_killed(run: Run, strays: Path) -> None:
    script = f"trap 'echo term >> {strays}.term' TERM; echo $$ > {strays}; while :; do sleep 300 & wait; done"
    task = asyncio.ensure_future(run(script, grace=1))
    await eventually(lambda: bool(pids(strays, 1)))
    task.cancel()
    await eventually(Path(f"{strays}.term").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Path(f"/proc/{pids(strays, 1)[0]}").exists()


async def test_cancelling_during_a_time_out_still_cancels(run: Run, strays: Path) -> None:
    script = f"trap 'echo term >> {strays}.term' TERM; echo $$ > {strays}; while :; do sleep 300 & wait; done"
    task = asyncio.ensure_future(run(script, timeout=1, grace=1))
    await eventually(Path(f"{strays}.term").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_process_in_another_session_that_holds_stderr_does_not_hold_the_call(run: Run, strays: Path) -> None:
    async with asyncio.timeout(60):
        result = await run(f"setsid sleep 300 & echo $! >> {strays}; echo done >&2")
    assert (result.returncode, result.stderr) == (0, b"done\n")


async def test_after_a_kill_stderr_may_stay_open_too(run: Run, strays: Path) -> None:
    async with asyncio.timeout(60):
        result = await run(f"setsid sleep 300 & echo $! >> {strays}; sleep 300", timeout=0.3)
    assert result.timed_out


async def test_what_is_left_of_the_group_ends_with_the_leader(run: Run, strays: Path) -> None:
    await run(f"sleep 300 & echo $! > {strays}")
    await eventually(lambda: gone(pids(strays, 1)[0]))


async def test_a_flood_of_output_neither_blocks_the_child_nor_fills_memory(run: Run) -> None:
    tracemalloc.start()
    try:
        result = await run("echo head; head -c 50000000 /dev/zero; head -c 5000000 /dev/zero >&2", stdout_cap=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.returncode == 0
    assert (result.stdout[:5], len(result.stdout), result.stdout_truncated) == (b"head\n", 1000, True)
    assert (len(result.stderr), result.stderr_truncated) == (10_000, True)
    assert peak < 2_000_000


async def test_output_of_exactly_the_cap_is_whole(run: Run) -> None:
    result = await run("printf 12345", stdout_cap=5)
    assert (result.stdout, result.stdout_truncated) == (b"12345", False)


async def test_a_large_last_write_is_not_lost(run: Run) -> None:
    result = await run("head -c 65536 /dev/zero", stdout_cap=1 << 20)
    assert len(result.stdout) == 65536


async def test_what_is_in_the_pipe_at_the_end_is_taken_whole_without_waiting_for_its_other_end() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    try:
        drain = Drain(os.fdopen(reading, "rb", buffering=0), 1 << 20)
        assert os.write(writing, bytes(900_000)) == 900_000
        drain.finish()
    finally:
        os.close(writing)
    assert len(drain.data) == 900_000


async def test_it_works_without_pidfd(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pid: int) -> int:
        raise OSError("not implemented here")

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert (await run("exit 5")).returncode == 5
    assert (await run("sleep 300", timeout=0.2)).timed_out


@pytest.mark.parametrize("guard", ["setpriv", "python"])
async def test_the_child_dies_when_its_parent_is_killed(guard: str, tmp_path: Path) -> None:
    if guard == "setpriv" and process._guard_tools() is None:
        pytest.skip("no setpriv with --pdeathsig here")
    replace = "" if guard == "setpriv" else "process._guard_tools = lambda: None\n"
    parent = subprocess.Popen(  # noqa: ASYNC220 - killed below; it needs no loop
        [
            sys.executable,
            "-c",
            "import asyncio, pathlib\nfrom controller.brev import process\n"
            f"{replace}argv = ['bash', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 300']\n"
            f"asyncio.run(process.run(argv, env={{'PATH': {PATH!r}}}, cwd=pathlib.Path('/'), timeout=300, "
            "stdout_cap=1, stderr_cap=1))\n",
        ],
        cwd=Path(__file__).parents[3],
    )
    try:
        await eventually(lambda: bool(pids(tmp_path / "pid", 1)))
    finally:
        parent.kill()
        parent.wait()
    await eventually(lambda: gone(pids(tmp_path / "pid", 1)[0]))


@pytest.mark.parametrize("guard", ["setpriv", "python"])
async def test_a_child_whose_parent_is_already_gone_does_not_begin(
    guard: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if guard == "python":
        monkeypatch.setattr(process, "_guard_tools", lambda: None)
    elif process._guard_tools() is None:
        pytest.skip("no setpriv with --pdeathsig here")
    monkeypatch.setattr(os, "getpid", lambda: 1)
    result = await run("echo began")
    assert (result.stdout, result.returncode != 0) == (b"", True)


@pytest.mark.parametrize("guard", ["setpriv", "python"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no executable"),
        (lambda path: path.write_text("#!/bin/sh\n"), "not an executable"),
        (lambda path: (path.write_text("#!/does/not/exist\n"), path.chmod(0o755)), "cannot be started"),
        (lambda path: (path.write_bytes(b"\x7fELFnonsense"), path.chmod(0o755)), "cannot be started"),
    ],
    ids=["absent", "mode", "interpreter", "format"],
)
async def test_an_executable_that_cannot_start_is_cli_missing(
    guard: str, make: Callable[[Path], object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if guard == "python":
        monkeypatch.setattr(process, "_guard_tools", lambda: None)
    make(tmp_path / "brev")
    with pytest.raises(CliMissing, match=reason):
        await process.run(
            [str(tmp_path / "brev")], env={"PATH": PATH}, cwd=tmp_path, timeout=60, stdout_cap=1000, stderr_cap=1000
        )


async def test_a_hook_can_prevent_the_start_and_another_sees_the_end(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Sequence[str]] = []
    monkeypatch.setattr(process, "after_exit", [ended.append])
    await run("exit 1")
    assert [argv[0] for argv in ended] == ["bash"]

    def refuse(argv: Sequence[str]) -> None:
        raise RuntimeError("the lease is lost")

    monkeypatch.setattr(process, "before_spawn", [refuse])
    with pytest.raises(RuntimeError, match="lease"):
        await run(f"touch {tmp_path}/started")
    assert not (tmp_path / "started").exists()
    assert len(ended) == 1


async def test_no_file_descriptor_is_left_open(run: Run) -> None:
    await run("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run("echo x; echo y >&2")
        await run("sleep 300", timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) == before
