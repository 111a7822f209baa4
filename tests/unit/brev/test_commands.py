"""Argument lists, and what is refused before it reaches one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.brev import commands
from controller.brev.errors import PlacementUnsupported
from controller.brev.features import capabilities, from_flags
from controller.brev.model import Placement

NEW = capabilities("v0.6.327")
SEEDS = from_flags("", frozenset({"type", "gpu", "cloud-cred-id", "workspace-group-id", "detached"}), api_keys=False)
BARE = from_flags("", frozenset({"gpu", "cloud-cred-id", "workspace-group-id"}), api_keys=False)
PLACE = Placement("cc-1", "wg-1")


def test_the_argument_lists_are_those_the_cli_takes() -> None:
    assert commands.create(NEW, "bo-1", "g6e.xlarge") == ["create", "bo-1", "--type", "g6e.xlarge", "--detached"]
    assert commands.delete("aaa000001") == ["delete", "aaa000001"]
    assert commands.copy("bo-1", Path("/a/b"), "/home/u/in/x") == ["copy", "/a/b", "bo-1:/home/u/in/x"]
    assert commands.execute(NEW, "bo-1", "a b 'c'") == ["exec", "bo-1", "a b 'c'"]
    assert commands.search("cpu") == ["search", "cpu", "--json"]
    assert commands.version() == ["--version", "--no-check-latest"]


def test_flags_are_those_that_the_release_has() -> None:
    placed = ["--cloud-cred-id", "cc-1", "--workspace-group-id", "wg-1"]
    assert commands.create(SEEDS, "a", "t", placement=PLACE) == ["create", "a", "--type", "t", *placed, "--detached"]
    assert commands.create(BARE, "a", "t", gpu="L40S:1", placement=PLACE) == ["create", "a", "--gpu", "L40S:1", *placed]
    assert commands.create(SEEDS, "a", "t", placement=Placement("cc-1"))[4:-1] == placed[:2]
    assert commands.execute(SEEDS, "a", "echo hi") == ["exec", "a", "--", "echo hi"]
    assert commands.list_organizations(SEEDS) == ["orgs", "--json"]
    assert commands.list_organizations(NEW) == ["ls", "orgs", "--json"]
    assert commands.start("aaa000001") == ["start", "aaa000001", "--detached"]


def test_a_placement_is_never_left_out() -> None:
    assert commands.create(NEW, "a", "t", placement=Placement()) == commands.create(NEW, "a", "t")
    for placement in (PLACE, Placement("cc-1"), Placement("", "wg-1")):
        with pytest.raises(PlacementUnsupported, match=r"v0\.6\.327"):
            commands.create(NEW, "a", "t", placement=placement)
    with pytest.raises(ValueError, match="name"):
        commands.create(SEEDS, "a", "t", placement=Placement("--yes"))


@pytest.mark.parametrize(
    "name", ["", "-x", ".x", "a b", "a;b", "a\nb", "a$(b)", "tj-1; echo INJECTED >&2; true", "a/b", "..", "é", "a\n"]
)
def test_a_name_that_would_run_locally_is_never_passed(name: str) -> None:
    builders: list[Callable[[], list[str]]] = [
        lambda: commands.execute(NEW, name, "true"),
        lambda: commands.create(NEW, name, "t"),
        lambda: commands.delete(name),
        lambda: commands.stop(name),
        lambda: commands.start(name),
        lambda: commands.copy(name, Path("/a"), "/b"),
    ]
    for build in builders:
        with pytest.raises(ValueError, match="name"):
            build()


@pytest.mark.parametrize("machine_type", ["", "a,b", "a b", "-t", "a\n", "@x"])
def test_a_type_is_one_word(machine_type: str) -> None:
    with pytest.raises(ValueError, match="type"):
        commands.create(NEW, "bo-1", machine_type)


@pytest.mark.parametrize("machine_type", ["g6e.xlarge", "cloudx_L40S", "n1-highmem-4:nvidia-tesla-t4:1"])
def test_real_types_pass(machine_type: str) -> None:
    assert commands.checked_type(machine_type) == machine_type


@pytest.mark.parametrize(
    "command", ["", "  ", "-V", "--foo", "@file", "a\nb", "a\rb", "a\0b", "x" * 102_401, "'" * 26_000, "é" * 60_000]
)
def test_a_command_that_would_not_arrive_as_one_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="command"):
        commands.execute(NEW, "bo-1", command)


def test_the_longest_command_passes() -> None:
    assert commands.execute(NEW, "bo-1", "x" * 102_400)[2] == "x" * 102_400


@pytest.mark.parametrize(
    ("source", "destination"),
    [("a", "/b"), ("/a:b", "/b"), ("/a", "b"), ("/a", "/b:c"), ("/a", "/b\nc"), ("/a\n", "/b"), ("/a", "~/b")],
)
def test_a_copy_needs_absolute_paths_without_colons(source: str, destination: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        commands.copy("bo-1", Path(source), destination)
