"""How a running control plane is reached, as plain data that also other processes can be given."""

import http.client
import json
import os
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

KUBECTL_SECONDS = 120
REQUEST_SECONDS = 30


class Answer(NamedTuple):
    """Of the API server: the HTTP status and the parsed JSON body (empty where the body is no JSON object)."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kubectl:
    """The kubectl of one control plane: call it with arguments, or use it as a path."""

    path: Path
    kubeconfig: Path

    def __call__(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002  subprocess calls it so
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run it as the admin; raises CalledProcessError (stderr in its notes) unless `check` is false."""
        environment = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent), "PATH": os.defpath}
        done = subprocess.run(
            [self.path, *arguments],
            input=input or "",
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            env=environment,
            check=False,
        )
        if check and done.returncode != 0:
            error = subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
            error.add_note(done.stderr.strip())
            raise error
        return done

    def json(self, *arguments: str) -> dict[str, Any]:
        """The object or list that the command prints with `-o json`."""
        found: dict[str, Any] = json.loads(self(*arguments, "-o", "json").stdout)
        return found

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, repr=False)
class Cluster:
    """A control plane that answers; holds the admin's token, so it has no repr."""

    url: str
    kubeconfig: Path
    ca_file: Path
    admin_token: str
    kubectl: Kubectl

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        timeout: float = REQUEST_SECONDS,
    ) -> Answer:
        """One request as the admin, a few milliseconds where kubectl takes a tenth of a second.

        Any HTTP status is an answer; raises OSError when the server cannot be reached or its certificate is not ours.
        """
        context = ssl.create_default_context(cafile=self.ca_file)
        where = urlsplit(self.url)
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, timeout=timeout, context=context)
        headers = {"Authorization": f"Bearer {self.admin_token}", "Content-Type": content_type}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return Answer(response.status, json.loads(text) if text.startswith(b"{") else {})

    def create_token(self, namespace: str, service_account: str) -> str:
        """A token of an existing ServiceAccount, good for an hour: to act under exactly its role."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        answer = self.request("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"})
        if answer.status != http.HTTPStatus.CREATED:
            raise LookupError(f"no token for {namespace}/{service_account}: {answer.body.get('message')}")
        token: str = answer.body["status"]["token"]
        return token

    def install_crds(self, *files: Path) -> None:
        """Apply CRD manifests and return when the API server serves them. Idempotent."""
        if files:
            arguments = [word for file in files for word in ("-f", str(file))]
            self.kubectl("apply", "--server-side", "--force-conflicts", *arguments)
            self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *arguments)

    def dump(self) -> dict[str, str]:
        """For a file that only the owner may read."""
        return {
            "url": self.url,
            "kubeconfig": str(self.kubeconfig),
            "ca_file": str(self.ca_file),
            "admin_token": self.admin_token,
            "kubectl": str(self.kubectl.path),
        }

    @classmethod
    def load(cls, data: dict[str, str]) -> Self:
        """The reverse of `dump`, in another process."""
        kubeconfig = Path(data["kubeconfig"])
        kubectl = Kubectl(Path(data["kubectl"]), kubeconfig)
        return cls(data["url"], kubeconfig, Path(data["ca_file"]), data["admin_token"], kubectl)
