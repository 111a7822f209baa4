"""Helm and Argo CD's Lua for these tests: found or built once, the lane skipped where neither is possible."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.capture import CaptureManager

from controller.sandbox.controlplane import BinariesUnavailableError
from controller.sandbox.tools import glua, helm


def _provided(config: pytest.Config, provide: Callable[[], Path]) -> Path:
    """A first build takes minutes, so what it says on stderr is let through. CI fails where others skip."""
    capture: CaptureManager | None = config.pluginmanager.getplugin("capturemanager")
    try:
        if capture is None:
            return provide()
        with capture.global_and_fixture_disabled():
            return provide()
    except BinariesUnavailableError as error:
        reason = f"not on this machine: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def helm_program(pytestconfig: pytest.Config) -> Path:
    """For tests that render."""
    return _provided(pytestconfig, helm)


@pytest.fixture(scope="session")
def lua(pytestconfig: pytest.Config) -> Path:
    """gopher-lua, in which Argo CD runs health scripts."""
    return _provided(pytestconfig, glua)
