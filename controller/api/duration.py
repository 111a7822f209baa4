"""Durations in the style of Go: whole hours, minutes and seconds in that order (`90s`, `20m`, `1h30m`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

DURATION_PATTERN = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"
"""RE2 (the API server) and Python agree on it; six digits keep CEL's `duration()` far from its overflow."""

MAX_DURATION_LENGTH = 21

_PARTS = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """Read `1h30m`. ValueError for anything without a unit, empty, signed, fractional or out of order."""
    match = _PARTS.fullmatch(text)
    if not text or match is None:
        raise ValueError(
            "not a duration: write whole numbers with units h, m, s in that order, such as 90s, 20m, 1h30m"
        )
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write `1h30m`; whole seconds, rounded down. ValueError for a negative value."""
    total = int(value.total_seconds())
    if value < timedelta(0):
        raise ValueError("a duration is not negative")
    hours, rest = divmod(total, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


@dataclass(frozen=True, slots=True)
class DurationBounds:
    """Annotation that makes a `timedelta` field a bounded duration string, in code and in the CRD alike."""

    minimum: str
    maximum: str

    @property
    def message(self) -> str:
        """The sentence a user reads for a value out of bounds; the same from the API server and from the operator."""
        return f"must be a duration from {self.minimum} to {self.maximum}, such as 90s, 20m or 1h30m"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(format_duration),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        bounds = f"duration(self) >= duration('{self.minimum}') && duration(self) <= duration('{self.maximum}')"
        rule = f"self.size() > 1 && self.matches(r'{DURATION_PATTERN}') && {bounds}"
        return {
            "type": "string",
            "pattern": DURATION_PATTERN,
            "minLength": 2,
            "maxLength": MAX_DURATION_LENGTH,
            "x-kubernetes-validations": [{"rule": rule, "message": self.message}],
        }

    def _validate(self, value: Any) -> timedelta:
        if isinstance(value, str):
            value = parse_duration(value)
        if not isinstance(value, timedelta):
            raise ValueError(self.message)
        if not parse_duration(self.minimum) <= value <= parse_duration(self.maximum):
            raise ValueError(self.message)
        return value
