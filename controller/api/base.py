"""What every API model shares: JSON names, leniency towards newer fields, and errors that never echo a value."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

_ACRONYMS = {"id": "ID", "usd": "USD", "gpu": "GPU", "vram": "VRAM"}

WIRE = {"wire": True}
"""Validation context of everything that came from the API server: money must be a string there, never micro-dollars."""


def camel(name: str) -> str:
    """`org_id` -> `orgID`: camelCase with each acronym in one case, lower case in first place."""
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


class ApiModel(BaseModel):
    """Base of all models.

    Unknown fields are ignored: a CRD that is newer than the operator fills in defaults this release does not know, and
    that must not turn every running object invalid. Misspelt fields are the API server's to refuse. Inputs are hidden
    in errors because a value may be a secret.
    """

    model_config = ConfigDict(
        alias_generator=camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="ignore",
        hide_input_in_errors=True,
    )


class SpecModel(ApiModel):
    """What the user wrote: never changed by the operator."""

    model_config = ConfigDict(frozen=True)


class StatusModel(ApiModel):
    """What the operator writes. Texts and lists are cut to the schema's limits when dumped, so no write is refused."""


ModelT = TypeVar("ModelT", bound=ApiModel)


def to_dict(model: ApiModel) -> dict[str, Any]:
    """JSON-ready dictionary under the API's names, absent fields left out."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def status_dict(status: StatusModel) -> dict[str, Any]:
    """The status as it is patched; always within the CRD's bounds."""
    return to_dict(status)


def spec_dict(spec: SpecModel) -> dict[str, Any]:
    """A spec as it is posted, for instance the BrevInstance of a job from its template."""
    return to_dict(spec)
