"""From a Secret to a login. Pure; no error ever carries a value.

Key names are those of the environment variables that people already use: `BREV_API_KEY` with `BREV_ORG_ID`, or
`BREV_API_TOKEN`, which is a refresh credential `session:device` or a raw JWT (good for about an hour).
"""

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime

from controller.brev.errors import OrganizationMismatch
from controller.brev.model import Credential

API_KEY = "BREV_API_KEY"
API_TOKEN = "BREV_API_TOKEN"  # noqa: S105 - the name of a key, not a value
ORG_ID = "BREV_ORG_ID"
API_KEY_PREFIX = "bak-"


class CredentialInvalid(ValueError):  # noqa: N818 - reads as the reason it becomes in a condition
    """The Secret cannot be a login. The text names the key and what is wrong with it."""


def credential_from_secret(data: Mapping[str, bytes], org_id: str) -> Credential:
    """Build the login of an account pinned to `org_id` from its Secret's data (decoded bytes).

    An API key wins over a token. White space around a value is dropped: editors and `echo` add a newline. Raises
    CredentialInvalid, or OrganizationMismatch if the Secret names another organisation than the account. A JWT that has
    expired is returned all the same; its `expires_at` says so.
    """
    key, token, org = (_value(data, name) for name in (API_KEY, API_TOKEN, ORG_ID))
    if not key and not token:
        raise CredentialInvalid(f"the Secret has neither {API_KEY} (with {ORG_ID}) nor {API_TOKEN}")
    if key and not key.startswith(API_KEY_PREFIX):
        raise CredentialInvalid(f"{API_KEY} does not begin with {API_KEY_PREFIX}")
    if key and not org:
        raise CredentialInvalid(f"the Secret has {API_KEY} but not {ORG_ID}, which an API key needs")
    if org and org != org_id:
        raise OrganizationMismatch(f"{ORG_ID} of the Secret is not the organisation of the account, spec.orgID")
    if key:
        return Credential("APIKey", key, org_id)
    return _token(token, org_id)


def _token(token: str, org_id: str) -> Credential:
    if token.startswith(API_KEY_PREFIX):
        raise CredentialInvalid(f"{API_TOKEN} holds an API key; put it under {API_KEY}, with {ORG_ID}")
    if token.count(":") == 1 and all(token.split(":")):
        return Credential("RefreshToken", token, org_id)
    return Credential("JWT", token, org_id, jwt_expiry(token))


def jwt_expiry(token: str) -> datetime:
    """The `exp` of a JWT, without checking its signature: only the service can do that."""
    parts = token.split(".")
    try:
        if len(parts) != 3:
            raise ValueError("not three parts")
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, binascii.Error):
        raise CredentialInvalid(
            f"{API_TOKEN} is neither a refresh credential (two parts with one colon) nor a JWT with an expiry"
        ) from None


def _value(data: Mapping[str, bytes], name: str) -> str:
    try:
        value = data.get(name, b"").decode("ascii").strip()
    except UnicodeDecodeError:
        raise CredentialInvalid(f"{name} has characters that no Brev credential has") from None
    if any(not 0x21 <= ord(character) <= 0x7E for character in value):
        raise CredentialInvalid(f"{name} has white space or control characters inside")
    return value
