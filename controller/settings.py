"""The operator's settings: one frozen record, read once from the environment.

Every setting is a variable `BREV_OPERATOR_<NAME>`; the text under each field below is its documentation, from which
`python -m controller.settings --markdown` makes the reference table. All bad variables are reported together, so that
a wrong deployment takes one round to repair and not one per mistake.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from controller.api.duration import parse_duration

PREFIX = "BREV_OPERATOR_"
CLI_ENVIRONMENT_PREFIX = "BREV_OPERATOR_CLI_ENV_"
POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

SERVICE_LINK = re.compile(r"BREV_OPERATOR_(?:[A-Z0-9_]+_)?(?:SERVICE_(?:HOST|PORT)(?:_\w+)?|PORT_\d+_\w+)")
"""Variables that Kubernetes adds to pods beside a Service named `brev-operator…`; they are not ours. So is any
variable whose value is a `tcp://` address, such as BREV_OPERATOR_PORT."""


@dataclass(frozen=True)
class Intervals:
    """How often and how long the operator waits, in seconds.

    `Settings.base_intervals` holds them as configured; everybody uses `Settings.intervals`, the same record after the
    time scale. Time-outs of real I/O are not in here: a faster test does not make the network faster.
    """

    lease_duration: float = 15.0
    """A lease that its holder has not renewed for this long may be taken over."""
    lease_renew_interval: float = 3.0
    """Time between two renewals of the lease."""
    lease_renew_deadline: float = 10.0
    """Without a successful renewal for this long the operator stops. Must be shorter than the lease's duration."""
    poll_floor: float = 5.0
    """Shortest time between two looks at a running job or a starting machine."""
    poll_ceiling: float = 60.0
    """Longest time between two looks at a running job or a starting machine."""
    inventory_fast: float = 5.0
    """Time between two machine lists of an account while a machine is being created, started or deleted."""
    inventory_slow: float = 60.0
    """Time between two machine lists of an account while nothing changes."""
    catalog_ttl: float = 300.0
    """Age at which the catalog of machine types and prices is read again."""
    resync: float = 300.0
    """Time between two full lists of all objects, which heal whatever the watch has missed."""
    settle: float = 30.0
    """After a create whose outcome is unknown, how long the machine may take to appear in the list."""
    retry_base: float = 5.0
    """First delay after a failure that time may cure; doubled each time."""
    retry_cap: float = 300.0
    """Longest delay after a failure that time may cure."""

    def scaled(self, factor: float) -> Intervals:
        """Every interval times `factor`; the lease's never below `LEASE_FLOORS`, since a renewal is real I/O."""
        values = {item.name: getattr(self, item.name) * factor for item in fields(self)}
        for name, floor in LEASE_FLOORS.items():
            values[name] = max(values[name], min(floor, getattr(self, name)))
        return replace(self, **values)


LEASE_FLOORS = {"lease_duration": 3.0, "lease_renew_interval": 0.5, "lease_renew_deadline": 2.0}
"""Seconds below which the time scale does not shorten the lease (a value configured lower stays as it is)."""


