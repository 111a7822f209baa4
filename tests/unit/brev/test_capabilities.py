"""The table of releases, the page made of it, and builds that do not say what they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from controller.brev.capabilities import markdown
from controller.brev.errors import CliUnsupported, PlacementUnsupported
from controller.brev.features import capabilities, flags_in, from_flags, require_api_keys, require_placement, with_flags
from controller.brev.releases import COLUMNS, ROWS, values

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
SEEDS = frozenset({"type", "gpu", "detached", "cloud-cred-id", "workspace-group-id"})


@pytest.mark.parametrize(
    ("version", "generation", "shape", "api_keys", "type_check", "untested"),
    [
        ("v0.6.320", "G2", "array", False, False, False),
        ("v0.6.322", "G2", "array", False, False, False),
        ("v0.6.323", "G3", "object", False, False, False),
        ("v0.6.324", "G3", "object", True, False, False),
        ("v0.6.326", "G3", "object", True, False, False),
        ("v0.6.327", "G3", "object", True, True, False),
        ("0.6.327", "G3", "object", True, True, False),
        ("v0.6.327-2-g12d39b7", "G3", "object", True, True, False),
        ("v0.6.335", "G4", "object", True, False, True),
        ("v1.0.0", "G4", "object", True, False, True),
    ],
)
def test_a_supported_release_has_its_features(
    version: str, generation: str, shape: str, api_keys: bool, type_check: bool, untested: bool
) -> None:
    release = capabilities(version)
    assert (release.version, release.generation, release.list_shape) == (version, generation, shape)
    assert (release.api_keys, release.type_check, release.untested) == (api_keys, type_check, untested)
    assert not release.placement


@pytest.mark.parametrize("version", ["v0.6.316", "v0.6.317", "v0.6.319", "v0.5.999"])
def test_an_old_release_is_refused_by_name_and_with_the_minimum(version: str) -> None:
    with pytest.raises(CliUnsupported, match=rf"{version}.*v0\.6\.320 or later"):
        capabilities(version)


@pytest.mark.parametrize("version", ["dev", "v0.6", "latest", "v0.6.x", "v0.6.327; rm"])
def test_a_version_that_is_no_release_is_refused(version: str) -> None:
    with pytest.raises(CliUnsupported, match="no release"):
        capabilities(version)


def test_a_build_without_a_version_says_why() -> None:
    with pytest.raises(CliUnsupported, match="go install"):
        capabilities("")


def test_api_keys_need_a_release_that_knows_them() -> None:
    require_api_keys(capabilities("v0.6.324"))
    for version in ("v0.6.322", "v0.6.323"):
        with pytest.raises(CliUnsupported, match=rf"{version} cannot use API keys; v0\.6\.324.*BREV_API_TOKEN"):
            require_api_keys(capabilities(version))


def test_a_build_without_a_version_is_known_by_its_flags() -> None:
    three = frozenset({"type", "detached", "launchable"})
    assert from_flags("", three, api_keys=False).generation == "G3"
    assert not from_flags("", three, api_keys=False).api_keys
    assert from_flags("dev", three, api_keys=True).api_keys
    assert from_flags("", three, api_keys=True).untested
    for version in ("", "dev"):
        with pytest.raises(CliUnsupported):
            from_flags(version, frozenset({"type", "detached"}), api_keys=True)


def test_the_seeds_dialect_is_known_by_its_placement_flags_and_used_by_those_that_it_has() -> None:
    found = from_flags("", SEEDS, api_keys=False)
    assert (found.generation, found.organizations, found.exec_login) == ("GS", "orgs", "always")
    require_placement(found)
    assert (found.create_type, found.create_gpu, found.create_detached) == (True, True, True)
    bare = from_flags("", SEEDS - {"type", "detached"}, api_keys=True)
    assert (bare.create_type, bare.create_gpu, bare.create_detached, bare.api_keys) == (False, True, False, True)
    with pytest.raises(CliUnsupported, match="neither"):
        from_flags("", SEEDS - {"type", "gpu"}, api_keys=False)


def test_an_untested_release_has_the_flags_that_it_lists() -> None:
    found = with_flags(capabilities("v0.6.340"), SEEDS - {"gpu"})
    assert found.placement
    assert not found.create_gpu
    require_placement(found)
    with pytest.raises(PlacementUnsupported, match=r"v0\.6\.340"):
        require_placement(with_flags(found, frozenset({"type"})))


def test_flags_are_read_from_a_help_text() -> None:
    text = "Usage:\n  brev create --x\n\nFlags:\n  -d, --detached        Don't --wait\n      --min-disk float   GB\n"
    assert flags_in(text) == {"detached", "min-disk"}


def test_every_row_is_complete_and_says_where_it_is_from() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.facts[0].since == COLUMNS[0].key, row.name
        assert all(fact.source for fact in row.facts), row.name
        assert {type(value) for value in (row.fact(each.key).value for each in COLUMNS)} <= {bool, str}
    assert set(values("327")) == {row.name for row in ROWS}


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == markdown(), "run: python -m controller.brev.capabilities --markdown"


def test_the_page_can_be_made_without_a_warning() -> None:
    made = subprocess.run(
        [sys.executable, "-W", "error", "-m", "controller.brev.capabilities", "--markdown"],
        cwd=PAGE.parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (made.stdout, made.stderr) == (markdown(), "")
