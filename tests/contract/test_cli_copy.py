"""`refresh` and `copy`: what is written here and there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.contract.program import NEEDS_OURS, REAL, Program, where

ours = pytest.mark.skipif(REAL, reason=NEEDS_OURS)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def blocks(brev: Program) -> list[str]:
    lines = brev.file("ssh_config").read_text().splitlines()
    return [line.removeprefix("Host ") for line in lines if line.startswith("Host ")]


@where(lambda rules: rules.control_path.endswith("%C") and not rules.ssh_certificates)
async def test_refresh_writes_key_and_configuration(brev: Program) -> None:
    await brev.machine()
    result = await brev("refresh")
    assert (result.rc, result.stdout, result.stderr) == (0, "refreshing brev...\nbrev has been refreshed\n", "")
    assert blocks(brev) == ["tj-1", "tj-1-host"]
    text = brev.file("ssh_config").read_text()
    assert text.startswith(f"# included in {brev.home}/.ssh/config\nHost tj-1\n  Hostname ")
    assert f'  IdentityFile "{brev.home}/.brev/brev.pem"\n  User ubuntu\n' in text
    assert "  ControlPath ~/.ssh/brev-control-%C\n" in text
    assert mode(brev.file("brev.pem")) == 0o600
    assert (brev.home / ".ssh/config").read_text() == f'Include "{brev.home}/.brev/ssh_config"\n'


async def test_refresh_lists_only_running_machines_and_includes_itself_once(brev: Program) -> None:
    (brev.home / ".ssh").mkdir()
    (brev.home / ".ssh/config").write_text("Host foo\n  User bar\n")
    for name in ("up", "down"):
        await brev.machine(name)
    await brev("stop", "down")
    await brev.simulator.wait_for(lambda rows: any(row["status"] == "STOPPED" for row in rows))
    for _ in range(2):
        assert (await brev("refresh")).rc == 0
    assert blocks(brev) == ["up", "up-host"]
    include = f'Include "{brev.home}/.brev/ssh_config"\n'
    assert (brev.home / ".ssh/config").read_text() == f"{include}Host foo\n  User bar\n"


async def test_one_machine_without_ssh_user_fails_the_whole_refresh(brev: Program) -> None:
    await brev.machine("good")
    await brev.simulator.add_fault({"match": {"verb": "create"}, "action": "no_ssh_user"})
    odd = await brev.machine("odd")
    result = await brev("refresh")
    assert (result.rc, result.stdout) == (1, "refreshing brev...\n")
    assert f": workspace {odd['id']} has empty SSH user (workspace may not be running)\n\n\n" in result.stderr
    assert brev.file("brev.pem").exists()
    assert not brev.file("ssh_config").exists()


async def test_a_forbidden_key_fails_the_refresh(brev: Program) -> None:
    await brev.simulator.add_fault(
        {
            "match": {"api": "GET /api/me/keys", "every": True},
            "action": {"type": "refuse", "status": 403, "message": "forbidden"},
        }
    )
    result = await brev("refresh")
    assert (result.rc, result.stdout, result.stderr) == (1, "refreshing brev...\n", "forbidden\n\n")


@ours
async def test_refresh_without_network_needs_cloudflared_in_place(brev: Program) -> None:
    await brev.simulator.settings(online=False)
    result = await brev("refresh")
    assert (result.rc, result.stdout) == (1, "refreshing brev...\n")
    assert result.stderr.startswith('Get "https://')
    brev.file("cloudflared").write_text("")
    assert (await brev("refresh")).rc == 0


@ours
async def test_a_file_arrives_with_its_mode_less_the_umask(brev: Program, tmp_path: Path) -> None:
    machine = await brev.machine()
    source = tmp_path / "up.txt"
    source.write_bytes(b"\x00\xff data")
    source.chmod(0o666)
    result = await brev("copy", str(source), "tj-1:up.txt")
    assert result.rc == 0
    assert result.stdout.startswith(f"\n✓ Successfully copied {source} → tj-1:up.txt (")
    assert result.stdout.endswith("ms)\n\n")
    target = Path(machine["home"], "up.txt")
    assert (target.read_bytes(), mode(target)) == (b"\x00\xff data", 0o644)


@ours
async def test_a_directory_is_copied_whole_and_a_second_copy_nests(brev: Program, tmp_path: Path) -> None:
    machine = await brev.machine()
    source = tmp_path / "bundle"
    (source / "deep").mkdir(parents=True, mode=0o700)
    source.chmod(0o700)
    (source / "deep/secret").write_text("x")
    (source / "deep/secret").chmod(0o600)
    there = Path(machine["home"], "in")
    for _ in range(2):
        assert (await brev("copy", str(source), f"tj-1:{there}")).rc == 0
    assert (there / "deep/secret").read_text() == "x"
    assert (there / "bundle/deep/secret").read_text() == "x"
    assert (mode(there), mode(there / "deep/secret")) == (0o700, 0o600)


@ours
async def test_a_directory_comes_back(brev: Program, tmp_path: Path) -> None:
    machine = await brev.reachable()
    await brev("exec", "tj-1", "mkdir -p out/deep; echo result > out/deep/file")
    back = tmp_path / "back"
    assert (await brev("copy", f"tj-1:{machine['home']}/out", str(back))).rc == 0
    assert (back / "deep/file").read_text() == "result\n"


@ours
@pytest.mark.parametrize(
    ("there", "text"),
    [
        ("/no/such/place", "scp failed: exit status 1\nOutput: scp: dest open "),
        (
            "missing/place",
            'scp failed: exit status 1\nOutput: scp: dest open "missing/place": No such file or directory\r\n',
        ),
        ("../../escape", "Permission denied"),
    ],
)
async def test_a_place_that_cannot_be_written_fails(brev: Program, tmp_path: Path, there: str, text: str) -> None:
    await brev.machine()
    (tmp_path / "file").write_text("x")
    result = await brev("copy", str(tmp_path / "file"), f"tj-1:{there}")
    assert (result.rc, result.stdout) == (1, "")
    assert text in result.stderr


@ours
async def test_a_missing_remote_file_fails(brev: Program, tmp_path: Path) -> None:
    await brev.machine()
    result = await brev("copy", "tj-1:nope", str(tmp_path / "x"))
    assert result.stderr.endswith("scp failed: exit status 1\nOutput: scp: nope: No such file or directory\r\n\n")


async def test_an_unknown_instance_fails(brev: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = await brev("copy", str(tmp_path / "file"), "nope:x")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("instance with id/name nope not found\n")


@ours
async def test_copy_starts_a_stopped_machine(brev: Program, tmp_path: Path) -> None:
    await brev.machine()
    await brev("stop", "tj-1")
    await brev.simulator.wait_for(lambda rows: rows[0]["status"] == "STOPPED")
    (tmp_path / "file").write_text("x")
    result = await brev("copy", str(tmp_path / "file"), "tj-1:file")
    assert result.rc == 0
    assert result.stdout.startswith("Instance tj-1 is starting. \n\n\n✓ Successfully copied ")


@ours
async def test_copy_waits_for_the_programs_own_sleep_in_simulated_time(brev: Program, tmp_path: Path) -> None:
    await brev.machine()
    (tmp_path / "file").write_text("x")
    await brev.simulator.set_latency(poll=5000)
    process = brev.spawn("copy", str(tmp_path / "file"), "tj-1:file")
    assert process.stderr is not None
    process.stderr.read(1)
    assert process.poll() is None
    await brev.simulator.advance(5001)
    assert process.wait(timeout=60) == 0
    process.communicate()


@ours
async def test_a_broken_copy_leaves_a_part_and_fails(brev: Program, tmp_path: Path) -> None:
    machine = await brev.machine()
    (tmp_path / "file").write_text("0123456789")
    await brev.simulator.add_fault({"match": {"verb": "copy"}, "action": "partial_copy"})
    assert (await brev("copy", str(tmp_path / "file"), "tj-1:file")).rc == 1
    assert Path(machine["home"], "file").read_text() == "01234"
