"""The difference between two statuses as a patch, and what an old CRD silently dropped of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The RFC 7386 patch that turns `old` into `new`; {} when they are equal.

    Removed keys become null, lists are replaced whole. `new` must hold no None, which in such a patch means removal.
    Values are compared by JSON type as well: true is not 1.
    """
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif isinstance(value, Mapping) and isinstance(old[key], Mapping):
            nested = merge_patch(old[key], value)
            if nested:
                patch[key] = nested
        elif not _same(old[key], value):
            patch[key] = value
    return patch


def pruned_fields(sent: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Paths of fields in `sent` that `stored` lacks: the served CRD is older than this operator and pruned them.

    `sent` is a whole status or a patch (nulls are skipped); `stored` the status in the API server's answer. Only
    presence counts, since another writer may have changed a value. Items of lists share the path `attempts[].signal`.
    """
    return sorted(set(_missing(sent, stored, "")))


def _missing(sent: Any, stored: Any, path: str) -> list[str]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        found: list[str] = []
        for key, value in sent.items():
            if value is not None:
                child = f"{path}.{key}" if path else key
                found += _missing(value, stored[key], child) if key in stored else [child]
        return found
    if isinstance(sent, list) and isinstance(stored, list):
        pairs = zip(sent, stored, strict=False)
        return [field for mine, theirs in pairs for field in _missing(mine, theirs, f"{path}[]")]
    return []


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
