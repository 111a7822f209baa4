"""Names of the API group and of its kinds, object keys, and the part of Kubernetes metadata the operator reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from controller.api.base import ApiModel

GROUP = "brev.nvidia.com"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = f"{GROUP}/machine"


class Kind(StrEnum):
    """The kinds this operator serves."""

    ACCOUNT = "BrevAccount"
    INSTANCE = "BrevInstance"
    JOB = "BrevJob"

    @property
    def plural(self) -> str:
        """The resource name in URLs and RBAC rules."""
        return f"{self.value.lower()}s"

    @property
    def namespaced(self) -> bool:
        """False for kinds that live at cluster scope."""
        return self is not Kind.ACCOUNT


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """What the queue, the cache and the logs call an object; `namespace` is empty at cluster scope."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        """`BrevJob/team-a/iris`, or `BrevAccount/default` at cluster scope."""
        return "/".join(part for part in (self.kind.value, self.namespace, self.name) if part)


class OwnerReference(ApiModel):
    """A Kubernetes owner reference (meta/v1)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiModel):
    """The metadata fields that the operator reads; everything else is ignored."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the deletion of the object; true until its last finalizer goes."""
        return self.deletion_timestamp is not None
