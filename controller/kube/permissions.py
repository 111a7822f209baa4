"""The permissions that the operator needs: the one source of the chart's roles.

A test drives every method of the client against a recording server and compares: a call that is missing here fails it,
and so does a permission that no call needs. `watch` (and the list before it) belongs to kopf, the informer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controller.api.meta import GROUP, Kind


class Scope(StrEnum):
    """Where a permission is needed, which decides between ClusterRole, Role, and whose namespace gets a binding."""

    CLUSTER = "cluster"
    """Objects without a namespace."""
    WATCHED = "watched"
    """Every namespace whose objects the operator serves; a ClusterRole where that is all of them."""
    OPERATOR = "operator"
    """The operator's own namespace."""
    TENANT = "tenant"
    """The namespaces whose Secrets and ConfigMaps jobs may use; each has to be named by whoever installs."""
    DEFAULT = "default"
    """The namespace `default`, where the API keeps Events of objects without a namespace."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One line of a role. `resource` includes the subresource (`brevjobs/status`); `group` is "" for the core API."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    scope: Scope


_READ = ("get", "list", "watch")

PERMISSIONS: tuple[Permission, ...] = (
    Permission(GROUP, Kind.ACCOUNT.plural, (*_READ, "patch"), Scope.CLUSTER),
    Permission(GROUP, f"{Kind.ACCOUNT.plural}/status", ("patch",), Scope.CLUSTER),
    Permission("", "namespaces", ("get",), Scope.CLUSTER),
    Permission(GROUP, Kind.INSTANCE.plural, (*_READ, "create", "patch", "delete"), Scope.WATCHED),
    Permission(GROUP, f"{Kind.INSTANCE.plural}/status", ("patch",), Scope.WATCHED),
    Permission(GROUP, Kind.JOB.plural, (*_READ, "patch"), Scope.WATCHED),
    Permission(GROUP, f"{Kind.JOB.plural}/status", ("patch",), Scope.WATCHED),
    Permission("", "events", ("create", "patch"), Scope.WATCHED),
    Permission("", "events", ("create", "patch"), Scope.DEFAULT),
    Permission("coordination.k8s.io", "leases", ("get", "create", "update"), Scope.OPERATOR),
    Permission("", "secrets", ("get",), Scope.OPERATOR),
    Permission("", "secrets", ("get",), Scope.TENANT),
    Permission("", "configmaps", ("get",), Scope.TENANT),
)
