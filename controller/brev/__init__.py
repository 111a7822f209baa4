"""The operator's layer over the real `brev` executable: processes, HOMEs, parsing, classified errors."""

from controller.brev.credentials import CredentialInvalid, credential_from_secret
from controller.brev.homes import Homes
from controller.brev.model import Credential, MachineRow, OfferRow, Organization, Placement
from controller.brev.session import BrevSession
from controller.brev.slots import Slots

__all__ = [
    "BrevSession",
    "Credential",
    "CredentialInvalid",
    "Homes",
    "MachineRow",
    "OfferRow",
    "Organization",
    "Placement",
    "Slots",
    "credential_from_secret",
]
