from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from kubernetes.aio import client as kubernetes_client

from controller.api.meta import Kind, ObjectKey
from controller.kube.connect import ConfigurationError, Connection, TokenFile, connect
from controller.kube.errors import Unauthorized
from tests.unit.kube.fake_api import ConnectTo, FakeApi, refusal

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
JOB = ObjectKey(Kind.JOB, "team-a", "j")


def _kubeconfig(path: Path, url: str, token: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return path


async def test_a_kubeconfig_wins_over_the_pod(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path / "config", "http://127.0.0.1:9", "t1")
    connection = await connect(kubeconfig=path, environ=POD)
    assert connection.configuration.host == "http://127.0.0.1:9"
    assert connection.configuration.api_key == {"BearerToken": "Bearer t1"}


async def test_outside_a_pod_the_usual_kubeconfig_is_taken(tmp_path: Path) -> None:
    path = _kubeconfig(tmp_path / "config", "http://127.0.0.1:9", "t1")
    connection = await connect(environ={"KUBECONFIG": f"{path}{os.pathsep}/elsewhere"})
    assert connection.configuration.host == "http://127.0.0.1:9"


@pytest.mark.parametrize("content", [None, "[]", "apiVersion: v1\nkind: Config\n", "{ not yaml"])
async def test_an_unusable_kubeconfig_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match="config"):
        await connect(kubeconfig=path)


async def test_in_a_pod_the_projected_token_may_be_anywhere(tmp_path: Path) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    with pytest.raises(ConfigurationError, match="token"):
        await connect(token_file=token, ca_file=authority, environ=POD)
    token.write_text("t1\n")
    authority.write_text("certificate")
    connection = await connect(
        token_file=token, ca_file=authority, environ=POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    )
    assert connection.configuration.host == "https://[fd00::1]:443"
    assert connection.configuration.ssl_ca_cert == str(authority)


async def test_a_rotated_token_is_used_by_the_next_request(tmp_path: Path, api: FakeApi, connect_to: ConnectTo) -> None:
    first, second, link = tmp_path / "1", tmp_path / "2", tmp_path / "token"
    first.write_text("one\n")
    second.write_text("two\n")
    link.symlink_to(first)
    configuration = kubernetes_client.Configuration(host=api.url)
    configuration.api_key["BearerToken"] = ""
    configuration.refresh_api_key_hook = TokenFile(link)
    client = connect_to(api.url, connection=Connection(configuration, None))
    await client.kube.get(JOB)
    link.unlink()
    link.symlink_to(second)
    await client.kube.get(JOB)
    assert [request.headers["Authorization"] for request in api.requests] == ["Bearer one", "Bearer two"]


async def test_a_401_renews_the_credential_of_a_kubeconfig_once(
    tmp_path: Path, api: FakeApi, connect_to: ConnectTo
) -> None:
    path = _kubeconfig(tmp_path / "config", api.url, "old")
    client = connect_to(api.url, connection=await connect(kubeconfig=path))
    _kubeconfig(path, api.url, "new")
    api.answers.append(refusal(401, "Unauthorized"))
    await client.kube.get(JOB)
    assert [request.headers["Authorization"] for request in api.requests] == ["Bearer old", "Bearer new"]
    api.answers += [refusal(401, "Unauthorized")] * 2
    with pytest.raises(Unauthorized):
        await client.kube.get(JOB)
    assert len(api.requests) == 4
