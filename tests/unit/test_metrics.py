from __future__ import annotations

import re

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from controller.api.meta import Kind
from controller.metrics import ROWS, Metrics, Row, markdown


def _samples(metrics: Metrics) -> dict[str, float]:
    text = generate_latest(metrics.registry).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_phases_and_ages_are_what_the_callback_says_now() -> None:
    metrics = Metrics()
    phases = {(Kind.JOB, "Running"): 2, (Kind.INSTANCE, "Ready"): 1, (Kind.ACCOUNT, "Ready"): 1}
    metrics.watch_phases(lambda: phases)
    metrics.watch_inventory_ages(lambda: {"default": 4.5})
    assert _samples(metrics)["brev_job_phase{phase=Running}"] == 2
    assert _samples(metrics)["brev_instance_phase{phase=Ready}"] == 1
    assert _samples(metrics)["brev_inventory_age_seconds{account=default}"] == 4.5
    del phases[Kind.JOB, "Running"]
    assert "brev_job_phase{phase=Running}" not in _samples(metrics)


def test_depth_and_lease_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    state = {"depth": 3, "held": True}
    metrics.watch_queue_depth(lambda: state["depth"])
    metrics.watch_lease(lambda: bool(state["held"]))
    assert _samples(metrics)["brev_queue_depth{}"] == 3
    state.update(depth=0, held=False)
    assert _samples(metrics)["brev_queue_depth{}"] == 0
    assert _samples(metrics)["brev_lease_held{}"] == 0


def test_counters_and_histograms_have_their_labels() -> None:
    metrics = Metrics()
    metrics.count_kubernetes_request("patch", "brevjobs/status", "409")
    metrics.count_dropped_event("queue")
    metrics.cli_calls.labels("exec", "ok").inc()
    metrics.cli_call_duration.labels("exec").observe(0.2)
    metrics.reconcile_duration.labels(Kind.JOB.value).observe(0.01)
    metrics.reconcile_errors.labels("BrevJob", "Conflict").inc()
    metrics.job_duration.labels("Succeeded").observe(100)
    metrics.queue_adds.inc()
    samples = _samples(metrics)
    assert samples["brev_kubernetes_requests_total{code=409,resource=brevjobs/status,verb=patch}"] == 1
    assert samples["brev_events_dropped_total{reason=queue}"] == 1
    assert samples["brev_cli_calls_total{outcome=ok,verb=exec}"] == 1
    assert samples["brev_cli_call_duration_seconds_bucket{le=0.25,verb=exec}"] == 1
    assert samples["brev_queue_adds_total{}"] == 1
    assert any(name.startswith("brev_operator_build_info{") for name in samples)


def test_two_operators_in_one_process_do_not_share_figures() -> None:
    one, other = Metrics(), Metrics()
    one.queue_adds.inc()
    assert _samples(other)["brev_queue_adds_total{}"] == 0


def _exposed(metrics: Metrics) -> set[tuple[str, str]]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {(parts[2], parts[3]) for line in lines if (parts := line.split()) and line.startswith("# TYPE")}


def test_the_table_is_exactly_what_is_exposed() -> None:
    exposed = {pair for pair in _exposed(Metrics()) if not pair[0].endswith("_created")}
    assert exposed == {(row.name, row.type) for row in ROWS}
    assert all(f"| `{row.name}` | {row.type} |" in markdown() for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_names_follow_the_conventions(row: Row) -> None:
    assert re.fullmatch(r"brev_[a-z_]+", row.name)
    assert (row.type == "counter") == row.name.endswith("_total")
    assert row.type != "histogram" or row.name.endswith("_seconds")
    assert row.text.endswith(".")
