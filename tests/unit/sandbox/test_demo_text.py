"""What the demo reads and writes: manifests, terminals, reports."""

import io
from pathlib import Path

import pytest

from controller.api.brevjob import BrevJob
from controller.sandbox.manifest import ManifestError, read_manifest
from controller.sandbox.report import Result, job_report
from controller.sandbox.terminal import Terminal, printable

JOB = "apiVersion: brev.nvidia.com/v1alpha1\nkind: BrevJob\nmetadata: {name: iris}\n"


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def manifest(directory: Path, text: str) -> Path:
    path = directory / "manifest.yaml"
    path.write_text(text)
    return path


def test_jobs_are_found_in_documents_and_lists_and_get_the_default_namespace(tmp_path: Path) -> None:
    inner = "\n".join("  " + line for line in JOB.splitlines()).replace("  apiVersion", "- apiVersion", 1)
    other = JOB.replace("name: iris", "name: other, namespace: team-a")
    found = read_manifest(manifest(tmp_path, f"---\n---\nkind: List\nitems:\n{inner}\n---\n{other}"))
    assert found.jobs == (("default", "iris"), ("team-a", "other"))
    assert found.namespaces == ("default", "team-a")


def test_a_namespace_that_the_manifest_makes_is_not_made_for_it(tmp_path: Path) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"
    job = JOB.replace("name: iris", "name: iris, namespace: team-a")
    found = read_manifest(manifest(tmp_path, f"{namespace}---\n{job}"))
    assert found.own_namespaces == ("team-a",)
    assert "team-a" not in found.namespaces


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "found: nothing"),
        (JOB.replace("brev.nvidia.com", "example.com"), "found: BrevJob"),
        (JOB.replace("name", "generateName"), "no metadata.name"),
        ("a: [", "not YAML"),
        ("just words", "not a Kubernetes object"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_reason(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ManifestError, match=complaint):
        read_manifest(manifest(tmp_path, text))


def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="nowhere"):
        read_manifest(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("environ", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_is_coloured_unless_somebody_objects(environ: dict[str, str], colour: bool) -> None:
    terminal = Terminal(Screen(), environ)
    assert ("\x1b[" in terminal.style("text", "red")) is colour


def test_a_pipe_gets_neither_colour_nor_broken_lines() -> None:
    terminal = Terminal(io.StringIO(), {})
    assert terminal.style("text", "bold", "red") == "text"
    assert terminal.wrapped("word " * 100, 40) == ["word " * 100]


def test_a_jobs_output_cannot_drive_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\x07\tc\nd\x9b") == "a\\x1b[2Jb\\x0d\\x07\tc\nd\\x9b"


def test_the_report_has_the_exit_code_both_costs_and_the_end_of_the_log() -> None:
    body = {
        "metadata": {"namespace": "default", "name": "iris"},
        "spec": {"instanceTemplate": {"spec": {"candidates": [{"type": "cpu"}]}}, "script": {"text": "true"}},
        "status": {
            "phase": "Failed",
            "attempts": [{"number": 1, "exitCode": 3, "message": "It ended with exit code 3."}],
            "machine": {"type": "cpu", "brevName": "bo-1", "pricePerHourUSD": "0.25"},
            "cost": {"accruedUSD": "0.00123"},
            "logTail": "last\x1b[31m words",
            "logBytes": 5000,
            "logTruncated": True,
        },
    }
    stream = io.StringIO()
    job_report(Terminal(stream, {}), Result(("default", "iris"), BrevJob.parse(body), 1200))
    text = stream.getvalue()
    assert "Failed, exitCode 3: It ended with exit code 3." in text
    assert "0.00123 USD by the operator, 0.00120 USD on the simulator's invoice" in text
    assert "cpu at 0.25 USD an hour (bo-1)" in text
    assert "the end of 5000 bytes" in text
    assert "| last\\x1b[31m words" in text
