"""The operator as a child process of the sandbox and of the integration tests: started, killed and started again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from controller.sandbox.janitor import Janitor

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.05
PROBE_SECONDS = 5.0
LOG_LINES = 30

_ROOT = Path(__file__).resolve().parents[2]
_PORT = re.compile(rb"serves probes and metrics on port (\d+)")


class OperatorError(Exception):
    """The operator ended, or did not become ready; the message has the last lines of its log."""


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """What differs between two operators on one control plane; the names are those of `controller.settings`."""

    cluster_id: str = "sandbox"
    namespace: str = "brev-operator"
    watch_namespaces: tuple[str, ...] = ()
    watch_accounts: tuple[str, ...] = ()
    lease_name: str = "brev-operator"
    time_scale: float = 1.0
    log_level: str = "INFO"
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further variables, with their whole names; they win over the fields above."""

    def environment(self) -> dict[str, str]:
        """The options as variables of the operator."""
        return {
            "BREV_OPERATOR_CLUSTER_ID": self.cluster_id,
            "BREV_OPERATOR_NAMESPACE": self.namespace,
            "BREV_OPERATOR_WATCH_NAMESPACES": ",".join(self.watch_namespaces),
            "BREV_OPERATOR_WATCH_ACCOUNTS": ",".join(self.watch_accounts),
            "BREV_OPERATOR_LEASE_NAME": self.lease_name,
            "BREV_OPERATOR_TIME_SCALE": f"{self.time_scale:g}",
            "BREV_OPERATOR_LOG_LEVEL": self.log_level,
            **self.extra,
        }


class OperatorProcess:
    """`python -m controller` against a kubeconfig and a `brev` executable; its state and log are below `directory`.

    Not bound to an event loop. A restarted operator finds the same state directory and appends to the same log.
    """

    def __init__(
        self,
        *,
        kubeconfig: Path,
        cli: Path,
        directory: Path,
        janitor: Janitor,
        options: OperatorOptions | None = None,
        module: str = "controller",
    ) -> None:
        """Starts nothing. `directory` is made, 0700; the janitor ends the process when this one is gone.

        `module` is what runs: tests have a wrapper of the operator that kills itself at a chosen step.
        """
        self._module = module
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._janitor = janitor
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._port = 0
        self.log_file = directory / "operator.log"
        self.environment: Mapping[str, str] = {
            "PATH": os.defpath,
            "HOME": str(directory),
            "TMPDIR": str(directory),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(_ROOT),
            "BREV_OPERATOR_KUBECONFIG": str(kubeconfig),
            "BREV_OPERATOR_BREV_CLI": str(cli),
            "BREV_OPERATOR_STATE_DIRECTORY": str(directory / "state"),
            "BREV_OPERATOR_LISTEN_ADDRESS": "127.0.0.1",
            "BREV_OPERATOR_LISTEN_PORT": "0",
            "BREV_OPERATOR_LOG_FORMAT": "text",
            **(options or OperatorOptions()).environment(),
        }

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process started last; RuntimeError before the first start. It leads its own process group."""
        return self._last.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._last.poll()

    @property
    def url(self) -> str:
        """Where probes and metrics are served; known after `wait_ready`."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process and return at once; RuntimeError if it runs."""
        if self.running:
            raise RuntimeError("the operator runs already")
        (self._directory / "state").mkdir(mode=0o700, exist_ok=True)
        self._port = 0
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                cwd=self._directory,
                env={**self.environment, **self._janitor.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._janitor.adopt(self._process.pid)

    async def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Return when `/readyz` says ok: the lease is held and the objects are known. Raises OperatorError."""
        complaint = "it has not said on which port it listens"
        try:
            async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
                while True:
                    self._require_running()
                    if self._find_port():
                        complaint = await self._complaint(session)
                        if not complaint:
                            return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            message = f"the operator was not ready after {seconds:.0f} s ({complaint}):\n{self.log_tail()}"
            raise OperatorError(message) from None

    async def metrics(self) -> str:
        """The text of `/metrics`."""
        return (await self._get("/metrics"))[1]

    async def health(self) -> tuple[int, str]:
        """Status and text of `/healthz`."""
        return await self._get("/healthz")

    def kill(self) -> None:
        """SIGKILL the operator alone, and reap it. Its `brev` children end by their own means. Idempotent."""
        if self.running:
            self._last.kill()
        self._reap()

    def kill_group(self) -> None:
        """SIGKILL the operator's whole process group, and reap the operator. Idempotent."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        self._reap()

    async def restart(self) -> None:
        """Kill it if it runs, start it again, and return when it is ready."""
        self.kill()
        self.start()
        await self.wait_ready()

    async def wait_ended(self, seconds: float | None = STOP_SECONDS) -> int:
        """The exit code, once it has ended by itself; TimeoutError after `seconds` (None: waits for ever)."""
        process = self._last
        if process.poll() is None:
            async with asyncio.timeout(seconds):
                await _end_of(process.pid)
        self._reap()
        return process.returncode

    async def stop(self) -> int | None:
        """SIGTERM, then SIGKILL after a time; the exit code, None if it was never started. Idempotent."""
        if self._process is None:
            return None
        if self.running:
            self._process.terminate()
        try:
            return await self.wait_ended()
        except TimeoutError:
            self.kill()
            return self._process.returncode

    def log(self) -> str:
        """Everything that all processes started by this object have logged."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log."""
        return "\n".join(self.log().splitlines()[-lines:])

    @property
    def _last(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the operator was not started")
        return self._process

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._janitor.release(self._process.pid)

    def _require_running(self) -> None:
        if not self.running:
            raise OperatorError(f"the operator ended with {self._last.returncode}:\n{self.log_tail()}")

    def _find_port(self) -> bool:
        """The port is free when the operator binds it, so only its own log can tell which one it is."""
        if not self._port:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start)
                if found := _PORT.search(log.read()):
                    self._port = int(found[1])
        return self._port != 0

    async def _complaint(self, session: aiohttp.ClientSession) -> str:
        """What keeps it from being ready; empty when it is."""
        try:
            async with session.get(f"{self.url}/readyz", timeout=aiohttp.ClientTimeout(PROBE_SECONDS)) as answer:
                text = (await answer.text()).strip()
                return "" if answer.status == 200 else text
        except (aiohttp.ClientError, TimeoutError) as error:
            return str(error) or "no answer"

    async def _get(self, path: str) -> tuple[int, str]:
        self._require_running()
        timeout = aiohttp.ClientTimeout(PROBE_SECONDS)
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}{path}", timeout=timeout) as answer:
            return answer.status, await answer.text()


async def _end_of(child: int) -> None:
    """Return when a child that is not reaped yet has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(child)
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
