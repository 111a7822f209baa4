"""The rules of the API as the real API server holds them: the table that the models are held to as well."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api.meta import API_VERSION, GROUP, VERSION, Kind
from controller.sandbox.controlplane import Cluster

TABLE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "unit" / "api" / "constraints.yaml").read_text(encoding="utf-8")
)
ACCEPTED = [(kind, name, spec) for kind, rows in TABLE["accepted"].items() for name, spec in rows.items()]
REFUSED = [(kind, name, row) for kind, rows in TABLE["refused"].items() for name, row in rows.items()]
SERVERS_WORDING = {"at least 1": "at least 1", "match": "should match"}


def create(cluster: Cluster, kind: str, changes: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Put an object to the server without keeping it."""
    spec = {key: value for key, value in (TABLE["bases"][kind] | changes).items() if value is not None}
    where = "namespaces/default/" if Kind(kind).namespaced else ""
    path = f"/apis/{GROUP}/{VERSION}/{where}{Kind(kind).plural}?dryRun=All&fieldValidation=Strict"
    body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    answer = cluster.request("POST", path, body)
    return answer.status, answer.body


def causes(body: dict[str, Any]) -> dict[str, str]:
    """The problems by the path of their field."""
    found: dict[str, str] = {}
    for cause in body["details"]["causes"]:
        found[cause["field"]] = found.get(cause["field"], "") + cause["message"] + "\n"
    return found


@pytest.mark.parametrize(("kind", "name", "spec"), ACCEPTED, ids=[f"{kind}-{name}" for kind, name, _ in ACCEPTED])
def test_a_legal_spec_is_stored_as_it_was_written(
    control_plane: Cluster, kind: str, name: str, spec: dict[str, Any]
) -> None:
    status, body = create(control_plane, kind, spec)
    assert status == HTTPStatus.CREATED, body["message"]
    assert_contains(body["spec"], spec)


def assert_contains(stored: Any, written: Any) -> None:
    """Everything written is there unchanged; defaults may have come beside it."""
    if isinstance(written, dict):
        for key, value in written.items():
            assert_contains(stored[key], value)
    elif isinstance(written, list):
        assert len(stored) == len(written)
        for item, value in zip(stored, written, strict=True):
            assert_contains(item, value)
    else:
        assert stored == written


@pytest.mark.parametrize(("kind", "name", "row"), REFUSED, ids=[f"{kind}-{name}" for kind, name, _ in REFUSED])
def test_an_illegal_spec_is_refused_at_the_field(
    control_plane: Cluster, kind: str, name: str, row: dict[str, Any]
) -> None:
    status, body = create(control_plane, kind, row["spec"])
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    wanted = row.get("server", SERVERS_WORDING.get(row["says"], row["says"]))
    found = causes(body)
    at_field = [path for path in found if path == row["path"] or path.startswith(f"{row['path']}[")]
    assert at_field, found
    assert any(wanted in found[path] for path in at_field), found


@pytest.mark.parametrize(
    ("kind", "changes", "path"),
    [
        (
            "BrevAccount",
            {"allowedNamespaces": {"names": [f"n{n}" for n in range(257)]}},
            "spec.allowedNamespaces.names",
        ),
        ("BrevAccount", {"allowedNamespaces": {"names": ["a", "a"]}}, "spec.allowedNamespaces.names[1]"),
        ("BrevAccount", {"allowedNamespaces": {"names": ["a" * 64]}}, "spec.allowedNamespaces.names[0]"),
        ("BrevAccount", {"secretName": "a" * 254}, "spec.secretName"),
        ("BrevAccount", {"orgID": "a" * 129}, "spec.orgID"),
        ("BrevInstance", {"accountName": "a" * 254}, "spec.accountName"),
        ("BrevInstance", {"candidates": [{"type": f"t{n}"} for n in range(17)]}, "spec.candidates"),
        ("BrevInstance", {"candidates": [{"type": "t" * 129}]}, "spec.candidates[0].type"),
        ("BrevJob", {"script": {"text": "x" * 262145}}, "spec.script.text"),
        ("BrevJob", {"script": {"text": "x", "interpreter": "x" * 256}}, "spec.script.interpreter"),
        ("BrevJob", {"env": [{"name": f"V{n}", "value": ""} for n in range(501)]}, "spec.env"),
        ("BrevJob", {"env": [{"name": "V" * 257, "value": ""}]}, "spec.env[0].name"),
        ("BrevJob", {"env": [{"name": "V", "value": "x" * 131071}]}, "spec.env[0].value"),
        ("BrevJob", {"files": [{"path": f"f{n}", "content": ""} for n in range(101)]}, "spec.files"),
        ("BrevJob", {"files": [{"path": "f" * 513, "content": ""}]}, "spec.files[0].path"),
        ("BrevJob", {"files": [{"path": "f", "content": "x" * 262145}]}, "spec.files[0].content"),
    ],
)
def test_what_is_too_long_is_refused_at_the_field(
    control_plane: Cluster, kind: str, changes: dict[str, Any], path: str
) -> None:
    status, body = create(control_plane, kind, changes)
    assert status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert path in causes(body)


def test_defaults_are_filled_in_by_the_server_as_the_models_have_them(control_plane: Cluster) -> None:
    _, body = create(control_plane, "BrevJob", {"files": [{"path": "a", "content": ""}]})
    deadlines = {"provision": "20m", "ready": "20m", "unreachable": "30m"}
    template = {"accountName": "default", "candidates": [{"type": "g5.xlarge"}], "deadlines": deadlines}
    assert body["spec"] == {
        "instanceTemplate": {"spec": template},
        "script": {"text": "echo hello", "interpreter": "bash"},
        "files": [{"path": "a", "content": "", "mode": "0644"}],
        "deadlines": {"startup": "20m", "run": "24h", "unreachable": "30m", "stopGrace": "30s"},
        "logs": {"tailBytes": 4096},
    }
