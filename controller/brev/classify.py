"""What a failed call means, told from its exit code and its texts by substring. Pure.

Every failure of the CLI is exit code 1 (2 is a Go panic), so only texts tell them apart. The texts of the CLI are
measured on v0.6.317 to v0.6.327; those of the service pass through it unchanged and are known from public reports only,
so several spellings are accepted and the rest is *unknown*, which callers must take as "it may have happened".
"""

import re
from dataclasses import dataclass

from controller.brev import errors
from controller.brev.clean import DETAIL_LIMIT, Masker, bounded, clean, readable, sentence
from controller.brev.errors import BrevError

_SSH_LINE = re.compile(
    r"permission denied \(|connection refused|timed out|could not resolve hostname|no user exists for uid|"
    r"kex_exchange_identification|connection (?:closed|reset)|no route to host|network is unreachable|"
    r"unix_listener|host key verification|broken pipe|lost connection",
    re.IGNORECASE,
)
_WORKER = re.compile(r"^\[Worker \d+\] \S+ Failed: *|^Skipping: *|^Error: *")
_EXIT_STATUS = re.compile(r"\bexit(?:ed with)? status (\d+)")
_BROKEN = re.compile(
    r"\b5\d\d (?-i:[A-Z][a-z])|\bEOF\b|connection re(?:set|fused)|i/o timeout|context deadline|no such host|"
    r"tls handshake|unexpected end of json|invalid character .{1,20} looking for|connection timed out|"
    r"network is unreachable",
    re.IGNORECASE,
)


