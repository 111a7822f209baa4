"""Everything derived is current, and the generators refuse what they cannot express."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from controller import __version__
from controller.settings import SettingsError, read_settings
from tests.chart.documents import CHART_DECIDES, chart_crd, documented_values, settings_schema
from tests.chart.generate import PLACEHOLDER, difference, install_manifest, static_outputs
from tests.chart.rendering import CHART, ROOT, Rendering, render

INSTALL = ROOT / "deploy" / "install.yaml"


@pytest.mark.parametrize("path", static_outputs(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_derived_is_current(path: Path) -> None:
    assert difference(path, static_outputs()[path]) == [], "run `make generate`"


@pytest.mark.usefixtures("helm_program")
def test_the_install_manifest_is_what_the_chart_renders() -> None:
    assert difference(INSTALL, install_manifest()) == [], "run `make generate`"


def test_the_chart_has_no_file_of_a_crd_that_is_gone() -> None:
    ours = {path.name for path in (ROOT / "crds").glob("*.yaml")}
    assert {path.name for path in (CHART / "templates" / "crds").iterdir()} == ours


@pytest.mark.usefixtures("helm_program")
def test_the_charts_crds_are_the_generated_ones_but_for_the_annotation() -> None:
    rendered = {crd["metadata"]["name"]: crd for crd in render().of("CustomResourceDefinition")}
    for path in (ROOT / "crds").glob("*.yaml"):
        crd = yaml.safe_load(path.read_text())
        found = rendered.pop(crd["metadata"]["name"])
        assert found["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert found == crd
    assert rendered == {}


def test_braces_in_a_description_reach_the_cluster_as_they_are() -> None:
    text = chart_crd("kind: X\nmetadata:\n  name: x\nspec:\n  description: 'like {{ this }}'\n")
    assert 'like {{ "{{" }} this }}' in text
    with pytest.raises(ValueError, match="metadata"):
        chart_crd("kind: X\n")


def test_chart_and_operator_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["appVersion"], chart["version"]) == (__version__, __version__)


def test_an_operator_with_the_placeholder_says_what_is_wrong(tmp_path: Path) -> None:
    environment = Rendering(INSTALL.read_text()).environment
    with pytest.raises(SettingsError) as caught:
        read_settings(environment, tmp_path / "none")
    assert caught.value.problems == [f"BREV_OPERATOR_CLUSTER_ID: {PLACEHOLDER!r} is not 1 to 12 of a-z and 0-9"]
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "install.md").read_text())
    assert caught.value.problems[0] in page


def test_settings_that_the_chart_decides_exist() -> None:
    own = set(settings_schema()["properties"])
    for name in CHART_DECIDES:
        assert f"BREV_OPERATOR_{name.upper()}" not in own
        assert f"BREV_OPERATOR_{name.upper()}" in (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert "BREV_OPERATOR_LEASE_DURATION" in own


def test_every_value_is_documented() -> None:
    found = {value.path: value for value in documented_values((CHART / "values.yaml").read_text())}
    assert found["crds.enabled"].default == "true"
    assert found["clusterID"].text.startswith("Identity of this installation")
    with pytest.raises(ValueError, match=r"a\.b has no comment"):
        documented_values("a:\n  # Told.\n  c: 1\n  b: 2\n")
