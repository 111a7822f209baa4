"""The health scripts in the Lua that Argo CD uses, by tables in Argo CD's own form."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api.brevaccount import BrevAccount
from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.api.meta import GROUP, Kind
from controller.api.reasons import Reason
from tests.chart.lua import health_of
from tests.chart.rendering import ROOT, Body

ARGOCD = ROOT / "deploy" / "argocd"
PARSERS: dict[Kind, Callable[[Body], object]] = {
    Kind.ACCOUNT: BrevAccount.parse,
    Kind.INSTANCE: BrevInstance.parse,
    Kind.JOB: BrevJob.parse,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a health_test.yaml."""

    kind: Kind
    file: Path
    wanted: dict[str, str]

    @property
    def body(self) -> Body:
        body: Body = yaml.safe_load(self.file.read_text())
        return body


def _rows() -> list[Row]:
    rows = []
    for kind in Kind:
        directory = ARGOCD / "health" / kind
        for test in yaml.safe_load((directory / "health_test.yaml").read_text())["tests"]:
            rows.append(Row(kind, directory / test["inputPath"], test["healthStatus"]))
    return rows


ROWS = _rows()


def _script(kind: Kind) -> str:
    return (ARGOCD / "health" / kind / "health.lua").read_text()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.file.stem}")
def test_health_is_what_the_table_says(row: Row, lua: Path) -> None:
    assert health_of(lua, _script(row.kind), row.body) == row.wanted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.file.stem}")
def test_the_samples_are_objects_as_the_operator_writes_them(row: Row) -> None:
    body = row.body
    assert (body["kind"], body["apiVersion"]) == (row.kind, f"{GROUP}/v1alpha1")
    PARSERS[row.kind](body)
    for condition in body.get("status", {}).get("conditions", ()):
        assert condition["reason"] in set(Reason), condition["reason"]


KSTATUS = [
    (("Unknown", "True", "False"), "Progressing"),
    (("True", "False", "False"), "Healthy"),
    (("False", "False", "True"), "Degraded"),
]
"""Ready, Reconciling, Stalled and the health: the table of docs/design/architecture.md."""


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("conditions", "health"), KSTATUS, ids=lambda value: value if isinstance(value, str) else "")
def test_health_follows_the_kstatus_table(kind: Kind, conditions: tuple[str, ...], health: str, lua: Path) -> None:
    rows = [
        {"type": type_, "status": status, "reason": "Because"}
        for type_, status in zip(("Ready", "Reconciling", "Stalled"), conditions, strict=True)
    ]
    body = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "conditions": rows}}
    assert health_of(lua, _script(kind), body) == {"status": health, "message": "Because"}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("status", [{}, {"conditions": []}, {"conditions": [{"type": "Other", "status": "True"}]}])
def test_an_object_that_the_operator_has_not_judged_is_waited_for(kind: Kind, status: Body, lua: Path) -> None:
    found = health_of(lua, _script(kind), {"metadata": {"generation": 1}, "status": status})
    assert found == {"status": "Progressing", "message": "Waiting for the operator."}


def test_each_kind_is_tried_in_all_three_states_and_with_an_old_verdict() -> None:
    for kind in Kind:
        assert {row.wanted["status"] for row in ROWS if row.kind == kind} == {"Progressing", "Healthy", "Degraded"}
        files = {path.name for path in (ARGOCD / "health" / kind / "testdata").iterdir()}
        assert "changed.yaml" in files
        assert files == {row.file.name for row in ROWS if row.kind == kind}
    assert len({_script(kind) for kind in Kind}) == 1, "the kinds share one text"


def test_the_config_map_holds_the_scripts_and_ignores_statuses() -> None:
    data = yaml.safe_load((ARGOCD / "argocd-cm.yaml").read_text())["data"]
    assert len(data) == 2 * len(Kind)
    for kind in Kind:
        assert data[f"resource.customizations.health.{GROUP}_{kind}"] == _script(kind)
        ignored = yaml.safe_load(data[f"resource.customizations.ignoreResourceUpdates.{GROUP}_{kind}"])
        assert ignored == {"jsonPointers": ["/status"]}


def test_the_application_applies_server_side_and_its_values_fit_the_chart(helm_program: Path, tmp_path: Path) -> None:
    application: dict[str, Any] = yaml.safe_load((ARGOCD / "application.yaml").read_text())
    spec = application["spec"]
    assert "ServerSideApply=true" in spec["syncPolicy"]["syncOptions"]
    assert "finalizers" not in application["metadata"]
    values = tmp_path / "values.json"
    values.write_text(json.dumps(spec["source"]["helm"]["valuesObject"]))
    argv = [helm_program, "template", "x", ROOT / spec["source"]["path"], "--kube-version", "1.31.0", "-f", values]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
