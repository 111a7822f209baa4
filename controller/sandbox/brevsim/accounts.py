"""Users, organisations and credentials of the simulated service."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ISSUER = "http://issuer.brevsim.invalid"


class RefusedError(Exception):
    """The service says no: an HTTP status and the text of its error body (texts are ours, nobody measured them)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class User:
    id: str
    username: str
    email: str
    key_serial: int = 0
    """Raised by a key change: machines keep the key that they were created with."""
    admin: bool = False
    finished_onboarding: bool = False

    def private_key(self) -> str:
        """What `GET /api/me/keys` hands out; only its equality matters here."""
        seed = hashlib.sha512(f"{self.id}/{self.key_serial}".encode()).digest()
        text = base64.b64encode(seed * 4).decode()
        lines = "\n".join(text[start : start + 70] for start in range(0, len(text), 70))
        return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----\n"

    def wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "username": self.username,
            "name": self.username.capitalize(),
            "email": self.email,
            "globalUserType": "Admin" if self.admin else "Standard",
            "onboardingData": {"usedCLI": True, "finishedOnboarding": self.finished_onboarding},
            "publicKey": "",
        }


@dataclass(slots=True)
class Organization:
    id: str
    name: str
    members: list[str]
    credits: bool = True
    cloud_credentials: list[str] = field(default_factory=lambda: ["cc-1"])
    workspace_groups: list[str] = field(default_factory=list)
    """Empty: any group of the catalog will do."""

    def wire(self) -> dict[str, Any]:
        credentials = [{"id": each} for each in self.cloud_credentials]
        return {"id": self.id, "name": self.name, "userNetworkId": "", "cloudCredentials": credentials}

    def check_placement(self, body: dict[str, Any]) -> None:
        """What the seeds say of an organisation with several credentials or groups; the text is ours."""
        missing = [
            key
            for key, known in (("cloudCredId", self.cloud_credentials), ("workspaceGroupId", self.workspace_groups))
            if len(known) > 1 and body.get(key) not in known
        ]
        if missing:
            raise RefusedError(400, f"placement error: {' / '.join(missing)} required")


@dataclass(slots=True)
class Accounts:
    """Two accounts; the first is in two organisations. `valid` answers whether a bearer is known and not expired."""

    now: Callable[[], float]
    users: dict[str, User] = field(default_factory=dict)
    organizations: list[Organization] = field(default_factory=list)
    api_keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    """key → (user id, organisation id)"""
    sessions: dict[str, str] = field(default_factory=dict)
    """refresh credential `session:device` → user id"""
    revoked: set[str] = field(default_factory=set)

    @classmethod
    def default(cls, now: Callable[[], float]) -> Accounts:
        accounts = cls(now)
        accounts.users = {
            "user-1": User("user-1", "dev", "dev@example.com"),
            "user-2": User("user-2", "teammate", "teammate@example.com"),
        }
        accounts.organizations = [
            Organization("org-2fSimAcme0000000000000001", "acme", ["user-1", "user-2"]),
            Organization("org-2fSimBeta0000000000000002", "Beta", ["user-1"]),
            Organization("org-2fSimOther000000000000003", "other", ["user-2"]),
        ]
        first, second, third = (organization.id for organization in accounts.organizations)
        accounts.api_keys = {
            "bak-sim-first": ("user-1", first),
            "bak-sim-second-org": ("user-1", second),
            "bak-sim-other-account": ("user-2", third),
        }
        accounts.sessions = {"session-1:device-1": "user-1", "session-2:device-2": "user-2"}
        return accounts

    def change(self, key: str, value: Any) -> None:
        """What a test changes about accounts; ValueError for a key that does not exist."""
        match key:
            case "credits":
                for organization in self.organizations:
                    organization.credits = bool(value.get(organization.id, organization.credits))
            case "placement":
                for organization in self.organizations:
                    if organization.id in value:
                        organization.cloud_credentials = list(value[organization.id]["cloudCredentials"])
                        organization.workspace_groups = list(value[organization.id]["workspaceGroups"])
            case "rotateKey":
                self.users[value].key_serial += 1
            case "newcomer":
                self.users[value].finished_onboarding = False
            case "admin":
                self.users[value].admin = True
            case "revoke":
                self.revoked.add(value)
            case "organizationOrder":
                self.organizations.sort(key=lambda organization: value.index(organization.id))
            case _:
                raise ValueError(f"no such setting: {key}")

    def organizations_of(self, user: User) -> list[Organization]:
        return [organization for organization in self.organizations if user.id in organization.members]

    def jwt(self, user_id: str, lifetime: float, issuer: str = ISSUER) -> str:
        """An unsigned-in-all-but-form token; the real program never checks the signature either."""
        now = int(self.now())
        claims = {
            "iss": issuer,
            "sub": user_id,
            "email": self.users[user_id].email,
            "iat": now - 60,
            "exp": now + lifetime,
        }
        return f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}.c2ln"

    def user_of(self, bearer: str) -> User | None:
        """Who this bearer is; None if unknown, revoked or expired by the world's clock."""
        if bearer in self.revoked:
            return None
        if bearer in self.api_keys:
            return self.users[self.api_keys[bearer][0]]
        claims = jwt_claims(bearer)
        if claims is None or claims.get("exp", 0) <= self.now():
            return None
        return self.users.get(str(claims.get("sub")))


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def jwt_claims(token: str) -> dict[str, Any] | None:
    """The claims of a JWT, not verified; None if the text is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None
