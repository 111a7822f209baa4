from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from controller.remote import build
from controller.remote.bundle import BundleFile, write_bundle
from tests.unit.remote.machine import job

RUNNER = Path(build.__file__).parent / "runner"

#: Library names that came after Python 3.8 and are easy to reach for.
TOO_NEW = {
    "removeprefix", "removesuffix", "batched", "pairwise", "UTC", "tomllib", "zoneinfo", "pidfd_open", "StrEnum",
    "TaskGroup", "waitstatus_to_exitcode", "is_relative_to", "bit_count", "file_digest", "ExceptionGroup", "graphlib",
}  # fmt: skip


def sources() -> list[Path]:
    return sorted(RUNNER.glob("*.py"))


def test_two_builds_are_the_same_bytes_in_another_process_and_directory(tmp_path: Path) -> None:
    target = tmp_path / "other.pyz"
    script = "from controller.remote import build; import sys; open(sys.argv[1], 'wb').write(build.runner_archive())"
    subprocess.run([sys.executable, "-c", script, str(target)], check=True, cwd=RUNNER.parents[2])
    assert target.read_bytes() == build.runner_archive()


def test_the_archive_holds_every_source_with_fixed_times() -> None:
    with zipfile.ZipFile(io.BytesIO(build.runner_archive())) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert set(names) == {"__main__.py", *(f"brev_runner/{path.name}" for path in sources())}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_the_runner_is_written_for_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names
    }
    assert not names & TOO_NEW
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)


def test_a_bundle_is_private_and_whole(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", job("true", env={"A": "secret-value"}, masks=(b"secret-value",)))
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "b").iterdir()} == {0o600}
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert {*manifest["files"], "manifest.json"} == {path.name for path in (tmp_path / "b").iterdir()}


def test_the_same_bundle_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_bundle(tmp_path / name, job("true", env={"B": "1", "A": "2"}))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_bundle_never_shows_its_secrets() -> None:
    bundle = job("echo secret-value", env={"A": "secret-value"}, files=(BundleFile("f", b"secret-value"),))
    assert "secret" not in repr(bundle) + str(bundle.files)


def test_a_bundle_is_not_written_over_another_one(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", job("true"))
    with pytest.raises(FileExistsError):
        write_bundle(tmp_path / "b", job("false"))


@pytest.mark.parametrize(
    "paths",
    [["/etc/x"], ["../x"], ["a/../../x"], [""], ["."], ["a/"], ["a", "a"], ["a", "./a"], ["a", "a/b"], ["a/b", "a"],
     [".brev-script"], ["a\0b"], [".."]],
)  # fmt: skip
def test_paths_that_could_not_arrive_as_given_are_refused(paths: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="path"):
        write_bundle(tmp_path / "b", job("true", files=tuple(BundleFile(path, b"") for path in paths)))
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "secret\0value"}])
def test_an_environment_that_no_process_can_have_is_refused_without_showing_values(
    env: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"environment|NUL") as caught:
        write_bundle(tmp_path / "b", job("true", env=env))
    assert "secret" not in str(caught.value)
