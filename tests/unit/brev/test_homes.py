"""What stands in a HOME, with which modes, and for how long."""

import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from controller.brev import homes, sshconfig
from controller.brev.files import write_private
from controller.brev.homes import Homes
from controller.brev.model import Credential

KEY = Credential("APIKey", "bak-1", "org-a")


def block(alias: str, home: str = "/h", address: str = "127.0.0.2") -> str:
    return f'Host {alias}\n  Hostname {address}\n  IdentityFile "{home}/.brev/brev.pem"\n  Port 2222\n\n'


def config(*names: str) -> str:
    return "# included in /h/.ssh/config\n" + "".join(block(name) + block(f"{name}-host") for name in names)


@pytest.fixture
def all_homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "state", search_path="/usr/bin:/bin")


def modes(root: Path) -> dict[str, int]:
    """Permission bits of everything below a directory that is not a link."""
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode)
        for path in root.rglob("*")
        if not path.is_symlink()
    }


def test_directories_are_private_and_so_are_files(all_homes: Homes, tmp_path: Path) -> None:
    machine = all_homes.machine("default", "bo-1")
    homes.write_login(machine, homes.credential_files(KEY))
    homes.write_login(all_homes.account("default"), homes.credential_files(KEY))
    state = tmp_path / "state"
    for name, mode in modes(state).items():
        private = 0o700 if (state / name).is_dir() or name.startswith("bin/") else 0o600
        assert mode == private, name
    assert (state / "machines/default/bo-1/.brev/credentials.json").is_file()
    assert (state / "accounts/default/home/.brev/credentials.json").is_file()


@pytest.mark.parametrize(
    ("credential", "login"),
    [
        (KEY, {"access_token": "", "refresh_token": "", "api_key": "bak-1", "api_key_org_id": "org-a"}),
        (Credential("RefreshToken", "a:b", "org-a"), {"access_token": "auto-login", "refresh_token": "a:b"}),
        (Credential("JWT", "j.w.t", "org-a"), {"access_token": "j.w.t", "refresh_token": "auto-login"}),
    ],
)
def test_a_login_is_written_as_the_cli_itself_would(
    all_homes: Homes, credential: Credential, login: dict[str, str]
) -> None:
    home = all_homes.account("default")
    homes.write_login(home, homes.credential_files(credential))
    assert json.loads(home.credentials.read_text()) == login
    organization = json.loads((home.brev / "active_org.json").read_text())
    assert organization == {"id": "org-a", "name": "org-a", "userNetworkId": ""}
    assert json.loads((home.brev / "onboarding_step.json").read_text())["step"] == 1
    assert homes.stored_login(home) == login


def test_a_torn_login_reads_as_none(all_homes: Homes) -> None:
    home = all_homes.account("default")
    assert homes.stored_login(home) == {}
    home.credentials.write_text('{"api_key": "ba')
    assert homes.stored_login(home) == {}
    home.credentials.write_text("[]")
    assert homes.stored_login(home) == {}


def test_a_borrowed_login_goes_whatever_happens(all_homes: Homes) -> None:
    home = all_homes.machine("default", "bo-1")
    kept = {path.name for path in home.brev.iterdir()}

    def call() -> None:
        with homes.borrowed_login(home, homes.credential_files(KEY)):
            assert home.credentials.is_file()
            for name in (".invalid-refresh-token", "user_cache.json", ".credentials.json.1234.tmp", "config.yaml"):
                (home.brev / name).write_text("bak-1")
            (home.brev / "brev.pem").write_text("key")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        call()
    assert {path.name for path in home.brev.iterdir()} == kept | {"brev.pem"}
    homes.remove_login(home)


