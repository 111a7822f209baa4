"""One active writer: a Lease that this process holds, renews, and stops at once without.

The rules are client-go's (k8s.io/client-go/tools/leaderelection): a candidate never compares its wall clock with the
holder's, but takes the lease over when it has not seen the holder renew for the whole duration on a clock of its own;
the holder stops itself earlier than that, when its last renewal *began* longer ago than the renew deadline. As long as
all clocks run at about the same speed, two processes never both believe that they hold it.

What it protects: `check()` runs directly before each write and each start of a CLI process, so that no *new* call is
made after the lease is lost. A call already in flight has to be idempotent.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound, Unauthorized
from controller.kube.protocol import Body, LeaseApi

log = logging.getLogger(__name__)


class LeaseLost(Exception):  # noqa: N818 (not a failed call but the end of this process's right to act)
    """This process must not act any more. Not a `KubeError`, so that nothing that retries those catches it."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds. `renew_interval` < `renew_deadline` < `duration`, or one active writer is not guaranteed."""

    duration: float
    renew_interval: float
    renew_deadline: float

    def __post_init__(self) -> None:
        if not 0 < self.renew_interval < self.renew_deadline < self.duration:
            raise ValueError(f"a lease needs 0 < renew interval < renew deadline < duration, got {self}")


def boot_clock() -> float:
    """Seconds on a clock that also runs while the machine is suspended, unlike `time.monotonic` on Linux.

    A laptop that wakes up after an hour has to find its lease lost.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def new_identity() -> str:
    """A name for this process that no other one has had: host for people, random part for uniqueness."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"


