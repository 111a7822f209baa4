"""`refresh`: key and ssh configuration of the RUNNING machines, rewritten as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Parsed
from controller.sandbox.brevsim.rules.session import Session, write_file
from controller.sandbox.brevsim.rules.text import multierror, trace

_DOWNLOAD = "https://downloads.brevsim.invalid/cloudflared-linux-amd64"


async def run(call: Call, _: Parsed) -> int:
    await call.out("refreshing brev...\n")
    await rewrite(call)
    await call.out("brev has been refreshed\n")
    return 0


async def rewrite(call: Call) -> None:
    """What `refresh`, `copy` and a slow `exec` do. The key is written even if the rest fails."""
    await _cloudflared(call)
    session = Session(call)
    keys = await session.request("GET", "/api/me/keys")
    key_file = call.brev_directory / "brev.pem"
    key_file.unlink(missing_ok=True)
    write_file(call, key_file, keys["privateKey"], 0o600)
    organization, user = await session.organization(), await session.me()
    rows = [row for row in await session.rows(organization["id"]) if row["status"] == "RUNNING"]
    if user is not None:
        rows = [row for row in rows if user["id"] in {row["createdByUserId"], *row["additionalUsers"]}]
    nameless = [row["id"] for row in rows if not row["sshUser"]]
    if nameless:
        prefix = trace("pkg/cmd/refresh.RunRefreshAsync", 61)
        text = "workspace {} has empty SSH user (workspace may not be running)"
        raise CliError(multierror([prefix + text.format(machine_id) for machine_id in nameless]))
    write_file(call, call.brev_directory / "ssh_config", _config(call, rows))
    _include(call)


async def _cloudflared(call: Call) -> None:
    """Downloaded where it is missing; nobody checks what arrived (§1.12)."""
    binary = call.brev_directory / "cloudflared"
    if binary.exists():
        return
    if not call.world.online:
        place = "downloads.brevsim.invalid"
        raise CliError(f'Get "{_DOWNLOAD}": dial tcp: lookup {place}: connect: network is unreachable')
    write_file(call, binary, "#!/bin/sh\nexit 1\n", 0o755)


def _config(call: Call, rows: list[dict[str, Any]]) -> str:
    text = f"# included in {call.home}/.ssh/config\n"
    for row in rows:
        for suffix, prefix in (("", "ssh"), ("-host", "hostSsh")):
            text += _block(call, row, f"{row['name']}{suffix}", row[f"{prefix}User"], row[f"{prefix}Port"])
    return text


def _block(call: Call, row: dict[str, Any], alias: str, user: str, port: int) -> str:
    return _certificate(call, alias) + (
        f"Host {alias}\n"
        f"  Hostname {row['dns']}\n"
        f'  IdentityFile "{call.brev_directory / "brev.pem"}"\n'
        f"  User {user or 'ubuntu'}\n"
        "  ServerAliveInterval 30\n  UserKnownHostsFile /dev/null\n  IdentitiesOnly yes\n"
        "  StrictHostKeyChecking no\n  PasswordAuthentication no\n  AddKeysToAgent yes\n  ForwardAgent yes\n"
        "  RequestTTY yes\n"
        f"  ControlMaster auto\n  ControlPath {call.release.control_path}\n  ControlPersist 10m\n"
        f"  Port {port}\n\n"
    )


def _certificate(call: Call, alias: str) -> str:
    """Newer releases have ssh itself ask for a certificate (form by PR 452, unverified)."""
    if not call.release.ssh_certificates:
        return ""
    file = call.brev_directory / "ssh-certs" / alias
    return f'Match host {alias} exec "brev mint-cert {alias}"\n  CertificateFile "{file}"\n\n'


def _include(call: Call) -> None:
    """`~/.ssh/config` gets the line once, in front."""
    config: Path = call.home / ".ssh" / "config"
    config.parent.mkdir(mode=0o755 & ~call.umask, exist_ok=True)
    line = f'Include "{call.brev_directory / "ssh_config"}"\n'
    old = config.read_text() if config.exists() else ""
    if line not in old:
        write_file(call, config, line + old)
