"""Takes a copied directory over as a job. The rename is the lock: of all deliveries of a job exactly one is adopted."""

from __future__ import annotations

import errno
import hashlib
import os

from . import files
from .files import Job

ADOPTED = "adopted"
PRESENT = "present"
INCOMPLETE = "incomplete"

MANIFEST = "manifest.json"


def adopt(job: Job, delivery: str) -> str:
    """Make a whole delivery the job's directory. PRESENT: the job exists already. INCOMPLETE: no whole delivery is
    there. In every case nothing of the delivery stays in the incoming place, so that no secret lies about.
    """
    incoming = job.incoming(delivery)
    outcome = PRESENT if os.path.isdir(job.directory) else _take(job, incoming)
    if outcome == INCOMPLETE and os.path.isdir(job.directory):
        # Another start has moved it away while we were looking.
        outcome = PRESENT
    files.remove_tree(incoming)
    return outcome


def is_whole(directory: str, key: str) -> bool:
    """True when every file of the manifest is there with its digest and the bundle is the one of this job."""
    manifest = files.read_json(os.path.join(directory, MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("key") != key or not isinstance(manifest.get("files"), dict):
        return False
    return all(_digest(os.path.join(directory, name)) == digest for name, digest in manifest["files"].items())


def _take(job: Job, incoming: str) -> str:
    # A second copy of a directory to a place that exists nests in it, so look one level down as well.
    try:
        nested = sorted(entry.path for entry in os.scandir(incoming) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return INCOMPLETE
    for candidate in [incoming, *nested]:
        if is_whole(candidate, job.key):
            return _rename(job, candidate)
    return INCOMPLETE


def _rename(job: Job, candidate: str) -> str:
    parent = os.path.dirname(job.directory)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    try:
        os.rename(candidate, job.directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return PRESENT
        if error.errno == errno.ENOENT:
            return INCOMPLETE
        raise
    files.sync_directory(parent)
    _tidy(job)
    return ADOPTED


def _tidy(job: Job) -> None:
    """Private modes whatever the copy made of them, and nothing beside the bundle (a nested second copy has
    secrets).
    """
    manifest = job.read(MANIFEST) or {}
    known = {MANIFEST, *manifest.get("files", {})}
    os.chmod(job.directory, 0o700)
    for entry in os.scandir(job.directory):
        if entry.name in known:
            os.chmod(entry.path, 0o600)
        elif entry.is_dir(follow_symlinks=False) and os.path.exists(os.path.join(entry.path, MANIFEST)):
            files.remove_tree(entry.path)


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as handle:
            return hashlib.sha256(handle.read()).hexdigest()
    except OSError:
        return ""
