"""Which Helm is taken: one of ours is built only where the machine has none that will do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from controller.sandbox import tools
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.recipes import RECIPES, cache_key

BUILT = Path("/built/helm")


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only `helm` on PATH would be; building gives BUILT."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(tools, "_build", lambda *_: BUILT)
    return tmp_path / "helm"


def _says(program: Path, text: str) -> None:
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo "{text}"\n')
    program.chmod(0o755)


@pytest.mark.parametrize("text", ["v3.22.0+gabcdef0", "v3.14.0"])
def test_a_helm_3_on_the_path_is_used(found: Path, text: str) -> None:
    _says(found, text)
    assert tools.helm(Progress(io.StringIO())) == found


@pytest.mark.parametrize("text", ["v4.0.1", "v3.9.4", "v2.17.0", "what?"])
def test_any_other_helm_is_not(found: Path, text: str) -> None:
    _says(found, text)
    assert tools.helm(Progress(io.StringIO())) == BUILT


def test_without_helm_it_is_built(found: Path) -> None:
    assert tools.helm(Progress(io.StringIO())) == BUILT


def test_helm_is_told_the_kubernetes_that_it_was_made_for() -> None:
    flags = tools.HELM.linker_flags
    assert f"internal/version.version=v{tools.HELM.version}" in flags
    assert "pkg/chartutil.k8sVersionMinor=3" in flags, "else the chart's kubeVersion refuses to render"


def test_each_tool_has_a_cache_of_its_own_beside_the_control_planes() -> None:
    keys = {tools.cache_key_of(tools.HELM), tools.cache_key_of(tools.GLUA), cache_key()}
    assert len(keys) == 3
    assert not {"helm", "glua"} & set(RECIPES), "a new Helm must not build the API server again"
