"""A label selector matches as in Kubernetes."""

from typing import Any

import pytest
from pydantic import ValidationError

from controller.api.brevaccount import AllowedNamespaces
from controller.api.selector import LabelSelector

LABELS = {"team": "vision", "example.com/env": "prod", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"team": "vision"}}, True),
        ({"matchLabels": {"team": "vision", "example.com/env": "prod"}}, True),
        ({"matchLabels": {"team": "vision", "example.com/env": "test"}}, False),
        ({"matchLabels": {"absent": ""}}, False),
        ({"matchLabels": {"empty": ""}}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["speech", "vision"]}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "In", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["vision"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "empty", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"team": "vision"}, "matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_matches_as_kubernetes_does(selector: dict[str, Any], matches: bool) -> None:
    assert LabelSelector.model_validate(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Equals", "values": ["x"]},
        {"key": "", "operator": "Exists"},
        {"key": "a b", "operator": "Exists"},
        {"key": "a", "operator": "In", "values": ["not a label value"]},
    ],
)
def test_an_expression_without_sense_is_refused(expression: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LabelSelector.model_validate({"matchExpressions": [expression]})


def test_names_and_selector_each_allow_and_nothing_allows_nobody() -> None:
    both = AllowedNamespaces.model_validate({"names": ["a"], "selector": {"matchLabels": {"team": "vision"}}})
    assert both.allow("a", {})
    assert both.allow("b", LABELS)
    assert not both.allow("b", {})
    assert not AllowedNamespaces().allow("a", LABELS)
    assert both.need_labels("b")
    assert not both.need_labels("a")
    assert not AllowedNamespaces(names=["a"]).need_labels("b")
