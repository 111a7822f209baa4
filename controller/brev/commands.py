"""The argument lists of the CLI, by what a release can do, and what may never be in one. Pure.

Measured on v0.6.327: `exec` pastes the machine's name unquoted into a local `bash -c`, so a name with a semicolon runs
on the operator's own machine; a command that begins with `-` becomes an option of ssh, one with `@` names a local file;
`--type a,b` means several types. One argument of a process can be 128 KiB.
"""

import re
from pathlib import Path

from controller.brev.features import Capabilities, require_placement
from controller.brev.model import Placement

MAX_COMMAND_BYTES = 100 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]*")
_FORBIDDEN_IN_PATH = frozenset(":\n\r\0")


def version() -> list[str]:
    """Without the check for a newer release, which asks a public service."""
    return ["--version", "--no-check-latest"]


def list_machines() -> list[str]:
    return ["ls", "--json"]


def create_help() -> list[str]:
    """A help text is printed before anything is asked or read."""
    return ["create", "--help"]


def api_key_help() -> list[str]:
    """Fails only where `login` does not have the flag, which the help hides."""
    return ["login", "--api-key", "none", "--help"]


def list_organizations(release: Capabilities) -> list[str]:
    return [*release.organizations.split(), "--json"]


def search(catalog: str) -> list[str]:
    """`catalog` is "gpu" or "cpu"; neither holds the other's types."""
    return ["search", catalog, "--json"]


def create(
    release: Capabilities, name: str, machine_type: str, *, gpu: str = "", placement: Placement | None = None
) -> list[str]:
    """`gpu` ("L40S:1") counts only where there is no `--type`. PlacementUnsupported where a placement would be lost.

    `--detached` wherever it exists: the only waiting is our own poll of the list.
    """
    chosen = ["--type", checked_type(machine_type)] if release.create_type else ["--gpu", checked_type(gpu)]
    arguments = ["create", checked_name(name), *chosen]
    if placement:
        require_placement(release)
        for flag, word in (
            ("--cloud-cred-id", placement.cloud_cred_id),
            ("--workspace-group-id", placement.workspace_group_id),
        ):
            arguments += [flag, checked_name(word)] if word else []
    return [*arguments, "--detached"] if release.create_detached else arguments


def delete(machine_id: str) -> list[str]:
    """By id: a name can be ambiguous, and the CLI deletes the first match."""
    return ["delete", checked_name(machine_id)]


def stop(machine_id: str) -> list[str]:
    return ["stop", checked_name(machine_id)]


def start(machine_id: str) -> list[str]:
    """`--detached`: without it the CLI polls for ever. One machine: further arguments are ignored."""
    return ["start", checked_name(machine_id), "--detached"]


def refresh() -> list[str]:
    return ["refresh"]


def copy(name: str, source: Path, destination: str) -> list[str]:
    """Upload a local file or directory to an absolute path of the machine."""
    local = str(source)
    if not source.is_absolute() or _FORBIDDEN_IN_PATH & set(local):
        raise ValueError("the source of a copy must be an absolute path without colons and line breaks")
    if not destination.startswith("/") or _FORBIDDEN_IN_PATH & set(destination):
        raise ValueError("the destination of a copy must be an absolute path without colons and line breaks")
    return ["copy", local, f"{checked_name(name)}:{destination}"]


def execute(release: Capabilities, name: str, command: str) -> list[str]:
    """One name and one argument: on most releases everything before the last one would be read as a machine's name."""
    between = [release.exec_words] if release.exec_words else []
    return ["exec", checked_name(name), *between, checked_command(command)]


def checked_name(name: str) -> str:
    """A machine's name or id that is safe on the command line; ValueError otherwise."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a machine's name must begin with a letter or digit and hold only letters, digits, dot, dash, underscore"
        )
    return name


def checked_type(machine_type: str) -> str:
    """A single machine type; ValueError otherwise."""
    if not _TYPE.fullmatch(machine_type):
        raise ValueError("a machine type must be one word without commas")
    return machine_type


def checked_command(command: str) -> str:
    """A remote command that arrives as one; ValueError otherwise."""
    if not command.strip():
        raise ValueError("a remote command must not be empty")
    if command.startswith(("-", "@")):
        raise ValueError("a remote command must not begin with - or @")
    if any(character in command for character in "\n\r\0"):
        raise ValueError("a remote command must be a single line")
    # Each single quote becomes four characters on the way to ssh.
    if len(command.encode()) + 3 * command.count("'") > MAX_COMMAND_BYTES:
        raise ValueError(f"a remote command must not be longer than {MAX_COMMAND_BYTES} bytes")
    return command
