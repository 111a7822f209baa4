"""The executable itself: how fast it starts, what it tells the call log, and what it keeps to itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.contract.program import NEEDS_OURS, REAL, Program


async def test_the_start_time_is_recorded(brev: Program, record_property: Callable[[str, object], None]) -> None:
    """No limit here, since a loaded machine is no defect: `tests/perf` compares with the 40 ms that are promised."""
    times = []
    for _ in range(10):
        started = time.perf_counter()
        assert (await brev("--version", "--no-check-latest")).rc == 0
        times.append((time.perf_counter() - started) * 1000)
    times.sort()
    record_property("brev_start_median_ms", round(times[len(times) // 2], 1))
    print(f"start to end of `brev --version`: best {times[0]:.1f} ms, median {times[len(times) // 2]:.1f} ms")


@pytest.mark.skipif(REAL, reason=NEEDS_OURS)
async def test_the_call_log_has_names_of_variables_but_no_secret_value(brev: Program) -> None:
    brev.extra["BREV_API_KEY"] = "bak-secret-value"
    brev.extra["AWS_SECRET_ACCESS_KEY"] = "other-secret-value"
    await brev("ls", "--json")
    (call,) = await brev.simulator.calls()
    assert {"BREV_API_KEY", "AWS_SECRET_ACCESS_KEY", "HOME"} <= set(call["envNames"])
    assert "secret-value" not in str(call)
    assert (call["argv"], call["stdin"], call["stdout"], call["rc"]) == (["ls", "--json"], "chardev", "pipe", 0)
    assert call["hasCredentials"]
    assert call["startedAt"] <= call["endedAt"]


@pytest.mark.skipif(REAL, reason=NEEDS_OURS)
async def test_an_api_that_does_not_answer_is_a_network_error(brev: Program) -> None:
    brev.extra["BREV_API_URL"] = "http://127.0.0.1:9"
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("dial tcp 127.0.0.1:9: connect: connection refused\n")
    assert (await brev("--version", "--no-check-latest")).stdout == "Current Version: v0.6.327\n"
