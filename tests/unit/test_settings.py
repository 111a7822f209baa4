from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from controller.settings import (
    NOT_VARIABLES,
    READERS,
    Intervals,
    Settings,
    SettingsError,
    default_state_directory,
    markdown,
    read_settings,
    variable,
)

REQUIRED = {"BREV_OPERATOR_CLUSTER_ID": "lab1"}
NOWHERE = Path("/nonexistent/namespace")


def _read(**variables: str) -> Settings:
    given = {f"BREV_OPERATOR_{name}": text for name, text in variables.items()}
    return read_settings({"HOME": "/home/me", **REQUIRED, **given}, NOWHERE)


def test_only_the_cluster_id_is_required() -> None:
    settings = _read()
    assert settings.cluster_id == "lab1"
    assert settings.intervals == Intervals()
    assert settings.watch_namespaces == ()
    assert settings.state_directory == Path("/home/me/.local/state/brev-operator")
    assert settings.listen_address == "127.0.0.1"


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(
            {
                "BREV_OPERATOR_WORKERS": "many",
                "BREV_OPERATOR_POLL_FLOOR": "-5s",
                "BREV_OPERATOR_TIME_SCALE": "nan",
                "BREV_OPERATOR_LOG_FORMAT": "xml",
                "BREV_OPERATOR_CLUSTERID": "lab1",
            },
            NOWHERE,
        )
    text = str(caught.value)
    for name in ("WORKERS", "POLL_FLOOR", "TIME_SCALE", "LOG_FORMAT", "CLUSTERID", "CLUSTER_ID"):
        assert f"BREV_OPERATOR_{name}: " in text
    assert len(caught.value.problems) == 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("CLUSTER_ID", "Lab"),
        ("CLUSTER_ID", "a" * 13),
        ("CLUSTER_ID", "a-b"),
        ("CLUSTER_ID", "lab\n"),
        ("WATCH_NAMESPACES", "ok,Not_ok"),
        ("WATCH_ACCOUNTS", "ok,Not_ok"),
        ("NAMESPACE", "-x"),
        ("LISTEN_PORT", "65536"),
        ("LISTEN_PORT", "-1"),
        ("WORKERS", "0"),
        ("WORKERS", "\u0663"),
        ("TIME_SCALE", "0"),
        ("TIME_SCALE", "1e400"),
        ("RESYNC", "0"),
        ("RESYNC", "inf"),
        ("RESYNC", "nan"),
        ("RESYNC", "5 minutes"),
        ("LOG_LEVEL", "LOUD"),
    ],
)
def test_a_bad_value_is_refused_with_its_variable(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"BREV_OPERATOR_{name}: "):
        _read(**{name: text})


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("WATCH_NAMESPACES", "team-b, team-a,team-b,", "watch_namespaces", ("team-b", "team-a")),
        ("WATCH_ACCOUNTS", "b.b, a,b.b,", "watch_accounts", ("b.b", "a")),
        ("LOG_LEVEL", "debug", "log_level", "DEBUG"),
        ("LISTEN_PORT", "0", "listen_port", 0),
        ("KUBECONFIG", "/k", "kubeconfig", Path("/k")),
        ("WORKERS", "", "workers", 8),
        ("REQUEST_TIMEOUT", "1m30s", "request_timeout", 90.0),
        ("TIME_SCALE", ".05", "time_scale", 0.05),
    ],
)
def test_values_are_read(name: str, text: str, field: str, value: object) -> None:
    assert getattr(_read(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("LEASE_RENEW_DEADLINE", "LEASE_DURATION"),
        ("LEASE_RENEW_INTERVAL", "LEASE_RENEW_DEADLINE"),
        ("POLL_FLOOR", "POLL_CEILING"),
        ("RETRY_BASE", "RETRY_CAP"),
    ],
)
def test_intervals_that_contradict_each_other_are_refused(low: str, high: str) -> None:
    with pytest.raises(SettingsError, match=f"{low}: .*{high}"):
        _read(**{low: "2000", high: "1000"})


