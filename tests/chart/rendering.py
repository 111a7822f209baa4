"""The chart through the real Helm: what it renders, and what it refuses."""

from __future__ import annotations

import functools
import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.sandbox.tools import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "brev-operator"
HELM_SECONDS = 60
_OLDEST = ("--kube-version", "1.31.0")
_program = functools.cache(helm)
Body = dict[str, Any]

USUAL: Mapping[str, Any] = {"clusterID": "lab1"}
"""The least that an installation has to say."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """The objects of one rendering, in Helm's order of installation."""

    text: str

    @property
    def objects(self) -> list[Body]:
        return [body for body in yaml.safe_load_all(self.text) if body is not None]

    def of(self, kind: str) -> list[Body]:
        return [body for body in self.objects if body["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Body:
        """The only object of that kind (and name)."""
        found = [body for body in self.of(kind) if name in ("", body["metadata"]["name"])]
        assert len(found) == 1, [body["metadata"]["name"] for body in found]
        return found[0]

    @property
    def pod(self) -> Body:
        template: Body = self.one("Deployment")["spec"]["template"]
        return template

    @property
    def environment(self) -> dict[str, str]:
        """The container's variables that have a plain value."""
        variables = self.pod["spec"]["containers"][0]["env"]
        assert len({each["name"] for each in variables}) == len(variables), "a variable is set twice"
        return {each["name"]: each["value"] for each in variables if "value" in each}


class RefusedError(Exception):
    """Helm has not rendered; the message is what it told the person."""


def render(
    values: Mapping[str, Any] = USUAL,
    *,
    release: str = "brev-operator",
    namespace: str = "brev-operator",
    arguments: tuple[str, ...] = (),
) -> Rendering:
    """Render with these values over the chart's defaults. Raises RefusedError."""
    return Rendering(
        _helm("template", release, str(CHART), "--namespace", namespace, *_OLDEST, *arguments, values=values)
    )


def lint(values: Mapping[str, Any] = USUAL) -> str:
    """`helm lint --strict`; raises RefusedError when it finds something."""
    return _helm("lint", "--strict", *_OLDEST, str(CHART), values=values)


def _helm(*arguments: str, values: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "values.json"
        file.write_text(json.dumps(values))
        done = subprocess.run(
            [_program(), *arguments, "--values", str(file)],
            capture_output=True,
            text=True,
            timeout=HELM_SECONDS,
            # An empty home: no repositories, plug-ins or cluster of whoever runs this can take part.
            env={"HOME": home, "PATH": "/usr/bin:/bin", "KUBECONFIG": str(Path(home) / "none")},
            check=False,
        )
    if done.returncode != 0:
        raise RefusedError(done.stderr or done.stdout)
    return done.stdout
