"""The table of releases."""

import pytest

from controller.brev.capabilities import capabilities, require_api_keys
from controller.brev.errors import CliUnsupported


@pytest.mark.parametrize(
    ("version", "generation", "api_keys", "validates_types", "untested"),
    [
        ("v0.6.323", "G3", False, False, False),
        ("v0.6.324", "G3", True, False, False),
        ("v0.6.327", "G3", True, True, False),
        ("0.6.327", "G3", True, True, False),
        ("v0.6.327-2-g12d39b7", "G3", True, True, False),
        ("v0.6.335", "G4", True, True, True),
        ("v1.0.0", "G4", True, True, True),
    ],
)
def test_a_supported_release_has_its_features(
    version: str, generation: str, api_keys: bool, validates_types: bool, untested: bool
) -> None:
    release = capabilities(version)
    assert (release.version, release.generation, release.list_shape) == (version, generation, "object")
    assert (release.api_keys, release.validates_types, release.untested) == (api_keys, validates_types, untested)


@pytest.mark.parametrize("version", ["v0.6.316", "v0.6.317", "v0.6.322", "v0.5.999"])
def test_an_old_release_is_refused_by_name_and_with_the_minimum(version: str) -> None:
    with pytest.raises(CliUnsupported, match=rf"{version}.*v0\.6\.323 or later"):
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
    with pytest.raises(CliUnsupported, match=r"v0\.6\.323 cannot use API keys; v0\.6\.324"):
        require_api_keys(capabilities("v0.6.323"))
