"""What people really type into a manifest, put through kubectl to the real API server."""

from __future__ import annotations

from http import HTTPStatus

import pytest
import yaml

from controller.api.meta import API_VERSION, GROUP, VERSION
from controller.sandbox.controlplane import Cluster

BASE = f"""\
apiVersion: {API_VERSION}
kind: BrevJob
metadata: {{name: typed}}
spec:
  instanceTemplate: {{spec: {{candidates: [{{type: g5.xlarge}}]}}}}
"""
SCRIPT = "  script: {text: echo hello}\n"


def apply(cluster: Cluster, namespace: str, text: str, *flags: str) -> tuple[int, str]:
    done = cluster.kubectl("apply", "-n", namespace, *flags, "-f", "-", input=text, check=False)
    return done.returncode, done.stdout + done.stderr


def quoted(text: str) -> str:
    """In double quotes, with the escapes of YAML."""
    return yaml.safe_dump(text, default_style='"', width=1000).strip()


@pytest.mark.case(106)
@pytest.mark.parametrize("typed", ["true", "010", "1.10", "1e3", "yes", "123"])
@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_case_106_an_unquoted_value_is_refused_with_its_path(
    control_plane: Cluster, namespace: str, typed: str, flags: tuple[str, ...]
) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  env: [{{name: A, value: {typed}}}]\n", *flags)
    assert code != 0
    if "spec.env[0].value" in said:
        assert "must be of type string" in said
    else:  # server-side apply refuses it one step earlier, in the schema's own words
        assert '.spec.env[name="A"].value: expected string' in said


@pytest.mark.case(106)
def test_case_106_an_unquoted_null_is_absent_and_refused_as_such(control_plane: Cluster, namespace: str) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  env: [{{name: X, value: null}}]\n")
    assert code != 0
    assert "spec.env[0]" in said
    assert "unquoted null counts as absent" in said


@pytest.mark.case(106)
def test_case_106_quoted_values_arrive_unchanged(control_plane: Cluster, namespace: str) -> None:
    typed = ["true", "010", "1.10", "1e3", "yes", "null", "2024-01-01", "", " x ", "~", "0x1F", "1_000", "$HOME", "é🚀"]
    lines = "".join(f"  - {{name: V{number}, value: {quoted(value)}}}\n" for number, value in enumerate(typed))
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  env:\n{lines}")
    assert code == 0, said
    stored = control_plane.kubectl.json("get", "bjob", "typed", "-n", namespace)["spec"]["env"]
    assert [variable["value"] for variable in stored] == typed


@pytest.mark.case(108)
@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ("  bugdet: {maxCostUSD: 5}\n", "spec.bugdet"),
        ("  deadlines: {runs: 1h}\n", "spec.deadlines.runs"),
        ("  enviroment: []\n", "spec.enviroment"),
        ("  env: [{name: A, values: x}]\n", "spec.env[0].values"),
        ("  tailBytes: 5\n", "spec.tailBytes"),
        ("tailBytes: 5\n", "tailBytes"),
    ],
)
def test_case_108_a_misspelt_or_misplaced_field_is_refused_by_kubectl(
    control_plane: Cluster, namespace: str, lines: str, field: str
) -> None:
    for flags in ((), ("--server-side",)):
        code, said = apply(control_plane, namespace, BASE + SCRIPT + lines, *flags)
        assert code != 0, flags
        assert field.rpartition(".")[2] in said
    code, said = apply(control_plane, namespace, BASE + SCRIPT + lines)
    assert f'unknown field "{field}"' in said


@pytest.mark.case(108)
def test_case_108_a_misspelt_price_limit_is_refused_and_not_no_limit(control_plane: Cluster, namespace: str) -> None:
    text = BASE.replace("type: g5.xlarge", 'type: g5.xlarge, maxPricePerHourUsd: "1"') + SCRIPT
    code, said = apply(control_plane, namespace, text)
    assert code != 0
    assert "maxPricePerHourUsd" in said


@pytest.mark.case(108)
def test_case_108_a_lenient_client_is_warned_and_the_field_is_pruned(control_plane: Cluster, namespace: str) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  bugdet: {{maxCostUSD: 5}}\n", "--validate=warn")
    assert code == 0, said
    assert 'Warning: unknown field "spec.bugdet"' in said
    assert "bugdet" not in control_plane.kubectl.json("get", "bjob", "typed", "-n", namespace)["spec"]


