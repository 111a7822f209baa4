"""BrevAccount: one Brev login, at cluster scope, with its Secret beside the operator."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from controller.api.base import SpecModel, StatusModel
from controller.api.conditions import Conditions
from controller.api.fields import Generation, NamespaceName, ObjectName, Text, Timestamp, known, list_type, rule
from controller.api.meta import Kind
from controller.api.resource import Resource
from controller.api.selector import LabelSelector


class AccountPhase(StrEnum):
    """One word for people; derived from the conditions and never read by code."""

    PENDING = "Pending"
    READY = "Ready"
    NOT_READY = "NotReady"
    DELETING = "Deleting"


class CredentialType(StrEnum):
    """Which kind of credential the account's Secret holds."""

    API_KEY = "APIKey"
    REFRESH_TOKEN = "RefreshToken"  # noqa: S105 - the name of a kind, no token
    JWT = "JWT"


class AllowedNamespaces(SpecModel):
    """Which namespaces may use the account."""

    names: Annotated[list[NamespaceName], Field(max_length=256, json_schema_extra=list_type(unique=True))] = Field(
        default_factory=list, description="Names of namespaces. Default: none."
    )
    selector: LabelSelector | None = Field(
        default=None,
        description="Namespaces with these labels may use it too; an empty selector is all of them. Whoever can label "
        "namespaces can then use the account. Default: none.",
    )

    def need_labels(self, namespace: str) -> bool:
        """Whether only the labels of the namespace can tell."""
        return namespace not in self.names and self.selector is not None

    def allow(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether objects of that namespace may use the account."""
        return namespace in self.names or (self.selector is not None and self.selector.matches(labels))


class BrevAccountSpec(SpecModel):
    """One Brev login and who may use it."""

    secret_name: ObjectName = Field(
        description="Name of the Secret in the operator's own namespace. Keys: `BREV_API_KEY` and `BREV_ORG_ID`, or "
        "`BREV_API_TOKEN` (a refresh token; a raw JWT dies in about an hour). Required.",
    )
    org_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            json_schema_extra={
                "x-kubernetes-validations": [
                    rule(
                        "self == oldSelf",
                        "orgID is immutable, because machines of the old organization would be lost from sight; "
                        "create another BrevAccount",
                    )
                ]
            },
        ),
    ] = Field(
        description="Id of the Brev organization; verified before machines are created or deleted. Required, immutable."
    )
    allowed_namespaces: AllowedNamespaces | None = Field(
        default=None, description="Namespaces whose objects may use this account. Default: none."
    )

    allow_short_session: bool = Field(
        default=False,
        description="Whether a raw JWT may create machines. It dies in about an hour and cannot be renewed: "
        "from then on nothing can be deleted until somebody puts a new one into the Secret. Default: false.",
    )

    def allows(self, namespace: str, labels: Mapping[str, str] = MappingProxyType({})) -> bool:
        """Whether objects of that namespace may use the account; nobody may where nothing is said."""
        return self.allowed_namespaces is not None and self.allowed_namespaces.allow(namespace, labels)

    def needs_labels(self, namespace: str) -> bool:
        """Whether only the labels of the namespace can tell."""
        return self.allowed_namespaces is not None and self.allowed_namespaces.need_labels(namespace)


class AccountStatus(StatusModel):
    """What the operator knows of the account."""

    observed_generation: Generation = Field(default=0, description="The `metadata.generation` last acted on.")
    phase: Annotated[AccountPhase | None, known(AccountPhase)] = Field(
        default=None, description="One word for people; programs read the conditions."
    )
    conditions: Conditions = Field(
        default_factory=list,
        description="`Ready`, `Authenticated`, `CLISupported`, `InventoryFresh`, `Reconciling`, `Stalled`.",
    )
    served_by: Annotated[str, Text(128)] | None = Field(
        default=None,
        description="The operator that serves the account, as `clusterID/namespace`. Others leave it and its objects "
        "alone, unless their settings name the account.",
    )
    cli_version: Annotated[str, Text(64)] | None = Field(default=None, description="Version of the brev CLI in use.")
    credential_type: Annotated[CredentialType | None, known(CredentialType)] = Field(
        default=None, description="Kind of the credential in the Secret."
    )
    credential_expires_at: Timestamp | None = Field(
        default=None, description="When the credential dies; known for a raw JWT only."
    )


class BrevAccount(Resource[BrevAccountSpec, AccountStatus]):
    """One Brev login that BrevInstances and BrevJobs of the allowed namespaces can use."""

    model_config = ConfigDict(title="BrevAccount")
    kind: ClassVar[Kind] = Kind.ACCOUNT
    spec: BrevAccountSpec
    status: AccountStatus = Field(default_factory=AccountStatus)
