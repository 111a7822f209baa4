"""The operator's process: settings → logs → web → lease → lists → workers → kopf → drain."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys

from controller import __version__
from controller.brev import process
from controller.brev.homes import Homes
from controller.brev.model import Credential
from controller.brev.session import BrevSession
from controller.brev.slots import Slots
from controller.handlers import Login, Watcher, connection_info
from controller.kube.client import KubernetesClient
from controller.kube.connect import ConfigurationError, Connection, connect
from controller.kube.errors import KubeError
from controller.kube.events import EventRecorder
from controller.kube.lease import Lease, LeaseTimes
from controller.kube.transport import Transport
from controller.logs import configure_logging, mask
from controller.metrics import Metrics
from controller.reconcile.accounts import SessionFactory
from controller.reconcile.operator import Operator
from controller.settings import Settings, SettingsError, read_settings, variable
from controller.web import Check, LoopLag, WebServer

log = logging.getLogger("controller")

EXIT_SETTINGS = 2
EXIT_LEASE_LOST = 3
DRAIN_SECONDS = 10.0


def main() -> None:
    """Console entry point. Exit codes: 0 clean stop, 1 failure, 2 wrong settings, 3 the lease was lost."""
    _arguments()
    try:
        settings = read_settings()
    except SettingsError as error:
        print(f"brev-operator cannot start:\n{error}", file=sys.stderr)
        sys.exit(EXIT_SETTINGS)
    configure_logging(settings.log_format, settings.log_level)
    try:
        asyncio.run(run(settings))
    except (ConfigurationError, KubeError, OSError) as error:
        log.critical("The operator cannot run: %s", error)
        sys.exit(1)


def _arguments() -> None:
    """There are none but help and version; a misspelt one ends with 2, as a misspelt setting does."""
    parser = argparse.ArgumentParser(
        prog="brev-operator",
        description="NVIDIA Brev GPU machines, and the jobs on them, as Kubernetes objects. Settings are environment "
        "variables BREV_OPERATOR_*; `python -m controller.settings --markdown` lists them.",
    )
    parser.add_argument("--version", action="version", version=f"brev-operator {__version__}")
    parser.parse_args()


async def run(settings: Settings) -> None:
    """Run until a signal; returns after a clean drain."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics = Metrics()
    connection = await connect(kubeconfig=settings.kubeconfig, token_file=settings.token_file, ca_file=settings.ca_file)
    kube = _client(settings, connection, metrics)
    lease = _lease(settings, kube)
    kube.add_before_write(lambda _call: lease.check())
    process.before_spawn.append(lambda _argv: lease.check())
    metrics.watch_lease(lambda: lease.held)
    events = EventRecorder(kube, lease.identity, on_drop=metrics.count_dropped_event, mask=mask)
    operator = Operator(settings, kube, events, metrics, _sessions(settings, metrics))
    lag = LoopLag(limit=10.0)
    web = _web(settings, metrics, operator, lease, lag)
    try:
        await web.start()
    except OSError as error:
        raise OSError(f"{variable('listen_address')}, {variable('listen_port')}: {error}") from error
    log.info("brev-operator %s serves probes and metrics on port %d", __version__, web.port)
    background = [asyncio.create_task(lag.run(), name="loop lag")]
    try:
        if await _acquired(lease, stop):
            background.append(asyncio.create_task(lease.run(), name="lease"))
            background.append(asyncio.create_task(events.run(), name="events"))
            await _serve(settings, operator, events, stop, lambda: connection_info(connection.configuration))
            await lease.release()
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await web.stop()
        await kube.close()
    log.info("The operator has stopped.")


def _client(settings: Settings, connection: Connection, metrics: Metrics) -> KubernetesClient:
    timeout = settings.request_timeout
    return KubernetesClient(
        Transport(connection, request_timeout=timeout, on_call=metrics.count_kubernetes_request, before_write=())
    )


def _web(settings: Settings, metrics: Metrics, operator: Operator, lease: Lease, lag: LoopLag) -> WebServer:
    return WebServer(
        settings.listen_address,
        settings.listen_port,
        registry=metrics.registry,
        health={"loop": lag.check, "workers": operator.workers.stuck, "resync": _when(operator, operator.stale)},
        readiness={
            "lease": lambda: None if lease.held else "the lease is held by another process",
            "objects": operator.unready,
        },
    )


async def _serve(
    settings: Settings, operator: Operator, events: EventRecorder, stop: asyncio.Event, login: Login
) -> None:
    """Lists and workers first, then the watches, until a signal comes or the watches end by themselves."""
    await operator.start()
    log.info("The operator is at work as cluster %s.", settings.cluster_id)
    watcher = Watcher(operator.on_event, login, settings.watch_namespaces)
    watching = asyncio.create_task(watcher.run(), name="watches")
    stopping = asyncio.create_task(stop.wait(), name="stop signal")
    try:
        await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        log.info("Stopping: what is in flight is found again by the next process.")
        stopping.cancel()
        watcher.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await operator.stop()
        await events.flush(2.0)
    if not stop.is_set():
        await watching
        raise RuntimeError("the watches ended by themselves")


def _lease(settings: Settings, kube: KubernetesClient) -> Lease:
    intervals = settings.intervals
    times = LeaseTimes(intervals.lease_duration, intervals.lease_renew_interval, intervals.lease_renew_deadline)

    def lost(reason: str) -> None:
        """Exit at once: CLI children die with the process, and nothing is drained, since nothing may be written."""
        log.critical("The lease is lost, the process ends: %s", reason)
        logging.shutdown()
        os._exit(EXIT_LEASE_LOST)

    return Lease(kube, settings.namespace, settings.lease_name, times, on_lost=lost)


async def _acquired(lease: Lease, stop: asyncio.Event) -> bool:
    """Wait for the lease or for the end of the process; whether it is the lease."""
    acquiring = asyncio.create_task(lease.acquire())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not acquiring.done():
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        return False
    acquiring.result()
    return True


def _sessions(settings: Settings, metrics: Metrics) -> SessionFactory:
    """How a login becomes a session: one set of HOMEs and slots for the process."""
    try:
        homes = Homes(
            settings.state_directory,
            search_path=os.environ.get("PATH", os.defpath),
            cloudflared=settings.cloudflared,
        )
    except OSError as error:
        raise OSError(f"{variable('state_directory')}: {error}") from error
    slots = Slots(
        poll=settings.control_slots,
        mutate=settings.control_slots,
        probe=settings.probe_slots,
        exec=settings.exec_slots,
    )

    def observe(verb: str, outcome: str, seconds: float) -> None:
        metrics.cli_calls.labels(verb, outcome).inc()
        metrics.cli_call_duration.labels(verb).observe(seconds)

    def session(account: str, credential: Credential) -> BrevSession:
        return BrevSession(
            account,
            credential,
            homes=homes,
            slots=slots,
            executable=settings.brev_cli,
            extra_env=settings.brev_env,
            on_call=observe,
        )

    return session


def _when(operator: Operator, check: Check) -> Check:
    """A standby that waits for the lease is healthy: the check counts from the first list on."""
    return lambda: check() if operator.listed_at is not None else None


if __name__ == "__main__":
    main()
