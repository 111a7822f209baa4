"""From a pydantic model to the structural OpenAPI schema that a CustomResourceDefinition takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from controller.api.base import SpecModel, StatusModel
from controller.api.duration import format_duration

Schema = dict[str, Any]

_ORDER = (
    "description",
    "type",
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "required",
    "properties",
    "additionalProperties",
    "items",
)


def structural_schema(model: type[SpecModel] | type[StatusModel]) -> Schema:
    """The schema of a spec or status: references inlined, nothing nullable, keys in a fixed order.

    Optional fields are simply absent from `required`: an explicit null is dropped by the API server. Statuses have no
    defaults, since nobody but the operator writes them. ValueError for anything Kubernetes would not take.
    """
    source = model.model_json_schema(mode="validation", by_alias=True, schema_generator=_Generator)
    return _Inliner(source.get("$defs", {}), keep_defaults=issubclass(model, SpecModel)).convert(source, model.__name__)


class _Generator(GenerateJsonSchema):
    """Writes default durations as users do, not in ISO 8601."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


class _Inliner:
    def __init__(self, definitions: Schema, *, keep_defaults: bool) -> None:
        self._definitions = definitions
        self._keep_defaults = keep_defaults

    def convert(self, source: Schema, path: str) -> Schema:
        flat = self._resolve(source)
        flat.pop("title", None)
        flat.pop("$defs", None)
        if flat.get("default") is None or not self._keep_defaults:
            flat.pop("default", None)
        if flat.get("type") == "integer":
            flat.setdefault("format", "int32")
        if "properties" in flat:
            flat["properties"] = {
                name: self.convert(schema, f"{path}.{name}") for name, schema in flat["properties"].items()
            }
        if "patternProperties" in flat:
            # A structural schema cannot hold keys to a pattern; the model does.
            (flat["additionalProperties"],) = flat.pop("patternProperties").values()
        flat.pop("propertyNames", None)
        if isinstance(flat.get("additionalProperties"), dict):
            flat["additionalProperties"] = self.convert(flat["additionalProperties"], f"{path}.*")
        if "items" in flat:
            flat["items"] = self.convert(flat["items"], f"{path}[]")
        unknown = flat.keys() - set(_ORDER)
        if unknown or "type" not in flat:
            raise ValueError(f"{path}: no structural schema can say {sorted(unknown) or 'a value of any type'}")
        return {key: flat[key] for key in _ORDER if key in flat}

    def _resolve(self, source: Schema) -> Schema:
        """Follow references and optional types; what stands at the field wins over what stands at its type."""
        flat = dict(source)
        while "$ref" in flat or "anyOf" in flat:
            if "$ref" in flat:
                inner = self._definitions[flat.pop("$ref").removeprefix("#/$defs/")]
            else:
                choices = [choice for choice in flat.pop("anyOf") if choice != {"type": "null"}]
                if len(choices) != 1:
                    raise ValueError(f"a field has one type or is absent, not one of {len(choices)}")
                inner = choices[0]
            flat = {**inner, **flat}
        return flat
