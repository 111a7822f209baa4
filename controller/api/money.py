"""Money: decimal strings of US dollars outside, integer micro-dollars inside, no floating point between."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

MICROS = 1_000_000
USD_PATTERN = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"
MAX_USD_LENGTH = 16

_USD = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?")


def parse_usd(text: str) -> int:
    """`"1.25"` -> 1250000 micro-dollars. ValueError for signs, exponents, units, or more than six decimals."""
    match = _USD.fullmatch(text)
    if match is None:
        raise ValueError('not an amount of US dollars: write a quoted decimal such as "1.25", at most six decimals')
    return int(match[1]) * MICROS + int((match[2] or "").ljust(6, "0"))


def format_usd(micros: int, places: int | None = None) -> str:
    """Micro-dollars as a decimal string; exact with at least two decimals, or rounded half up to `places` (0..6)."""
    if micros < 0:
        raise ValueError("an amount is not negative")
    if places is None:
        dollars, rest = divmod(micros, MICROS)
        return f"{dollars}.{f'{rest:06d}'.rstrip('0').ljust(2, '0')}"
    if not 0 <= places <= 6:
        raise ValueError("places must be from 0 to 6")
    unit = 10 ** (6 - places)
    dollars, rest = divmod((micros + unit // 2) // unit, 10**places)
    return f"{dollars}.{rest:0{places}d}" if places else str(dollars)


@dataclass(frozen=True, slots=True)
class UsdMarker:
    """Annotation that makes an `int` of micro-dollars a decimal string in JSON and in the CRD."""

    positive: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validate,
            serialization=core_schema.plain_serializer_function_ser_schema(format_usd),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        result: JsonSchemaValue = {
            "type": "string",
            "pattern": USD_PATTERN,
            "minLength": 1,
            "maxLength": MAX_USD_LENGTH,
        }
        if self.positive:
            result["x-kubernetes-validations"] = [
                {"rule": f"self.matches(r'{USD_PATTERN}') && double(self) > 0.0", "message": _POSITIVE}
            ]
        return result

    def _validate(self, value: Any, info: ValidationInfo) -> int:
        if isinstance(value, str):
            value = parse_usd(value)
        elif (info.context or {}).get("wire") or not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ValueError('must be a quoted decimal such as "1.25"')
        if self.positive and value == 0:
            raise ValueError(_POSITIVE)
        return int(value)


_POSITIVE = 'must be a quoted decimal of more than zero, such as "1.25"; leave the field out for no limit'

Usd = Annotated[int, UsdMarker()]
PositiveUsd = Annotated[int, UsdMarker(positive=True)]
