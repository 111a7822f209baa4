"""Every stable reason, in families that a retry rule or an alert can be written on."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """Who can do something about it. `Progress` is for reasons that are no fault."""

    USER = "User"
    INFRA = "Infra"
    CAPACITY = "Capacity"
    BUDGET = "Budget"
    OPERATOR = "Operator"
    PROGRESS = "Progress"


_OPERATOR, _USER, _CAPACITY, _INFRA, _PROGRESS = (
    Family.OPERATOR,
    Family.USER,
    Family.CAPACITY,
    Family.INFRA,
    Family.PROGRESS,
)


class Reason(StrEnum):
    """A reason as it stands in conditions, attempts, rejected offers and Events; its value never changes."""

    family: Family
    meaning: str

    def __new__(cls, value: str, family: Family = Family.PROGRESS, meaning: str = "") -> Reason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.family = family
        member.meaning = meaning
        return member

    # Operator: whoever runs the operator has to act.
    CLI_MISSING = "CLIMissing", _OPERATOR, "No brev executable was found where the operator runs."
    CLI_UNSUPPORTED = "CLIUnsupported", _OPERATOR, "The brev executable is a release the operator does not support."
    CLI_FAILED = "CLIFailed", _OPERATOR, "The brev executable failed in a way the operator does not know."
    CREDENTIAL_SECRET_MISSING = (
        "CredentialSecretMissing",
        _OPERATOR,
        "The Secret of the account does not exist in the operator's namespace.",
    )
    CREDENTIAL_INVALID = "CredentialInvalid", _OPERATOR, "The Secret of the account lacks keys or has malformed ones."
    AUTHENTICATION_FAILED = "AuthenticationFailed", _OPERATOR, "Brev refused the account's credential."
    ORGANIZATION_MISMATCH = (
        "OrganizationMismatch",
        _OPERATOR,
        "The credential belongs to another organization than the account's orgID.",
    )
    INVENTORY_STALE = (
        "InventoryStale",
        _OPERATOR,
        "The list of machines could not be read lately; nothing is concluded.",
    )
    ACCOUNT_NOT_READY = "AccountNotReady", _OPERATOR, "The account is not ready; its own conditions say why."
    FORBIDDEN = "Forbidden", _OPERATOR, "The API server refused the operator something its role should allow."
    API_UNAVAILABLE = "APIUnavailable", _OPERATOR, "Brev's API could not be reached or answered with an error."

    SHORT_SESSION = (
        "ShortSession",
        _OPERATOR,
        "The login is a raw JWT, which cannot be renewed; machines are created only with allowShortSession.",
    )
    CREDENTIAL_EXPIRING = (
        "CredentialExpiring",
        _OPERATOR,
        "The JWT of the account dies soon; put a new login in its Secret.",
    )

    # User: the author of the object has to act.
    ACCOUNT_NOT_FOUND = "AccountNotFound", _USER, "There is no BrevAccount of that name."
    ACCOUNT_DELETING = "AccountDeleting", _USER, "The BrevAccount is being deleted; it gives no new machines."
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed", _USER, "The account does not allow this namespace."
    INVALID_SPEC = "InvalidSpec", _USER, "The spec breaks a rule of the API; the message names the field."
    SPEC_CHANGED = "SpecChanged", _USER, "The spec was changed after the run began, although it is immutable."
    CONFIG_MAP_MISSING = "ConfigMapMissing", _USER, "A referenced ConfigMap does not exist."
    CONFIG_MAP_KEY_MISSING = "ConfigMapKeyMissing", _USER, "A referenced ConfigMap has no such key."
    SECRET_MISSING = "SecretMissing", _USER, "A referenced Secret does not exist."
    SECRET_KEY_MISSING = "SecretKeyMissing", _USER, "A referenced Secret has no such key."
    SECRET_FORBIDDEN = "SecretForbidden", _USER, "The operator may not read Secrets in this namespace."
    UNKNOWN_MACHINE_TYPE = "UnknownMachineType", _USER, "No such machine type is in the catalog."
    PRICE_ABOVE_MAXIMUM = "PriceAboveMaximum", _USER, "The price is above the candidate's maxPricePerHourUSD."
    PRICE_UNKNOWN = "PriceUnknown", _USER, "The catalog has no price for this machine type."
    NON_ZERO_EXIT = "NonZeroExit", _USER, "The command ended with an exit code other than zero."
    KILLED_BY_SIGNAL = "KilledBySignal", _USER, "The command was ended by a signal."
    RUN_DEADLINE_EXCEEDED = "RunDeadlineExceeded", _USER, "The command ran longer than deadlines.run."
    STARTUP_DEADLINE_EXCEEDED = (
        "StartupDeadlineExceeded",
        _USER,
        "The script did not run within deadlines.startup of the job's creation.",
    )
    INSTANCE_NAME_CONFLICT = (
        "InstanceNameConflict",
        _USER,
        "Another object has the name of the BrevInstance that this job needs.",
    )
    INTERPRETER_MISSING = (
        "InterpreterMissing",
        _USER,
        "The script never ran: its interpreter or its files could not be had on the machine.",
    )

    # Capacity: waiting or another candidate helps.
    NO_CAPACITY = "NoCapacity", _CAPACITY, "The provider has no machine of this type now."
    OUT_OF_CREDITS = "OutOfCredits", _CAPACITY, "The organization has no credits left."
    PROVISION_DEADLINE_EXCEEDED = (
        "ProvisionDeadlineExceeded",
        _CAPACITY,
        "The machine was not running within deadlines.provision.",
    )
    CREATE_REFUSED = (
        "CreateRefused",
        _CAPACITY,
        "Brev refused the machine, for a quota or a rule of its own; the message says why.",
    )

    # Infra: the machine or the way to it is at fault.
    MACHINE_VANISHED = "MachineVanished", _INFRA, "The machine is gone although the operator did not delete it."
    MACHINE_FAILED = "MachineFailed", _INFRA, "Brev reports the machine as failed."
    MACHINE_STOPPED = "MachineStopped", _INFRA, "The machine was stopped from outside; the operator does not wake it."
    HOST_UNREACHABLE = "HostUnreachable", _INFRA, "The machine runs but does not answer over SSH."
    READY_DEADLINE_EXCEEDED = (
        "ReadyDeadlineExceeded",
        _INFRA,
        "The machine ran but did not answer within deadlines.ready.",
    )
    UNREACHABLE = "Unreachable", _INFRA, "The machine has not answered for deadlines.unreachable."
    RUN_LOST = "RunLost", _INFRA, "The run ended without a trace of how: the machine rebooted or its files are gone."
    INSTANCE_DELETED = "InstanceDeleted", _INFRA, "The BrevInstance of the job was deleted by somebody else."
    DELIVERY_FAILED = "DeliveryFailed", _INFRA, "The bundle could not be copied to the machine."

    # Progress: nothing is wrong.
    PENDING = "Pending", _PROGRESS, "Nothing has been done yet."
    AWAITING_ACCOUNT = "AwaitingAccount", _PROGRESS, "Waiting for the account to become ready."
    ACCEPTED = "Accepted", _PROGRESS, "The spec is valid and the account allows it."
    CREATING = "Creating", _PROGRESS, "The machine is being asked for."
    DEPLOYING = "Deploying", _PROGRESS, "The provider is making the machine."
    PROVISIONED = "Provisioned", _PROGRESS, "The machine exists and runs."
    BOOTING = "Booting", _PROGRESS, "The machine is starting."
    REACHABLE = "Reachable", _PROGRESS, "The machine answered a probe."
    READY = "Ready", _PROGRESS, "Everything is as asked."
    AUTHENTICATED = "Authenticated", _PROGRESS, "Brev accepted the credential for the pinned organization."
    CLI_SUPPORTED = "CLISupported", _PROGRESS, "The brev executable is a supported release."
    INVENTORY_FRESH = "InventoryFresh", _PROGRESS, "The list of machines was read lately."
    CHECKING = "Checking", _PROGRESS, "The first check has not ended yet."
    AWAITING_INSTANCE = "AwaitingInstance", _PROGRESS, "Waiting for the machine of the job to become ready."
    DELIVERING = "Delivering", _PROGRESS, "Script, environment and files are being copied to the machine."
    RUNNING = "Running", _PROGRESS, "The script runs."
    STOPPING = "Stopping", _PROGRESS, "The script is being stopped."
    TEARING_DOWN = "TearingDown", _PROGRESS, "The run is over; the machine is being deleted."
    RELEASED = "Released", _PROGRESS, "The machine is gone: two lists asked for after its deletion do not have it."
    DELETING = "Deleting", _PROGRESS, "The object is being deleted; waiting until its machine is gone."
    SUCCEEDED = "Succeeded", _PROGRESS, "The script ended with exit code 0."
    COMPLETED = "Completed", _PROGRESS, "The work is done and the machine is gone."
