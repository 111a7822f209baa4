"""One call of the CLI: environment, limits, classification of its end, log line and observer."""

import logging
import shutil
import time
from asyncio import Semaphore
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controller.brev import errors, process
from controller.brev.classify import failure
from controller.brev.clean import DETAIL_LIMIT, Masker, bounded, clean
from controller.brev.features import Capabilities
from controller.brev.homes import Home, Homes
from controller.brev.model import Output
from controller.brev.probe import ask
from controller.brev.slots import Slots

Observer = Callable[[str, str, float], None]
"""Called after each call with verb, outcome ("ok" or the error's class name) and seconds of run time."""

log = logging.getLogger("brev.cli")

TIMEOUTS = {"version": 20.0, "ls": 60.0, "orgs": 60.0, "search": 60.0, "create": 120.0, "delete": 120.0}
TIMEOUTS |= {"stop": 120.0, "start": 120.0, "refresh": 60.0, "copy": 300.0}
"""Seconds a verb may take before its process group is killed; the CLI's HTTP client itself has no time-out at all."""

STDERR_CAP = 1 << 20
_STDOUT_CAPS = {"ls": 16 << 20, "search": 32 << 20, "orgs": 4 << 20}
_DEFAULT_STDOUT_CAP = 1 << 20
_CHANGING = frozenset({"create", "delete", "stop", "start", "copy", "refresh"})

# The CLI up to v0.6.327 takes this file for its access token and sends it to the Brev API, before any login of ours.
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@dataclass(slots=True)
class Invoker:
    """Starts the CLI of one account. `executable` is a path or a name that is looked for on the HOMEs' PATH."""

    account: str
    homes: Homes
    slots: Slots
    executable: str = "brev"
    extra_env: Mapping[str, str] = field(default_factory=dict)
    time_scale: float = 1.0
    on_call: Observer = lambda _verb, _outcome, _seconds: None
    service_account_token: Path = SERVICE_ACCOUNT_TOKEN
    mask: Masker = field(default_factory=Masker)

    async def release(self) -> Capabilities:
        """What the installed CLI can do; asked once for each file (path, time, size) and process, by whoever is first.

        CliMissing. CliUnsupported, again and again without a call. What ended the asking otherwise is not remembered.
        """
        identity = self._identity()
        async with self.homes.probing:
            verdict = self.homes.verdicts.get(identity)
            if verdict is None:
                try:
                    verdict = await ask(self._probe)
                except errors.CliUnsupported as error:
                    verdict = error
                if not self.service_account_token.exists():
                    self.homes.verdicts[identity] = verdict
        if isinstance(verdict, errors.CliUnsupported):
            raise errors.CliUnsupported(verdict.message, detail=verdict.detail)
        return verdict

    async def call(
        self, verb: str, arguments: Sequence[str], *, home: Home, slot: Semaphore, machine: str = "", timeout: float = 0
    ) -> Output:
        """Run one command in `home`, whose lock the caller holds. `timeout` 0 takes the verb's own, scaled.

        Waiting for a slot does not count as run time. Raises the classified BrevError of any end but exit code 0.
        """
        limit = timeout or TIMEOUTS[verb] * self.time_scale
        async with slot:
            started = time.monotonic()
            outcome, code = "cancelled", None
            try:
                completed = await self._run(verb, arguments, home, limit)
                code = completed.returncode
                output = self._judge(verb, completed, limit)
                outcome = "ok"
            except Exception as error:
                outcome = type(error).__name__
                raise
            finally:
                self._report(verb, machine, outcome, time.monotonic() - started, code)
        return output

    async def _run(self, verb: str, arguments: Sequence[str], home: Home, timeout: float) -> process.Completed:
        if self.service_account_token.exists():
            raise errors.CliUnsupported(
                "a Kubernetes service-account token is mounted where the brev CLI would take it for its own login and "
                "send it to Brev; run the operator with automountServiceAccountToken: false"
            )
        return await process.run(
            [self.executable, *arguments],
            env=self._environment(home),
            cwd=self.homes.working_directory,
            timeout=timeout,
            stdout_cap=_STDOUT_CAPS.get(verb, _DEFAULT_STDOUT_CAP),
            stderr_cap=STDERR_CAP,
            grace=min(process.DEFAULT_GRACE_SECONDS, process.DEFAULT_GRACE_SECONDS * self.time_scale),
        )

    def _environment(self, home: Home) -> dict[str, str]:
        """Nothing is inherited: the CLI reads generic names such as VERSION, and DEBUG_HTTP prints the bearer token."""
        return {
            **self.extra_env,
            "HOME": str(home.path),
            "PATH": self.homes.path,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "DO_NOT_TRACK": "1",
            "BREV_NO_ANALYTICS": "1",
            # Any value keeps the CLI from leaving an ssh-agent behind after each exec.
            "SSH_AUTH_SOCK": "/nonexistent",
        }

    def _judge(self, verb: str, completed: process.Completed, timeout: float) -> Output:
        stdout = completed.stdout.decode(errors="replace")
        stderr = completed.stderr.decode(errors="replace")
        if completed.timed_out:
            detail = bounded(self.mask(clean(stderr)), DETAIL_LIMIT)
            raise errors.CallTimeout(f"brev {verb} did not end within {timeout:g} s", detail=detail, stdout=stdout)
        if completed.returncode != 0:
            raise failure(verb, completed.returncode, stdout, stderr, self.mask)
        if completed.stdout_truncated and verb in _STDOUT_CAPS:
            raise errors.Unparsable(f"brev {verb} printed more than {_STDOUT_CAPS[verb]} bytes")
        return Output(stdout, stderr)

    def _report(self, verb: str, machine: str, outcome: str, seconds: float, code: int | None) -> None:
        self.on_call(verb, outcome, seconds)
        level = logging.WARNING if outcome not in ("ok", "cancelled") else logging.DEBUG
        if outcome == "ok" and verb in _CHANGING:
            level = logging.INFO
        fields = {"account": self.account, "verb": verb, "machine": machine, "outcome": outcome, "rc": code}
        log.log(level, "brev %s: %s", verb, outcome, extra={**fields, "seconds": round(seconds, 3)})

    def _identity(self) -> tuple[str, int, int]:
        path = shutil.which(self.executable, path=self.homes.path)
        if path is None:
            raise errors.CliMissing(f"there is no executable {self.executable!r}; install the brev CLI or set its path")
        status = Path(path).stat()
        return path, status.st_mtime_ns, status.st_size

    async def _probe(self, arguments: Sequence[str]) -> Output:
        """One question to the program itself: it takes as long whatever the scale of the simulated world."""
        home, slot = self.homes.bare(), self.slots.poll
        return await self.call("version", arguments, home=home, slot=slot, timeout=TIMEOUTS["version"])
