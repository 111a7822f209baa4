"""What happened: every process of the executable, every API request, every remote command, every cent."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.money import charge

_KEPT = 200_000


class Ledger:
    """Append-only logs, oldest first; dropped beyond a bound that no test reaches."""

    def __init__(self) -> None:
        self.calls: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self.requests: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self.commands: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        """What a test must not overlook: refused names, unknown routes, rules that nobody has written."""
        self._runs: Counter[tuple[str, str]] = Counter()

    def command(self, at: float, machine: Machine, text: str, attempt: int) -> dict[str, Any]:
        """Note the start of a remote command; the caller adds `endedAt` and `exit`.

        `count` says how often this very text ran on this machine so far, `attempt` which try of one `exec` it was.
        """
        key = (machine.id, text)
        self._runs[key] += 1
        entry = {
            "machine": machine.id,
            "name": machine.name,
            "command": text,
            "count": self._runs[key],
            "attempt": attempt,
            "startedAt": at,
            "endedAt": None,
            "exit": None,
        }
        self.commands.append(entry)
        return entry

    def alarm(self, at: float, kind: str, text: str) -> None:
        self.alarms.append({"at": at, "kind": kind, "text": text})


def invoice(machines: Iterable[Machine], now: float) -> dict[str, Any]:
    """One line per machine that ever existed, from the accepted create until it was gone; micro-dollars and seconds."""
    lines = []
    for machine in machines:
        end = machine.gone_at if machine.gone_at is not None else now
        seconds = max(0.0, end - machine.created_at)
        lines.append(
            {
                "machine": machine.id,
                "name": machine.name,
                "organization": machine.organization_id,
                "type": machine.instance_type,
                "pricePerHourMicros": machine.price_micros,
                "openedAt": machine.created_at,
                "closedAt": machine.gone_at,
                "seconds": round(seconds, 6),
                "micros": charge(machine.price_micros, seconds),
            }
        )
    return {"lines": lines, "totalMicros": sum(line["micros"] for line in lines)}
