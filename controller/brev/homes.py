"""The HOME directories in which the CLI runs, and what is in them when.

The CLI keeps everything below `$HOME`, without locks and without care for readers (measured: a list beside a login
loop reads torn files). So an account has one HOME for the commands that ask the service, and each machine has its own
for the commands that use ssh; a machine that hangs blocks no other. A machine's HOME holds credentials only while
`refresh` or `copy` runs: `exec` without them is one run over a known alias or a quick failure, never a replay and never
the start of a stopped machine.

A machine's HOME is two directories and two small files, address and key; what is the same for all is linked, and what
the CLI leaves behind is removed, so that a thousand of them take 16 MB of a memory-backed volume.

    <state>/accounts/<account>/home          <state>/machines/<account>/<machine>
    <state>/bin/{ssh,scp}                    <state>/empty, the working directory
    <state>/shared                           <state>/bare/home, without any login
"""

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from controller.brev import sshconfig
from controller.brev.commands import checked_name
from controller.brev.errors import CliUnsupported
from controller.brev.features import Capabilities
from controller.brev.files import PRIVATE_DIRECTORY, private_directory, write_private
from controller.brev.locks import SharedLock
from controller.brev.model import Credential

# What a machine's HOME keeps between calls; everything else goes, above all the credentials. An SSH certificate is one.
_KEPT = frozenset({"ssh_config", "brev.pem", "cloudflared", "onboarding_step.json", "personal_settings.json"})

# With step 0 or no file, v0.6.317 to v0.6.322 ask questions, and their `ls` may never return.
_ONBOARDED = json.dumps({"step": 1, "hasRunBrevShell": False, "hasRunBrevOpen": False})
_SETTINGS = json.dumps({"default_editor": "code", "analytics_enabled": False})
_FURNITURE = {"onboarding_step.json": _ONBOARDED, "personal_settings.json": _SETTINGS}

# OpenSSH takes `~` from the password file and ignores $HOME; a connection master outlives the call and its group.
_SHIM = '#!/bin/sh\nexec {tool} -F "$HOME/.brev/ssh_config" -o ControlMaster=no -o ControlPath=none "$@"\n'

# What v0.6.327 itself writes where a login has only one of the two tokens.
_NO_TOKEN = "auto-login"  # noqa: S105


Executable = tuple[str, int, int]
"""Path, time of change in nanoseconds, size."""


@dataclass(frozen=True, slots=True)
class Home:
    """One HOME and its lock: shared by calls that only read it, exclusive for those that write credentials or keys."""

    path: Path
    lock: SharedLock = field(default_factory=SharedLock)

    @property
    def brev(self) -> Path:
        return self.path / ".brev"

    @property
    def credentials(self) -> Path:
        return self.brev / "credentials.json"

    @property
    def ssh_config(self) -> Path:
        return self.brev / "ssh_config"


class Homes:
    """All HOMEs below one state directory. One per process; `cloudflared` is linked into each HOME if given.

    Only one process may use a state directory: locks are in memory. `search_path` is where the real ssh is looked for.
    """

    def __init__(self, state: Path, *, search_path: str, cloudflared: Path | None = None) -> None:
        self._state = private_directory(state.absolute())
        self._cloudflared = cloudflared
        self._homes: dict[Path, Home] = {}
        self._shared = private_directory(self._state / "shared")
        for name, text in _FURNITURE.items():
            write_private(self._shared / name, text)
        self.probing = asyncio.Lock()
        self.verdicts: dict[Executable, Capabilities | CliUnsupported] = {}
        """What is known of each executable that was asked; `probing` is held while one is."""
        self.working_directory = private_directory(self._state / "empty")
        self.path = self._write_shims(search_path)

    def account(self, account: str) -> Home:
        """The HOME of `ls`, `search`, `create` and `delete`."""
        return self._home(self._state / "accounts" / checked_name(account) / "home")

    def machine(self, account: str, machine: str) -> Home:
        """The HOME of `refresh`, `copy` and `exec`. Made if missing."""
        return self._home(self._state / "machines" / checked_name(account) / checked_name(machine))

    def machines(self, account: str) -> set[str]:
        """Names of the machines that have a HOME, also from an earlier process."""
        directory = self._state / "machines" / checked_name(account)
        return {path.name for path in directory.iterdir()} if directory.is_dir() else set()

    def bare(self) -> Home:
        """A HOME without any login, for `brev --version`."""
        return self._home(self._state / "bare" / "home")

    def forget_machine(self, account: str, machine: str) -> None:
        """Remove a machine's HOME with its key. Idempotent."""
        self._forget(self._state / "machines" / checked_name(account) / checked_name(machine))

    def forget_account(self, account: str) -> None:
        """Remove an account's HOME and those of its machines. Idempotent."""
        self._forget(self._state / "machines" / checked_name(account))
        self._forget(self._state / "accounts" / checked_name(account))

    def _forget(self, directory: Path) -> None:
        for path in [path for path in self._homes if path.is_relative_to(directory)]:
            del self._homes[path]
        if directory.exists():
            shutil.rmtree(directory)

    def _home(self, path: Path) -> Home:
        home = self._homes.get(path)
        if home is None or not all((home.brev / name).exists() for name in _FURNITURE):
            home = self._homes.setdefault(path, Home(path))
            self._furnish(home)
        return home

    def _furnish(self, home: Home) -> None:
        """An account's HOME has its own files, since `ls` of the oldest releases may write them."""
        linked = home.path.is_relative_to(self._state / "machines")
        for directory in (home.path, home.brev):
            private_directory(directory)
        for name, text in _FURNITURE.items():
            if linked:
                _link(home.brev / name, self._shared / name)
            else:
                write_private(home.brev / name, text)
        if self._cloudflared is not None and not (home.brev / "cloudflared").exists():
            _link(home.brev / "cloudflared", self._cloudflared)

    def _write_shims(self, search_path: str) -> str:
        """Put our ssh and scp before the real ones, where there are any; returns the PATH for children."""
        directory = private_directory(self._state / "bin")
        for tool in ("ssh", "scp"):
            real = shutil.which(tool, path=search_path)
            if real is not None:
                shim = _SHIM.format(tool=shlex.quote(str(Path(real).absolute())))
                write_private(directory / tool, shim, mode=PRIVATE_DIRECTORY)
        return f"{directory}:{search_path}"


