"""Reading whole objects as they come from the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from controller.api.base import WIRE, ApiModel, SpecModel, StatusModel
from controller.api.meta import Kind, ObjectKey, ObjectMeta

SpecT = TypeVar("SpecT", bound=SpecModel)
StatusT = TypeVar("StatusT", bound=StatusModel)


class InvalidSpecError(ValueError):
    """The spec breaks a rule that the CRD of this release enforces at admission.

    `message` is one line with the field's path and no value. `metadata` and `status` are whole, so that an object
    whose spec cannot be read can still be torn down.
    """

    def __init__(self, message: str, metadata: ObjectMeta, status: StatusModel) -> None:
        super().__init__(message)
        self.message = message
        self.metadata = metadata
        self.status = status


class Resource(ApiModel, Generic[SpecT, StatusT]):
    """An object of one of our kinds."""

    model_config = ConfigDict(frozen=False)

    kind: ClassVar[Kind]
    metadata: ObjectMeta
    spec: SpecT
    status: StatusT = Field()

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        """Read an object of the API server. InvalidSpecError when only the spec is wrong; ValidationError (without
        values) when metadata or status are, which the CRD makes impossible."""
        metadata = ObjectMeta.model_validate(body.get("metadata") or {})
        status: StatusModel = cls._part("status").model_validate(body.get("status") or {}, context=WIRE)
        spec_model: type[SpecModel] = cls._part("spec")
        try:
            spec = spec_model.model_validate(body.get("spec") or {}, context=WIRE)
        except ValidationError as error:
            raise InvalidSpecError(explain(error, "spec"), metadata, status) from None
        return cls.model_validate({"metadata": metadata, "spec": spec, "status": status})

    @property
    def key(self) -> ObjectKey:
        """The key under which queue, cache and logs know the object."""
        namespace = self.metadata.namespace if self.kind.namespaced else ""
        return ObjectKey(self.kind, namespace, self.metadata.name)

    @classmethod
    def _part(cls, name: str) -> Any:
        return cls.model_fields[name].annotation


def explain(error: ValidationError, root: str) -> str:
    """All problems in one line, each with its path, none with a value: `spec.env[2].value: …`."""
    return "; ".join(_problem(root, item["loc"], item["msg"]) for item in error.errors(include_input=False)[:5])


def _problem(root: str, location: tuple[int | str, ...], message: str) -> str:
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return f"{path}: {message.removeprefix('Value error, ')}"
