"""Waiting for a condition of another process, where there is nothing to wait on but asking again."""

import time
from collections.abc import Callable

POLL_SECONDS = 0.02


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Return as soon as `condition()` is true; raises TimeoutError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(POLL_SECONDS)
