from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller import logs
from controller.api.meta import Kind, ObjectKey
from controller.logs import JsonFormatter, TextFormatter, configure_logging, log_context, mask, register_secret

JOB = ObjectKey(Kind.JOB, "team-a", "iris")
log = logging.getLogger("controller.test")
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logs, "_secrets", set())
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.NOISY}
    yield
    root.handlers[:] = before
    root.setLevel(level)
    for name, value in levels.items():
        logging.getLogger(name).setLevel(value)


@pytest.fixture
def lines() -> Lines:
    stream = io.StringIO()
    configure_logging("json", "INFO", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_the_fixed_fields_in_order_and_the_extras_last(lines: Lines) -> None:
    with log_context(JOB, uid="u1", account="default"):
        log.info("created %s", "bo-x", extra={"attempt": 2, "offer": None})
    (line,) = lines()
    assert list(line) == [
        "time", "level", "logger", "message", "kind", "namespace", "name", "uid", "account", "attempt", "offer",
    ]  # fmt: skip
    assert line["message"] == "created bo-x"
    assert (line["kind"], line["namespace"], line["name"], line["uid"]) == ("BrevJob", "team-a", "iris", "u1")
    assert line["attempt"] == 2
    assert line["time"].endswith("Z")


def test_outside_of_a_pass_a_line_has_no_object(lines: Lines) -> None:
    with log_context(JOB):
        pass
    log.info("hello")
    assert "kind" not in lines()[0]


def test_contexts_nest_and_a_later_account_joins_the_object(lines: Lines) -> None:
    with log_context(JOB, uid="u1"), log_context(account="default"):
        log.info("a")
    assert (lines()[0]["name"], lines()[0]["account"]) == ("iris", "default")


async def test_background_work_keeps_the_object_it_was_started_for(lines: Lines) -> None:
    async def work(gate: asyncio.Event) -> None:
        await gate.wait()
        log.info("done")

    gate = asyncio.Event()
    with log_context(JOB):
        task = asyncio.create_task(work(gate))
    with log_context(ObjectKey(Kind.JOB, "team-b", "other")):
        gate.set()
        await task
    assert lines()[0]["namespace"] == "team-a"


def test_secrets_are_masked_in_message_arguments_extras_and_tracebacks(lines: Lines) -> None:
    secret = 'pä"ss\nw0rd'
    register_secret(secret)
    register_secret(b"bytes-value")
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError:
        log.exception("login with %s %r failed", secret, {"key": "bytes-value"}, extra={"seen": f"<{secret}>"})
    log.info(json.dumps({"password": secret}))
    text = json.dumps(lines())
    assert "w0rd" not in text
    assert "bytes-value" not in text
    assert lines()[0]["seen"] == "<****>"
    assert "ValueError: cannot use ****" in lines()[0]["exception"]


def test_masking_prefers_the_longest_value_and_leaves_short_ones() -> None:
    register_secret("abcdef")
    register_secret("abcdef-and-more")
    register_secret("short")
    register_secret("with-newline\n")
    assert mask("abcdef-and-more abcdef short with-newline") == "**** **** short ****"


def _record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    """Formatted directly: pytest-xdist cannot carry a lone surrogate in the captured log of a report."""
    return logging.makeLogRecord({"name": log.name, "levelname": "INFO", "msg": message, "args": args, **extra})


def test_one_line_is_one_json_object_whatever_is_logged() -> None:
    text = JsonFormatter().format(_record("a\nb\u2028\x00%s", "\udcff", thing=object(), raw=b"\xff"))
    assert len(text.splitlines()) == 1
    assert json.loads(text)["message"] == "a\nb\u2028\x00\udcff"


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    configure_logging("text", "INFO", stream)
    with log_context(JOB, uid="u1"):
        log.warning("slow", extra={"seconds": 3})
    log.info("plain")
    first, second = stream.getvalue().splitlines()
    assert "WARNING BrevJob/team-a/iris: slow uid=u1 seconds=3" in first
    assert second.endswith("INFO    controller.test: plain")


def test_text_of_a_machine_cannot_pass_for_a_line_of_ours_or_paint_the_terminal() -> None:
    text = TextFormatter().format(_record("tail: \x1b[31m\rred\n2026-01-01T00:00:00.000Z INFO    all is well\udcff"))
    assert text.split("\n")[1] == "    2026-01-01T00:00:00.000Z INFO    all is well\\udcff"
    assert "\\x1b[31m\\x0dred" in text


def test_a_line_of_kopfs_own_names_its_object(lines: Lines) -> None:
    reference = {"apiVersion": "v", "kind": "BrevJob", "name": "n", "uid": "u", "namespace": "ns"}
    logging.getLogger("kopf.objects").warning("w", extra={"k8s_ref": reference, "k8s_skip": True})
    (line,) = lines()
    assert (line["kind"], line["namespace"], line["name"], line["uid"]) == ("BrevJob", "ns", "n", "u")
    assert "k8s_ref" not in line


def test_chatter_of_libraries_is_not_heard_at_info(lines: Lines) -> None:
    for name in ("kopf.objects", "aiohttp.access"):
        logging.getLogger(name).info("Handler 'x' succeeded.")
        logging.getLogger(name).warning("heard")
    assert [line["message"] for line in lines()] == ["heard", "heard"]


def test_configuring_twice_does_not_double_the_lines() -> None:
    stream = io.StringIO()
    configure_logging("text", "ERROR", stream)
    configure_logging("text", "INFO", stream)
    log.info("once")
    assert stream.getvalue().count("once") == 1
