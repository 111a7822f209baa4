"""A label selector, as in meta/v1, and its matching in code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from controller.api.base import SpecModel
from controller.api.fields import list_type, rule

LABEL_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

LabelKey = Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]

_KEYS = rule(
    f"self.all(key, size(key) <= 317 && key.matches('{LABEL_KEY}'))",
    "a key is not a label key, such as team or example.com/team",
)
_VALUES = "In and NotIn need values; Exists and DoesNotExist take none"


class SelectorOperator(StrEnum):
    """How the values of an expression are compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorExpression(SpecModel):
    """One condition on a label."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule("(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)", _VALUES)
            ]
        }
    )

    key: LabelKey = Field(description="Key of the label. Required.")
    operator: SelectorOperator = Field(description="`In`, `NotIn`, `Exists` or `DoesNotExist`. Required.")
    values: Annotated[list[LabelValue], Field(max_length=64, json_schema_extra=list_type())] = Field(
        default_factory=list,
        description="Values for `In` and `NotIn`; none for the other two. At most 64. Default: none.",
    )

    @model_validator(mode="after")
    def _values_where_needed(self) -> SelectorExpression:
        needed = self.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
        if needed != bool(self.values):
            raise ValueError(_VALUES)
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As Kubernetes does: `NotIn` and `DoesNotExist` also match where the label is absent."""
        value = labels.get(self.key)
        if self.operator is SelectorOperator.EXISTS:
            return value is not None
        if self.operator is SelectorOperator.DOES_NOT_EXIST:
            return value is None
        return (value in self.values) == (self.operator is SelectorOperator.IN)


class LabelSelector(SpecModel):
    """All of its conditions have to hold. An empty selector matches everything, as everywhere in Kubernetes."""

    match_labels: Annotated[
        dict[LabelKey, LabelValue], Field(max_length=16, json_schema_extra={"x-kubernetes-validations": [_KEYS]})
    ] = Field(default_factory=dict, description="Labels that have to be there with exactly these values. At most 16.")
    match_expressions: Annotated[list[SelectorExpression], Field(max_length=16, json_schema_extra=list_type())] = Field(
        default_factory=list, description="Further conditions. At most 16."
    )

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        exact = all(labels.get(key) == value for key, value in self.match_labels.items())
        return exact and all(expression.matches(labels) for expression in self.match_expressions)
