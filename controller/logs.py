"""Log lines: fixed fields, the object they are about, and no secret in any of them.

A worker wraps each pass in `log_context`; the context travels in a `ContextVar`, so lines of helpers, and of background
operations started in that pass, carry it without anybody passing it on. Values given to `register_secret` are replaced
in every field of every line, in exception texts too.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TextIO

from controller.api.meta import ObjectKey

MASK = "****"
SHORTEST_SECRET = 6
"""Characters a value must have to be masked: shorter ones occur in innocent text and would only garble it."""

CONTEXT_FIELDS = ("kind", "namespace", "name", "uid", "account")
NOISY = {
    "kopf.objects": logging.WARNING,
    "kopf.activities": logging.WARNING,
    "kopf._core.engines.activities": logging.WARNING,
    "kopf._core.reactor.running": logging.ERROR,
    "aiohttp.access": logging.WARNING,
}
"""Loggers that say something for each event or request, and the level from which they are heard."""

_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))
_secrets: set[str] = set()
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: "\t", 10: "\n    "}
_standard = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "k8s_ref", "k8s_skip"}


@contextmanager
def log_context(key: ObjectKey | None = None, *, uid: str = "", account: str = "") -> Iterator[None]:
    """Name the object that the lines inside are about; nested contexts add to the outer one.

    Tasks started inside inherit the context and keep it after the block has ended.
    """
    added = {"uid": uid, "account": account}
    if key is not None:
        added |= {"kind": str(key.kind), "namespace": key.namespace, "name": key.name}
    token = _context.set({**_context.get(), **{field: value for field, value in added.items() if value}})
    try:
        yield
    finally:
        _context.reset(token)


def register_secret(value: str | bytes) -> None:
    """Mask this value, and its JSON-escaped form, in everything logged from now on. Idempotent, and for good."""
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
    for variant in {text, text.strip(), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}:
        if len(variant) >= SHORTEST_SECRET:
            _secrets.add(variant)


def mask(text: str) -> str:
    """The text without any registered secret; for whatever else leaves the process (events, conditions)."""
    found = [secret for secret in _secrets if secret in text]
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the object's fields, then whatever `extra=` adds.

    What some readers take for the end of a line, and surrogates, which no stream takes, are written as JSON escapes.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = json.dumps(_fields(record, self), ensure_ascii=False).replace("\u2028", "\\u2028")
        return line.replace("\u2029", "\\u2029").encode("utf-8", "backslashreplace").decode()


class TextFormatter(logging.Formatter):
    """One line for people: time, level, object, message, extras.

    Further lines of a message are indented and control characters shown as escapes, so that no machine's output can
    pass for a line of the operator's or paint the terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        values = _fields(record, self)
        where = "/".join(values.pop(field) for field in ("kind", "namespace", "name") if field in values)
        head = f"{values.pop('time')} {values.pop('level'):<7} {where or values['logger']}: {values.pop('message')}"
        del values["logger"]
        trace = values.pop("exception", "")
        rest = "".join(f" {field}={value}" for field, value in values.items())
        text = f"{head}{rest}\n{trace}" if trace else head + rest
        return text.translate(_CONTROL).encode("utf-8", "backslashreplace").decode()


def configure_logging(log_format: str, level: str, stream: TextIO | None = None) -> None:
    """Send everything to one handler on `stream` (stderr by default). Replaces handlers set up before. Idempotent."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, least in NOISY.items():
        logging.getLogger(name).setLevel(max(least, root.level))


def _fields(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, Any]:
    values: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
        "message": mask(record.getMessage()),
    }
    context = {**_kopf_object(record), **_context.get()}
    values |= {field: context[field] for field in CONTEXT_FIELDS if context.get(field)}
    extras = {name: value for name, value in vars(record).items() if name not in _standard and name not in values}
    values |= {name: _masked(value) for name, value in extras.items()}
    trace = _exception_text(record, formatter)
    if trace:
        values["exception"] = mask(trace)
    return values


def _kopf_object(record: logging.LogRecord) -> dict[str, str]:
    """The object that a line of kopf's own is about; kopf attaches it to its records as `k8s_ref`."""
    reference = getattr(record, "k8s_ref", None)
    if not isinstance(reference, Mapping):
        return {}
    return {field: str(reference[field]) for field in ("kind", "namespace", "name", "uid") if reference.get(field)}


def _masked(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return mask(str(value))


def _exception_text(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
