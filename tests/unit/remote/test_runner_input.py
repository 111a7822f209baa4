from __future__ import annotations

import hashlib
import json

import pytest

from controller.remote.bundle import BundleFile
from tests.unit.remote.machine import Machine, job

DUMP = b"""import json, os, sys
json.dump({k.decode(): list(v) for k, v in os.environb.items()}, open(os.path.expanduser('~/env.json'), 'w'))
json.dump([os.getcwd(), sys.argv], open(os.path.expanduser('~/where.json'), 'w'))
"""

VALUES = {
    "EMPTY": "",
    "NEWLINES": "a\nb\r\n\n",
    "DOLLAR": "$HOME ${PATH} $(id) `id` $$",
    "QUOTES": """'single' "double" \\ back\\slash \\n""",
    "UNICODE": "naïve 日本語 😀 \u200b\ufeff",
    "BOOLEAN": "true",
    "OCTAL": "010",
    "EXPONENT": "1e3",
    "SPACES": "  two  spaces\t ",
    "GLOB": "* ? [a] ~ {a,b} !x #y ;&|<>",
    "CONTROL": "\x01\x1b[31m\x7f",
    "LONG": "x" * 100_000,
    "lower.case-odd name": "kept",
}


def test_every_legal_value_arrives_byte_for_byte(machine: Machine) -> None:
    assert machine.run(job(DUMP, interpreter="python3", env=VALUES)).exit_code == 0
    found = {name: bytes(value) for name, value in json.loads((machine.home / "env.json").read_text()).items()}
    assert {name: found[name] for name in VALUES} == {name: value.encode() for name, value in VALUES.items()}


def test_the_login_environment_is_below_the_delivered_one(machine: Machine) -> None:
    machine.env["FROM_LOGIN"] = "login"
    machine.env["BOTH"] = "login"
    marker = {"name": "iris", "namespace": "team-a", "uid": "u-1", "attempt": "1", "specHash": "h"}
    machine.run(job(DUMP, interpreter="python3", env={"BOTH": "job", "BREV_JOB_UID": "mine"}, marker=marker))
    found = {name: bytes(value).decode() for name, value in json.loads((machine.home / "env.json").read_text()).items()}
    assert (found["FROM_LOGIN"], found["BOTH"], found["HOME"]) == ("login", "job", str(machine.home))
    assert (found["BREV_JOB_NAME"], found["BREV_JOB_NAMESPACE"], found["BREV_JOB_UID"]) == ("iris", "team-a", "mine")
    assert found["PYTHONUNBUFFERED"] == "1"


def test_a_value_for_buffering_is_kept(machine: Machine) -> None:
    machine.run(job(DUMP, interpreter="python3", env={"PYTHONUNBUFFERED": ""}))
    assert json.loads((machine.home / "env.json").read_text())["PYTHONUNBUFFERED"] == []


def test_the_marker_comes_back_with_every_state(machine: Machine) -> None:
    marker = {"name": "iris", "uid": "u-1"}
    assert machine.run(job("true", marker=marker)).marker == marker


def test_the_job_runs_in_its_own_directory_and_can_import_what_was_delivered(machine: Machine) -> None:
    files = (BundleFile("helper.py", b"VALUE = 5"),)
    found = machine.run(job(DUMP + b"import helper; sys.exit(helper.VALUE)", interpreter="python3", files=files))
    assert found.exit_code == 5
    directory, arguments = json.loads((machine.home / "where.json").read_text())
    assert directory == str(machine.place() / "work")
    assert arguments == [str(machine.place() / "work" / ".brev-script")]


def test_files_arrive_byte_for_byte_with_their_modes(machine: Machine) -> None:
    everything = bytes(range(256)) * 40
    files = (
        BundleFile("data/deep/er/all.bin", everything, 0o644),
        BundleFile("tool", b"#!/bin/sh\nexit 7\n", 0o755),
        BundleFile("a name with 'quotes' and $dollar", b"", 0o400),
        BundleFile("ünïcode", b"x", 0o4777),
    )
    assert machine.run(job("./tool", files=files)).exit_code == 7
    work = machine.place() / "work"
    for file in files:
        assert (work / file.path).read_bytes() == file.content
        assert (work / file.path).stat().st_mode & 0o7777 == file.mode & 0o777


@pytest.mark.parametrize("path", ["../outside", "a/../../outside", "/tmp/outside"])
def test_the_machine_itself_refuses_a_path_that_leaves_the_jobs_directory(machine: Machine, path: str) -> None:
    copied = machine.deliver(job("exit 0", files=(BundleFile("inside", b"x"),)))
    request = json.loads((copied / "job.json").read_text())
    request["files"][0]["path"] = path
    content = json.dumps(request).encode()
    (copied / "job.json").write_bytes(content)
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["files"]["job.json"] = hashlib.sha256(content).hexdigest()
    (copied / "manifest.json").write_text(json.dumps(manifest))
    machine.start()
    machine.settled()
    found = machine.state()
    assert (found.exit_code, found.setup_failed) == (125, True)
    assert list(machine.home.rglob("outside")) == []


@pytest.mark.parametrize("script", [b"", b"\n", b"exit 0", b"# \xff\xfe not utf-8\nexit 0\n", b"exit 0\r".strip()])
def test_a_script_arrives_byte_for_byte(machine: Machine, script: bytes) -> None:
    assert machine.run(job(script)).exit_code == 0
    assert (machine.place() / "work" / ".brev-script").read_bytes() == script
