"""What goes wrong below, in the stable reasons that people see."""

from controller.api.reasons import Reason
from controller.brev import errors as brev
from controller.brev.credentials import CredentialInvalid
from controller.decide.types import Failure
from controller.kube import errors as kube

_REASONS: tuple[tuple[type[brev.BrevError], Reason], ...] = (
    (brev.CliMissing, Reason.CLI_MISSING),
    (brev.CliUnsupported, Reason.CLI_UNSUPPORTED),
    (brev.OrganizationMismatch, Reason.ORGANIZATION_MISMATCH),
    (brev.AuthRequired, Reason.AUTHENTICATION_FAILED),
    (brev.InstanceNotFound, Reason.MACHINE_VANISHED),
    (brev.UnknownType, Reason.UNKNOWN_MACHINE_TYPE),
    (brev.NoCapacity, Reason.NO_CAPACITY),
    (brev.OutOfCredits, Reason.OUT_OF_CREDITS),
    (brev.Refused, Reason.CREATE_REFUSED),
    (brev.HostUnreachable, Reason.HOST_UNREACHABLE),
    (brev.NotRunning, Reason.HOST_UNREACHABLE),
    (brev.CallTimeout, Reason.API_UNAVAILABLE),
)


def brev_failure(error: brev.BrevError) -> Failure:
    """A failed CLI call. A duplicate name is ambiguous: it is our own machine, of a call whose answer was lost."""
    ambiguous = error.ambiguous or isinstance(error, brev.DuplicateName)
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return Failure(reason, _sentence(error.message), ambiguous)
    return Failure(Reason.CLI_FAILED, _sentence(error.message), ambiguous)


def translate(error: BaseException) -> Failure | None:
    """The Failure for every error that the layers below promise; None for one that nobody promised."""
    if isinstance(error, brev.BrevError):
        return brev_failure(error)
    if isinstance(error, CredentialInvalid):
        return Failure(Reason.CREDENTIAL_INVALID, _sentence(str(error)))
    if isinstance(error, kube.Forbidden):
        return Failure(Reason.FORBIDDEN, _sentence(error.message))
    if isinstance(error, kube.KubeError):
        return Failure(Reason.API_UNAVAILABLE, _sentence(error.message), ambiguous=True)
    if isinstance(error, OSError):
        # It may have struck after the call had its effect.
        message = _sentence(f"The operator's own disk or process table failed: {error}")
        return Failure(Reason.CLI_FAILED, message, ambiguous=True)
    return None


def _sentence(text: str) -> str:
    text = text.strip()
    if not text:
        return "No reason was given."
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else f"{text}."
