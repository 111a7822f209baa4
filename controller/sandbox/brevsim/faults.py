"""Faults by rule: `{"match": {…}, "action": {"type": …, …}}`.

`match` may name `verb` (a word or a list: a command of the executable, or create/delete/stop/start/reset/list for what
the API does), `name` (glob over the machine's name), `api` (glob over `METHOD /path`), `machine` (glob over the id).
`count: n` fires on the first n matches (default 1), `nth: n` on the nth alone, `every: true` on all.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any


class Point(StrEnum):
    """Where a rule is asked for."""

    CALL = "call"
    """A process of the executable, before it does anything."""
    API = "api"
    MACHINE = "machine"
    """A state change that the service has just accepted."""
    ROWS = "rows"
    SSH = "ssh"
    """One attempt to connect."""
    COPY = "copy"


ACTIONS: dict[str, Point] = {
    # rc, stdout, stderr: printed instead of doing anything
    "fail": Point.CALL,
    # stdout: success is claimed, nothing is done
    "exit0": Point.CALL,
    # when: before (default) | after; until the process is killed
    "hang": Point.CALL,
    # seconds, when: before (default) | after
    "delay": Point.CALL,
    # fraction (0.5) of the output, then `rc` (0), or death by SIGKILL with `die`
    "half_write": Point.CALL,
    # everything is done, then the process is killed before it can say so
    "die": Point.CALL,
    # status, message or body: the API answers so and does nothing
    "refuse": Point.API,
    # status (502), body: the API does it, then answers so; `die` kills the client instead of answering
    "accept_then_fail": Point.API,
    # seconds: the API answers late
    "slow": Point.API,
    # stays in the state that it has just entered
    "stuck": Point.MACHINE,
    # message, after: becomes FAILURE instead of RUNNING
    "failure": Point.MACHINE,
    # after: the row and the machine go without anybody's doing
    "vanish": Point.MACHINE,
    # RUNNING, but the build says CREATE_FAILED
    "build_failed": Point.MACHINE,
    "unhealthy": Point.MACHINE,
    # RUNNING, and the build never says anything
    "no_build": Point.MACHINE,
    # the API gives no instance type
    "untyped": Point.MACHINE,
    # RUNNING, but without an ssh user: breaks everybody's refresh
    "no_ssh_user": Point.MACHINE,
    # keep: how many rows stay (0), or hide: glob over names
    "lost_rows": Point.ROWS,
    "ssh_refused": Point.SSH,
    "ssh_denied": Point.SSH,
    "ssh_silent": Point.SSH,
    "ssh_unresolvable": Point.SSH,
    # fraction (0.5): the copy ends in the middle of its largest file
    "partial_copy": Point.COPY,
    # the connection's master outlives the killed program and holds its stderr until the remote command ends (A11)
    "linger": Point.SSH,
    # after: seconds; the connection breaks, the remote command goes on
    "drop": Point.SSH,
}
_MATCH_KEYS = {"verb", "name", "api", "machine", "nth", "count", "every"}

Action = dict[str, Any]


@dataclass(slots=True)
class Rule:
    id: str
    match: dict[str, Any]
    action: Action
    seen: int = 0
    fired: int = 0

    def fits(self, *, verb: str, name: str, api: str, machine: str) -> bool:
        verbs = self.match.get("verb")
        if verbs is not None and verb not in ([verbs] if isinstance(verbs, str) else verbs):
            return False
        values = {"name": name, "api": api, "machine": machine}
        return all(fnmatchcase(value, self.match[key]) for key, value in values.items() if key in self.match)

    def due(self) -> bool:
        """Whether the match that was just counted fires."""
        if self.match.get("every"):
            return True
        if "nth" in self.match:
            return bool(self.seen == self.match["nth"])
        return bool(self.seen <= self.match.get("count", 1))


@dataclass(slots=True)
class Faults:
    rules: list[Rule] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, rule: dict[str, Any]) -> Rule:
        """Accept a rule; raises ValueError for a key or action that no code honours."""
        match, action = dict(rule.get("match", {})), rule.get("action")
        if isinstance(action, str):
            action = {"type": action}
        if set(rule) - {"match", "action"} or set(match) - _MATCH_KEYS:
            raise ValueError(f"unknown keys in fault rule {rule!r}")
        if not isinstance(action, dict) or action.get("type") not in ACTIONS:
            raise ValueError(f"unknown action in fault rule {rule!r}; known: {', '.join(ACTIONS)}")
        added = Rule(f"fault-{next(self._numbers)}", match, action)
        self.rules.append(added)
        return added

    def clear(self) -> None:
        self.rules.clear()

    def take(self, point: Point, *, verb: str = "", name: str = "", api: str = "", machine: str = "") -> list[Action]:
        """Count this occasion in every rule of the point that fits, and return the actions that fire."""
        fired = []
        for rule in self.rules:
            if ACTIONS[rule.action["type"]] is not point or not rule.fits(
                verb=verb, name=name, api=api, machine=machine
            ):
                continue
            rule.seen += 1
            if rule.due():
                rule.fired += 1
                fired.append(rule.action)
        return fired