@pytest.mark.case(108)
def test_case_108_a_client_that_asks_for_no_validation_still_gets_the_field_pruned(
    control_plane: Cluster, namespace: str
) -> None:
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/brevjobs?fieldValidation=Ignore"
    spec = {"instanceTemplate": {"spec": {"candidates": [{"type": "a"}]}}, "script": {"text": "x", "txet": "y"}}
    body = {"apiVersion": API_VERSION, "kind": "BrevJob", "metadata": {"name": "x"}, "spec": spec}
    answer = control_plane.request("POST", path, body)
    assert answer.status == HTTPStatus.CREATED
    assert answer.body["spec"]["script"] == {"text": "x", "interpreter": "bash"}


@pytest.mark.case(113)
@pytest.mark.parametrize(
    "typed", ["1:30:00", "5400", '""', "-1", "1h30", '"5400"', "-5m", "0s", "1.5h", "1d", "yes", "off"]
)
def test_case_113_a_duration_in_another_form_is_refused(control_plane: Cluster, namespace: str, typed: str) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  deadlines: {{run: {typed}}}\n")
    assert code != 0
    assert "spec.deadlines.run" in said
    assert "must be a duration from 1s to 8760h" in said or "must be of type string" in said


@pytest.mark.case(113)
@pytest.mark.parametrize("typed", ["90m", "1h30m", "5400s", '"1h"'])
def test_case_113_documented_durations_are_taken(control_plane: Cluster, namespace: str, typed: str) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}{SCRIPT}  deadlines: {{run: {typed}}}\n")
    assert code == 0, said


@pytest.mark.case(113)
@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("0755", "must be of type string"),
        ("755", "must be of type string"),
        ('"8755"', "three octal digits"),
        ('"rwx"', "three octal digits"),
    ],
)
def test_case_113_a_mode_that_is_no_quoted_octal_is_refused(
    control_plane: Cluster, namespace: str, typed: str, fault: str
) -> None:
    lines = f"  files: [{{path: a, content: x, mode: {typed}}}]\n"
    code, said = apply(control_plane, namespace, BASE + SCRIPT + lines)
    assert code != 0
    assert "spec.files[0].mode" in said
    assert fault in said


@pytest.mark.case(113)
def test_case_113_an_interpreter_named_like_a_word_of_yaml_must_be_quoted(
    control_plane: Cluster, namespace: str
) -> None:
    code, said = apply(control_plane, namespace, f"{BASE}  script: {{text: x, interpreter: no}}\n")
    assert code != 0
    assert "spec.script.interpreter" in said
    code, said = apply(control_plane, namespace, f'{BASE}  script: {{text: x, interpreter: "no"}}\n')
    assert code == 0, said


@pytest.mark.case(113)
@pytest.mark.parametrize(
    ("style", "stored"),
    [
        ("|", "all:\n\techo one # no comment\n\n# a comment\n\t\techo two\t\n"),
        ("|-", "all:\n\techo one # no comment\n\n# a comment\n\t\techo two\t"),
        ("|+", "all:\n\techo one # no comment\n\n# a comment\n\t\techo two\t\n\n"),
    ],
)
def test_case_113_a_block_script_keeps_its_tabs_comments_and_last_newline(
    control_plane: Cluster, namespace: str, style: str, stored: str
) -> None:
    block = "".join(f"      {line}\n" for line in ("all:", "\techo one # no comment"))
    block += "\n      # a comment\n      \t\techo two\t\n\n"
    code, said = apply(control_plane, namespace, f"{BASE}  script:\n    text: {style}\n{block}")
    assert code == 0, said
    spec = control_plane.kubectl.json("get", "bjob", "typed", "-n", namespace)["spec"]
    assert spec["script"]["text"] == stored


@pytest.mark.case(113)
def test_case_113_a_quoted_script_keeps_every_character(control_plane: Cluster, namespace: str) -> None:
    script = "#!/bin/bash\r\n\techo '\"$x\"' \\\n  é🚀\u0001\u2028\x7f\x85 \n\n"
    code, said = apply(control_plane, namespace, f"{BASE}  script: {{text: {quoted(script)}}}\n")
    assert code == 0, said
    spec = control_plane.kubectl.json("get", "bjob", "typed", "-n", namespace)["spec"]
    assert spec["script"]["text"] == script
