"""What a job refers to: every kind of reference, and a reason for each way in which one does not resolve."""

from typing import Any

import pytest

from controller.api.brevjob_spec import BrevJobSpec
from controller.api.reasons import Reason
from controller.kube.errors import Forbidden
from controller.logs import mask
from controller.reconcile.sources import SourceMissing, has_references, read_sources
from tests.builders import make_job
from tests.unit.reconcile.fakes import FakeKube

MAP = {"configMapKeyRef": {"name": "data", "key": "k"}}
SECRET = {"secretKeyRef": {"name": "login", "key": "k"}}


def spec(**more: Any) -> BrevJobSpec:
    return make_job(spec=more).spec


def kube(config_map: bytes = b"from the map", secret: bytes = b"from-the-secret") -> FakeKube:
    made = FakeKube()
    made.config_maps["team-a", "data"] = {"k": config_map}
    made.secrets["team-a", "login"] = {"k": secret}
    return made


async def test_every_kind_of_reference_is_resolved_byte_for_byte() -> None:
    wanted = spec(
        script=MAP,
        env=[
            {"name": "PLAIN", "value": "$HOME 'x' \n"},
            {"name": "EMPTY", "value": ""},
            {"name": "MAP", "valueFrom": MAP},
            {"name": "SECRET", "valueFrom": SECRET},
        ],
        files=[
            {"path": "a.txt", "content": "é\n"},
            {"path": "b.bin", **MAP, "mode": "0600"},
            {"path": "c.key", **SECRET},
        ],
    )
    sources = await read_sources(kube(), "team-a", wanted)
    assert sources.script == b"from the map"
    assert sources.env == {
        "PLAIN": "$HOME 'x' \n",
        "EMPTY": "",
        "MAP": "from the map",
        "SECRET": "from-the-secret",
    }
    assert [(file.path, file.content, file.mode) for file in sources.files] == [
        ("a.txt", "é\n".encode(), 0o644),
        ("b.bin", b"from the map", 0o600),
        ("c.key", b"from-the-secret", 0o644),
    ]
    assert [file.secret for file in sources.files] == [False, False, True]


async def test_values_of_secrets_are_masks_for_the_runner_and_for_our_own_logs() -> None:
    wanted = spec(env=[{"name": "S", "valueFrom": SECRET}, {"name": "M", "valueFrom": MAP}])
    sources = await read_sources(kube(secret=b"very-private-value"), "team-a", wanted)
    assert sources.masks == (b"very-private-value",)
    assert "very-private" not in mask("it is very-private-value")
    assert "very-private" not in repr(sources)


async def test_files_may_be_binary() -> None:
    wanted = spec(files=[{"path": "b.bin", **MAP}])
    sources = await read_sources(kube(b"\xff\xfe\x00"), "team-a", wanted)
    assert sources.files[0].content == b"\xff\xfe\x00"


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\x00b"])
async def test_a_variable_that_no_environment_can_hold_is_refused_with_its_name(value: bytes) -> None:
    with pytest.raises(SourceMissing) as caught:
        await read_sources(kube(value), "team-a", spec(env=[{"name": "BIN", "valueFrom": MAP}]))
    assert caught.value.failure.reason is Reason.INVALID_SPEC
    assert "BIN" in caught.value.failure.message


@pytest.mark.parametrize("where", ["script", "env", "files"])
@pytest.mark.parametrize(
    ("reference", "missing", "key_missing"),
    [
        (MAP, Reason.CONFIG_MAP_MISSING, Reason.CONFIG_MAP_KEY_MISSING),
        (SECRET, Reason.SECRET_MISSING, Reason.SECRET_KEY_MISSING),
    ],
)
async def test_what_does_not_exist_is_named_with_the_field_that_wants_it(
    where: str, reference: dict[str, Any], missing: Reason, key_missing: Reason
) -> None:
    if where == "script" and reference is SECRET:
        return
    wanted = {
        "script": lambda: spec(script=reference),
        "env": lambda: spec(env=[{"name": "X", "valueFrom": reference}]),
        "files": lambda: spec(files=[{"path": "x", **reference}]),
    }[where]()
    path = {"script": "spec.script.", "env": "spec.env[0].valueFrom.", "files": "spec.files[0]."}[where]
    empty = FakeKube()
    with pytest.raises(SourceMissing) as caught:
        await read_sources(empty, "team-a", wanted)
    assert caught.value.failure.reason is missing
    assert caught.value.failure.message.startswith(path)
    empty.config_maps["team-a", "data"] = {}
    empty.secrets["team-a", "login"] = {}
    with pytest.raises(SourceMissing) as caught:
        await read_sources(empty, "team-a", wanted)
    assert caught.value.failure.reason is key_missing


@pytest.mark.parametrize(
    ("method", "reference", "reason"),
    [("get_secret", SECRET, Reason.SECRET_FORBIDDEN), ("get_config_map", MAP, Reason.FORBIDDEN)],
)
async def test_what_may_not_be_read_is_a_condition_and_not_a_failing_pass(
    method: str, reference: dict[str, Any], reason: Reason
) -> None:
    refusing = kube()
    refusing.refuse[method] = Forbidden("no")
    with pytest.raises(SourceMissing) as caught:
        await read_sources(refusing, "team-a", spec(env=[{"name": "X", "valueFrom": reference}]))
    assert caught.value.failure.reason is reason
    assert '"team-a"' in caught.value.failure.message


async def test_references_are_read_in_the_jobs_own_namespace_only() -> None:
    with pytest.raises(SourceMissing):
        await read_sources(kube(), "team-b", spec(script=MAP))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"env": [{"name": "A", "value": "b"}], "files": [{"path": "a", "content": "b"}]}, False),
        ({"script": MAP}, True),
        ({"env": [{"name": "A", "valueFrom": SECRET}]}, True),
        ({"files": [{"path": "a", **MAP}]}, True),
    ],
)
def test_a_job_without_references_needs_nothing_read(more: dict[str, Any], expected: bool) -> None:
    assert has_references(spec(**more)) is expected