@dataclass(frozen=True)
class Settings:
    """Everything that a deployment decides. Immutable; its repr leaves out what could be a secret."""

    cluster_id: str
    """Identity of this installation, part of every machine's name: 1 to 12 of `a-z0-9`. Never change it while machines
    exist, and never give two clusters on one Brev organization the same."""
    namespace: str = "brev-operator"
    """The operator's own namespace, where its Lease and the accounts' Secrets are. In a pod, the pod's by default."""
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose objects are served, separated by commas; empty for all."""
    watch_accounts: tuple[str, ...] = ()
    """BrevAccounts that are served, separated by commas; empty for all that no other operator serves already
    (`status.servedBy`). An account that is named here is taken over from another operator, which must not name it."""
    lease_name: str = "brev-operator"
    """Name of the Lease that makes sure that only one operator is active."""
    workers: int = 8
    """Objects that are reconciled at the same time."""
    brev_cli: str = "brev"
    """The `brev` executable: a path, or a name to be found on `PATH`."""
    state_directory: Path = field(default_factory=lambda: default_state_directory(os.environ))
    """Directory for CLI homes and other files that may be lost at any time; in a pod a memory volume. Below
    `XDG_STATE_HOME` by default."""
    listen_address: str = "127.0.0.1"
    """Address of `/healthz`, `/readyz` and `/metrics`; `0.0.0.0` in a pod."""
    listen_port: int = 8080
    """Port of `/healthz`, `/readyz` and `/metrics`; 0 for any free one."""
    kubeconfig: Path | None = None
    """Kubeconfig file to use instead of the pod's service account."""
    token_file: Path | None = None
    """Service account token at a place of its own (a projected volume); read again whenever it changes."""
    ca_file: Path | None = None
    """CA of the API server at a place of its own, in a pod; the service account's by default."""
    cloudflared: Path | None = None
    """`cloudflared` for machines that are reached through Cloudflare. Without it the CLI downloads one for itself."""
    log_format: str = "json"
    """`json` for one JSON object a line, `text` for people."""
    log_level: str = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`."""
    time_scale: float = 1.0
    """Factor on every interval. Tests and the demo run the same code faster with a value below 1."""
    request_timeout: float = 60.0
    """Time-out of one Kubernetes API request. Not scaled."""
    control_slots: int = 4
    """`brev` calls on an account's own home (`ls`, `search`, `create`, `delete`) at the same time."""
    exec_slots: int = 8
    """`brev exec` and `brev copy` calls on machines that are known to answer, at the same time."""
    probe_slots: int = 16
    """`brev refresh`, and `brev exec` on machines that may not answer yet, at the same time."""
    brev_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment of the `brev` CLI: every variable `BREV_OPERATOR_CLI_ENV_<NAME>` is handed on as `<NAME>`."""
    base_intervals: Intervals = field(default_factory=Intervals)
    """The intervals as configured, before the time scale; each is a variable of its own."""

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals to use: scaled."""
        return self.base_intervals.scaled(self.time_scale)


class SettingsError(Exception):
    """Some variables cannot be used. The message has one line for each of them; it repeats no CLI variable's value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def default_state_directory(environ: Mapping[str, str]) -> Path:
    """Where a person's programs keep state that may be lost (XDG base directory specification)."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(base) / "brev-operator"


def read_settings(environ: Mapping[str, str] = os.environ, pod_namespace_file: Path = POD_NAMESPACE_FILE) -> Settings:
    """The settings from `BREV_OPERATOR_*`. Raises `SettingsError` naming every bad or unknown variable at once.

    An empty variable counts as absent. Durations are `90s`, `1h30m`, or plain seconds such as `0.5`.
    """
    problems: list[str] = []
    values = _read(Settings, environ, problems)
    values["base_intervals"] = Intervals(**_read(Intervals, environ, problems))
    values["brev_env"] = {
        name.removeprefix(CLI_ENVIRONMENT_PREFIX): text
        for name, text in environ.items()
        if name.startswith(CLI_ENVIRONMENT_PREFIX)
    }
    values.setdefault("state_directory", default_state_directory(environ))
    if "namespace" not in values and pod_namespace_file.is_file():
        values["namespace"] = pod_namespace_file.read_text(encoding="ascii").strip()
    problems += [f"{name}: there is no such setting" for name in sorted(environ) if _unknown(name, environ[name])]
    if not environ.get(PREFIX + "CLUSTER_ID"):
        problems.append(f"{PREFIX}CLUSTER_ID: required: 1 to 12 of a-z and 0-9 that name this installation")
    if problems:
        raise SettingsError(problems)
    settings = Settings(**values)
    problems = _contradictions(settings.base_intervals)
    if problems:
        raise SettingsError(problems)
    return settings


def variable(name: str) -> str:
    """The environment variable of a field."""
    return PREFIX + name.upper()


def _read(record: type[Settings] | type[Intervals], environ: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in fields(record):
        text = environ.get(variable(item.name), "")
        if text and item.name not in NOT_VARIABLES:
            try:
                values[item.name] = READERS.get(item.name, _seconds)(text)
            except ValueError as error:
                problems.append(f"{variable(item.name)}: {error}")
    return values


def _unknown(name: str, text: str) -> bool:
    if not name.startswith(PREFIX) or name.startswith(CLI_ENVIRONMENT_PREFIX):
        return False
    known = {variable(item.name) for record in (Settings, Intervals) for item in fields(record)}
    known -= {variable(special) for special in NOT_VARIABLES}
    return name not in known and not SERVICE_LINK.fullmatch(name) and "://" not in text


def _contradictions(intervals: Intervals) -> list[str]:
    pairs = (
        ("lease_renew_interval", "lease_renew_deadline"),
        ("lease_renew_deadline", "lease_duration"),
        ("poll_floor", "poll_ceiling"),
        ("retry_base", "retry_cap"),
    )
    problems = []
    for low, high in pairs:
        one, other = getattr(intervals, low), getattr(intervals, high)
        if one > other or (one == other and low.startswith("lease")):
            problems.append(f"{variable(low)}: {one:g} s must be less than {variable(high)}, {other:g} s")
    return problems


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = parse_duration(text).total_seconds()
    if not 0 < value <= 30 * 24 * 3600:
        raise ValueError(f"{text!r} is not a duration above zero and up to 30 days")
    return value


def _factor(text: str) -> float:
    value = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+", text) else math.nan
    if not 0.0001 <= value <= 100:
        raise ValueError(f"{text!r} is not a number from 0.0001 to 100")
    return value


def _state_directory(text: str) -> Path:
    """Absolute, since the CLI runs in another directory; `brev copy` takes what has a colon for a machine's path."""
    if ":" in text:
        raise ValueError(f"{text!r} has a colon, which brev copy cannot take")
    return Path(text).absolute()


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read


def _matching(pattern: str, what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} is not {what}")
        return text

    return read


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        for choice in choices:
            if text.casefold() == choice.casefold():
                return choice
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}")

    return read


_label = _matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "a namespace's name")


_kubernetes_name = _matching(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "a Kubernetes name")


def _names(read: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    def split(text: str) -> tuple[str, ...]:
        names = [part.strip() for part in text.split(",")]
        return tuple(dict.fromkeys(read(name) for name in names if name))

    return split


NOT_VARIABLES = frozenset({"brev_env", "base_intervals"})
"""Fields that are put together from several variables."""

READERS: Mapping[str, Callable[[str], object]] = {
    "cluster_id": _matching(r"[a-z0-9]{1,12}", "1 to 12 of a-z and 0-9"),
    "namespace": _label,
    "watch_namespaces": _names(_label),
    "watch_accounts": _names(_kubernetes_name),
    "lease_name": _kubernetes_name,
    "workers": _whole(1, 256),
    "brev_cli": str,
    "state_directory": _state_directory,
    "listen_address": str,
    "listen_port": _whole(0, 65535),
    "kubeconfig": Path,
    "token_file": Path,
    "ca_file": Path,
    "cloudflared": Path,
    "log_format": _one_of("json", "text"),
    "log_level": _one_of("DEBUG", "INFO", "WARNING", "ERROR"),
    "time_scale": _factor,
    "request_timeout": _seconds,
    "control_slots": _whole(1, 64),
    "exec_slots": _whole(1, 256),
    "probe_slots": _whole(1, 256),
}


def markdown() -> str:
    """The reference page of all settings, from the texts under the fields."""
    lines = [
        "# Settings",
        "",
        "Environment variables of the operator. Durations: `90s`, `1h30m`, or plain seconds.",
        "",
    ]
    lines += ["| Variable | Default | Meaning |", "| --- | --- | --- |"]
    for record in (Settings, Intervals):
        texts = _field_texts(record)
        for item in fields(record):
            if item.name not in NOT_VARIABLES:
                lines.append(f"| `{variable(item.name)}` | {_default(item)} | {texts[item.name]} |")
    texts = _field_texts(Settings)
    lines.append(f"| `{CLI_ENVIRONMENT_PREFIX}<NAME>` | none | {texts['brev_env']} |")
    return "\n".join(lines) + "\n"


def _default(item: Field[Any]) -> str:
    if item.name == "state_directory":
        return "`~/.local/state/brev-operator`"
    if item.default is MISSING:
        return "required"
    if item.default in (None, ()):
        return "none"
    return (
        f"`{item.default:g}s`" if isinstance(item.default, float) and item.name != "time_scale" else f"`{item.default}`"
    )


def _field_texts(record: type[object]) -> dict[str, str]:
    """The string literal under each field of a record, on one line."""
    body = ast.parse(inspect.getsource(record)).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101 (what a class's source is)
    texts = {}
    for node, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
            texts[node.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return texts


if __name__ == "__main__":
    if sys.argv[1:] != ["--markdown"]:
        sys.exit("usage: python -m controller.settings --markdown")
    sys.stdout.write(markdown())
