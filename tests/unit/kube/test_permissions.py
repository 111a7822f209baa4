from __future__ import annotations

import inspect

from controller.api.meta import GROUP, Kind, ObjectKey
from controller.kube.permissions import PERMISSIONS, Scope
from controller.kube.protocol import EventApi, KubeClient, LeaseApi
from tests.unit.kube.fake_api import Client, FakeApi

JOB = ObjectKey(Kind.JOB, "team-a", "j")
INSTANCE = ObjectKey(Kind.INSTANCE, "team-a", "i")
ACCOUNT = ObjectKey(Kind.ACCOUNT, "", "a")
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
Seen = set[tuple[str, str, str]]


async def _drive_everything(client: Client) -> None:
    kube = client.kube
    for key in (JOB, INSTANCE, ACCOUNT):
        await kube.list(key.kind)
        await kube.get(key)
        await kube.patch_status(key, {"a": 1}, "1")
        await kube.set_finalizers(key, [], "1")
    await kube.create(Kind.INSTANCE, "team-a", {"metadata": {"name": "i"}})
    await kube.delete(INSTANCE, "u")
    await kube.get_secret("team-a", "s")
    await kube.get_config_map("team-a", "c")
    await kube.get_namespace_labels("team-a")
    await kube.create_event("team-a", {"metadata": {"name": "e"}})
    await kube.patch_event("team-a", "e", {"count": 2})
    await kube.get_lease("ns", "l", 1.0)
    await kube.create_lease("ns", {"metadata": {"name": "l"}}, 1.0)
    await kube.replace_lease("ns", "l", {"metadata": {"name": "l"}}, 1.0)


def _from_the_wire(api: FakeApi) -> Seen:
    """Group, resource and verb as the API server's authorizer derives them from the URL."""
    seen: Seen = set()
    for request in api.requests:
        parts = request.path.strip("/").split("/")
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        if rest[0] == "namespaces" and len(rest) > 2:
            rest = rest[2:]
        resource = "/".join((rest[0], *rest[2:]))
        verb = "list" if request.method == "GET" and len(rest) == 1 else VERBS[request.method]
        seen.add((group, resource, verb))
    return seen


def _granted() -> Seen:
    rows = {(row.group, row.resource, verb) for row in PERMISSIONS for verb in row.verbs}
    return {row for row in rows if row[2] != "watch"}


async def test_every_call_is_permitted_and_every_permission_is_used(api: FakeApi, client: Client) -> None:
    await _drive_everything(client)
    assert _from_the_wire(api) == _granted()


async def test_the_counted_labels_are_what_went_over_the_wire(api: FakeApi, client: Client) -> None:
    await _drive_everything(client)
    assert {(verb, resource) for verb, resource, _ in client.calls} == {row[1:][::-1] for row in _from_the_wire(api)}


def test_the_drive_leaves_no_method_out() -> None:
    source = inspect.getsource(_drive_everything)
    for protocol in (KubeClient, EventApi, LeaseApi):
        for name in vars(protocol):
            assert name.startswith("_") or f".{name}(" in source, name


def test_only_kinds_of_ours_are_watched_and_nothing_is_granted_with_a_wildcard() -> None:
    for row in PERMISSIONS:
        assert ("watch" in row.verbs) == (row.group == GROUP and "/" not in row.resource)
        assert "*" not in (row.group, row.resource, *row.verbs)
    secrets = {row.scope for row in PERMISSIONS if row.resource == "secrets"}
    assert secrets == {Scope.OPERATOR, Scope.TENANT}
