"""Prometheus metrics, declared once in a table that is also their documentation.

`python -m controller.metrics --markdown` prints the reference page. State that exists anyway (phases, queue depth,
ages, the lease) is read through callbacks when Prometheus scrapes, never counted up and down, so it cannot drift.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller import __version__
from controller.api.meta import Kind


@dataclass(frozen=True, slots=True)
class Row:
    """One metric as users see it."""

    name: str
    type: str
    labels: tuple[str, ...]
    text: str


SECONDS_OF_A_PASS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SECONDS_OF_A_CALL = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
SECONDS_OF_A_JOB = (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 24 * 3600.0, 72 * 3600.0)

JOB_PHASE = Row("brev_job_phase", "gauge", ("phase",), "BrevJobs by phase.")
INSTANCE_PHASE = Row("brev_instance_phase", "gauge", ("phase",), "BrevInstances by phase.")
INVENTORY_AGE = Row(
    "brev_inventory_age_seconds",
    "gauge",
    ("account",),
    "Time since the account's machines were last listed successfully.",
)
RECONCILE_DURATION = Row(
    "brev_reconcile_duration_seconds", "histogram", ("kind",), "Duration of one pass over one object."
)
RECONCILE_ERRORS = Row(
    "brev_reconcile_errors_total", "counter", ("kind", "reason"), "Passes that ended in an error, by the error's type."
)
CLI_CALLS = Row("brev_cli_calls_total", "counter", ("verb", "outcome"), "Calls of the brev CLI, by how they ended.")
CLI_CALL_DURATION = Row(
    "brev_cli_call_duration_seconds", "histogram", ("verb",), "Duration of the calls of the brev CLI."
)
QUEUE_DEPTH = Row("brev_queue_depth", "gauge", (), "Objects that wait for a worker.")
QUEUE_ADDS = Row("brev_queue_adds_total", "counter", (), "Objects put in the queue, duplicates included.")
KUBERNETES_REQUESTS = Row(
    "brev_kubernetes_requests_total",
    "counter",
    ("verb", "resource", "code"),
    "Requests to the Kubernetes API, each retry counted; code is the HTTP status, `timeout` or `error`.",
)
LEASE_HELD = Row("brev_lease_held", "gauge", (), "1 while this process holds the lease, else 0.")
EVENTS_DROPPED = Row(
    "brev_events_dropped_total",
    "counter",
    ("reason",),
    "Events that were not delivered: `queue`, `rate`, `api` or `shutdown`.",
)
JOB_DURATION = Row(
    "brev_job_duration_seconds", "histogram", ("outcome",), "Time from a BrevJob's creation to its end, by outcome."
)
BUILD = Row("brev_operator_build_info", "gauge", ("version", "python"), "Always 1; its labels describe this build.")

ROWS = (
    JOB_PHASE,
    INSTANCE_PHASE,
    JOB_DURATION,
    RECONCILE_DURATION,
    RECONCILE_ERRORS,
    QUEUE_DEPTH,
    QUEUE_ADDS,
    CLI_CALLS,
    CLI_CALL_DURATION,
    INVENTORY_AGE,
    KUBERNETES_REQUESTS,
    EVENTS_DROPPED,
    LEASE_HELD,
    BUILD,
)

Phases = Callable[[], Mapping[tuple[Kind, str], int]]
"""Number of objects by kind and phase; called at each scrape."""
Ages = Callable[[], Mapping[str, float]]
"""Age in seconds of each account's inventory; called at each scrape."""


class Metrics:
    """All metrics of one process in one registry; tests make their own. Safe to use from the event loop only."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.reconcile_duration = self._histogram(RECONCILE_DURATION, SECONDS_OF_A_PASS)
        self.reconcile_errors = self._counter(RECONCILE_ERRORS)
        self.cli_calls = self._counter(CLI_CALLS)
        self.cli_call_duration = self._histogram(CLI_CALL_DURATION, SECONDS_OF_A_CALL)
        self.queue_adds = self._counter(QUEUE_ADDS)
        self.kubernetes_requests = self._counter(KUBERNETES_REQUESTS)
        self.events_dropped = self._counter(EVENTS_DROPPED)
        self.job_duration = self._histogram(JOB_DURATION, SECONDS_OF_A_JOB)
        self._queue_depth = self._gauge(QUEUE_DEPTH)
        self._lease_held = self._gauge(LEASE_HELD)
        self._state = _State()
        self.registry.register(self._state)
        build = Info(BUILD.name.removesuffix("_info"), BUILD.text, registry=self.registry)
        build.info({"version": __version__, "python": platform.python_version()})

    def watch_phases(self, phases: Phases) -> None:
        """Report objects by phase from this callback at every scrape."""
        self._state.phases = phases

    def watch_inventory_ages(self, ages: Ages) -> None:
        """Report each account's inventory age from this callback at every scrape."""
        self._state.ages = ages

    def watch_queue_depth(self, depth: Callable[[], float]) -> None:
        """Report the queue's depth from this callback at every scrape."""
        self._queue_depth.set_function(depth)

    def watch_lease(self, held: Callable[[], bool]) -> None:
        """Report whether the lease is held from this callback at every scrape."""
        self._lease_held.set_function(lambda: float(held()))

    def count_kubernetes_request(self, verb: str, resource: str, code: str) -> None:
        """Count one API request; the signature is the client's `on_call`."""
        self.kubernetes_requests.labels(verb, resource, code).inc()

    def count_dropped_event(self, reason: str) -> None:
        """Count one lost Event; the signature is the recorder's `on_drop`."""
        self.events_dropped.labels(reason).inc()

    def _counter(self, row: Row) -> Counter:
        return Counter(row.name, row.text, row.labels, registry=self.registry)

    def _gauge(self, row: Row) -> Gauge:
        return Gauge(row.name, row.text, row.labels, registry=self.registry)

    def _histogram(self, row: Row, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(row.name, row.text, row.labels, registry=self.registry, buckets=buckets)


class _State(Collector):
    """The metrics whose label sets come from a callback."""

    def __init__(self) -> None:
        self.phases: Phases = dict
        self.ages: Ages = dict

    def collect(self) -> Iterable[Metric]:
        families = {Kind.JOB: _family(JOB_PHASE), Kind.INSTANCE: _family(INSTANCE_PHASE)}
        for (kind, phase), number in sorted(self.phases().items()):
            if kind in families:
                families[kind].add_metric([phase], number)
        ages = _family(INVENTORY_AGE)
        for account, age in sorted(self.ages().items()):
            ages.add_metric([account], age)
        return [*families.values(), ages]


def _family(row: Row) -> Any:
    return GaugeMetricFamily(row.name, row.text, labels=row.labels)


def markdown() -> str:
    """The reference page of all metrics."""
    lines = ["# Metrics", "", "Served on `/metrics` in the Prometheus text format.", ""]
    lines += ["| Name | Type | Labels | Meaning |", "| --- | --- | --- | --- |"]
    for row in ROWS:
        labels = ", ".join(f"`{label}`" for label in row.labels) or "none"
        lines.append(f"| `{row.name}` | {row.type} | {labels} | {row.text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--markdown"]:
        sys.exit("usage: python -m controller.metrics --markdown")
    sys.stdout.write(markdown())
