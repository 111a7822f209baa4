"""The cache: never back in time, one uid for a name, and a list that heals what the watch missed."""

from typing import Any

from controller.api.meta import Kind, ObjectKey
from controller.reconcile.cache import Cache, key_of, owner_key

KEY = ObjectKey(Kind.JOB, "team-a", "iris")


def body(version: int, uid: str = "u-1", name: str = "iris", namespace: str = "team-a", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version), **more},
        "status": {"phase": f"v{version}"},
    }


def test_news_is_taken_and_what_is_known_or_older_is_not() -> None:
    cache = Cache()
    assert cache.put(Kind.JOB, body(10)) == KEY
    assert cache.put(Kind.JOB, body(10)) is None
    assert cache.put(Kind.JOB, body(9)) is None
    assert cache.put(Kind.JOB, body(100)) == KEY, "versions are numbers, not words"
    assert cache.put(Kind.JOB, body(20)) is None
    assert cache.get(KEY) == body(100)


def test_an_object_of_a_new_uid_replaces_the_old_one_which_never_comes_back() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(10, "u-1"))
    assert cache.put(Kind.JOB, body(20, "u-2")) == KEY
    assert cache.put(Kind.JOB, body(15, "u-1")) is None
    assert cache.put(Kind.JOB, body(30, "u-1")) is None
    assert cache.get(KEY) == body(20, "u-2")
    assert cache.last_body("u-1") == body(10, "u-1")


def test_an_older_object_of_another_uid_is_no_news() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(20, "u-2"))
    assert cache.put(Kind.JOB, body(10, "u-1")) is None
    assert cache.get(KEY) == body(20, "u-2")


def test_a_deleted_object_is_remembered_for_its_owner_and_stays_gone() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(10))
    assert cache.remove(Kind.JOB, body(12)) == KEY
    assert cache.get(KEY) is None
    assert cache.put(Kind.JOB, body(11)) is None
    assert cache.last_body("u-1") == body(12)


def test_the_end_of_an_old_object_does_not_touch_the_new_one_of_its_name() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(20, "u-2"))
    assert cache.remove(Kind.JOB, body(15, "u-1")) is None
    assert cache.get(KEY) == body(20, "u-2")


def test_a_list_adds_changes_and_finds_the_missing_ones_gone() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(10, "u-1", "kept"))
    cache.put(Kind.JOB, body(11, "u-2", "gone"))
    cache.put(Kind.JOB, body(12, "u-3", "same"))
    changed = cache.heal(Kind.JOB, [body(15, "u-1", "kept"), body(12, "u-3", "same"), body(16, "u-4", "new")], "20")
    assert {key.name for key in changed} == {"kept", "new", "gone"}
    assert {key.name for key in cache.keys(Kind.JOB)} == {"kept", "same", "new"}


def test_an_object_that_is_younger_than_the_list_is_not_missing_from_it() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(30))
    assert cache.heal(Kind.JOB, [], "20") == []
    assert cache.get(KEY) is not None


def test_a_list_of_one_namespace_says_nothing_of_others_and_a_list_of_one_kind_nothing_of_others() -> None:
    cache = Cache()
    cache.put(Kind.JOB, body(10))
    cache.put(Kind.JOB, body(11, "u-2", namespace="team-b"))
    cache.put(Kind.INSTANCE, body(12, "u-3"))
    changed = cache.heal(Kind.JOB, [], "20", "team-b")
    assert [key.namespace for key in changed] == ["team-b"]
    assert cache.get(KEY) is not None
    assert cache.get(ObjectKey(Kind.INSTANCE, "team-a", "iris")) is not None


def test_memory_of_the_gone_is_bounded() -> None:
    cache = Cache()
    for number in range(2500):
        cache.remove(Kind.JOB, body(number, f"u-{number}"))
    assert cache.last_body("u-0") is None
    assert cache.last_body("u-2499") is not None


def test_phases_are_counted_and_an_object_without_one_is_pending() -> None:
    cache = Cache()
    cache.put(Kind.JOB, {**body(1), "status": {}})
    cache.put(Kind.JOB, {**body(2, "u-2", "two"), "status": {"phase": "Running"}})
    assert cache.phases() == {(Kind.JOB, "Pending"): 1, (Kind.JOB, "Running"): 1}


def test_cluster_scoped_objects_have_no_namespace_in_their_key() -> None:
    assert key_of(Kind.ACCOUNT, {"metadata": {"name": "default"}}) == ObjectKey(Kind.ACCOUNT, "", "default")


def test_only_a_controlling_job_is_an_owner() -> None:
    owner = {"kind": "BrevJob", "name": "iris", "uid": "u", "controller": True}
    assert owner_key(body(1, ownerReferences=[owner])) == KEY
    assert owner_key(body(1, ownerReferences=[{**owner, "controller": False}])) is None
    assert owner_key(body(1, ownerReferences=[{**owner, "kind": "ConfigMap"}])) is None
    assert owner_key(body(1)) is None
