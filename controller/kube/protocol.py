"""What the rest of the operator may ask of Kubernetes.

Three small interfaces instead of one large one: the reconcilers use `KubeClient`, the event recorder `EventApi`, the
lease `LeaseApi`. `controller.kube.client.KubernetesClient` implements all three; tests use fakes.

Every method raises the errors of `controller.kube.errors`. Transient failures (no connection, 429, 5xx) are retried
inside, with jitter and a bound; what is raised is final for this attempt. Every write first runs the `before_write`
hooks, whose exceptions (a lost lease) pass through unchanged and mean that nothing was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from controller.api.meta import Kind, ObjectKey

Body: TypeAlias = dict[str, Any]
"""A Kubernetes object or a part of one, as decoded JSON."""


class KubeClient(Protocol):
    """Objects of our own kinds, and the two kinds that they refer to."""

    async def list(self, kind: Kind, namespace: str = "") -> tuple[list[Body], str]:
        """All objects of a kind, in one namespace or in all, and the collection's resourceVersion.

        A linearizable read of every page; a continue token that expires on the way starts the list again, so the
        answer is one consistent snapshot. Never a partial answer: it is complete or it raises.
        """
        ...

    async def get(self, key: ObjectKey) -> Body | None:
        """The object as stored now (linearizable), or None. Only from this may absence be concluded."""
        ...

    async def create(self, kind: Kind, namespace: str, body: Body) -> Body:
        """Create an object and return it as stored.

        Not idempotent by itself: give the object a deterministic name, and on `AlreadyExists` compare the stored
        object, since a retry after a lost answer reports the caller's own success that way.
        """
        ...

    async def patch_status(self, key: ObjectKey, patch: Body, resource_version: str) -> Body:
        """Merge `patch` into `.status` and return the object as stored.

        `patch` is what `controller.kube.status.merge_patch(old_status, new_status)` returns: RFC 7386, relative to
        `status`, without a `status` or `metadata` wrapper. An empty patch is a ValueError, since a pass that changes
        nothing must not write. Raises `Conflict` when the object is newer than `resource_version`, `NotFound` when it
        is gone. Compare the answer with `pruned_fields` to notice an old CRD.
        """
        ...

    async def set_finalizers(self, key: ObjectKey, finalizers: Sequence[str], resource_version: str) -> Body:
        """Replace the list of finalizers, other people's included: derive it from the object at `resource_version`.

        Raises `Conflict` when the object is newer, `NotFound` when it is gone. The answer to removing the last
        finalizer of a deleted object is that object's final state.
        """
        ...

    async def delete(self, key: ObjectKey, uid: str) -> None:
        """Delete the object with this uid, dependents in the background. Idempotent.

        Returns also when the object is gone, or its name already belongs to another object, which is left alone.
        Returning says that deletion was accepted: finalizers may keep the object for long.
        """
        ...

    async def get_secret(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """The decoded values of a Secret, or None when there is no such Secret. Never cached here, never logged."""
        ...

    async def get_config_map(self, namespace: str, name: str) -> dict[str, bytes] | None:
        """The values of a ConfigMap (`data` as UTF-8 and `binaryData`), or None when there is no such ConfigMap."""
        ...

    async def get_namespace_labels(self, namespace: str) -> dict[str, str] | None:
        """The labels of a namespace, or None when there is no such namespace."""
        ...


class EventApi(Protocol):
    """core/v1 Events; used by the recorder only."""

    async def create_event(self, namespace: str, body: Body) -> Body:
        """Create an Event; `AlreadyExists` when one of this name is stored."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: Body) -> Body:
        """Merge `patch` (RFC 7386) into an Event and return it as stored; `NotFound` once its time to live is over."""
        ...


class LeaseApi(Protocol):
    """coordination.k8s.io/v1 Leases; used by the lease only.

    These calls do not run the `before_write` hooks, which check the lease themselves, and are not retried inside:
    the lease has a deadline of its own. `timeout` is in seconds.
    """

    async def get_lease(self, namespace: str, name: str, timeout: float) -> Body | None:
        """The Lease as stored now, or None."""
        ...

    async def create_lease(self, namespace: str, body: Body, timeout: float) -> Body:
        """Create a Lease; `AlreadyExists` when another candidate was faster."""
        ...

    async def replace_lease(self, namespace: str, name: str, body: Body, timeout: float) -> Body:
        """Replace a Lease whose body carries the resourceVersion it was read at; `Conflict` when that is stale."""
        ...