def test_only_the_machines_own_blocks_and_key_are_kept(all_homes: Homes) -> None:
    home = all_homes.machine("default", "bo-1")
    home.ssh_config.write_text(config("bo-10", "bo-1", "other"))
    home.ssh_config.chmod(0o644)
    (home.brev / "brev.pem").write_text("key")
    assert homes.keep_own_host(home, "bo-1")
    assert home.ssh_config.read_text() == (block("bo-1")[:-1] + "\n" + block("bo-1-host")[:-1])
    assert homes.knows_host(home, "bo-1")
    assert not homes.knows_host(home, "bo-10")
    assert stat.S_IMODE(home.ssh_config.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", config("bo-10"), block("bo-1-host"), "Host\n", "# Host bo-1\n", "  Host bo-1\n"])
def test_a_refresh_without_the_block_does_not_count(all_homes: Homes, text: str) -> None:
    home = all_homes.machine("default", "bo-1")
    assert not homes.keep_own_host(home, "bo-1")
    home.ssh_config.write_text(text)
    assert not homes.keep_own_host(home, "bo-1")
    assert not homes.knows_host(home, "bo-1")


def test_blocks_that_match_by_command_stay_with_their_machine() -> None:
    text = 'Match host bo-1 exec "brev mint-cert x"\n  CertificateFile c\n' + config("bo-1")
    assert sshconfig.only(text, "bo-1").startswith("Match host bo-1")


def test_two_accounts_with_a_machine_of_the_same_name_never_mix(all_homes: Homes) -> None:
    one, other = all_homes.machine("a", "bo-1"), all_homes.machine("b", "bo-1")
    one.ssh_config.write_text(config("bo-1"))
    assert homes.knows_host(one, "bo-1")
    assert not homes.knows_host(other, "bo-1")
    assert one.lock is not other.lock
    assert all_homes.machine("a", "bo-1") is one
    all_homes.forget_machine("b", "bo-1")
    assert one.ssh_config.exists()
    assert not other.path.exists()


def test_forgetting_removes_everything_and_can_be_repeated(all_homes: Homes) -> None:
    home, account = all_homes.machine("a", "bo-1"), all_homes.account("a")
    all_homes.forget_machine("a", "bo-1")
    all_homes.forget_machine("a", "bo-1")
    assert not home.path.exists()
    assert account.path.exists()
    assert all_homes.machine("a", "bo-1").path.exists(), "made again when asked for"
    all_homes.forget_account("a")
    assert not account.path.exists()
    assert not home.path.exists()


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "", ".hidden"])
def test_a_name_cannot_leave_the_state_directory(all_homes: Homes, name: str) -> None:
    for make in (
        all_homes.account,
        lambda each: all_homes.machine("a", each),
        lambda each: all_homes.machine(each, "b"),
    ):
        with pytest.raises(ValueError, match="name"):
            make(name)


