"""The hash of a spec: how the operator notices a changed spec where an old CRD did not refuse it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from controller.api.base import SpecModel


def spec_hash(spec: SpecModel | Mapping[str, Any]) -> str:
    """Sixteen hex digits, the same for any order of keys.

    Pass the model where there is one: it is hashed without values that equal their defaults, so that a field that a
    later CRD adds with a default does not change the hash of objects that were stored before it.
    """
    if isinstance(spec, SpecModel):
        spec = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    text = json.dumps(_without_nulls(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
