"""Names and delays are pure functions of what they are for."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controller.decide.backoff import Timing, jitter, poll_delay, retry_delay
from controller.decide.names import child_name, machine_name, run_key
from tests.builders import TIMING, UID

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True)
CLUSTERS = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True)


@given(CLUSTERS, st.uuids(), LABELS, st.integers(1, 999))
def test_a_machine_name_is_legal_whatever_the_object_is_called(cluster: str, uid: object, name: str, n: int) -> None:
    made = machine_name(cluster, str(uid), name, n)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", made)
    assert made.startswith(f"bo-{cluster}-")
    assert not made.endswith("-host")
    assert made == machine_name(cluster, str(uid), name, n)


@given(st.uuids(), st.uuids(), LABELS)
def test_two_objects_two_clusters_or_two_attempts_never_share_a_name(one: object, other: object, name: str) -> None:
    names = {machine_name("a", str(uid), name, n) for uid in (one, other) for n in (1, 2)}
    assert len(names) == (4 if one != other else 2)
    assert machine_name("b", str(one), name, 1) not in names


@given(LABELS, st.uuids())
def test_the_name_of_a_jobs_instance_is_a_legal_object_name(name: str, uid: object) -> None:
    made = child_name(name, str(uid), 1)
    assert len(made) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", made)
    assert ".-" not in made[-10:]


def test_the_directory_of_a_run_is_its_own_for_each_attempt() -> None:
    assert run_key(UID, 1) != run_key(UID, 2)
    assert re.fullmatch(r"[a-z0-9-]+", run_key(UID, 1))


@given(st.integers(0, 10**6), st.text(max_size=20))
def test_a_retry_is_never_sooner_than_the_base_nor_later_than_the_cap_by_more_than_a_tenth(n: int, key: str) -> None:
    seconds = retry_delay(TIMING, n, key).total_seconds()
    assert TIMING.retry_base * 0.9 <= seconds <= TIMING.retry_cap * 1.1


def test_retries_double() -> None:
    seconds = [retry_delay(Timing(retry_cap=10**9), n, "k").total_seconds() for n in range(1, 8)]
    assert all(1.6 < later / earlier < 2.5 for earlier, later in pairwise(seconds))


@given(st.floats(0, 10**7))
def test_a_poll_is_five_per_cent_of_the_age_between_floor_and_ceiling(elapsed: float) -> None:
    seconds = poll_delay(TIMING, elapsed, "k").total_seconds()
    middle = min(max(elapsed * 0.05, TIMING.poll_floor), TIMING.poll_ceiling)
    assert middle * 0.9 <= seconds <= middle * 1.1


@given(st.text(max_size=30))
def test_jitter_is_a_tenth_either_way_and_the_same_for_the_same_key(key: str) -> None:
    assert 0.9 <= jitter(key) < 1.1
    assert jitter(key) == jitter(key)
