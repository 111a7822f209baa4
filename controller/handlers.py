"""kopf as informer: watch events go to a sink, and nothing else happens here. The only file that imports kopf."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from controller.api.meta import GROUP, VERSION, Kind

Sink = Callable[[Kind, str | None, dict[str, Any]], None]
"""Gets kind, event type (None for an entry of the first list) and body; cheap, never raises."""

Login = Callable[[], kopf.ConnectionInfo]
"""Called at the start and after each 401."""


def build_registry(sink: Sink, login: Login) -> kopf.OperatorRegistry:
    """One `on.event` handler for each kind. kopf writes nothing for these: no annotation, no finalizer, no patch."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry, id="login", errors=kopf.ErrorsMode.TEMPORARY)
    def _login(**_: Any) -> kopf.ConnectionInfo:
        return login()

    for kind in Kind:
        _watch(registry, sink, kind)
    return registry


def _watch(registry: kopf.OperatorRegistry, sink: Sink, kind: Kind) -> None:
    @kopf.on.event(GROUP, VERSION, kind.plural, registry=registry, id=f"watch-{kind.plural}")
    def _event(event: kopf.RawEvent, **_: Any) -> None:
        body: dict[str, Any] = dict(event["object"])
        sink(kind, event["type"], body)


def build_settings() -> kopf.OperatorSettings:
    """kopf reduced to its watches: no peering, no scanning, no posting, and a finalizer that is never used."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.persistence.finalizer = f"kopf.{GROUP}/unused"
    settings.watching.server_timeout = 600
    settings.networking.request_timeout = 60
    settings.queueing.idle_timeout = 1
    return settings


def connection_info(configuration: Any) -> kopf.ConnectionInfo:
    """kopf's login from the client's configuration (`kubernetes.aio.client.Configuration`), so that both are one.

    Called by kopf at the start and again after each 401; a service account's token is read anew then.
    """
    if configuration.refresh_api_key_hook is not None:
        configuration.refresh_api_key_hook(configuration)
    authorization = str(configuration.api_key.get("BearerToken") or configuration.api_key.get("authorization") or "")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=authorization.removeprefix("Bearer ") or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
        username=configuration.username or None,
        password=configuration.password or None,
        proxy_url=configuration.proxy,
    )


class Watcher:
    """kopf in a thread and event loop of its own.

    kopf takes every task of its loop that began after it for one of its own: it waits five seconds for them when it
    stops, and cancels them (kopf 1.45, `running.py`). The operator's background work is none of its business.
    """

    def __init__(self, sink: Sink, login: Login, namespaces: Sequence[str]) -> None:
        """`sink` is called in the event loop of whoever calls `run`."""
        self._sink = sink
        self._login = login
        self._namespaces = list(namespaces)
        self._stop = threading.Event()

    async def run(self) -> None:
        """Watch until `stop`. Raises what ended kopf: an API server that refuses the watches, for one."""
        loop = asyncio.get_running_loop()

        def deliver(kind: Kind, event_type: str | None, body: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(self._sink, kind, event_type, body)

        ended: asyncio.Future[None] = loop.create_future()
        thread = threading.Thread(target=self._main, args=(deliver, loop, ended), name="kopf", daemon=True)
        thread.start()
        await ended

    def stop(self) -> None:
        """Ask the watches to end; `run` returns soon after."""
        self._stop.set()

    def _main(self, deliver: Sink, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[None]) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._watch(deliver))
        except BaseException as failure:  # noqa: BLE001 - handed on to `run`, whatever it is
            error = failure

        def finish() -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        # The loop is closed when nobody waits any more, at the very end of the process.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish)

    async def _watch(self, deliver: Sink) -> None:
        scope: dict[str, Any] = {"namespaces": self._namespaces} if self._namespaces else {"clusterwide": True}
        await kopf.operator(
            registry=build_registry(deliver, self._login),
            settings=build_settings(),
            standalone=True,
            stop_flag=self._stop,
            **scope,
        )
