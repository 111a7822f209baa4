"""A user's manifest, read before anything is started: which jobs are in it, and which namespaces it needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.api.meta import GROUP, Kind

DEFAULT_NAMESPACE = "default"


class ManifestError(Exception):
    """The manifest cannot be demonstrated; the message says why and what would do."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the demo has to know of a manifest; kubectl and the API server judge the rest."""

    path: Path
    jobs: tuple[tuple[str, str], ...]
    """Namespace and name of every BrevJob, in order."""
    namespaces: tuple[str, ...]
    """Namespaces that have to exist and to be allowed, without those that the manifest makes itself."""
    own_namespaces: tuple[str, ...]
    """Namespaces that the manifest makes itself."""


def read_manifest(path: Path) -> Manifest:
    """Raises ManifestError for a file that cannot be read, is no YAML, or has no BrevJob in it."""
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise ManifestError(f"{path} is not YAML: {error}") from error
    objects = [entry for document in documents for entry in _objects(document, path)]
    jobs = [_identity(entry, path) for entry in objects if entry.get("kind") == Kind.JOB and _is_ours(entry)]
    if not jobs:
        kinds = ", ".join(sorted({str(entry.get("kind")) for entry in objects})) or "nothing"
        raise ManifestError(
            f"{path} has no BrevJob in it (found: {kinds}); the demo follows jobs. To try other objects, run "
            "`python -m controller.sandbox up` and apply them with kubectl."
        )
    own = {_metadata(entry).get("name") for entry in objects if entry.get("kind") == "Namespace"}
    used = dict.fromkeys([namespace for namespace, _ in jobs] + [_namespace(entry) for entry in objects])
    return Manifest(
        path,
        tuple(jobs),
        tuple(name for name in used if name not in own),
        tuple(sorted(str(name) for name in own if name)),
    )


def _objects(document: Any, path: Path) -> list[dict[str, Any]]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ManifestError(f"{path}: a document in it is not a Kubernetes object")
    if document.get("kind") == "List":
        return [entry for item in document.get("items") or [] for entry in _objects(item, path)]
    return [document]


def _is_ours(entry: dict[str, Any]) -> bool:
    return str(entry.get("apiVersion", "")).partition("/")[0] == GROUP


def _identity(entry: dict[str, Any], path: Path) -> tuple[str, str]:
    name = _metadata(entry).get("name")
    if not isinstance(name, str) or not name:
        raise ManifestError(f"{path}: a BrevJob in it has no metadata.name (generateName cannot be applied)")
    return _namespace(entry), name


def _namespace(entry: dict[str, Any]) -> str:
    return str(_metadata(entry).get("namespace") or DEFAULT_NAMESPACE)


def _metadata(entry: dict[str, Any]) -> dict[str, Any]:
    metadata = entry.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
