"""`exec`: what runs where, how often, and what is left of its exit code."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from tests.contract.program import EXEC_BY_SSH_FIRST, NEEDS_OURS, REAL, REPLAYS, Case, Program, where

pytestmark = pytest.mark.skipif(REAL, reason=NEEDS_OURS)

_SPINNER = r"(\r\x1b\[K\r. waiting for SSH connection to be available )*\r\x1b\[K"
_CHECKING = "Connection failed, checking instance status...\n"
_UNKNOWN_HOST = "ssh: Could not resolve hostname {}: Temporary failure in name resolution\r\n"


def unresolved(name: str) -> str:
    return re.escape(_UNKNOWN_HOST.format(name) + _CHECKING)


async def runs(brev: Program) -> int:
    return len(await brev.simulator.commands())


@pytest.mark.parametrize(
    ("command", "stdout", "stderr"),
    [
        ("echo hi; echo err >&2", "hi\ntj-1\n", "err\n"),
        ("printf ok", "oktj-1\n", ""),
        ("cat; echo done", "done\ntj-1\n", ""),
        (" ", "tj-1\n", ""),
        ("echo one\necho two", "one\ntwo\ntj-1\n", ""),
        ("cat <<EOF\nl1\nEOF", "l1\ntj-1\n", ""),
        ("""echo "a'b" '$HOME' `echo bt`; echo 'x;y|z'""", "a'b $HOME bt\nx;y|z\ntj-1\n", ""),
        ("umask; echo $USER $LANG", "0022\nubuntu C.UTF-8\ntj-1\n", ""),
    ],
)
async def test_the_last_argument_runs_on_the_machine_and_the_name_follows(
    brev: Program, command: str, stdout: str, stderr: str
) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", command)
    assert (result.rc, result.stdout, result.stderr) == (0, stdout, stderr)


async def test_a_machine_has_a_home_and_a_boot_id_of_its_own(brev: Program) -> None:
    machine = await brev.reachable()
    result = await brev("exec", "tj-1", 'pwd; echo "$HOME"; cat "$BREV_OPERATOR_BOOT_ID_FILE"; env | grep -c SSH_AUTH')
    assert result.stdout.splitlines()[:3] == [machine["home"], machine["home"], machine["bootId"]]


@REPLAYS
async def test_a_non_zero_exit_runs_twice_and_its_code_is_only_in_the_text(brev: Program) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", "echo run >> count; echo out; echo err >&2; exit 3")
    stderr = f"err\n{re.escape(_CHECKING)}{_SPINNER}err\nexit status 3\n"
    Case("", [], 1, "out\nout\n", stderr, source="§9").check(result)
    assert (await brev("exec", "tj-1", "cat count")).stdout == "run\nrun\ntj-1\n"
    assert [command["exit"] for command in await brev.simulator.commands()] == [3, 3, 0]


@pytest.mark.parametrize("command", ["exit 255", "kill -9 $$"])
async def test_a_signal_or_255_looks_like_a_lost_connection(brev: Program, command: str) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", command)
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("exit status 255\n")
    assert await runs(brev) == 2


@where(lambda rules: rules.exec_replays and not rules.exec_needs_login and not rules.late_login_prompt)
async def test_without_credentials_a_failing_command_runs_once(brev: Program) -> None:
    await brev.reachable()
    brev.log_out()
    assert (await brev("exec", "tj-1", "echo hi")).stdout == "hi\ntj-1\n"
    result = await brev("exec", "tj-1", "exit 4")
    assert result.rc == 1
    assert result.stdout == "You are currently logged out, would you like to log in? [Y/n]: "
    assert result.stderr.startswith(_CHECKING)
    pattern = r'.*could not look up instance "tj-1": \[error\] \n.*: exit status 4\nPlease check your .* brev ls\n'
    assert re.fullmatch(pattern, result.stderr, re.DOTALL)
    assert await runs(brev) == 2


async def test_without_credentials_a_stopped_machine_is_not_woken(brev: Program) -> None:
    await brev.reachable()
    await brev("stop", "tj-1")
    await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "STOPPED")
    brev.log_out()
    assert (await brev("exec", "tj-1", "true")).rc == 1
    assert [row["status"] for row in await brev.simulator.machines()] == ["STOPPED"]


@REPLAYS
async def test_with_credentials_a_stopped_machine_is_started(brev: Program) -> None:
    await brev.machine()
    await brev("stop", "tj-1")
    await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "STOPPED")
    result = await brev("exec", "tj-1", "echo hi")
    assert (result.rc, result.stdout) == (0, "Instance tj-1 is starting. \n\nhi\ntj-1\n")
    assert [row["status"] for row in await brev.simulator.machines()] == ["RUNNING"]


async def test_an_unknown_alias_is_refreshed_and_an_id_always_is(brev: Program) -> None:
    machine = await brev.machine()
    for word in ("tj-1", machine["id"]):
        brev.file("ssh_config").unlink(missing_ok=True)
        result = await brev("exec", word, "echo hi")
        Case("", [], 0, f"hi\n{word}\n", unresolved(word) + _SPINNER, source="§9").check(result)
    assert await runs(brev) == 2


async def test_an_unknown_instance_is_an_ssh_error_with_a_hint(brev: Program) -> None:
    result = await brev("exec", "Nope", "true")
    end = r'ssh connection failed and could not look up instance "Nope": \[error\] \n.*: exit status 255\n.*brev ls\n'
    Case("", [], 1, "", unresolved("nope") + end, source="§9").check(result)


@REPLAYS
async def test_a_deploying_machine_is_named_as_such(brev: Program) -> None:
    await brev.simulator.set_latency(deploy=1000)
    await brev("create", "tj-1", "--type", "e2-small", "-d")
    result = await brev("exec", "tj-1", "true")
    end = re.escape('instance "tj-1" is in state "DEPLOYING" — please check with: brev ls\n')
    Case("", [], 1, "", unresolved("tj-1") + end, source="§9").check(result)


@EXEC_BY_SSH_FIRST
async def test_words_before_the_last_are_names(brev: Program) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", "--", "bash", "-c", "echo hi")
    assert (result.rc, result.stdout) == (1, "hi\ntj-1\n")
    assert "\n=== bash ===\n" in result.stderr
    assert "\n=== -c ===\n" in result.stderr
    assert await runs(brev) == 1


async def test_names_may_come_from_stdin_so_data_cannot(brev: Program) -> None:
    await brev.reachable()
    assert (await brev("exec", "echo hi", stdin=b"tj-1\n")).stdout == "hi\ntj-1\n"
    result = await brev("exec", "tj-1", "cat", stdin=b"data\n")
    assert (result.rc, result.stdout) == (1, "tj-1\n")


@pytest.mark.parametrize("name", ["tj-1; echo INJECTED", "$(id)", "a b", "-oProxyCommand=id"])
@EXEC_BY_SSH_FIRST
async def test_a_name_that_would_run_in_a_local_shell_is_refused_loudly(brev: Program, name: str) -> None:
    result = await brev("exec", "--", name, "true")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.startswith("brevsim: refused: ")
    assert [(alarm["kind"], alarm["text"]) for alarm in await brev.simulator.alarms()] == [("unsafe-name", name)]


@EXEC_BY_SSH_FIRST
async def test_a_command_that_begins_with_a_dash_never_arrives(brev: Program) -> None:
    await brev.reachable()
    result = await brev("exec", "--", "tj-1", "-V")
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert result.stderr.startswith("OpenSSH")
    assert await runs(brev) == 0


@pytest.mark.parametrize(("length", "rc"), [(130_900, 0), (131_050, 1)])
async def test_one_argument_has_the_kernels_limit(brev: Program, length: int, rc: int) -> None:
    await brev.reachable()
    command = "echo " + "x" * (length - 5)
    result = await brev("exec", "tj-1", command)
    assert result.rc == rc
    assert result.stderr.endswith("fork/exec /usr/bin/bash: argument list too long\n" if rc else "")
    assert await runs(brev) == (0 if rc else 1)


async def test_a_dropped_connection_runs_the_command_again_while_the_first_goes_on(brev: Program) -> None:
    await brev.reachable()
    await brev.simulator.add_fault({"match": {"verb": "exec", "name": "tj-1"}, "action": "drop"})
    result = await brev(
        "exec", "tj-1", "echo run >> count; until [ $(wc -l < count) = 2 ]; do :; done; echo end >> both"
    )
    assert (result.rc, result.stdout) == (0, "tj-1\n")
    assert [command["attempt"] for command in await brev.simulator.commands()] == [1, 2]
    assert (
        await brev("exec", "tj-1", "until [ $(wc -l < both) = 2 ]; do :; done; cat both")
    ).stdout == "end\nend\ntj-1\n"


async def test_a_refused_connection_is_probed_until_sshd_answers(brev: Program) -> None:
    await brev.reachable()
    await brev.simulator.add_fault({"match": {"verb": "exec", "count": 12}, "action": "ssh_refused"})
    result = await brev("exec", "tj-1", "echo hi")
    assert (result.rc, result.stdout) == (0, "hi\ntj-1\n")
    assert re.match(r"ssh: connect to host \S+ port 22: Connection refused\r\nConnection failed", result.stderr)


async def test_a_changed_key_is_probed_to_the_end_with_a_misleading_last_line(brev: Program) -> None:
    await brev.machine()
    await brev.simulator.settings(rotateKey="user-1")
    await brev("refresh")
    result = await brev("exec", "tj-1", "echo hi")
    assert (result.rc, result.stdout) == (1, "")
    assert "Permission denied (publickey).\r\n" in result.stderr.splitlines(keepends=True)[0]
    end = r"Warning: Permanently added '\S+' \(ED25519\) to the list of known hosts\.\r\nPlease check with: brev ls\n"
    assert re.search(f'could not connect to instance "tj-1": .*\n{end}$', result.stderr, re.DOTALL)
    assert await runs(brev) == 0


@REPLAYS
async def test_an_empty_ssh_user_of_one_machine_breaks_the_error_path_of_all(brev: Program) -> None:
    await brev.reachable()
    await brev.simulator.add_fault({"match": {"verb": "create", "name": "odd"}, "action": "no_ssh_user"})
    odd = await brev.machine("odd")
    assert (await brev("exec", "tj-1", "true")).rc == 0
    result = await brev("exec", "tj-1", "exit 3")
    assert result.rc == 1
    assert f"workspace {odd['id']} has empty SSH user (workspace may not be running)" in result.stderr
    assert await runs(brev) == 2


async def test_killing_exec_leaves_the_remote_command_running(brev: Program) -> None:
    await brev.reachable()
    process = brev.spawn("exec", "tj-1", "echo started; read nothing < fifo; echo over > flag")
    await brev("exec", "tj-1", "mkfifo fifo")
    process.kill()
    await asyncio.to_thread(process.wait)
    started = brev.spawn("exec", "tj-1", "echo started; read nothing < fifo; echo over > flag")
    assert started.stdout is not None
    assert await asyncio.to_thread(started.stdout.readline) == b"started\n"
    os.killpg(started.pid, signal.SIGKILL)
    await asyncio.to_thread(started.communicate)
    process.communicate()
    assert (
        await brev("exec", "tj-1", "echo go > fifo; until [ -s flag ]; do :; done; cat flag")
    ).stdout == "over\ntj-1\n"
    assert (await brev.simulator.calls())[-2]["rc"] == -9


async def test_after_a_kill_stderr_may_stay_open_until_the_remote_command_ends(brev: Program) -> None:
    await brev.reachable()
    await brev("exec", "tj-1", "mkfifo fifo")
    await brev.simulator.add_fault({"match": {"verb": "exec"}, "action": "linger"})
    process = brev.spawn("exec", "tj-1", "echo started; read nothing < fifo")
    assert process.stdout is not None
    assert process.stderr is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"started\n"
    os.killpg(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.wait)
    assert process.stdout.read() == b""
    rest = asyncio.ensure_future(asyncio.to_thread(process.stderr.read))
    await brev.simulator.wait_for(lambda rows: rows[0]["processes"] == 1)
    assert not rest.done()
    await brev("exec", "tj-1", "echo go > fifo")
    assert await rest == b""
    process.communicate()


async def test_a_background_child_without_redirects_holds_exec(brev: Program) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", "(until [ -e go ]; do :; done; echo late) & echo bg; touch go")
    assert result.stdout == "bg\nlate\ntj-1\n"


async def test_a_detached_child_does_not_hold_exec_and_dies_with_the_machine(brev: Program) -> None:
    await brev.reachable()
    result = await brev("exec", "tj-1", "env -i setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo bg")
    assert result.stdout == "bg\ntj-1\n"
    (machine,) = await brev.simulator.wait_for(lambda rows: rows[0]["processes"] == 1)
    await brev("delete", "tj-1")
    await brev.simulator.wait_for(lambda rows: not rows)
    assert not _alive(machine["pids"][0])


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


async def test_large_output_passes_and_the_backend_stays_small(brev: Program) -> None:
    await brev.reachable()
    size = 200_000_000
    process = brev.spawn("exec", "tj-1", f"head -c {size} /dev/zero")
    assert process.stdout is not None
    read = 0
    while chunk := await asyncio.to_thread(process.stdout.read, 1 << 20):
        read += len(chunk)
    process.communicate()
    assert read == size + len("tj-1\n")
    status = Path(f"/proc/{brev.simulator.pid}/status").read_text().splitlines()
    peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak_kib < 150_000
