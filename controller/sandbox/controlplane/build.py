"""One `go build`: progress while it runs, its last words in the error."""

import os
import shutil
from pathlib import Path

from controller.sandbox.controlplane.errors import BinariesUnavailableError
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.recipes import MODULE_FILES, MODULES, Recipe
from controller.sandbox.controlplane.watched import run_watched
from controller.sandbox.janitor import Janitor

BUILD_HINT = (
    "It needs a Go module proxy in reach (GOPROXY) and about 6 GB of free disk. What was compiled is kept, so a second "
    "try is quicker."
)


def go_build(go: Path, recipe: Recipe, target: Path, progress: Progress, janitor: Janitor) -> None:
    """Build the recipe's binary at `target`; raises BinariesUnavailableError with the compiler's last lines.

    The module is copied beside the target: the installed package may be read-only, and no go.work or go.mod of a
    surrounding checkout can take part.
    """
    module = target.parent / f"{recipe.name}-module"
    module.mkdir()
    for name in MODULE_FILES:
        shutil.copyfile(MODULES / recipe.module / name, module / name)
    counts = {"compiled": 0, "downloaded": 0}

    def show(lines: list[bytes]) -> None:
        # `-v` names each package as it is compiled.
        fetched = sum(line.startswith(b"go: downloading") for line in lines)
        counts["downloaded"] += fetched
        counts["compiled"] += len(lines) - fetched
        progress.tick(
            f"{counts['compiled']} packages compiled"
            if counts["compiled"]
            else f"{counts['downloaded']} modules fetched"
        )

    progress.begin(f"building {recipe.name} {recipe.version} from its published modules, once; this takes minutes")
    argv = [str(go), "build", "-v", "-trimpath", "-ldflags", recipe.linker_flags, "-o", str(target), recipe.package]
    code, last = run_watched(argv, janitor, show, cwd=module, env=_environment(go))
    if code != 0:
        progress.done("failed")
        raise BinariesUnavailableError(f"`go build {recipe.package}` ended with {code}:\n{last}\n{BUILD_HINT}")
    progress.done("built")


def _environment(go: Path) -> dict[str, str]:
    ours = {
        "CGO_ENABLED": "0",  # no C compiler is needed, and the result is static
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",  # which Go builds was decided before; it must not fetch another by itself
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    dropped = {"GOOS", "GOARCH", "GOROOT"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | ours
