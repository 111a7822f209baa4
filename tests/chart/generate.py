"""`python -m tests.chart.generate [--check]`: write (or compare) everything that is derived for an installation.

Needs Helm for `deploy/install.yaml`; it is built into the cache where the machine has none.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import yaml

from controller.kube.roles import helm_template
from tests.chart import documents
from tests.chart.rendering import CHART, ROOT, render

PLACEHOLDER = "SET-YOUR-CLUSTER-ID"
"""No cluster id can look so, thus an operator that is started with it says what is wrong and ends."""

_STAND_IN = "placeholder0"

_HEAD = f"""\
# Generated from charts/brev-operator by `python -m tests.chart.generate`. Do not edit. For clusters without Helm:
#
#   sed 's/{PLACEHOLDER}/lab1/; s#image: .*#image: "REGISTRY/brev-operator:TAG"#' install.yaml |
#     kubectl apply --server-side -f -
#
# docs/install.md says what the cluster id is, how to make the image, and how to let jobs of a namespace use Secrets.
"""

_NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "brev-operator", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
}


def install_manifest() -> str:
    """deploy/install.yaml: the chart with its defaults, a namespace, and a cluster id to be filled in."""
    text = render({"clusterID": _STAND_IN}).text
    if text.count(_STAND_IN) != 1:
        raise ValueError("the cluster id is expected at one place")
    # A person who applies it without Helm should not be told that Helm manages it.
    text = text.replace(_STAND_IN, PLACEHOLDER).replace("managed-by: Helm", "managed-by: kubectl")
    return f"{_HEAD}---\n{yaml.safe_dump(_NAMESPACE, sort_keys=False)}{text}"


def static_outputs() -> dict[Path, str]:
    """Every generated file that takes no Helm, and the text it should have."""
    schema, page = CHART / "values.schema.json", ROOT / "docs" / "install.md"
    argocd = ROOT / "deploy" / "argocd"
    files = {CHART / "templates" / "_rules.tpl": helm_template()}
    for crd in sorted((ROOT / "crds").glob("*.yaml")):
        files[CHART / "templates" / "crds" / crd.name] = documents.chart_crd(crd.read_text(encoding="utf-8"))
    files[schema] = documents.values_schema(schema.read_text(encoding="utf-8"))
    files[page] = documents.install_page(
        page.read_text(encoding="utf-8"), (CHART / "values.yaml").read_text(encoding="utf-8")
    )
    files[argocd / "argocd-cm.yaml"] = documents.argocd_config_map(documents.health_scripts(argocd / "health"))
    return files


def difference(path: Path, wanted: str) -> list[str]:
    """Lines of a unified diff from what is on disk to what should be."""
    present = path.read_text(encoding="utf-8") if path.exists() else ""
    return list(difflib.unified_diff(present.splitlines(), wanted.splitlines(), str(path), "generated", lineterm=""))


def main(arguments: list[str]) -> int:
    """Exit code 0; with `--check` 1 and a diff when a file is not current."""
    check = arguments == ["--check"]
    if arguments and not check:
        print("usage: python -m tests.chart.generate [--check]", file=sys.stderr)
        return 2
    diff: list[str] = []
    # In two steps: what Helm renders depends on what is written before.
    for produce in (static_outputs, lambda: {ROOT / "deploy" / "install.yaml": install_manifest()}):
        for path, text in produce().items():
            if check:
                diff += difference(path, text)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    print("\n".join(diff), end="\n" if diff else "")
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
