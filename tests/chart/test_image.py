"""The Dockerfile as text, since nothing here can pull a base image: what an image must have and must not have."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.rendering import ROOT, render

SECRET = re.compile(r"(?i)(token|secret|password|api_?key|credential)\w*\s*=")
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    word: str
    rest: str


def _instructions() -> list[Instruction]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line.strip()]


ALL = _instructions()
LAST_FROM = max(index for index, each in enumerate(ALL) if each.word == "FROM")
FINAL = ALL[LAST_FROM:]


def _of(word: str, instructions: list[Instruction] = ALL) -> list[str]:
    return [each.rest for each in instructions if each.word == word]


def test_the_instructions_are_known_and_none_fetches_a_url() -> None:
    assert {each.word for each in ALL} <= {
        "ARG", "FROM", "COPY", "RUN", "LABEL", "ENV", "WORKDIR", "USER", "EXPOSE", "ENTRYPOINT",
    }  # fmt: skip
    for each in ALL:
        assert not re.search(r"https?://|\bcurl\b|\bwget\b|git clone", each.rest), each


def test_every_base_is_an_argument_with_a_pinned_default() -> None:
    defaults = dict(line.split("=", 1) for line in _of("ARG") if "=" in line)
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", defaults["PYTHON_IMAGE"])
    assert {line.split()[0] for line in _of("FROM")} == {"scratch", "${PYTHON_IMAGE}"}


def test_the_cli_comes_from_a_stage_of_the_user_and_is_checked_before_it_is_used() -> None:
    (copy,) = [line for line in _of("COPY") if line.startswith("--from=brev ")]
    assert copy.split()[1:] == ["brev", "cloudflared*", "/programs/"]
    (check,) = [line for line in _of("RUN") if "sha256sum" in line]
    assert check.count("sha256sum --check --strict") == 2
    assert 'test -n "${BREV_SHA256:-}"' in check
    assert {"BREV_SHA256", "CLOUDFLARED_SHA256"} <= set(_of("ARG")), "no default"


def test_python_packages_come_from_the_lock_by_hash_and_without_a_compiler() -> None:
    (install,) = [line for line in _of("RUN") if "pip install" in line]
    for option in ("--require-hashes", "--no-deps", "--only-binary :all:", "-r /requirements-runtime.lock"):
        assert option in install


@pytest.mark.usefixtures("helm_program")
def test_the_image_runs_as_the_number_that_the_chart_names() -> None:
    (user,) = _of("USER", FINAL)
    assert [each.word for each in FINAL][-3:] == ["USER", "EXPOSE", "ENTRYPOINT"], "nothing runs after it"
    security = render().pod["spec"]["securityContext"]
    assert user == f"{security['runAsUser']}:{security['runAsGroup']}"
    (setup,) = _of("RUN", FINAL)
    number, group = user.split(":")
    assert f"useradd --uid {number} --gid {group}" in setup, "ssh needs an entry in passwd"


def test_the_image_has_what_the_cli_and_the_operator_call_and_starts_the_operator() -> None:
    (setup,) = _of("RUN", FINAL)
    for package in ("bash", "ca-certificates", "openssh-client", "tini", "util-linux"):
        assert f" {package} " in setup
    assert "--no-install-recommends" in setup
    (entry,) = _of("ENTRYPOINT", FINAL)
    assert json.loads(entry) == ["tini", "--", "python", "-m", "controller"]


def test_nothing_secret_and_nothing_of_the_sandbox_gets_in() -> None:
    for word in ("ARG", "ENV", "LABEL"):
        for line in _of(word):
            assert not SECRET.search(line), line
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert [line for line in ignored if line.startswith("!")] == ["!controller", "!requirements-runtime.lock"]
    assert "*" in ignored
    assert ignored.index("controller/sandbox") > ignored.index("!controller"), "the last rule that matches counts"


def test_the_runtime_lock_is_the_part_of_the_whole_lock_that_the_operator_needs() -> None:
    whole = dict(PIN.findall((ROOT / "requirements.lock").read_text()))
    runtime_text = (ROOT / "requirements-runtime.lock").read_text()
    runtime = dict(PIN.findall(runtime_text))
    assert runtime.items() <= whole.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {_name(line) for line in project["dependencies"]} <= set(runtime)
    assert not {_name(line) for line in project["optional-dependencies"]["dev"]} & set(runtime)
    assert runtime_text.count("--hash=sha256:") >= len(runtime)


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def _check(directory: Path, **arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Dockerfile's own check of the programs, on a directory in place of the image's."""
    (script,) = [line for line in _of("RUN") if "sha256sum" in line]
    script = script.replace("/programs/", f"{directory}/")
    environment = {"PATH": "/usr/bin:/bin", **arguments}
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment, check=False)


def test_a_cli_with_another_checksum_or_none_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "brev").write_text("#!/bin/sh\n")
    right = hashlib.sha256((tmp_path / "brev").read_bytes()).hexdigest()
    assert "BREV_SHA256" in _check(tmp_path).stderr
    assert _check(tmp_path, BREV_SHA256="0" * 64).returncode != 0
    assert _check(tmp_path, BREV_SHA256="").returncode != 0
    assert _check(tmp_path, BREV_SHA256=right).returncode == 0
    assert os.access(tmp_path / "brev", os.X_OK)
    (tmp_path / "cloudflared").write_text("x")
    assert "CLOUDFLARED_SHA256" in _check(tmp_path, BREV_SHA256=right).stderr
    assert _check(tmp_path, BREV_SHA256=right, CLOUDFLARED_SHA256=right).returncode != 0
    other = hashlib.sha256(b"x").hexdigest()
    assert _check(tmp_path, BREV_SHA256=right, CLOUDFLARED_SHA256=other).returncode == 0


def test_what_the_image_copies_is_enough_to_start(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "controller",
        tmp_path / "controller",
        ignore=lambda directory, _: {"sandbox", "__pycache__"} if directory == str(ROOT / "controller") else set(),
    )
    done = subprocess.run(
        [sys.executable, "-m", "controller"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "brev-operator cannot start:",
        "BREV_OPERATOR_CLUSTER_ID: required: 1 to 12 of a-z and 0-9 that name this installation",
    ]
