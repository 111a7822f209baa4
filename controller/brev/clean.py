"""From the raw output of the CLI to a text that people can read, without secrets and of bounded size. Pure.

What is taken away was measured on v0.6.317 to v0.6.327: spinner frames (about ten a second, also without a terminal,
the last one glued to the message), stack traces of the CLI's own source, two log lines of its HTTP library before the
real text, and the frame that it puts around collected errors.
"""

import re
from collections.abc import Iterable

DETAIL_LIMIT = 2000
MESSAGE_LIMIT = 300

_END_KEPT = 16_000

_SPINNER = re.compile(r"[\u2800-\u28ff][^\r\n]*")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TRACE = re.compile(r"(?m)(?:\[error\][^\S\n]*\n|^)[^\n]*\n[^\n]*\.go:\d+[^\S\n]*\n: ?")
_BARE_TRACE = re.compile(r"\[error\][^\S\n]*(?:\n: ?)?")
_LOG_LINE = re.compile(
    r"(?m)^.*?\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:(?:WARN|ERROR) RESTY|WARN: sending|external nodes:).*$"
)
_ERRORS = re.compile(r"\b\d{1,9} errors? occurred:[ \n]*")
_BULLET = re.compile(r"(?m)^\t\* ")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")
_URL = re.compile(r"\bhttps?://\S+?(?=[\s\"':]*(?:\s|$))")
_SECRETS = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\bbak-[\w-]+|(?i:\bbearer\s+)\S+")

_NOISE = (
    "Attempting to create ",
    "Instance types to try:",
    "Trying ",
    "[Worker 1] Trying ",
    "Warning: Only created ",
    "Warning: Permanently added ",
    "Pseudo-terminal will not be allocated",
    "Connection failed, checking instance status",
    "Please check with: brev ls",
    "Please check your instances with: brev ls",
    "WARN: malformed refresh token",
    "no oauth found for token",
    "Agent pid ",
    "refreshing brev",
)
_NOISE_LINE = re.compile(r"Type \S+ had failures, trying next type|=== \S+ ===$")


class Masker:
    """Replaces secret values, and anything that looks like a Brev credential, by `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {part for secret in secrets for part in (secret, *secret.split(":")) if len(part) >= 4}
        self._values = sorted(values, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "***")
        return _SECRETS.sub("***", text)


def clean(raw: str) -> str:
    """The lines that say something about a failure, in order, none empty; at most 2 x 16,000 characters."""
    lines = readable(raw).split("\n")
    return "\n".join(line for line in lines if line and not line.startswith(_NOISE) and not _NOISE_LINE.match(line))


def readable(raw: str) -> str:
    """The output as a person would see it, progress and hints included; of a flood its beginning and end."""
    text = _SPINNER.sub("", raw)
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "")
    if len(text) > 2 * _END_KEPT:
        text = f"{text[:_END_KEPT]}\n{text[-_END_KEPT:]}"
    text = _BARE_TRACE.sub("", _TRACE.sub("", text))
    text = _LOG_LINE.sub("", text)
    text = _BULLET.sub("", _ERRORS.sub("", text))
    text = _CONTROL.sub("", text)
    return "\n".join(stripped for line in text.split("\n") if (stripped := line.strip()))


def bounded(text: str, limit: int) -> str:
    """The text, or its beginning and a mark that it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def sentence(text: str) -> str:
    """One line of at most MESSAGE_LIMIT characters; URLs are dropped, since they carry ids and versions, not causes."""
    one = " ".join(_URL.sub("the Brev API answered", text).split())
    return bounded(one.rstrip(" ."), MESSAGE_LIMIT)
