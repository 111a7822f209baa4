"""Where the API server is and who we are: a kubeconfig file, or the pod's service account.

`kubernetes.aio.config` is used for kubeconfigs. The service account is read here, because the library knows one
path only and looks at the token once a minute, while a projected token may be anywhere and is replaced at any time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml
from kubernetes.aio import client, config

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ConfigurationError(Exception):
    """There is no usable way to reach an API server; the message says what was looked for."""


class Connection:
    """A client configuration and the way to renew its credential."""

    def __init__(self, configuration: client.Configuration, kubeconfig: str | None) -> None:
        self.configuration = configuration
        self._kubeconfig = kubeconfig

    async def renew(self) -> None:
        """Read the credential again after a 401: exec plug-ins of kubeconfigs hand out tokens that expire.

        A service account's token needs nothing here, since it is looked at before every request.
        """
        if self._kubeconfig is not None:
            fresh = await _from_kubeconfig(self._kubeconfig)
            self.configuration.api_key = fresh.api_key


async def connect(
    *,
    kubeconfig: Path | None = None,
    token_file: Path | None = None,
    ca_file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Connection:
    """Find the API server. Raises `ConfigurationError`; makes no request.

    `kubeconfig` wins; without it the service account of the pod is used, with `token_file` and `ca_file` in place of
    the usual paths where given; outside a pod, the kubeconfig that kubectl would use.
    """
    if kubeconfig is not None:
        return Connection(await _from_kubeconfig(str(kubeconfig)), str(kubeconfig))
    if environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"):
        token = token_file or SERVICE_ACCOUNT / "token"
        return Connection(_from_service_account(environ, token, ca_file or SERVICE_ACCOUNT / "ca.crt"), None)
    usual = environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    return Connection(await _from_kubeconfig(usual), usual)


async def _from_kubeconfig(paths: str) -> client.Configuration:
    files = [path for path in paths.split(os.pathsep) if path and Path(path).is_file()]
    if not files:
        raise ConfigurationError(f"not in a pod, and there is no kubeconfig file {paths}")
    configuration = client.Configuration()
    try:
        for path in files:
            if not isinstance(yaml.safe_load(Path(path).read_bytes()), dict):
                raise ConfigurationError(f"{path} is not a kubeconfig file")
        merged = os.pathsep.join(files)
        await config.load_kube_config(merged, client_configuration=configuration, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError) as error:
        raise ConfigurationError(f"the kubeconfig file {paths} cannot be used: {error}") from error
    return configuration


def _from_service_account(environ: Mapping[str, str], token: Path, ca_file: Path) -> client.Configuration:
    for path in (token, ca_file):
        if not path.is_file():
            raise ConfigurationError(f"in a pod, but the service account's file {path} does not exist")
    host = environ["KUBERNETES_SERVICE_HOST"]
    configuration = client.Configuration(
        host=f"https://{f'[{host}]' if ':' in host else host}:{environ['KUBERNETES_SERVICE_PORT']}"
    )
    configuration.ssl_ca_cert = str(ca_file)
    configuration.refresh_api_key_hook = TokenFile(token)
    configuration.api_key["BearerToken"] = ""
    return configuration


class TokenFile:
    """The client's refresh hook: reads the token file whenever it has changed.

    The kubelet replaces a projected token by switching a symbolic link, which changes the inode.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def __call__(self, configuration: client.Configuration) -> None:
        stat = self._path.stat()
        current = (stat.st_ino, stat.st_mtime_ns)
        if current != self._seen:
            configuration.api_key["BearerToken"] = f"Bearer {self._path.read_text(encoding='ascii').strip()}"
            self._seen = current
