"""`make demo`'s engine as a test: what it says, how it ends, and that two of them do not meet."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running import QUICK, SAMPLES, Running

MACHINE = re.compile(r"\bbo-sandbox-[a-z0-9-]+")


@pytest.fixture(scope="module")
def two_demos() -> Iterator[list[tuple[int, str]]]:
    """Exit code and output of two demos of the default sample that ran at the same time."""
    demos = [Running("demo", *QUICK), Running("demo", *QUICK)]
    try:
        yield [(demo.finish(), demo.output) for demo in demos]
    finally:
        for demo in demos:
            demo.end()


def test_the_demo_trains_the_classifier_and_leaves_no_machine(two_demos: list[tuple[int, str]]) -> None:
    code, output = two_demos[0]
    assert code == 0, output
    assert "held-out accuracy: 0.956" in output
    assert "Succeeded, exitCode 0" in output
    assert output.rstrip().endswith("machines left: 0")


def test_two_demos_at_once_work_and_have_nothing_in_common(two_demos: list[tuple[int, str]]) -> None:
    assert [code for code, _ in two_demos] == [0, 0], two_demos
    machines = [set(MACHINE.findall(output)) for _, output in two_demos]
    assert [len(names) for names in machines] == [1, 1]
    assert not machines[0] & machines[1]


def test_the_timeline_tells_every_phase_in_order(two_demos: list[tuple[int, str]]) -> None:
    phases = re.findall(r"^ +[0-9]+\.[0-9]  ([A-Z][A-Za-z]+) +[0-9]+\.[0-9]{5}  \S", two_demos[0][1], re.MULTILINE)
    assert list(dict.fromkeys(phases)) == ["Provisioning", "Starting", "Running", "TearingDown", "Succeeded"]


def test_the_operators_cost_is_shown_beside_the_invoice(two_demos: list[tuple[int, str]]) -> None:
    found = re.search(r"cost +([0-9.]+) USD by the operator, ([0-9.]+) USD on the simulator's invoice", two_demos[0][1])
    assert found is not None, two_demos[0][1]
    own, charged = map(float, found.groups())
    assert 0 < charged <= own


def test_output_in_a_pipe_is_plain_text(two_demos: list[tuple[int, str]]) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", two_demos[0][1])


def test_a_failing_job_fails_the_demo_and_still_leaves_no_machine(demos: list[Running]) -> None:
    demo = Running("demo", *QUICK, "--sample", str(SAMPLES / "failing.yaml"))
    demos.append(demo)
    assert demo.finish() == 1
    assert "Failed, exitCode 3" in demo.output
    assert "not succeeded: failing" in demo.output
    assert "machines left: 0" in demo.output
    assert "NonZeroExit" in demo.output[demo.output.index("the operator's last log lines") :]


def test_a_manifest_with_several_documents_is_followed_in_whole_and_its_secret_stays_unseen(
    demos: list[Running], tmp_path: Path
) -> None:
    both = tmp_path / "both.yaml"
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team-b}\n"
    job = (SAMPLES / "failing.yaml").read_text().replace("name: failing", "name: odd\n  namespace: team-b")
    both.write_text(f"{namespace}---\n{(SAMPLES / 'secrets.yaml').read_text()}---\n{job.replace('exit 3', 'exit 0')}")
    logs = tmp_path / "logs"
    demo = Running("demo", *QUICK, "--sample", str(both), "--keep-logs", str(logs))
    demos.append(demo)
    assert demo.finish() == 0, demo.output
    assert "BrevJob default/secrets" in demo.output
    assert "BrevJob team-b/odd" in demo.output
    assert "from the environment: ***" in demo.output
    assert {path.name for path in logs.iterdir()} >= {"operator.log", "brevsim.log", "kube-apiserver.log"}
    token = "an-example-and-no-real-token"
    assert token not in demo.output
    assert token not in (logs / "operator.log").read_text()


def test_a_manifest_that_the_api_server_refuses_ends_the_demo_with_its_words(
    demos: list[Running], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text((SAMPLES / "failing.yaml").read_text().replace("script:", "scirpt:"))
    demo = Running("demo", *QUICK, "--sample", str(bad))
    demos.append(demo)
    assert demo.finish() == 1
    assert "scirpt" in demo.output
    assert "Traceback" not in demo.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ((SAMPLES / "instance.yaml").read_text(), "has no BrevJob in it (found: BrevInstance)"),
        ("{", "is not YAML"),
        ("- 1", "is not a Kubernetes object"),
        ("", "has no BrevJob in it (found: nothing)"),
    ],
)
def test_a_manifest_without_a_job_is_refused_before_anything_is_started(
    demos: list[Running], tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "sample.yaml"
    path.write_text(text)
    demo = Running("demo", "--sample", str(path))
    demos.append(demo)
    assert demo.finish() == 1
    assert complaint in demo.output
    assert "control plane" not in demo.output


def test_a_component_that_does_not_start_shows_its_log(demos: list[Running], tmp_path: Path) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "etcd Version: 3.6.0" && exit\necho "no room" >&2\nexit 1\n'
    )
    etcd.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    demo = Running("demo", *QUICK, environment={"KUBEBUILDER_ASSETS": str(tmp_path), "TMPDIR": str(temporary)})
    demos.append(demo)
    assert demo.finish() == 1
    assert "etcd ended with 1" in demo.output
    assert "no room" in demo.output
    assert "Traceback" not in demo.output
    assert not list(temporary.iterdir())
