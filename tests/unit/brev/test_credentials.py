"""From a Secret to a login, and what errors may say."""

import base64
import json
from datetime import UTC, datetime

import pytest

from controller.brev.credentials import CredentialInvalid, credential_from_secret
from controller.brev.errors import OrganizationMismatch
from controller.brev.model import Credential


def jwt(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{payload}.c2ln"


JWT = jwt({"exp": 1_800_000_000, "sub": "x"})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"BREV_API_KEY": b"bak-x\n", "BREV_ORG_ID": b" org-a\r\n"}, Credential("APIKey", "bak-x", "org-a")),
        ({"BREV_API_TOKEN": b"session:device\n"}, Credential("RefreshToken", "session:device", "org-a")),
        (
            {"BREV_API_TOKEN": JWT.encode()},
            Credential("JWT", JWT, "org-a", datetime.fromtimestamp(1_800_000_000, UTC)),
        ),
        (
            {"BREV_API_TOKEN": b"a:b", "BREV_API_KEY": b"bak-x", "BREV_ORG_ID": b"org-a"},
            Credential("APIKey", "bak-x", "org-a"),
        ),
        ({"BREV_API_TOKEN": b"a:b", "BREV_API_KEY": b"\n"}, Credential("RefreshToken", "a:b", "org-a")),
        ({"BREV_API_TOKEN": b"a:b", "BREV_ORG_ID": b"org-a"}, Credential("RefreshToken", "a:b", "org-a")),
    ],
)
def test_a_secret_becomes_a_login(data: dict[str, bytes], expected: Credential) -> None:
    assert credential_from_secret(data, "org-a") == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "neither BREV_API_KEY .* nor BREV_API_TOKEN"),
        ({"BREV_ORG_ID": b"org-a"}, "neither BREV_API_KEY"),
        ({"BREV_API_KEY": b"bak-verysecret"}, "but not BREV_ORG_ID"),
        ({"BREV_API_KEY": b"verysecret", "BREV_ORG_ID": b"org-a"}, "BREV_API_KEY does not begin with bak-"),
        ({"BREV_API_TOKEN": b"bak-verysecret"}, "put it under BREV_API_KEY"),
        ({"BREV_API_TOKEN": b"verysecret"}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": b"verysecret:"}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": b"very:sec:ret"}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": b"very secret:x"}, "BREV_API_TOKEN has white space"),
        ({"BREV_API_TOKEN": b"verysecret\nx:y"}, "BREV_API_TOKEN has white space"),
        ({"BREV_API_TOKEN": "verysécret:y".encode()}, "BREV_API_TOKEN has characters"),
        ({"BREV_API_TOKEN": b"verysecret\xff:y"}, "BREV_API_TOKEN has characters"),
        ({"BREV_API_TOKEN": b"very.secret.x"}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": jwt({"sub": "verysecret"}).encode()}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": jwt({"exp": "soon"}).encode()}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": jwt({"exp": 1e300}).encode()}, "BREV_API_TOKEN is neither"),
        ({"BREV_API_TOKEN": jwt(["exp"]).encode()}, "BREV_API_TOKEN is neither"),
    ],
)
def test_a_bad_secret_names_the_key_and_never_the_value(data: dict[str, bytes], reason: str) -> None:
    with pytest.raises(CredentialInvalid, match=reason) as caught:
        credential_from_secret(data, "org-a")
    assert "secret" not in str(caught.value).replace("the Secret", "")
    assert caught.value.__cause__ is None


def test_another_organisation_than_the_accounts_is_a_mismatch() -> None:
    with pytest.raises(OrganizationMismatch, match=r"spec\.orgID"):
        credential_from_secret({"BREV_API_KEY": b"bak-x", "BREV_ORG_ID": b"org-b"}, "org-a")
    with pytest.raises(OrganizationMismatch):
        credential_from_secret({"BREV_API_TOKEN": b"a:b", "BREV_ORG_ID": b"org-b"}, "org-a")


def test_the_repr_of_a_credential_has_no_secret() -> None:
    assert "verysecret" not in repr(Credential("APIKey", "bak-verysecret", "org-a"))
