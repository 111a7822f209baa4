from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.kube.status import merge_patch, pruned_fields

_leaves = st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2) | st.just(1.0)
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from("pqr"), _values, max_size=3)


def _apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _apply(result.get(name), value)
    return result


@given(_objects, _objects)
def test_applying_the_patch_to_the_old_status_gives_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert _apply(old, merge_patch(old, new)) == new


@given(_objects)
def test_equal_statuses_need_no_patch(status: dict[str, Any]) -> None:
    assert merge_patch(status, dict(status)) == {}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}, {"a": [{"b": False}]}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": "x"}, {"a": {}}, {"a": {}}),
    ],
)
def test_the_patch_is_minimal_and_exact(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert repr(merge_patch(old, new)) == repr(patch)


def test_fields_that_an_old_crd_dropped_are_named() -> None:
    sent = {"phase": "Running", "cost": {"usd": "1"}, "attempts": [{"signal": "KILL", "n": 1}, {"signal": "TERM"}]}
    stored = {"phase": "Pending", "cost": {}, "attempts": [{"n": 1}, {}], "foreign": True}
    assert pruned_fields(sent, stored) == ["attempts[].signal", "cost.usd"]


def test_removals_and_changed_values_are_not_pruning() -> None:
    assert pruned_fields({"gone": None, "phase": "A"}, {"phase": "B"}) == []
    assert pruned_fields({"a": {}}, {}) == ["a"]
