"""Starting and stopping one control plane. Whatever happens to this process, the janitor leaves nothing behind."""

import contextlib
import http.client
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from controller.sandbox.controlplane import components
from controller.sandbox.controlplane.cluster import Cluster, Kubectl
from controller.sandbox.controlplane.components import Layout
from controller.sandbox.controlplane.errors import ControlPlaneError
from controller.sandbox.controlplane.progress import Progress
from controller.sandbox.controlplane.provider import Binaries, provide
from controller.sandbox.janitor import Janitor

START_SECONDS = 120.0
POLL_SECONDS = 0.05
PROBE_SECONDS = 2.0
PORT_TRIES = 5
PORT_TAKEN = "address already in use"
LOG_LINES = 15


class ControlPlane:
    """etcd, kube-apiserver and kube-controller-manager on loopback with data of their own, gone with this process."""

    def __init__(self, janitor: Janitor, layout: Layout, binaries: Binaries) -> None:
        """Use `start`."""
        self._janitor = janitor
        self._layout = layout
        self._binaries = binaries
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.cluster: Cluster

    @classmethod
    def start(
        cls, directory: Path | None = None, *, crds: Sequence[Path] = (), progress: Progress | None = None
    ) -> Self:
        """Return when `/readyz` says ok, the namespace `default` exists and `crds` are served.

        The data lie in a new 0700 directory below `directory` (default: the system's temporary one). CRDs given here
        are known to the garbage collector at once; those installed later only after its next discovery (30 s).
        Raises BinariesUnavailableError, or ControlPlaneError with the failing component's last log lines.
        """
        binaries = provide(progress)
        base = directory or Path(tempfile.gettempdir())
        layout = Layout(base.absolute() / f"brev-controlplane-{os.urandom(8).hex()}")
        # SIGKILL at once: the data are removed anyway, and an orderly end takes the API server seconds.
        plane = cls(Janitor(grace_seconds=0), layout, binaries)
        try:
            plane.janitor.remove_on_exit(layout.directory)
            layout.directory.mkdir(mode=0o700, parents=True)
            plane._start_all(crds)
        except BaseException:
            plane.stop()
            raise
        return plane

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`."""
        return self.cluster.url

    @property
    def kubeconfig(self) -> Path:
        """The admin's, 0600, with the CA inside."""
        return self.cluster.kubeconfig

    @property
    def ca_file(self) -> Path:
        """PEM, for clients that take no kubeconfig."""
        return self.cluster.ca_file

    @property
    def admin_token(self) -> str:
        """Bearer token of a member of system:masters, new for every run."""
        return self.cluster.admin_token

    @property
    def kubectl(self) -> Kubectl:
        """Callable, and usable as a path."""
        return self.cluster.kubectl

    @property
    def directory(self) -> Path:
        """Data and logs; removed by `stop`."""
        return self._layout.directory

    @property
    def pids(self) -> dict[str, int]:
        """Process id by component."""
        return {name: process.pid for name, process in self._processes.items()}

    @property
    def janitor(self) -> Janitor:
        """For processes and paths that shall end together with the control plane."""
        return self._janitor

    def stop(self) -> None:
        """End all three and remove the data. Idempotent."""
        self._janitor.close()
        for process in self._processes.values():
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _start_all(self, crds: Sequence[Path]) -> None:
        token = components.write_identity(self._layout)
        self._spawn("etcd", components.etcd_command(self._binaries))
        self.cluster = self._start_apiserver(token)
        components.write_kubeconfig(self._layout, self.cluster.url, token)
        self.cluster.install_crds(*crds)
        self._spawn("kube-controller-manager", components.controller_manager_command(self._binaries))
        # Every namespace gets this account from a controller, so its existence proves that the controllers run.
        self._await("kube-controller-manager", "/api/v1/namespaces/default/serviceaccounts/default")

    def _start_apiserver(self, token: str) -> Cluster:
        """A free port is only free until somebody else takes it, so the API server's own complaint decides."""
        layout = self._layout
        for _ in range(PORT_TRIES):
            port = free_port()
            self._spawn("kube-apiserver", components.apiserver_command(self._binaries, port))
            kubectl = Kubectl(self._binaries.kubectl, layout.kubeconfig)
            url = f"https://127.0.0.1:{port}"
            self.cluster = Cluster(url, layout.kubeconfig, layout.ca_file, token, kubectl)
            try:
                self._await("kube-apiserver", "/readyz", "/api/v1/namespaces/default")
            except ControlPlaneError:
                if PORT_TAKEN not in self._log_tail("kube-apiserver"):
                    raise
                continue
            return self.cluster
        raise ControlPlaneError(f"kube-apiserver found no free port on 127.0.0.1 in {PORT_TRIES} tries")

    def _await(self, component: str, *paths: str) -> None:
        """Return when all the API paths answer 200; raises ControlPlaneError if a component ends, or after a time."""
        deadline = time.monotonic() + START_SECONDS
        while not all(self._answers(path) for path in paths):
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise ControlPlaneError(f"{name} ended with {process.returncode}:\n{self._log_tail(name)}")
            if time.monotonic() > deadline:
                tail = self._log_tail(component)
                raise ControlPlaneError(f"{component} was not ready after {START_SECONDS:.0f} s:\n{tail}")
            time.sleep(POLL_SECONDS)

    def _answers(self, path: str) -> bool:
        # OSError includes a certificate that is not written yet.
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.cluster.request("GET", path, timeout=PROBE_SECONDS).status == http.HTTPStatus.OK
        return False

    def _spawn(self, name: str, argv: list[str]) -> None:
        with self._layout.log(name).open("wb") as log:
            process = subprocess.Popen(
                argv,
                cwd=self._layout.directory,
                env={
                    "PATH": os.defpath,
                    "HOME": str(self._layout.directory),
                    "TMPDIR": str(self._layout.directory),
                    **self._janitor.environment(),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._janitor.adopt(process.pid)
        self._processes[name] = process

    def _log_tail(self, name: str) -> str:
        lines = self._layout.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


def free_port() -> int:
    """A TCP port of loopback that nobody used a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