def test_a_lease_needs_room_between_its_times_and_polling_does_not() -> None:
    _read(POLL_FLOOR="20", POLL_CEILING="20")
    with pytest.raises(SettingsError, match="LEASE_RENEW_DEADLINE"):
        _read(LEASE_RENEW_DEADLINE="20", LEASE_DURATION="20")


def test_one_time_scale_moves_every_interval_and_no_time_out() -> None:
    settings = _read(TIME_SCALE="0.5", POLL_FLOOR="0.5", REQUEST_TIMEOUT="40")
    for item in fields(Intervals):
        assert getattr(settings.intervals, item.name) == getattr(settings.base_intervals, item.name) / 2
    assert settings.intervals.poll_floor == 0.25
    assert settings.request_timeout == 40


def test_the_lease_keeps_floors_where_time_is_very_fast_unless_it_was_set_lower() -> None:
    fast = _read(TIME_SCALE="0.01").intervals
    assert (fast.lease_duration, fast.lease_renew_deadline, fast.lease_renew_interval) == (3.0, 2.0, 0.5)
    own = _read(TIME_SCALE="0.01", LEASE_DURATION="1", LEASE_RENEW_DEADLINE="0.6", LEASE_RENEW_INTERVAL="0.2").intervals
    assert (own.lease_duration, own.lease_renew_deadline, own.lease_renew_interval) == (1.0, 0.6, 0.2)
    for scale in ("0.0001", "0.1", "0.25", "0.3", "1", "100"):
        times = _read(TIME_SCALE=scale).intervals
        assert times.lease_renew_interval < times.lease_renew_deadline < times.lease_duration


def test_the_environment_of_the_cli_is_passed_through_and_kept_out_of_the_repr() -> None:
    settings = _read(CLI_ENV_BREV_API_URL="http://127.0.0.1:1", CLI_ENV_TOKEN="hunter22", CLI_ENV_EMPTY="")
    assert settings.brev_env == {"BREV_API_URL": "http://127.0.0.1:1", "TOKEN": "hunter22", "EMPTY": ""}
    assert "hunter22" not in repr(settings)


def test_variables_of_a_service_called_brev_operator_are_not_mistaken_for_settings() -> None:
    _read(
        SERVICE_HOST="10.0.0.1",
        SERVICE_PORT="8080",
        SERVICE_PORT_HTTP="8080",
        PORT="tcp://10.0.0.1:8080",
        PORT_8080_TCP="tcp://10.0.0.1:8080",
        PORT_8080_TCP_PROTO="tcp",
        PORT_8080_TCP_PORT="8080",
        METRICS_SERVICE_HOST="10.0.0.2",
    )
    with pytest.raises(SettingsError, match="PORT: there is no such setting"):
        _read(PORT="8080")


def test_in_a_pod_the_namespace_is_the_pods(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    file.write_text("gpu-system\n")
    assert read_settings(REQUIRED, file).namespace == "gpu-system"
    assert read_settings(REQUIRED | {"BREV_OPERATOR_NAMESPACE": "mine"}, file).namespace == "mine"


def test_xdg_decides_where_state_goes() -> None:
    assert default_state_directory({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/brev-operator")


def test_the_reference_page_has_every_setting_with_a_text() -> None:
    rows = [line for line in markdown().splitlines() if line.startswith("| `BREV_OPERATOR_")]
    expected = {item.name for record in (Settings, Intervals) for item in fields(record)} - NOT_VARIABLES
    documented = {row.split("`")[1] for row in rows}
    assert documented == {variable(name) for name in expected} | {"BREV_OPERATOR_CLI_ENV_<NAME>"}
    for row in rows:
        assert row.rstrip("| ").endswith(".")


def test_every_field_has_its_own_reader() -> None:
    assert set(READERS) == {item.name for item in fields(Settings)} - NOT_VARIABLES
