"""What the chart, the Argo CD snippets and the install page derive from other files, as pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from controller.api.meta import GROUP
from controller.settings import CLI_ENVIRONMENT_PREFIX, NOT_VARIABLES, Intervals, Settings, variable

CHART_DECIDES = frozenset(
    {
        "cluster_id",
        "namespace",
        "watch_namespaces",
        "state_directory",
        "listen_port",
        "kubeconfig",
        "token_file",
        "ca_file",
    }
)
"""Settings that follow from the chart's own values and volumes; `settings` may not contradict them."""

TABLE_BEGINS = "<!-- The table is generated from charts/brev-operator/values.yaml. -->"
TABLE_ENDS = "<!-- End of the generated table. -->"


def chart_crd(crd: str) -> str:
    """The template of one CRD: as generated, behind `crds.enabled`, and kept when the release goes."""
    literal = crd.replace("{{", '{{ "{{" }}')
    kept, count = re.subn(
        r"^(metadata:\n  name: \S+\n)", r"\1  annotations:\n    helm.sh/resource-policy: keep\n", literal, flags=re.M
    )
    if count != 1:
        raise ValueError("a CRD without `metadata: name:` at its top")
    return f"{{{{- if .Values.crds.enabled }}}}\n{kept.rstrip()}\n{{{{- end }}}}\n"


def settings_schema() -> dict[str, Any]:
    """JSON schema of the value `settings`: every variable of the operator that the chart does not set itself."""
    names = [item.name for record in (Settings, Intervals) for item in fields(record)]
    own = [variable(name) for name in names if name not in NOT_VARIABLES | CHART_DECIDES]
    value = {"type": ["string", "number", "boolean"]}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": dict.fromkeys(sorted(own), value),
        "patternProperties": {f"^{CLI_ENVIRONMENT_PREFIX}[A-Z][A-Z0-9_]*$": value},
    }


def values_schema(present: str) -> str:
    """The schema file with the part about `settings` renewed; everything else in it is written by hand."""
    schema = json.loads(present)
    schema["properties"]["settings"] = settings_schema()
    return json.dumps(schema, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Value:
    """One leaf of values.yaml: dotted path, default as compact JSON, and the comment above it."""

    path: str
    default: str
    text: str


def documented_values(source: str) -> list[Value]:
    """The leaves of values.yaml in order: a key with a comment above it is one, whatever is below it.

    Raises ValueError for a key that has neither a comment nor commented keys below it.
    """
    lines = source.splitlines()
    return list(_leaves(yaml.compose(source), "", lines, yaml.safe_load(source)))


def _leaves(node: yaml.Node | None, prefix: str, lines: list[str], data: Mapping[str, Any]) -> Iterator[Value]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"{prefix or 'values'}: not a mapping")
    for key, child in node.value:
        path = f"{prefix}{key.value}"
        text = _comment_above(lines, key.start_mark.line, key.start_mark.column)
        if text:
            yield Value(path, json.dumps(data[key.value]), text)
        elif isinstance(child, yaml.MappingNode) and child.value:
            yield from _leaves(child, f"{path}.", lines, data[key.value])
        else:
            raise ValueError(f"{path} has no comment")


def _comment_above(lines: list[str], line: int, column: int) -> str:
    found: list[str] = []
    marker = " " * column + "# "
    while line > 0 and lines[line - 1].startswith(marker):
        line -= 1
        found.append(lines[line].removeprefix(marker))
    return " ".join(reversed(found))


def install_page(present: str, values: str) -> str:
    """docs/install.md with the table of values renewed between its two markers."""
    rows = ["| Value | Default | Meaning |", "| --- | --- | --- |"]
    rows += [f"| `{value.path}` | `{value.default}` | {value.text} |" for value in documented_values(values)]
    before, rest = present.split(TABLE_BEGINS)
    after = rest.split(TABLE_ENDS)[1]
    return before + "\n".join([TABLE_BEGINS, "", *rows, "", TABLE_ENDS]) + after


def argocd_config_map(health: Mapping[str, str]) -> str:
    """The part of Argo CD's ConfigMap that makes it know our kinds; `health` maps a kind to its Lua."""
    lines = [
        "# Generated from deploy/argocd/health by `python -m tests.chart.generate`. Do not edit. Merge it:",
        "#   kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm.yaml",
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        "  name: argocd-cm",
        "  namespace: argocd",
        "  labels:",
        "    app.kubernetes.io/name: argocd-cm",
        "    app.kubernetes.io/part-of: argocd",
        "data:",
    ]
    for kind, lua in sorted(health.items()):
        lines += [f"  resource.customizations.health.{GROUP}_{kind}: |", *_indented(lua, 4)]
        lines += [f"  resource.customizations.ignoreResourceUpdates.{GROUP}_{kind}: |", *_indented(IGNORED, 4)]
    return "\n".join(lines) + "\n"


IGNORED = "jsonPointers:\n  - /status\n"
"""Argo CD still looks at an object whose health changes; what else changes in a status is no reason to refresh."""


def _indented(text: str, columns: int) -> list[str]:
    return [f"{' ' * columns}{line}".rstrip() for line in text.rstrip().splitlines()]


def health_scripts(directory: Path) -> dict[str, str]:
    """Kind → Lua, of every directory that has a health.lua."""
    return {path.parent.name: path.read_text(encoding="utf-8") for path in sorted(directory.glob("*/health.lua"))}
