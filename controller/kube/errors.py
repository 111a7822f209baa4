# ruff: noqa: N818 (an error type reads as what happened, `except Conflict`, as in the API's own vocabulary)
"""What can go wrong with a Kubernetes API call, as types that a caller can act on.

The mapping follows the Status object that the API server sends with every refusal
(https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/): its `reason` is finer than the HTTP
code, for example where one 409 means a stale resourceVersion and another one a taken name.
"""

from __future__ import annotations

import json
from typing import Any

MESSAGE_LIMIT = 1024
"""Characters of an API message that are kept; validation errors repeat the offending value and can be long."""


class KubeError(Exception):
    """A call that failed for good: retries, where they make sense, are already behind it.

    `message` is one clean line. `code` is the HTTP status, 0 when no answer came. `reason` is the API's own word
    (`Conflict`, `NotFound`, …) and `causes` the machine-readable causes (`NamespaceTerminating`, `FieldValueInvalid`).
    """

    def __init__(self, message: str, *, code: int = 0, reason: str = "", causes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.causes = causes


class Conflict(KubeError):
    """The object changed since the resourceVersion that the write was based on: read again and decide again."""


class NotFound(KubeError):
    """The object does not exist (any more), or its kind is not served: the CRDs are missing."""


class AlreadyExists(KubeError):
    """The name is taken. After a retried create it can be the caller's own object: compare before giving up."""


class Forbidden(KubeError):
    """RBAC, admission or a terminating namespace says no."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether the refusal only means that the namespace is being deleted."""
        return "NamespaceTerminating" in self.causes


class Unauthorized(KubeError):
    """The credential is not accepted, also after it was read again."""


class Invalid(KubeError):
    """The API server understood the request and refuses its content; sending it again cannot help."""


class Expired(KubeError):
    """A continue token or resourceVersion is too old (410). `list` handles it; nobody else should see it."""


class Unavailable(KubeError):
    """No usable answer: unreachable, time-out, 429 or 5xx after all retries. The outcome of a write is unknown."""


_BY_REASON: dict[str, type[KubeError]] = {
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "NotFound": NotFound,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "Invalid": Invalid,
    "BadRequest": Invalid,
    "Expired": Expired,
    "Gone": Expired,
}

_BY_CODE: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def error_from_response(code: int, body: bytes) -> KubeError:
    """The typed error for an HTTP answer that is not 2xx. `body` may be anything, a proxy's HTML page included."""
    status = _status_object(body)
    reason = _text(status.get("reason"))
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    words = tuple(_text(cause.get("reason")) for cause in causes or () if isinstance(cause, dict))
    message = clean_message(_text(status.get("message"))) or f"the API server answered HTTP {code}"
    if code == 429 or code >= 500:
        return Unavailable(message, code=code, reason=reason, causes=words)
    known = _BY_REASON.get(reason) or _BY_CODE.get(code) or KubeError
    return known(message, code=code, reason=reason, causes=words)


def clean_message(text: str) -> str:
    """One printable line of at most `MESSAGE_LIMIT` characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
