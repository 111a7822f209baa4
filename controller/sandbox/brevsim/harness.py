"""The simulator as tests, demo and sandbox use it: a child process and a client of its control endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from controller.sandbox.brevsim.accounts import ISSUER
from controller.sandbox.brevsim.profile import Profile

Machines = list[dict[str, Any]]
_ROOT = Path(__file__).resolve().parents[3]


class SimulatorError(Exception):
    """The backend did not start, or refused a control request."""


class Simulator:
    """One simulated Brev service. Independent of any event loop; its methods may be called from several."""

    api_key = "bak-sim-first"
    org_id = "org-2fSimAcme0000000000000001"
    second_org_api_key = "bak-sim-second-org"
    second_org_id = "org-2fSimBeta0000000000000002"
    other_account_api_key = "bak-sim-other-account"
    other_account_org_id = "org-2fSimOther000000000000003"
    refresh_credential = "session-1:device-1"

    def __init__(self, process: subprocess.Popen[bytes], directory: Path, url: str, cli: Path) -> None:
        self._process = process
        self.directory = directory
        self.url = url
        self.cli = cli

    @classmethod
    async def start(
        cls,
        directory: Path,
        *,
        release: str = "v0.6.327",
        variant: str = "a",
        profile: Profile | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Simulator:
        """Start a backend whose state is below `directory`; it ends with this process, however that ends.

        `variant` says how what nobody has seen is played: "a", "b", or names of rules (see `release.py`).
        `environment` is added to the backend's own (a janitor's marker).
        """
        directory.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "controller.sandbox.brevsim", "--directory", str(directory), "--lifeline"]
        argv += [
            "--release",
            release,
            "--variant",
            variant,
            "--profile",
            json.dumps((profile or Profile.default()).as_dict()),
        ]
        variables = {
            **os.environ,
            **environment,
            "PYTHONPATH": f"{_ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }
        log = directory / "brevsim.log"
        with log.open("ab") as errors:
            process = _spawn(argv, variables, errors)
        line = await asyncio.to_thread(_first_line, process)
        if not line:
            process.kill()
            _close(process)
            raise SimulatorError(f"the backend did not start: {log.read_text(errors='replace')[-2000:]}")
        ready = json.loads(line)
        return cls(process, directory, ready["url"], Path(ready["cli"]))

    @property
    def pid(self) -> int:
        return self._process.pid

    def env(self) -> dict[str, str]:
        """What points a `brev` executable (ours or a real one) at this backend."""
        return {
            "BREV_API_URL": self.url,
            "BREV_PUBLIC_API_URL": f"{self.url}/public",
            "BREV_AUTH_URL": f"{self.url}/auth",
            "BREV_AUTH_ISSUER_URL": ISSUER,
            "BREV_GRPC_URL": self.url.removeprefix("http://"),
            "BREV_CONSOLE_URL": f"{self.url}/console",
        }

    async def machines(self) -> Machines:
        """Every machine that is not gone, with the live processes on it."""
        found: Machines = await self._get("machines")
        return found

    async def calls(self) -> list[dict[str, Any]]:
        """Every process of the executable: argv, kinds of streams, environment, times, exit code (-9 = killed)."""
        found: list[dict[str, Any]] = await self._get("calls")
        return found

    async def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._get("requests")
        return found

    async def commands(self) -> list[dict[str, Any]]:
        """Every remote command: machine, text, how often it ran, exit code."""
        found: list[dict[str, Any]] = await self._get("commands")
        return found

    async def alarms(self) -> list[dict[str, Any]]:
        """What no test should overlook: refused names, routes and commands without rules."""
        found: list[dict[str, Any]] = await self._get("alarms")
        return found

    async def invoice(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._get("invoice")
        return found

    async def add_fault(self, rule: dict[str, Any]) -> str:
        """Add a fault rule (see `faults.py`) and return its id."""
        return str((await self._post("faults", rule))["id"])

    async def faults(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._get("faults")
        return found

    async def clear_faults(self) -> None:
        await self._request("DELETE", "faults", None)

    async def reset(self, *, release: str = "v0.6.327", variant: str = "a", profile: Profile | None = None) -> None:
        """Begin again as a new world behind the same address; much cheaper than a new backend."""
        await self._post(
            "reset", {"release": release, "variant": variant, "profile": (profile or Profile.default()).as_dict()}
        )

    async def advance(self, seconds: float) -> float:
        """Move the world's clock; what falls due has happened on return."""
        return float((await self._post("advance", {"seconds": seconds}))["now"])

    async def set_latency(self, **seconds: float) -> None:
        await self._post("settings", {"latency": seconds})

    async def settings(self, **changes: Any) -> dict[str, Any]:
        """Change the world: `factor`, `soldOut`, `credits`, `rotateKey`, `revoke`, `serviceAccountToken`, `online` …"""
        found: dict[str, Any] = await self._post("settings", changes)
        return found

    async def event(self, machine_id: str, event: str, message: str = "") -> None:
        """Let something happen to a machine: vanish, failure, unhealthy, healthy, stopped, running, stuck."""
        await self._post("event", {"machine": machine_id, "event": event, "message": message})

    async def jwt(self, *, user: str = "user-1", lifetime: float = 3600) -> str:
        return str((await self._post("jwt", {"user": user, "lifetime": lifetime}))["jwt"])

    async def wait_for(self, satisfied: Callable[[Machines], bool], deadline: float = 30.0) -> Machines:
        """Return the machines as soon as they satisfy; woken by changes. Raises TimeoutError at the deadline."""
        version = -1
        async with asyncio.timeout(deadline):
            while True:
                state = await self._post("change", {"after": version, "timeout": 1.0})
                version = state["version"]
                if satisfied(state["machines"]):
                    machines: Machines = state["machines"]
                    return machines

    async def wait_for_call(
        self, satisfied: Callable[[dict[str, Any]], bool], deadline: float = 30.0
    ) -> dict[str, Any]:
        """Return the first process of the executable, past or coming, that satisfies. Raises TimeoutError."""
        version = -1
        async with asyncio.timeout(deadline):
            while True:
                state = await self._post("change", {"after": version, "timeout": 1.0})
                version = state["version"]
                found = next((call for call in await self.calls() if satisfied(call)), None)
                if found is not None:
                    return found

    def log_in(self, home: Path, *, api_key: str | None = None, org_id: str | None = None) -> None:
        """Write the files that an API-key login leaves below `home`, without a process."""
        directory = home / ".brev"
        directory.mkdir(parents=True, exist_ok=True)
        organization = org_id or self.org_id
        saved = {"access_token": "", "refresh_token": "", "api_key": api_key or self.api_key}
        for name, value in (
            ("credentials.json", {**saved, "api_key_org_id": organization}),
            ("active_org.json", {"id": organization, "name": organization, "userNetworkId": ""}),
            ("onboarding_step.json", {"step": 1, "hasRunBrevShell": False, "hasRunBrevOpen": False}),
        ):
            (directory / name).write_text(json.dumps(value))
            (directory / name).chmod(0o600)

    async def stop(self) -> None:
        """End the backend and everything on its machines. Idempotent."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _close(self._process)

    async def _get(self, path: str) -> Any:
        return await self._request("GET", path, None)

    async def _post(self, path: str, value: Any) -> Any:
        return await self._request("POST", path, value)

    async def _request(self, method: str, path: str, value: Any) -> Any:
        body = b"" if value is None else json.dumps(value).encode()
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            head = f"{method} /sim/{path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()
        top, _, payload = answer.partition(b"\r\n\r\n")
        if b" 200 " not in top.split(b"\r\n", 1)[0]:
            raise SimulatorError(f"{method} /sim/{path}: {payload.decode(errors='replace') or top.decode()}")
        return json.loads(payload)


def _spawn(argv: list[str], environment: dict[str, str], errors: BinaryIO) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=errors, env=environment, start_new_session=True)


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    return process.stdout.readline() if process.stdout else b""


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.wait()
