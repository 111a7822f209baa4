"""How long to wait before the next try. Jitter comes from the caller's key, so that decisions stay pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controller.decide.names import short_hash


@dataclass(frozen=True, slots=True)
class Timing:
    """Every interval that decisions use, in seconds, already under the one time scale of the settings."""

    poll_floor: float = 5.0
    poll_ceiling: float = 60.0
    settle: float = 30.0
    retry_base: float = 5.0
    retry_cap: float = 300.0
    recheck: float = 60.0


def jitter(key: str) -> float:
    """A factor in [0.9, 1.1) that is a function of `key` alone."""
    return 0.9 + 0.2 * (int.from_bytes(short_hash(key, 4).encode(), "big") % 1000) / 1000


def retry_delay(timing: Timing, failures: int, key: str) -> timedelta:
    """Exponential from `retry_base` (first failure) to `retry_cap`, jittered by the object's uid."""
    exponent = min(max(failures - 1, 0), 20)
    seconds = min(timing.retry_base * 2**exponent, timing.retry_cap)
    return timedelta(seconds=seconds * jitter(f"{key}/{failures}"))


def recheck_delay(timing: Timing, since: datetime, now: datetime, key: str) -> timedelta:
    """Until the next look at something that has been wrong since `since`: as long again as it has been so far, between
    `retry_base` and `retry_cap`. So looks get rarer without a counter that each of them would have to write down.
    """
    seconds = min(max((now - since).total_seconds(), timing.retry_base), timing.retry_cap)
    return timedelta(seconds=seconds * jitter(f"{key}/{int(seconds)}"))


def poll_delay(timing: Timing, elapsed_seconds: float, key: str) -> timedelta:
    """5 % of the run's age between floor and ceiling: a short job is seen soon, a long one is not pestered."""
    seconds = min(max(elapsed_seconds * 0.05, timing.poll_floor), timing.poll_ceiling)
    return timedelta(seconds=seconds * jitter(f"{key}/{int(elapsed_seconds)}"))
