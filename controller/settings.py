"""The operator's settings: one frozen record, read once from the environment.

Every setting is a variable `BREV_OPERATOR_<NAME>`; the text under each field below is its documentation, from which
`python -m controller.settings --markdown` makes the reference table. All bad variables are reported together, so that
a wrong deployment takes one round to repair and not one per mistake.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

PREFIX = "BREV_OPERATOR_"
CLI_ENVIRONMENT_PREFIX = "BREV_OPERATOR_CLI_ENV_"


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
    """Everything that a deployment decides. Immutable, free of secrets, safe to log."""

    cluster_id: str
    """Identity of this installation, part of every machine's name: 1 to 12 of `a-z0-9`. Never change it while machines
    exist, and never give two clusters on one Brev organization the same."""
    namespace: str = "brev-operator"
    """The operator's own namespace, where its Lease and the accounts' Secrets are. In a pod, the pod's by default."""
    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose objects are served, separated by commas; empty for all."""
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
    """`brev exec` calls on machines that are known to answer, at the same time."""
    probe_slots: int = 16
    """First `brev exec` calls on machines that may not answer yet, at the same time."""
    transfer_slots: int = 4
    """`brev refresh` and `brev copy` calls at the same time."""
    brev_env: Mapping[str, str] = field(default_factory=dict)
    """Environment of the `brev` CLI: every variable `BREV_OPERATOR_CLI_ENV_<NAME>` is handed on as `<NAME>`."""
    base_intervals: Intervals = field(default_factory=Intervals)
    """The intervals as configured, before the time scale; each is a variable of its own."""

    @cached_property
    def intervals(self) -> Intervals:
        """The intervals to use: scaled."""
        return self.base_intervals.scaled(self.time_scale)


def default_state_directory(environ: Mapping[str, str]) -> Path:
    """Where a person's programs keep state that may be lost (XDG base directory specification)."""
    base = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".local" / "state")
    return Path(base) / "brev-operator"
