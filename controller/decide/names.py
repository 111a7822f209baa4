"""Names of machines and of objects that the operator makes: pure functions of the owner's identity."""

import hashlib
import re

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def short_hash(text: str, length: int) -> str:
    """`length` characters of [a-z2-7]: a base-32 digest of `text`."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, 32)
        letters.append(_ALPHABET[index])
    return "".join(letters)


def slug(name: str, limit: int) -> str:
    """`name` cut down to at most `limit` of [a-z0-9-], without a dash at either end; "x" if nothing is left."""
    cleaned = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return cleaned[:limit].strip("-") or "x"


def machine_name(cluster_id: str, uid: str, name: str, attempt: int) -> str:
    """The Brev machine of attempt `attempt` (from 1) of the BrevInstance `uid`: `bo-<cluster>-<slug>-<hash>[-<n>]`.

    At most 63 of [a-z0-9-] and never ending in `-host`, the alias that `brev refresh` gives to a machine's host
    (brev-cli v0.6.327). The hash covers cluster id and uid, so two objects never share a name, whatever their own
    names are cut down to. The first attempt has no number.
    """
    suffix = short_hash(f"{cluster_id}/{uid}", 10)
    if attempt > 1:
        suffix = f"{suffix}-{attempt}"
    head = f"bo-{cluster_id}-"
    return f"{head}{slug(name, 63 - len(head) - len(suffix) - 1)}-{suffix}"


def child_name(job_name: str, job_uid: str, attempt: int) -> str:
    """The BrevInstance of attempt `attempt` of a BrevJob; at most 253 characters, unique by the job's uid."""
    suffix = f"-{short_hash(job_uid, 5)}-{attempt}"
    return job_name[: 253 - len(suffix)].rstrip("-.") + suffix


def run_key(job_uid: str, attempt: int) -> str:
    """The directory of one run on its machine, [a-z0-9-]: the lock that lets a command start at most once."""
    return f"{slug(job_uid, 40)}-{attempt}"