def _link(link: Path, target: Path) -> None:
    """A symbolic link in place of whatever is there; relative, since a short one takes no block of its own."""
    link.unlink(missing_ok=True)
    relative = os.path.relpath(target, link.parent)
    link.symlink_to(relative if len(relative) < len(str(target)) else target)


def credential_files(credential: Credential, access_token: str = "") -> dict[str, str]:
    """The files of `.brev` that are a login, as the CLI itself writes them.

    With an API key the organisation is `api_key_org_id`; with a token it is active_org.json, which the CLI looks up by
    id and silently replaces by its default if the service does not know it. `access_token` is one that a refresh
    credential has already been changed into.
    """
    login: dict[str, str]
    if credential.kind == "APIKey":
        login = {"access_token": "", "refresh_token": "", "api_key": credential.secret}
        login["api_key_org_id"] = credential.org_id
    elif credential.kind == "RefreshToken":
        login = {"access_token": access_token or _NO_TOKEN, "refresh_token": credential.secret}
    else:
        login = {"access_token": credential.secret, "refresh_token": _NO_TOKEN}
    organization = {"id": credential.org_id, "name": credential.org_id, "userNetworkId": ""}
    return {"credentials.json": json.dumps(login), "active_org.json": json.dumps(organization)}


def write_login(home: Home, files: dict[str, str]) -> None:
    """Write a login into a HOME whose lock the caller holds exclusively."""
    for name, text in files.items():
        write_private(home.brev / name, text)


def stored_login(home: Home) -> dict[str, str]:
    """What credentials.json says now: the CLI renews the access token in it. Empty if there is none or it is torn."""
    return _strings(home.credentials)


def stored_organization(home: Home) -> str:
    """The id in active_org.json, "" if there is none."""
    return _strings(home.brev / "active_org.json").get("id", "")


def _strings(path: Path) -> dict[str, str]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in stored.items() if isinstance(value, str)} if isinstance(stored, dict) else {}


def remove_login(home: Home) -> None:
    """Remove everything from a machine's HOME but keys, addresses and settings. Idempotent."""
    for directory, kept in ((home.brev, _KEPT), (home.path, frozenset({".brev"}))):
        for entry in directory.iterdir() if directory.is_dir() else ():
            if entry.name in kept:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


@contextmanager
def borrowed_login(home: Home, files: dict[str, str]) -> Iterator[None]:
    """A login in a machine's HOME for the time of one call, under its exclusive lock."""
    try:
        write_login(home, files)
        yield
    finally:
        remove_login(home)


def keep_own_host(home: Home, name: str) -> bool:
    """After `refresh` or `copy`: drop the blocks of all other machines. False if there is none for this one.

    The paths inside stay right, since the file stays where it was written.
    """
    try:
        config = home.ssh_config.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    own = sshconfig.only(config, name)
    write_private(home.ssh_config, own)
    key = home.brev / "brev.pem"
    if key.exists():
        key.chmod(0o600)
    return sshconfig.has_host(own, name)


def knows_host(home: Home, name: str) -> bool:
    """Whether `exec` would find an address. Without one ssh asks DNS for the bare name, and may find somebody."""
    return sshconfig.has_host(_config(home), name)


def needs_certificate(home: Home) -> bool:
    """Whether ssh itself will call `brev` to connect, which then needs a login."""
    return sshconfig.mints(_config(home))


def _config(home: Home) -> str:
    try:
        return home.ssh_config.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