def test_the_ssh_shim_gives_the_config_of_its_home_and_no_master(tmp_path: Path) -> None:
    real = tmp_path / "real tools"
    real.mkdir()
    for tool in ("ssh", "scp"):
        (real / tool).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        (real / tool).chmod(0o755)
    all_homes = Homes(tmp_path / "state", search_path=f"{real}:/usr/bin:/bin")
    home = all_homes.machine("a", "bo-1")
    for tool in ("ssh", "scp"):
        output = subprocess.run(
            [tool, "-T", "bo-1", "a b"],
            env={"PATH": all_homes.path, "HOME": str(home.path)},
            executable=f"{tmp_path}/state/bin/{tool}",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        options = ["-F", f"{home.path}/.brev/ssh_config", "-o", "ControlMaster=no", "-o", "ControlPath=none"]
        assert output.splitlines() == [str(real / tool), *options, "-T", "bo-1", "a b"]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an OpenSSH client")
def test_the_real_ssh_takes_the_machines_block_and_no_master_through_the_shim(all_homes: Homes) -> None:
    home = all_homes.machine("a", "bo-1")
    home.ssh_config.write_text(
        block("bo-1", str(home.path)) + "  ControlMaster auto\n  ControlPath ~/.ssh/brev-control-%C\n"
    )
    found = subprocess.run(
        ["ssh", "-G", "bo-1"],
        env={"PATH": all_homes.path, "HOME": str(home.path)},
        executable=f"{home.path.parents[2]}/bin/ssh",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {"hostname 127.0.0.2", "port 2222", "controlmaster false", f"identityfile {home.brev}/brev.pem"} <= set(
        found
    )
    assert not any(line.startswith("controlpath") for line in found)


def test_without_a_real_ssh_there_is_no_shim(tmp_path: Path) -> None:
    Homes(tmp_path / "state", search_path=str(tmp_path / "nothing"))
    assert list((tmp_path / "state/bin").iterdir()) == []


def test_cloudflared_is_linked_not_copied(tmp_path: Path) -> None:
    binary = tmp_path / "cloudflared"
    binary.write_text("x")
    home = Homes(tmp_path / "state", search_path="/bin", cloudflared=binary).machine("a", "bo-1")
    homes.remove_login(home)
    assert (home.brev / "cloudflared").resolve() == binary


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_private(path, "\ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def blocks(path: Path) -> int:
    """Bytes that a directory and everything below it take on the disk, what is linked more than once only once."""
    return sum({each.lstat().st_ino: each.lstat().st_blocks * 512 for each in (path, *path.rglob("*"))}.values())


def test_a_thousand_machines_of_one_account_keep_their_homes_under_20_mb(tmp_path: Path) -> None:
    binary = tmp_path / "cloudflared"
    binary.write_bytes(bytes(40_000_000))
    all_homes = Homes(tmp_path / "state", search_path="/bin", cloudflared=binary)
    names = [f"bo-cluster-machine-{number:04d}" for number in range(1000)]
    for name in names:
        home = all_homes.machine("default", name)
        with homes.borrowed_login(home, homes.credential_files(KEY)):
            home.ssh_config.write_text(config("bo-another-machine", name))
            (home.brev / "brev.pem").write_text("k" * 2600)
            (home.path / ".ssh").mkdir()
            (home.path / ".ssh" / "config").write_text("Include x\n")
            (home.brev / "user_cache.json").write_text("{}")
        assert homes.keep_own_host(home, name)
    size = blocks(tmp_path / "state")
    print(f"1,000 homes: {size / 1e6:.1f} MB")
    assert size < 20_000_000
    assert all_homes.machines("default") == set(names)


def test_what_is_the_same_for_all_machines_is_linked_and_an_accounts_own_is_not(all_homes: Homes) -> None:
    one, other, account = all_homes.machine("a", "m-1"), all_homes.machine("a", "m-2"), all_homes.account("a")
    for name in ("onboarding_step.json", "personal_settings.json"):
        assert (one.brev / name).samefile(other.brev / name)
        assert not (account.brev / name).is_symlink()
    (account.brev / "onboarding_step.json").unlink()
    assert json.loads((all_homes.account("a").brev / "onboarding_step.json").read_text())["step"] == 1


def test_an_ssh_certificate_is_a_login_and_goes(all_homes: Homes) -> None:
    home = all_homes.machine("a", "m-1")
    (home.brev / "ssh-certs").mkdir()
    (home.brev / "ssh-certs" / "m-1").write_text("certificate")
    homes.remove_login(home)
    assert not (home.brev / "ssh-certs").exists()


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("", False),
        (config("bo-1"), False),
        ('Match host bo-1 exec "brev mint-cert bo-1"\n  CertificateFile c\n' + config("bo-1"), True),
        ('Match host bo-1 exec "/usr/bin/brev mint-cert --quiet bo-1"\n', True),
        ("# Match host bo-1 exec mint-cert\n" + config("bo-1"), False),
    ],
)
def test_a_certificate_is_needed_where_ssh_calls_brev(all_homes: Homes, text: str, needed: bool) -> None:
    home = all_homes.machine("a", "bo-1")
    home.ssh_config.write_text(text)
    assert homes.needs_certificate(home) == needed
