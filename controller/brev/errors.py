"""What a call of the `brev` CLI can end in, besides success.

Every error carries one clean line for people (`message`) and a longer, masked and bounded text (`detail`).
`ambiguous` says whether the call may have had its effect although it failed: after an ambiguous `create` only the
inventory tells whether a machine exists (https://github.com/brevdev/brev-cli/issues/382).
"""

# ruff: noqa: N818 - the names say what happened; each is an error by its base.

from typing import ClassVar


class BrevError(Exception):
    """Base of all failures of the CLI layer.

    `stdout` is what the process had written before it failed (decoded, capped); the caller of `exec` may still find
    its sentinel there. `returncode` is None where no process ended by itself.
    """

    ambiguous: ClassVar[bool] = False

    def __init__(self, message: str, *, detail: str = "", stdout: str = "", returncode: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.stdout = stdout
        self.returncode = returncode


class CliMissing(BrevError):
    """There is no executable `brev`, or it cannot be started."""


class CliUnsupported(BrevError):
    """The release is too old, unnamed, lacks what the credential needs, or may not run in this environment."""


class PlacementUnsupported(BrevError):
    """The account names a cloud credential or workspace group, and this release's `create` takes neither."""


class PlacementRequired(BrevError):
    """The service wants to be told a cloud credential or workspace group. Nothing was created.

    `cloud_cred_ids` and `workspace_group_ids` are those that the login was seen to know; empty where the CLI says none.
    """

    cloud_cred_ids: tuple[str, ...] = ()
    workspace_group_ids: tuple[str, ...] = ()


class OrganizationMismatch(BrevError):
    """The login acts on another organisation than the one the account is pinned to."""


class AuthRequired(BrevError):
    """The service, or the CLI before asking it, did not accept the credential."""


class InstanceNotFound(BrevError):
    """No machine of that name or id is in the organisation, as far as the CLI sees."""


class UnknownType(BrevError):
    """The machine type is not in the catalog (said by v0.6.327 and later only)."""


class NoCapacity(BrevError):
    """The type exists and cannot be had now."""


class DuplicateName(BrevError):
    """A machine of that name exists: perhaps our own, from a call whose answer was lost."""


class OutOfCredits(BrevError):
    """The organisation has no credits left."""


class Refused(BrevError):
    """The service said no for another reason: a quota, a rule, a permission."""


class HostUnreachable(BrevError):
    """The machine did not answer by SSH, or its address is not known here yet."""


class NotRunning(BrevError):
    """The machine is not in state RUNNING; nothing was done to it."""


class CallTimeout(BrevError):
    """The call did not end in its time; its process group is gone."""

    ambiguous = True


class Unparsable(BrevError):
    """The process succeeded and its output is not what this release prints. Never to be read as an empty answer."""

    ambiguous = True


class CliPanic(BrevError):
    """The CLI itself crashed (Go panic, exit code 2)."""

    ambiguous = True


class UnknownFailure(BrevError):
    """A failure that no rule knows, a broken connection or a server error."""

    ambiguous = True
