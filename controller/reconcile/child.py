"""The BrevInstance of a job: asked for, looked up, and given up, always as this job's own."""

from typing import Any

from controller.api.base import spec_dict
from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.api.cost import CostStatus
from controller.api.meta import API_VERSION, FINALIZER, GROUP, Kind, ObjectKey
from controller.api.reasons import Reason
from controller.decide.types import ChildState, CreateChild, DeleteChild, Failure
from controller.kube.errors import AlreadyExists, Forbidden, Invalid
from controller.reconcile.cache import Body
from controller.reconcile.engine import Engine
from controller.reconcile.parse import read_object

JOB_UID_LABEL = f"{GROUP}/job-uid"


def child_key(job: BrevJob, name: str) -> ObjectKey:
    return ObjectKey(Kind.INSTANCE, job.metadata.namespace, name)


async def look_up(engine: Engine, job: BrevJob) -> tuple[ChildState | None, BrevInstance | None, CostStatus | None]:
    """The job's BrevInstance, its parsed body and its newest cost. Absence is concluded from a live GET only.

    All None where there is nothing to know: no machine was asked for yet, or the job is over and its machine gone.
    """
    attempt = job.status.attempts[-1] if job.status.attempts else None
    if attempt is None or attempt.instance is None or job.status.completion_time is not None:
        return None, None, None
    key = child_key(job, attempt.instance)
    body = engine.cache.get(key)
    if body is None or not _owned(body, job):
        body = await engine.kube.get(key)
        if body is not None:
            engine.cache.put(Kind.INSTANCE, body)
    if body is None:
        return ChildState.ABSENT, None, _last_cost(engine, job)
    if not _owned(body, job):
        return ChildState.FOREIGN, None, None
    instance, _ = read_object(BrevInstance, body)
    return ChildState.PRESENT, instance, instance.status.cost


async def create(engine: Engine, job: BrevJob, action: CreateChild) -> Failure | None:
    """POST the BrevInstance with owner and finalizer in the one call; why the API server refused it, if it did.

    Repeating it is harmless: the name is a function of the job's uid, and whoever has it is looked at by `look_up`.
    """
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": str(Kind.INSTANCE),
        "metadata": {
            "name": action.name,
            "namespace": job.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "brev-operator", JOB_UID_LABEL: job.metadata.uid},
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": str(Kind.JOB),
                    "name": job.metadata.name,
                    "uid": job.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": spec_dict(job.spec.instance_template.spec),
    }
    key = child_key(job, action.name)
    try:
        stored = await engine.kube.create(Kind.INSTANCE, job.metadata.namespace, body)
    except AlreadyExists:
        engine.queue.add(job.key)
        return None
    except (Forbidden, Invalid) as error:
        engine.queue.add(job.key)
        return Failure(Reason.FORBIDDEN, f'The API server refused BrevInstance "{action.name}": {error.message}')
    engine.cache.put(Kind.INSTANCE, stored)
    engine.queue.add(key)
    return None


async def delete(engine: Engine, job: BrevJob, action: DeleteChild) -> None:
    """Ask for the end of the BrevInstance; its own finalizer keeps it until the machine is gone."""
    key = child_key(job, action.name)
    await engine.kube.delete(key, action.uid)
    # The cache learns of it at once, or the next pass would ask again.
    stored = await engine.kube.get(key)
    if stored is not None:
        engine.cache.put(Kind.INSTANCE, stored)


def _owned(body: Body, job: BrevJob) -> bool:
    """By owner, by recorded uid, or by the label of our own POST: an orphaning deletion takes the owner away, and the
    machine is the job's to give back all the same."""
    metadata = body["metadata"]
    owners = metadata.get("ownerReferences", [])
    recorded = job.status.instance.uid if job.status.instance is not None else None
    return (
        any(owner.get("uid") == job.metadata.uid for owner in owners)
        or metadata["uid"] == recorded
        or metadata.get("labels", {}).get(JOB_UID_LABEL) == job.metadata.uid
    )


def _last_cost(engine: Engine, job: BrevJob) -> CostStatus | None:
    uid = job.status.instance.uid if job.status.instance is not None else None
    body = engine.cache.last_body(uid) if uid else None
    if body is None:
        return None
    instance, _ = read_object(BrevInstance, body)
    return instance.status.cost
