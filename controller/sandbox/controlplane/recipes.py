"""What is built, from which published Go modules and how. The versions live in `modules/*/go.mod` and nowhere else."""

import hashlib
import json
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from controller.sandbox.controlplane.versions import Version, parse_version

MODULES = Path(__file__).parent / "modules"
MODULE_FILES = ("go.mod", "go.sum", "tools.go")
CACHE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Recipe:
    """One binary: `package` is built inside the module directory `modules/<module>`."""

    name: str
    module: str
    package: str
    minimum: Version

    @property
    def version(self) -> Version:
        """The version that a build gives: the module's single direct requirement."""
        found = parse_version(_field(self.module, r"^require \S+ (v\S+)$"))
        if found is None:
            raise ValueError(f"modules/{self.module}/go.mod names no version")
        return found

    @property
    def go_directive(self) -> Version:
        """The oldest Go that can build it."""
        found = parse_version(_field(self.module, r"^go (\S+)$"))
        if found is None:
            raise ValueError(f"modules/{self.module}/go.mod has no go directive")
        return found

    @property
    def linker_flags(self) -> str:
        """A Kubernetes binary built from modules reports v0.0.0 unless it is told its version."""
        if self.module != "kubernetes":
            return "-s -w"
        package, version = "k8s.io/component-base/version", self.version
        return (
            f"-s -w -X {package}.gitVersion=v{version} -X {package}.gitMajor={version.major} "
            f"-X {package}.gitMinor={version.minor}"
        )


def _kubernetes(name: str) -> Recipe:
    return Recipe(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", Version(1, 31))


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("etcd", "etcd", "go.etcd.io/etcd/server/v3", Version(3, 5)),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
    )
}


def cache_root() -> Path:
    """`$XDG_CACHE_HOME/brev-operator/controlplane`; a relative XDG_CACHE_HOME is ignored, as its specification says."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "brev-operator" / "controlplane"


def cache_key() -> str:
    """Changes with everything that a binary depends on except the Go that compiled it."""
    digest = hashlib.sha256()
    for module in sorted({recipe.module for recipe in RECIPES.values()}):
        for name in MODULE_FILES:
            digest.update((MODULES / module / name).read_bytes())
    flags = {recipe.name: [recipe.package, recipe.linker_flags] for recipe in RECIPES.values()}
    digest.update(json.dumps([CACHE_FORMAT, flags, platform.system(), platform.machine()]).encode())
    return f"{RECIPES['kube-apiserver'].version}-{platform.machine()}-{digest.hexdigest()[:16]}"


def _field(module: str, pattern: str) -> str:
    match = re.search(pattern, (MODULES / module / "go.mod").read_text(), re.MULTILINE)
    return match[1] if match else ""
