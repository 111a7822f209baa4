"""The last seen body of every object, fed by watch events, by our own lists and by the answers to our own writes."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from controller.api.meta import Kind, ObjectKey

Body = dict[str, Any]
REMEMBERED = 2000
"""Final bodies of deleted objects that are kept for their owners to read."""


class Cache:
    """Entries never go back in resourceVersion, and an object of a new uid replaces the old one at once.

    Absence here proves nothing: a watch may be late. Whoever concludes something from absence asks the API server.
    resourceVersions of one object are compared as numbers, which the API guarantees since Kubernetes 1.35 (KEP-5504)
    and etcd's revisions have always been.
    """

    def __init__(self) -> None:
        self._bodies: dict[ObjectKey, Body] = {}
        self._gone: OrderedDict[str, Body] = OrderedDict()

    def get(self, key: ObjectKey) -> Body | None:
        return self._bodies.get(key)

    def put(self, kind: Kind, body: Body) -> ObjectKey | None:
        """Store `body` if it is news; the key if it was, else None. An object that is known to be gone stays gone."""
        key = key_of(kind, body)
        known = self._bodies.get(key)
        if body["metadata"]["uid"] in self._gone:
            return None
        if known is not None and known["metadata"]["uid"] == body["metadata"]["uid"] and not _newer(body, known):
            return None
        if known is not None and known["metadata"]["uid"] != body["metadata"]["uid"]:
            if _version(body) < _version(known):
                return None
            self._remember(known)
        self._bodies[key] = body
        return key

    def remove(self, kind: Kind, body: Body) -> ObjectKey | None:
        """The object of that uid is gone; the key if it was known."""
        key = key_of(kind, body)
        known = self._bodies.get(key)
        self._remember(body)
        if known is None or known["metadata"]["uid"] != body["metadata"]["uid"]:
            return None
        del self._bodies[key]
        return key

    def last_body(self, uid: str) -> Body | None:
        """The final body of an object that was deleted lately, for owners that need its last words."""
        return self._gone.get(uid)

    def heal(self, kind: Kind, items: Iterable[Body], list_version: str, namespace: str = "") -> list[ObjectKey]:
        """Take over a complete list (of one namespace, or of all): keys added, changed, or found to be gone."""
        changed: list[ObjectKey] = []
        listed: set[ObjectKey] = set()
        for body in items:
            listed.add(key_of(kind, body))
            key = self.put(kind, body)
            if key is not None:
                changed.append(key)
        for key, body in list(self._bodies.items()):
            in_scope = key.kind is kind and namespace in ("", key.namespace)
            if in_scope and key not in listed and _version(body) <= int(list_version):
                self.remove(kind, body)
                changed.append(key)
        return changed

    def keys(self, kind: Kind) -> Iterator[ObjectKey]:
        return (key for key in self._bodies if key.kind is kind)

    def bodies(self, kind: Kind) -> Iterator[Body]:
        return (body for key, body in self._bodies.items() if key.kind is kind)

    def phases(self) -> dict[tuple[Kind, str], int]:
        """Objects by kind and phase, for the metrics."""
        counts: Counter[tuple[Kind, str]] = Counter()
        for key, body in self._bodies.items():
            counts[key.kind, str(body.get("status", {}).get("phase") or "Pending")] += 1
        return dict(counts)

    def _remember(self, body: Body) -> None:
        self._gone[body["metadata"]["uid"]] = body
        while len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)


def key_of(kind: Kind, body: Body) -> ObjectKey:
    metadata = body["metadata"]
    return ObjectKey(kind, metadata.get("namespace", "") if kind.namespaced else "", metadata["name"])


def owner_key(body: Body) -> ObjectKey | None:
    """The BrevJob that controls this object, if one does."""
    for owner in body["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner.get("kind") == Kind.JOB:
            return ObjectKey(Kind.JOB, body["metadata"]["namespace"], owner["name"])
    return None


def _newer(body: Body, known: Body) -> bool:
    return _version(body) > _version(known)


def _version(body: Body) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)
