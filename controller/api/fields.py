"""Field types of the models: each carries its validation in code and its schema in the CRD, so they cannot differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
)
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from controller.api.text import clip, clip_tail

DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
CONFIG_KEY = r"^[-._a-zA-Z0-9]+$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
NamespaceName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
ConfigKey = Annotated[str, Field(min_length=1, max_length=253, pattern=CONFIG_KEY)]

Generation = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]

EnumT = TypeVar("EnumT", bound=StrEnum)


def format_timestamp(value: datetime) -> str:
    """RFC 3339 in UTC; milliseconds only where there are any."""
    value = value.astimezone(UTC)
    precise = value.microsecond >= 1000
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds" if precise else "seconds") + "Z"


def format_seconds(value: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as Kubernetes writes condition times."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


_TIME_SCHEMA = WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 35})
Timestamp = Annotated[AwareDatetime, PlainSerializer(format_timestamp), _TIME_SCHEMA]
ConditionTime = Annotated[AwareDatetime, PlainSerializer(format_seconds), _TIME_SCHEMA]


@dataclass(frozen=True, slots=True)
class Text:
    """A status text of at most `limit` stored bytes; longer ones are cut when dumped, at the end or the start."""

    limit: int
    keep_end: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            str,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(self._cut),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "maxLength": self.limit}

    def _cut(self, value: str) -> str:
        return clip_tail(value, self.limit) if self.keep_end else clip(value, self.limit)


@dataclass(frozen=True, slots=True)
class Newest:
    """A status list of which only the last `count` entries are kept when dumped."""

    count: int
    keys: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return core_schema.no_info_after_validator_function(
            list,
            schema,
            serialization=core_schema.wrap_serializer_function_ser_schema(self._cut, schema=schema),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        result = handler(schema)
        return {**result, "maxItems": self.count, **list_type(self.keys)}

    def _cut(self, value: list[Any], handler: SerializerFunctionWrapHandler) -> Any:
        return handler(value[-self.count :])


@dataclass(frozen=True, slots=True)
class Matching:
    """A string that matches `pattern` (the common subset of RE2 and Python), with a sentence for those that do not.

    The API server's own message is the bare pattern, so the CRD carries a CEL rule with the sentence beside it.
    """

    pattern: str
    message: str
    max_length: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.str_schema(min_length=1, max_length=self.max_length, strict=True)
        return core_schema.no_info_after_validator_function(self._check, text)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {
            "type": "string",
            "pattern": self.pattern,
            "minLength": 1,
            "maxLength": self.max_length,
            "x-kubernetes-validations": [rule(matches(self.pattern), self.message)],
        }

    def _check(self, value: str) -> str:
        if re.fullmatch(self.pattern, value) is None:
            raise ValueError(self.message)
        return value


def list_type(keys: Sequence[str] = (), *, unique: bool = False) -> JsonDict:
    """The list semantics server-side apply needs: a map with `keys`, a set, or atomic."""
    if keys:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return {"x-kubernetes-list-type": "set" if unique else "atomic"}


def rule(expression: str, message: str, field_path: str = "") -> JsonDict:
    """One CEL rule of the CRD; `message` says the next step."""
    result: JsonDict = {"rule": expression, "message": message}
    return result | {"fieldPath": field_path} if field_path else result


def matches(pattern: str) -> str:
    """CEL for "this string matches"; a raw literal, since patterns have backslashes and no quotes."""
    return f"self.matches(r'{pattern}')"


def known(enum: type[EnumT]) -> BeforeValidator:
    """Validator for a status enum: a value of another release reads as absent instead of failing the object."""
    values = {member.value for member in enum}
    return BeforeValidator(lambda value: value if value in values else None)