# Known from the seeds alone: "placement error (cloudCredId / workspaceGroupId required)".
_PLACEMENT = (
    r"placement error|placement[^\n]{0,40} required|"
    r"(?:cloud[ _-]?cred(?:ential)?[ _-]?id|workspace[ _-]?group[ _-]?id)s?\b[^\n]{0,80} required"
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A substring pattern (any case) for some verbs, or for all."""

    error: type[BrevError]
    pattern: re.Pattern[str]
    verbs: frozenset[str] = frozenset()


def _rule(error: type[BrevError], pattern: str, *verbs: str) -> _Rule:
    return _Rule(error, re.compile(pattern, re.IGNORECASE), frozenset(verbs))


_BY_NAME = ("delete", "stop", "start", "exec", "copy")

# The first match counts. exec comes first, because it runs logged out on purpose and its output says so at the end.
_RULES = (
    _rule(errors.NotRunning, r'instance "[^"\n]*" is in state "|instance [\w.-]+ is not running', "exec", "copy"),
    _rule(errors.HostUnreachable, r"could not connect to instance|ssh was not available|no ssh address for", "exec"),
    _rule(errors.HostUnreachable, r'could not look up instance "[^"\n]*": exit status 255', "exec"),
    _rule(errors.UnknownFailure, r'could not look up instance "[^"\n]*": exit status', "exec"),
    _rule(errors.AuthRequired, r"you are currently logged out"),
    _rule(
        errors.AuthRequired,
        r"token is expired|missing bearer token|declined to login|api key [^\n]{0,80}(?:invalid|revoked)",
    ),
    _rule(errors.AuthRequired, r"invalid api key|\b401 unauthorized|(?m:(?:^|[:\s])unauthorized\s*$)|invalid token"),
    _rule(errors.CliUnsupported, r"unknown (?:shorthand )?flag|unknown command"),
    _rule(errors.PlacementRequired, _PLACEMENT, "create"),
    _rule(errors.DuplicateName, r"already exists\. use a different name|duplicate workspace", "create"),
    _rule(errors.UnknownType, r"is not a recognized type", "create"),
    _rule(errors.OutOfCredits, r"out of credits|insufficient credits|issues with your credits"),
    _rule(errors.NoCapacity, r"no capacity|insufficient capacity|out of capacity|not enough capacity", "create"),
    _rule(errors.UnknownFailure, r"could not resolve workspace group", "create"),
    _rule(errors.UnknownFailure, _BROKEN.pattern, "create", "delete", "stop", "start"),
    _rule(errors.InstanceNotFound, r"instance with id/name \S+ not found|workspace not found", *_BY_NAME),
    _rule(errors.Refused, r"failed: .|name must |name is required|forbidden", "create"),
    _rule(errors.Refused, r"forbidden|does not support|not allowed", "delete", "stop", "start"),
    _rule(errors.NotRunning, r"instance is not stopped", "start"),
    _rule(errors.AuthRequired, r"forbidden", "ls", "orgs", "search", "refresh"),
    _rule(errors.NotRunning, r"has empty ssh user", "refresh", "copy"),
    _rule(errors.HostUnreachable, r"exit status 255", "exec"),
    _rule(errors.UnknownFailure, r"exit(?:ed with)? status \d+", "exec"),
    _rule(errors.HostUnreachable, _SSH_LINE.pattern, "exec", "copy"),
    _rule(errors.HostUnreachable, r"warning: permanently added", "copy"),
)


def failure(verb: str, returncode: int, stdout: str, stderr: str, mask: Masker) -> BrevError:
    """The error for a call that ended by itself with a code other than 0. `verb` is ls, orgs, search, create, …

    The message is one line; `detail` keeps the cleaned stderr, bounded and masked; `stdout` is kept as it is.
    """
    text = mask(clean(stderr))
    detail = bounded(text, DETAIL_LIMIT)
    if _crashed(verb, returncode, stderr):
        reason = next((line for line in text.split("\n") if "panic:" in line), f"exit code {returncode}")
        return errors.CliPanic(f"the brev CLI crashed: {sentence(reason)}", detail=detail, returncode=returncode)
    # What exec prints on stdout is the remote side's own.
    kind = _kind(verb, readable(stderr) if verb == "exec" else f"{readable(stderr)}\n{readable(stdout)}")
    message = _message(verb, kind, text, returncode)
    return kind(message, detail=detail, stdout=stdout, returncode=returncode)


def _crashed(verb: str, returncode: int, stderr: str) -> bool:
    """A Go panic. With `exec` the remote command's stderr is there too, and after v0.6.327 perhaps its exit code."""
    if verb == "exec":
        return returncode == 2 and "panic:" in stderr and not _EXIT_STATUS.search(stderr)
    return returncode == 2 or "panic:" in stderr


def _kind(verb: str, text: str) -> type[BrevError]:
    rules = (rule for rule in _RULES if not rule.verbs or verb in rule.verbs)
    return next((rule.error for rule in rules if rule.pattern.search(text)), errors.UnknownFailure)


def _message(verb: str, kind: type[BrevError], text: str, returncode: int) -> str:
    lines = text.split("\n") if text else []
    if kind is errors.AuthRequired and all(line in ("EOF", "") for line in lines):
        return "the Brev credential was not accepted: the CLI asks for a login"
    if verb == "create":
        named = [_WORKER.sub("", line) for line in lines if _WORKER.match(line)]
        return sentence(named[-1] if named else (lines[-1] if lines else _silent(verb, returncode)))
    if verb in ("exec", "copy") and kind is errors.HostUnreachable:
        ssh = next((line for line in lines if _SSH_LINE.search(line)), "")
        return sentence(f"the machine does not answer by SSH: {ssh}") if ssh else "the machine does not answer by SSH"
    if verb == "exec" and (status := _EXIT_STATUS.findall(text)):
        return f"the remote command ended with exit status {status[-1]}"
    if verb == "copy" and (scp := [line for line in lines if "scp" in line]):
        return sentence("; ".join(scp))
    return sentence(lines[-1]) if lines else _silent(verb, returncode)


def _silent(verb: str, returncode: int) -> str:
    if returncode < 0:
        return f"brev {verb} was ended by signal {-returncode}"
    return f"brev {verb} failed with exit code {returncode} and said nothing"
