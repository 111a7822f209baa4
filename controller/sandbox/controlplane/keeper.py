"""One control plane shared by all processes of a test run, kept by a process that lives as long as the run does.

Whichever worker needs it first starts the keeper; the keeper watches the run's owner (the pytest process that the
person started), so it ends with the run however the run ends, and not with the worker that happened to start it.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from controller.sandbox.controlplane.cluster import Cluster
from controller.sandbox.controlplane.components import write_private
from controller.sandbox.controlplane.errors import ControlPlaneError
from controller.sandbox.controlplane.plane import ControlPlane
from controller.sandbox.janitor import is_running, read_process
from controller.sandbox.waiting import wait_until

END_SECONDS = 60
READY = b"ready\n"


@dataclass(frozen=True, slots=True)
class SharedControlPlane:
    """The control plane of one run; `directory` is private to the run and need not exist yet."""

    directory: Path
    owner: int

    def cluster(self, crds: Sequence[Path] = ()) -> Cluster:
        """Start it, or wait for whoever is starting it; the first caller's `crds` count.

        Raises ControlPlaneError, in every caller alike, if it could not be started.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            if not self._state.exists():
                self._start(crds)
            state = json.loads(self._state.read_text())
        if "error" in state:
            raise ControlPlaneError(state["error"])
        return Cluster.load(state["cluster"])

    def end(self) -> None:
        """End the keeper, wait until all is gone, and remove the directory. Does nothing if none was started."""
        if self._state.exists():
            state = json.loads(self._state.read_text())
            if "keeper" in state and is_running(*state["keeper"]):
                pid, start = state["keeper"]
                os.kill(pid, signal.SIGTERM)
                wait_until(lambda: not is_running(pid, start), END_SECONDS, "the end of the control plane")
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, crds: Sequence[Path]) -> None:
        read_end, write_end = os.pipe()
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        argv = [sys.executable, "-m", __name__, str(self.directory), str(self.owner), *map(str, crds)]
        # Not subprocess: its object would complain that the process outlives the worker, which is the point here.
        pid = os.posix_spawn(
            sys.executable,
            argv,
            {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, write_end, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
        for descriptor in (write_end, log, null):
            os.close(descriptor)
        with os.fdopen(read_end, "rb") as answer:
            ready = answer.readline() == READY
        if not ready:
            os.waitpid(pid, 0)
            write_private(self._state, json.dumps({"error": self._log.read_text(errors="replace").strip()}))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @property
    def _state(self) -> Path:
        return self.directory / "state.json"

    @property
    def _log(self) -> Path:
        return self.directory / "keeper.log"

    def keep(self, crds: Sequence[Path]) -> None:
        """The keeper's whole life; called in the keeper process only."""
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        me = read_process(os.getpid())
        with ControlPlane.start(self.directory, crds=crds) as plane:
            plane.janitor.remove_on_exit(self.directory)
            state = {"cluster": plane.cluster.dump(), "keeper": [os.getpid(), me.start if me else 0]}
            write_private(self._state, json.dumps(state))
            os.write(1, READY)
            with contextlib.suppress(ProcessLookupError):
                poller = select.poll()
                poller.register(os.pidfd_open(self.owner), select.POLLIN)
                poller.poll()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _main(directory: str, owner: str, *crds: str) -> None:
    try:
        SharedControlPlane(Path(directory), int(owner)).keep([Path(file) for file in crds])
    except ControlPlaneError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main(*sys.argv[1:])
