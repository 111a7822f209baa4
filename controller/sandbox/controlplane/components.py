"""The command lines of the three components and the files they need, as verified with Kubernetes 1.37 and etcd 3.6."""

import base64
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from controller.sandbox.controlplane.provider import Binaries

ETCD_SOCKET = "unix://etcd:0"
"""A socket in the working directory: no port to race for, and no other user of the machine can reach the data."""
CONTROLLERS = "garbagecollector,namespace,serviceaccount"

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies below one private directory."""

    directory: Path

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig, 0600."""
        return self.directory / "kubeconfig"

    @property
    def tokens(self) -> Path:
        """The API server's static token file, 0600."""
        return self.directory / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """Signs and verifies service account tokens, 0600."""
        return self.directory / "service-account.key"

    @property
    def ca_file(self) -> Path:
        """What the API server's certificate is verified with; the server writes it when it starts."""
        return self.directory / "certs" / "apiserver.crt"

    def log(self, component: str) -> Path:
        """What the component writes."""
        return self.directory / f"{component}.log"


def etcd_command(binaries: Binaries) -> list[str]:
    """Runs in the layout's directory. No fsync: the data dies with the run."""
    peer = "http://127.0.0.1:1"  # a name only: a cluster of one has no peers, and the peer socket is no TCP port
    return [
        str(binaries.etcd),
        "--data-dir=etcd-data",
        "--unsafe-no-fsync",
        "--log-level=error",
        f"--listen-client-urls={ETCD_SOCKET}",
        "--advertise-client-urls=http://127.0.0.1:1",
        "--listen-peer-urls=unix://etcd-peer:0",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def apiserver_command(binaries: Binaries, port: int) -> list[str]:
    """Runs in the layout's directory; RBAC on, ServiceAccount admission off (it would hold back every Pod)."""
    url = f"https://127.0.0.1:{port}"
    return [
        str(binaries.kube_apiserver),
        f"--etcd-servers={ETCD_SOCKET}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        "--cert-dir=certs",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        f"--service-account-issuer={url}",
        "--service-account-key-file=service-account.key",
        "--service-account-signing-key-file=service-account.key",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        "--profiling=false",
    ]


def controller_manager_command(binaries: Binaries) -> list[str]:
    """Runs in the layout's directory, only the controllers whose effects the operator relies on."""
    return [
        str(binaries.kube_controller_manager),
        "--kubeconfig=kubeconfig",
        f"--controllers={CONTROLLERS}",
        "--service-account-private-key-file=service-account.key",
        "--leader-elect=false",
        "--secure-port=0",
        # A namespace per test is deleted per test; the defaults of 20 and 30 requests a second would queue them.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def write_identity(layout: Layout) -> str:
    """Write the token file and the service account key; returns the admin's token, new for every run."""
    token = secrets.token_urlsafe(32)
    write_private(layout.tokens, f'{token},admin,admin,"system:masters"\n')
    write_private(layout.service_account_key, _new_signing_key())
    return token


def write_kubeconfig(layout: Layout, url: str, token: str) -> None:
    """An admin kubeconfig that verifies the server; the server's certificate must exist."""
    authority = base64.b64encode(layout.ca_file.read_bytes()).decode()
    name = "brev-sandbox"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}}],
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
    write_private(layout.kubeconfig, json.dumps(config, indent=1))


def write_private(path: Path, text: str) -> None:
    """Write a file that was never readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _new_signing_key() -> str:
    """A P-256 private key as SEC 1 (RFC 5915) in PEM: the public half is optional there, so no arithmetic is needed."""
    scalar = (secrets.randbelow(_P256_ORDER - 1) + 1).to_bytes(32, "big")
    prime256v1 = bytes.fromhex("06082a8648ce3d030107")
    body = b"\x02\x01\x01" + b"\x04\x20" + scalar + b"\xa0" + bytes([len(prime256v1)]) + prime256v1
    encoded = base64.encodebytes(b"\x30" + bytes([len(body)]) + body).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{encoded}-----END EC PRIVATE KEY-----\n"
