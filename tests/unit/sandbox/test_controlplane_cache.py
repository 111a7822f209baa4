"""The cache of built binaries: what it cannot prove, it builds again; and it builds once, however many ask."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.sandbox.controlplane.cache import BinaryCache
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.janitor import Janitor, is_running, read_process
from controller.sandbox.waiting import wait_until

ROOT = Path(__file__).parents[3]
CONTENT = b"#!/bin/sh\nexit 0\n"


class CountingBuilder:
    def __init__(self) -> None:
        self.built: list[str] = []

    def __call__(self, name: str, target: Path, janitor: Janitor) -> None:
        self.built.append(name)
        target.write_bytes(CONTENT)


@pytest.fixture
def cache(tmp_path: Path) -> BinaryCache:
    return BinaryCache(tmp_path, "key", Progress(io.StringIO()))


def test_a_binary_is_built_once_and_then_found(cache: BinaryCache) -> None:
    builder = CountingBuilder()
    first = cache.ensure(["etcd", "kubectl"], builder)
    assert cache.ensure(["etcd", "kubectl"], builder) == first
    assert builder.built == ["etcd", "kubectl"]
    assert subprocess.run([first["etcd"]], check=False).returncode == 0


def truncate(path: Path) -> None:
    path.write_bytes(CONTENT[:-1])


def flip_a_bit(path: Path) -> None:
    path.write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:])


def lose_the_execute_bit(path: Path) -> None:
    path.chmod(0o644)


def lose_the_record(path: Path) -> None:
    path.with_name(f"{path.name}.json").unlink()


def garble_the_record(path: Path) -> None:
    path.with_name(f"{path.name}.json").write_text("[]")


@pytest.mark.parametrize(
    "damage", [truncate, flip_a_bit, Path.unlink, lose_the_execute_bit, lose_the_record, garble_the_record]
)
def test_a_damaged_entry_is_noticed_and_rebuilt_alone(cache: BinaryCache, damage: Callable[[Path], None]) -> None:
    builder = CountingBuilder()
    path = cache.ensure(["etcd", "kubectl"], builder)["etcd"]
    damage(path)
    assert cache.find("etcd") is None
    assert cache.ensure(["etcd", "kubectl"], builder)["etcd"].read_bytes() == CONTENT
    assert builder.built == ["etcd", "kubectl", "etcd"]
    assert cache.find("etcd") == path


def test_a_failed_build_raises_and_leaves_nothing_of_the_failed_one(cache: BinaryCache, tmp_path: Path) -> None:
    def fail(name: str, target: Path, janitor: Janitor) -> None:
        target.write_bytes(b"half")
        if name == "kubectl":
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        cache.ensure(["etcd", "kubectl"], fail)
    assert cache.find("etcd") is not None, "what was finished before is kept"
    assert sorted(path.name for path in cache.directory.iterdir()) == ["etcd", "etcd.json"]
    assert not list(tmp_path.glob(".building-*"))


SCRIPT = """
import sys, subprocess
from pathlib import Path
from controller.sandbox.controlplane.cache import BinaryCache
from controller.sandbox.controlplane.progress import Progress

root, go_on = Path(sys.argv[1]), Path(sys.argv[2])

def build(name, target, janitor):
    target.write_bytes(b"half")
    compiler = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.pause()"], start_new_session=True, env=janitor.environment()
    )
    janitor.adopt(compiler.pid)
    print("building", compiler.pid, flush=True)
    go_on.open("rb").read()
    compiler.kill()
    compiler.wait()
    target.write_bytes(b"whole")

print(BinaryCache(root, "key", Progress()).ensure(["etcd"], build)["etcd"].read_bytes().decode(), flush=True)
"""


@contextlib.contextmanager
def run_builder(tmp_path: Path, name: str = "builder") -> Iterator[subprocess.Popen[str]]:
    """A builder in a process of its own; it goes on when the fifo `go-on` is opened for writing and closed."""
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path / "cache"), str(tmp_path / "go-on")]
    with (
        (tmp_path / f"{name}.err").open("w") as errors,
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_two_runs_at_once_build_once_and_the_second_says_that_it_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go-on")
    with run_builder(tmp_path) as first:
        assert first_line(first)[0] == "building"
        with run_builder(tmp_path, "second") as second:
            waits = f"waiting for another run that builds it (process {first.pid})"
            wait_until(lambda: waits in (tmp_path / "second.err").read_text(), 30, "the second to say that it waits")
            (tmp_path / "go-on").open("wb").close()
            assert second.communicate(timeout=60)[0].splitlines() == ["whole"], "it builds nothing itself"
        assert first.communicate(timeout=60)[0].splitlines() == ["whole"]


def test_kill_9_of_a_builder_ends_its_compiler_and_the_next_run_builds_clean(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go-on")
    with run_builder(tmp_path) as killed:
        compiler = int(first_line(killed)[1])
        found = read_process(compiler)
        assert found is not None
        start = found.start
        assert list((tmp_path / "cache").glob(".building-key-*"))
        killed.kill()
    wait_until(lambda: not is_running(compiler, start), 60, "the end of the compiler")
    wait_until(lambda: not list((tmp_path / "cache").glob(".building-*")), 60, "the janitor to clean up")
    assert not list((tmp_path / "cache" / "key").iterdir())
    with run_builder(tmp_path) as clean:
        assert first_line(clean)[0] == "building"
        (tmp_path / "go-on").open("wb").close()
        assert clean.communicate(timeout=60)[0].splitlines() == ["whole"]


def test_what_a_power_cut_left_is_swept_by_the_next_builder(cache: BinaryCache, tmp_path: Path) -> None:
    (tmp_path / ".building-key-0011").mkdir()
    (tmp_path / ".building-otherkey-0011").mkdir()
    cache.ensure(["etcd"], CountingBuilder())
    assert [path.name for path in tmp_path.glob(".building-*")] == [".building-otherkey-0011"]
