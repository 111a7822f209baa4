"""kopf as informer: watch events go to a sink, and nothing else happens here. The only file that imports kopf."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from controller.api.meta import GROUP, VERSION, Kind

log = logging.getLogger(__name__)

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


async def run_kopf(
    sink: Sink,
    login: Login,
    *,
    namespaces: Sequence[str],
    stop: asyncio.Event,
    ready: asyncio.Event | None = None,
) -> None:
    """Watch until `stop` is set or a signal comes. An API server that refuses the watches ends it with that error."""
    scope: dict[str, Any] = {"namespaces": list(namespaces)} if namespaces else {"clusterwide": True}
    await kopf.operator(
        registry=build_registry(sink, login),
        settings=build_settings(),
        standalone=True,
        stop_flag=stop,
        ready_flag=ready,
        **scope,
    )