class Lease:
    """`await acquire()`, then `run()` in a task; `check()` before every effect; `await release()` at a clean end."""

    def __init__(
        self,
        api: LeaseApi,
        namespace: str,
        name: str,
        times: LeaseTimes,
        *,
        on_lost: Callable[[str], None],
        identity: str | None = None,
        clock: Callable[[], float] = boot_clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`on_lost` is called once, with the reason, as soon as the loss is noticed; it ends the process."""
        self.identity = identity or new_identity()
        self._api = api
        self._namespace = namespace
        self._name = name
        self._times = times
        self._on_lost = on_lost
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._stored: Body | None = None
        self._renewed_at: float | None = None
        self._lost = ""

    @property
    def held(self) -> bool:
        """Whether this process may act now. For metrics and readiness; effects use `check`."""
        return self._renewed_at is not None and not self._lost and not self._overdue()

    def check(self) -> None:
        """Return while the lease is held, else raise `LeaseLost`. Cheap: compares two numbers, makes no request."""
        if self._renewed_at is None:
            raise LeaseLost("the lease is not held")
        if not self._lost and self._overdue():
            self._lose(f"the lease was not renewed for {self._times.renew_deadline:g} s")
        if self._lost:
            raise LeaseLost(self._lost)

    async def acquire(self) -> None:
        """Return once the lease is held. Waits without end for another holder, and through API outages.

        Raises `Forbidden`, `Unauthorized` or `Invalid`, which waiting cannot cure (`Forbidden` includes a
        terminating namespace).
        """
        seen, seen_at, told = "", self._clock(), ""
        while True:
            try:
                stored = await self._api.get_lease(self._namespace, self._name, self._times.renew_deadline)
                holder = _holder(stored)
                version = stored["metadata"]["resourceVersion"] if stored else ""
                if version != seen:
                    seen, seen_at = version, self._clock()
                patience = self._patience(stored) - (self._clock() - seen_at)
                if holder in ("", self.identity) or patience <= 0:
                    await self._take(stored)
                    return
                if told != holder:
                    log.info("Waiting for the lease %s/%s, held by %s", self._namespace, self._name, holder)
                    told = holder
            except (Conflict, AlreadyExists):
                continue
            except (Forbidden, Unauthorized, Invalid):
                raise
            except KubeError as error:
                log.warning("The lease %s/%s cannot be read: %s", self._namespace, self._name, error.message)
                patience = self._times.renew_interval
            await self._sleep(min(self._times.renew_interval, max(patience, 0.05)))

    async def run(self) -> None:
        """Renew until the lease is lost; call `on_lost` then and return. Cancel this before `release`."""
        while not self._lost:
            await self._sleep(self._times.renew_interval)
            await self._renew_until_deadline()

    async def release(self) -> None:
        """Give the lease up so that the next process need not wait. Idempotent; failure only costs that wait."""
        stored, self._stored = self._stored, None
        if stored is None or self._lost:
            return
        self._lost = "the lease was released"
        spec = {name: value for name, value in stored["spec"].items() if name != "holderIdentity"}
        body = {**stored, "spec": {**spec, "renewTime": self._timestamp()}}
        try:
            await self._api.replace_lease(self._namespace, self._name, body, self._times.renew_interval)
        except KubeError as error:
            log.warning("The lease could not be released and has to expire: %s", error.message)

    async def _take(self, stored: Body | None) -> None:
        started = self._clock()
        timestamp = self._timestamp()
        old = stored["spec"] if stored else {}
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._advertised(),
            "acquireTime": timestamp,
            "renewTime": timestamp,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (1 if stored else 0),
        }
        timeout = self._times.renew_deadline
        if stored is None:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            self._stored = await self._api.create_lease(self._namespace, {**body, "spec": spec}, timeout)
        else:
            body = {**stored, "spec": spec}
            self._stored = await self._api.replace_lease(self._namespace, self._name, body, timeout)
        self._renewed_at = started
        log.info("Holding the lease %s/%s as %s", self._namespace, self._name, self.identity)

    async def _renew_until_deadline(self) -> None:
        """One renewal, tried again quickly after failures; ends renewed or lost."""
        while not self._lost:
            if self._overdue():
                self._lose(f"the lease was not renewed for {self._times.renew_deadline:g} s")
                return
            try:
                await self._renew()
                return
            except NotFound:
                self._lose("the lease was deleted")
            except Conflict:
                await self._reread()
            except KubeError as error:
                log.warning("The lease was not renewed, trying again: %s", error.message)
                await self._sleep(self._times.renew_interval / 4)

    async def _renew(self) -> None:
        assert self._stored is not None  # noqa: S101 (run() is for the holder)
        started = self._clock()
        body = {**self._stored, "spec": {**self._stored["spec"], "renewTime": self._timestamp()}}
        stored = await self._api.replace_lease(self._namespace, self._name, body, self._times.renew_interval)
        self._stored, self._renewed_at = stored, started

    async def _reread(self) -> None:
        """After a conflict: either an answer of ours was lost on its way, or somebody else holds the lease."""
        try:
            stored = await self._api.get_lease(self._namespace, self._name, self._times.renew_interval)
        except KubeError as error:
            log.warning("The lease cannot be read after a conflict: %s", error.message)
            await self._sleep(self._times.renew_interval / 4)
            return
        if _holder(stored) != self.identity:
            self._lose(f"the lease was taken by {_holder(stored) or 'nobody'}")
        else:
            self._stored = stored

    def _lose(self, reason: str) -> None:
        if self._lost:
            return
        self._lost = reason
        log.error("Stopping: %s", reason)
        self._on_lost(reason)

    def _overdue(self) -> bool:
        return self._renewed_at is not None and self._clock() - self._renewed_at > self._times.renew_deadline

    def _patience(self, stored: Body | None) -> float:
        """How long the holder may stay silent: our duration where it advertises the same, else the longer one."""
        theirs = int((stored or {}).get("spec", {}).get("leaseDurationSeconds") or 0)
        return self._times.duration if theirs == self._advertised() else max(self._times.duration, float(theirs))

    def _advertised(self) -> int:
        """The API takes whole seconds from 1."""
        return max(1, math.ceil(self._times.duration))

    def _timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _holder(stored: Body | None) -> str:
    return str((stored or {}).get("spec", {}).get("holderIdentity") or "")
