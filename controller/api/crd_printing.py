"""What `kubectl get` shows of each kind, and what it can filter by."""

from __future__ import annotations

from dataclasses import dataclass

from controller.api.meta import Kind


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; those that are `wide` appear with `-o wide` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Printing:
    """Short name, columns and selectable fields of one kind."""

    short_name: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...]


def _ready(part: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{part}'


_AGE = Column("Age", ".metadata.creationTimestamp", "Time since the object was created.", type="date")
_REASON = Column("Reason", _ready("reason"), "Reason of the condition Ready.", wide=True)
_MESSAGE = Column("Message", _ready("message"), "Message of the condition Ready.", wide=True)
_COST = Column("Cost", ".status.cost.accruedUSD", "Cost so far, in US dollars.")
_PHASE = Column("Phase", ".status.phase", "Where the object is in its life.")

PRINTING = {
    Kind.ACCOUNT: Printing(
        short_name="bacct",
        columns=(
            Column("Ready", _ready("status"), "Whether machines can be created with this account."),
            Column("Org", ".spec.orgID", "Brev organization."),
            Column("Credential", ".status.credentialType", "Kind of the credential."),
            Column("CLI", ".status.cliVersion", "Version of the brev CLI."),
            _AGE,
            _REASON,
            _MESSAGE,
        ),
        selectable=(".status.phase",),
    ),
    Kind.INSTANCE: Printing(
        short_name="binst",
        columns=(
            _PHASE,
            Column("Type", ".status.offer.type", "Machine type."),
            Column("Price/h", ".status.offer.pricePerHourUSD", "Price in US dollars an hour."),
            Column("Ready", _ready("status"), "Whether the machine answers."),
            _COST,
            _AGE,
            Column("Brev Name", ".status.brevName", "Name of the machine at Brev.", wide=True),
            Column("Brev ID", ".status.brevID", "Id of the machine at Brev.", wide=True),
            _REASON,
            _MESSAGE,
        ),
        selectable=(".spec.accountName", ".status.phase", ".status.brevName"),
    ),
    Kind.JOB: Printing(
        short_name="bjob",
        columns=(
            _PHASE,
            Column("Machine", ".status.machine.type", "Machine type."),
            Column("Price/h", ".status.machine.pricePerHourUSD", "Price in US dollars an hour."),
            Column("Exit", ".status.attempts[-1:].exitCode", "Exit code of the last attempt.", type="integer"),
            _COST,
            _AGE,
            Column("Instance", ".status.instance.name", "BrevInstance of the job.", wide=True),
            _REASON,
            _MESSAGE,
        ),
        selectable=(".status.phase", ".status.instance.name", ".spec.instanceTemplate.spec.accountName"),
    ),
}
