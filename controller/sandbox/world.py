"""The sandbox as one thing: a control plane, the Brev simulator, an account with a login, and the operator."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from controller.api.meta import API_VERSION, GROUP, VERSION, Kind
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.brevsim.profile import Profile
from controller.sandbox.controlplane import Cluster, ControlPlane
from controller.sandbox.janitor import Janitor
from controller.sandbox.operator import OperatorError, OperatorOptions, OperatorProcess

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "crds"
TIME_SCALE = 0.1
"""Of the operator in the sandbox: it looks ten times as often as in production, since simulated machines are quick."""
SECRET_NAME = "brev-login"  # noqa: S105 (the name of an object)

USELESS_STARTS = 5
"""Starts in a row after which an operator that ends by itself is not started again."""

Say = Callable[[str], None]


class SandboxError(Exception):
    """The sandbox could not be put together."""


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """What kind of world it is."""

    profile: Profile = field(default_factory=Profile.default)
    release: str = "v0.6.327"
    operator: OperatorOptions = field(default_factory=lambda: OperatorOptions(time_scale=TIME_SCALE))
    account: str = "default"
    namespaces: tuple[str, ...] = ("default",)
    """Namespaces that the account allows; made if they do not exist."""
    later_namespaces: tuple[str, ...] = ()
    """Namespaces that the account allows and that somebody else will make."""
    with_operator: bool = True


class Sandbox:
    """An async context manager; on leaving it everything that it started has ended.

    With `cluster`, that control plane is used and left running, and its CRDs have to be there. `say` hears a short
    sentence as each part is ready; `keep_logs` gets a copy of all logs at the end. `operator` is prepared also where
    it is not wanted, and can be started later.
    """

    cluster: Cluster
    simulator: Simulator
    operator: OperatorProcess

    def __init__(
        self,
        options: SandboxOptions | None = None,
        *,
        cluster: Cluster | None = None,
        say: Say = lambda _: None,
        keep_logs: Path | None = None,
    ) -> None:
        self.options = options or SandboxOptions()
        self._keep_logs = keep_logs
        self.directory = Path(tempfile.gettempdir()) / f"brev-sandbox-{secrets.token_hex(8)}"
        self.plane: ControlPlane | None = None
        self._given = cluster
        self._say = say
        self._ending = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._end()

    @property
    def janitor(self) -> Janitor:
        """Ends whatever is handed to it together with the sandbox."""
        return self._janitor

    def logs(self) -> Mapping[str, Path]:
        """Log files by component, those that exist now."""
        found = {
            "operator": self.directory / "operator" / "operator.log",
            "brevsim": self.directory / "sim/brevsim.log",
        }
        if self.plane is not None:
            found |= {path.stem: path for path in self.plane.directory.glob("*.log")}
        return {name: path for name, path in found.items() if path.exists()}

    async def supervise(self) -> NoReturn:
        """Start the operator again whenever it ends, as a kubelet would: killed as often as anybody likes, also while
        it starts. Raises OperatorError when it has ended by itself some times in a row without becoming ready.
        """
        useless = 0
        while True:
            code = await self.operator.wait_ended(None)
            self.operator.start()
            self._say(f"the operator has ended with {code} and is started again as process {self.operator.pid}")
            try:
                await self.operator.wait_ready()
            except OperatorError:
                killed = not self.operator.running and (self.operator.returncode or 0) < 0
                useless += not killed
                if useless >= USELESS_STARTS:
                    raise
            else:
                useless = 0
                self._say(f"the operator is at work again; its metrics are at {self.operator.url}/metrics")

    async def _end(self) -> None:
        try:
            if self._keep_logs is not None:
                self._copy_logs(self._keep_logs)
        finally:
            await self._ending.aclose()

    def _copy_logs(self, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        for name, path in self.logs().items():
            shutil.copyfile(path, target / f"{name}.log")

    async def _start(self) -> None:
        self._janitor = Janitor()
        self._ending.push_async_callback(asyncio.to_thread, self._janitor.close)
        self._janitor.remove_on_exit(self.directory)
        self.directory.mkdir(mode=0o700, parents=True)
        tasks = (asyncio.create_task(self._start_cluster()), asyncio.create_task(self._start_simulator()))
        try:
            self.cluster, self.simulator = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.operator = OperatorProcess(
            kubeconfig=self.cluster.kubeconfig,
            cli=self.simulator.cli,
            directory=self.directory / "operator",
            janitor=self._janitor,
            options=self.options.operator,
        )
        await asyncio.to_thread(self._make_namespace, self.options.operator.namespace)
        if self.options.with_operator:
            self._ending.callback(self.operator.kill)
            self.operator.start()
        await asyncio.to_thread(self._make_account)
        if self.options.with_operator:
            await self.operator.wait_ready()
            self._say("the operator is at work")

    async def _start_cluster(self) -> Cluster:
        if self._given is not None:
            return self._given
        crds = sorted(CRDS.glob("*.yaml"))
        if not crds:
            raise SandboxError(f"there are no CRDs in {CRDS}: the sandbox runs from a checkout of the repository")
        self.plane = await _start_plane(crds)
        self._ending.push_async_callback(asyncio.to_thread, self.plane.stop)
        self._say("a Kubernetes control plane is up")
        return self.plane.cluster

    async def _start_simulator(self) -> Simulator:
        directory = self.directory / "sim"
        starting = asyncio.ensure_future(
            Simulator.start(
                directory,
                release=self.options.release,
                profile=self.options.profile,
                environment=self._janitor.environment(),
            )
        )
        try:
            simulator = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A backend that is let go half-started would write into a directory that has just been removed.
            await (await starting).stop()
            raise
        self._janitor.adopt(simulator.pid)
        self._ending.push_async_callback(simulator.stop)
        self._say("the Brev simulator is up")
        return simulator

    def _make_account(self) -> None:
        options, simulator = self.options, self.simulator
        for namespace in options.namespaces:
            self._make_namespace(namespace)
        secret = {
            "metadata": {"name": SECRET_NAME},
            "stringData": {"BREV_API_KEY": simulator.api_key, "BREV_ORG_ID": simulator.org_id},
        }
        self._make(f"/api/v1/namespaces/{options.operator.namespace}/secrets", secret)
        account = {
            "apiVersion": API_VERSION,
            "kind": str(Kind.ACCOUNT),
            "metadata": {"name": options.account},
            "spec": {
                "secretName": SECRET_NAME,
                "orgID": simulator.org_id,
                "allowedNamespaces": {"names": sorted({*options.namespaces, *options.later_namespaces})},
            },
        }
        self._make(f"/apis/{GROUP}/{VERSION}/{Kind.ACCOUNT.plural}", account)

    def _make_namespace(self, name: str) -> None:
        self._make("/api/v1/namespaces", {"metadata": {"name": name}}, exists_ok=True)

    def _make(self, path: str, body: dict[str, Any], *, exists_ok: bool = False) -> None:
        answer = self.cluster.request("POST", path, body)
        if answer.status == HTTPStatus.CONFLICT and exists_ok:
            return
        if answer.status != HTTPStatus.CREATED:
            raise SandboxError(f"{path}: {answer.body.get('message') or answer.status}")


def allowing(options: SandboxOptions, made: tuple[str, ...], later: tuple[str, ...]) -> SandboxOptions:
    """The same world, whose account also allows these namespaces: `made` now, `later` by somebody else."""
    return replace(
        options,
        namespaces=tuple(dict.fromkeys((*options.namespaces, *made))),
        later_namespaces=tuple(dict.fromkeys((*options.later_namespaces, *later))),
    )


async def _start_plane(crds: Sequence[Path]) -> ControlPlane:
    """Start it in a thread that nobody waits for once the caller is cancelled.

    A first start may build for ten minutes, and Ctrl-C must not wait for it: what the thread has started ends with
    this process. Where the process lives on, a control plane that nobody wants any more is stopped when it is up.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[ControlPlane] = loop.create_future()

    def settle(outcome: ControlPlane | BaseException) -> None:
        if isinstance(outcome, ControlPlane):
            if result.cancelled():
                threading.Thread(target=outcome.stop, daemon=True).start()
            else:
                result.set_result(outcome)
        elif not result.cancelled():
            result.set_exception(outcome)

    def run() -> None:
        try:
            outcome: ControlPlane | BaseException = ControlPlane.start(crds=crds)
        except BaseException as error:  # noqa: BLE001 (handed to the caller as it is)
            outcome = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="control plane", daemon=True).start()
    return await result
