"""Where each of the four binaries comes from: found on the machine, else our cache, else built once into it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controller.sandbox.controlplane.build import go_build
from controller.sandbox.controlplane.cache import BinaryCache
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.recipes import RECIPES, Recipe, cache_key, cache_root
from controller.sandbox.controlplane.toolchain import find_go
from controller.sandbox.controlplane.versions import Version, version_of
from controller.sandbox.janitor import Janitor

ProbeVersion = Callable[[Path], Version | None]


@dataclass(frozen=True, slots=True)
class Binaries:
    """Four programs that run on this machine."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path


def provide(progress: Progress | None = None) -> Binaries:
    """All four binaries; the first call on a machine may build for ten minutes and says so on stderr.

    Raises BinariesUnavailableError when something is missing and cannot be built.
    """
    progress = progress or Progress()
    found = {name: find_on_machine(recipe, progress) for name, recipe in RECIPES.items()}
    missing = [name for name, path in found.items() if path is None]
    found |= build_into_cache(missing, progress)
    by_field = {name.replace("-", "_"): path for name, path in found.items() if path is not None}
    return Binaries(**by_field)


def build_into_cache(names: list[str], progress: Progress) -> dict[str, Path]:
    """The named binaries from the cache, built where it lacks them."""
    root = cache_root()

    def build(name: str, target: Path, janitor: Janitor) -> None:
        recipe = RECIPES[name]
        go = find_go(recipe.go_directive, root, progress, janitor)
        go_build(go, recipe, target, progress, janitor)

    return BinaryCache(root, cache_key(), progress).ensure(names, build)


def find_on_machine(recipe: Recipe, progress: Progress, probe: ProbeVersion = version_of) -> Path | None:
    """The binary in KUBEBUILDER_ASSETS or on PATH, if it is new enough."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    candidates = [Path(assets) / recipe.name] if assets else []
    if on_path := shutil.which(recipe.name):
        candidates.append(Path(on_path))
    for path in candidates:
        version = probe(path) if path.is_file() else None
        if version is not None and version >= recipe.minimum:
            return path
        if version is not None:
            progress.say(f"{path} is {version}, older than {recipe.minimum}: not used")
    return None
