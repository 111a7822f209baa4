"""The rules of the API as the models hold them; the same table is put to the real API server elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.api.base import spec_dict
from controller.api.brevaccount import BrevAccount
from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.api.resource import InvalidSpecError

TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("constraints.yaml").read_text(encoding="utf-8"))
MODELS: dict[str, type[BrevAccount] | type[BrevInstance] | type[BrevJob]] = {
    "BrevAccount": BrevAccount,
    "BrevInstance": BrevInstance,
    "BrevJob": BrevJob,
}
ACCEPTED = [(kind, name, spec) for kind, rows in TABLE["accepted"].items() for name, spec in rows.items()]
REFUSED = [(kind, name, row) for kind, rows in TABLE["refused"].items() for name, row in rows.items()]


def body(kind: str, changes: dict[str, Any]) -> dict[str, Any]:
    spec = {key: value for key, value in (TABLE["bases"][kind] | changes).items() if value is not None}
    return {"metadata": {"name": "x", "namespace": "team-a"}, "spec": spec}


def parse(kind: str, changes: dict[str, Any]) -> BrevAccount | BrevInstance | BrevJob:
    return MODELS[kind].parse(body(kind, changes))


@pytest.mark.parametrize(("kind", "name", "spec"), ACCEPTED, ids=[f"{kind}-{name}" for kind, name, _ in ACCEPTED])
def test_a_legal_spec_is_read_and_written_back_without_loss(kind: str, name: str, spec: dict[str, Any]) -> None:
    parsed = parse(kind, spec).spec
    again = MODELS[kind].parse({"metadata": {"name": "x"}, "spec": spec_dict(parsed)}).spec
    assert again == parsed


@pytest.mark.parametrize(("kind", "name", "row"), REFUSED, ids=[f"{kind}-{name}" for kind, name, _ in REFUSED])
def test_an_illegal_spec_is_refused_with_its_path(kind: str, name: str, row: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        parse(kind, row["spec"])
    assert caught.value.message.startswith(f"{row['path']}: ")
    assert row["says"] in caught.value.message


@pytest.mark.parametrize(
    "text", ["1:30:00", "5400", "", "-1", "1h30", "-5m", "0s", "1.5h", "1d", " 1m", "1m\n", "1m1h", "\u0967m"]
)
def test_case_113_a_duration_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"^spec\.deadlines\.run: "):
        parse("BrevJob", {"deadlines": {"run": text}})


@pytest.mark.parametrize("value", [True, 10, 1.1, 1000.0, ["a"], {"a": "b"}])
def test_case_106_a_value_that_is_no_string_is_refused_and_never_coerced(value: object) -> None:
    with pytest.raises(InvalidSpecError, match=r"^spec\.env\[0\]\.value: .*string"):
        parse("BrevJob", {"env": [{"name": "A", "value": value}]})


def test_too_many_entries_are_refused() -> None:
    variables = [{"name": f"V{number}", "value": ""} for number in range(501)]
    files = [{"path": f"f{number}", "content": ""} for number in range(101)]
    candidates = [{"type": f"t{number}"} for number in range(17)]
    names = [f"n{number}" for number in range(257)]
    for kind, changes, path in (
        ("BrevJob", {"env": variables}, "spec.env"),
        ("BrevJob", {"files": files}, "spec.files"),
        ("BrevInstance", {"candidates": candidates}, "spec.candidates"),
        ("BrevAccount", {"allowedNamespaces": {"names": names}}, "spec.allowedNamespaces.names"),
    ):
        with pytest.raises(InvalidSpecError) as caught:
            parse(kind, changes)
        assert caught.value.message.startswith(f"{path}: ")


def test_what_linux_cannot_carry_is_refused_although_its_characters_are_few() -> None:
    with pytest.raises(InvalidSpecError, match="shorter than 131072 bytes"):
        parse("BrevJob", {"env": [{"name": "A", "value": "é" * 70000}]})
    with pytest.raises(InvalidSpecError, match="more than 255 bytes"):
        parse("BrevJob", {"files": [{"path": "é" * 128, "content": ""}]})


def test_an_error_never_repeats_a_value() -> None:
    with pytest.raises(InvalidSpecError) as caught:
        parse("BrevJob", {"env": [{"name": "A", "value": "hunter2\0"}, {"name": "B", "value": ["hunter2"]}]})
    assert "hunter2" not in repr(caught.value) + str(caught.value)


def test_values_scripts_and_contents_do_not_show_in_a_repr() -> None:
    job = parse(
        "BrevJob",
        {
            "script": {"text": "hunter2"},
            "env": [{"name": "A", "value": "hunter2"}],
            "files": [{"path": "a", "content": "hunter2"}],
        },
    )
    assert "hunter2" not in repr(job) + str(job)


def test_an_object_with_an_invalid_spec_still_gives_what_its_teardown_needs() -> None:
    broken = body("BrevJob", {"script": {}})
    broken["metadata"]["finalizers"] = ["brev.nvidia.com/machine"]
    broken["status"] = {"instance": {"name": "x-1", "uid": "u"}}
    with pytest.raises(InvalidSpecError) as caught:
        BrevJob.parse(broken)
    assert caught.value.metadata.finalizers == ["brev.nvidia.com/machine"]
    assert getattr(caught.value.status, "instance").name == "x-1"  # noqa: B009 - typed as any kind's status


def test_a_field_of_a_newer_release_is_ignored() -> None:
    newer = body("BrevJob", {"teardown": {"onSuccess": "Stop"}})
    newer["status"] = {"phase": "Uploading", "outputs": {"files": 3}}
    job = BrevJob.parse(newer)
    assert job.status.phase is None
    assert job.spec == parse("BrevJob", {}).spec
