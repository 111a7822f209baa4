"""Versions of programs found on this machine, read leniently: distributions and clouds decorate them."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

PROBE_SECONDS = 20

_VERSION = re.compile(r"(?<![\w.])(?:v|go)?(\d+)\.(\d+)(?:\.(\d+))?")
_PROBES = {"kubectl": ["version", "--client"], "go": ["version"]}


class Version(NamedTuple):
    """Ordered as versions are; a suffix such as `-dispatcher`, `+k3s1` or `rc1` is dropped."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version | None:
    """The first version in a program's output (`Kubernetes v1.37.2`, `etcd Version: 3.6.16`, `go1.26.8`)."""
    match = _VERSION.search(text)
    return Version(*(int(part or 0) for part in match.groups())) if match else None


def version_of(program: Path) -> Version | None:
    """What the program says about itself; None if it does not run, hangs or says nothing that reads like a version."""
    arguments = _PROBES.get(program.name, ["--version"])
    try:
        answer = subprocess.run(
            [program, *arguments], capture_output=True, text=True, errors="replace", timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stdout) if answer.returncode == 0 else None
