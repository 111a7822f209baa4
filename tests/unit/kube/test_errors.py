from __future__ import annotations

import json

import pytest

from controller.kube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Unauthorized,
    Unavailable,
    clean_message,
    error_from_response,
)


def _body(reason: str, message: str = "no") -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (404, "NotFound", NotFound),
        (403, "Forbidden", Forbidden),
        (401, "Unauthorized", Unauthorized),
        (422, "Invalid", Invalid),
        (400, "BadRequest", Invalid),
        (410, "Expired", Expired),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (504, "Timeout", Unavailable),
        (418, "Teapot", KubeError),
    ],
)
def test_the_reason_of_the_status_object_picks_the_type(code: int, reason: str, expected: type[KubeError]) -> None:
    error = error_from_response(code, _body(reason))
    assert type(error) is expected
    assert (error.code, error.reason) == (code, reason)


@pytest.mark.parametrize(
    "body", [b"", b"<html>bad gateway</html>", b"[]", b"\xff\xfe", b'{"reason": 7, "details": {"causes": [1]}}']
)
def test_an_answer_that_is_no_status_object_falls_back_to_the_http_code(body: bytes) -> None:
    assert type(error_from_response(404, body)) is NotFound
    assert type(error_from_response(502, body)) is Unavailable
    assert "502" in error_from_response(502, body).message


def test_a_message_becomes_one_bounded_printable_line() -> None:
    error = error_from_response(422, _body("Invalid", "spec.\x1b[31menv\n\tbad\r\n" + "x" * 5000))
    assert "\n" not in error.message
    assert "\x1b" not in error.message
    assert len(error.message) == 1024
    assert clean_message(" a\n b ") == "a b"


def test_a_refusal_in_a_dying_namespace_says_so() -> None:
    body = {"reason": "Forbidden", "message": "m", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}
    error = error_from_response(403, json.dumps(body).encode())
    assert isinstance(error, Forbidden)
    assert error.namespace_terminating
    plain = error_from_response(403, _body("Forbidden"))
    assert isinstance(plain, Forbidden)
    assert not plain.namespace_terminating
