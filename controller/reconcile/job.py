"""One pass over a BrevJob: observe, decide, act, patch."""

from controller.api.base import status_dict
from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.api.hash import spec_hash
from controller.api.meta import Kind, ObjectKey
from controller.decide.job import decide_job
from controller.decide.types import (
    Action,
    ChildState,
    CreateChild,
    DeleteChild,
    Failure,
    JobObservation,
    SourcesView,
    Start,
)
from controller.logs import log_context
from controller.reconcile import child
from controller.reconcile.cache import Body
from controller.reconcile.engine import Engine, carry_out
from controller.reconcile.parse import read_object
from controller.reconcile.run import Runner
from controller.reconcile.sources import SourceMissing, has_references, read_sources


class JobReconciler:
    """Asks for machines by BrevInstance objects and drives runs on them; never creates or deletes a machine itself."""

    def __init__(self, engine: Engine, runner: Runner) -> None:
        self._engine = engine
        self._runner = runner
        self._refused: dict[str, Failure] = {}

    async def reconcile(self, key: ObjectKey) -> None:
        engine = self._engine
        body = engine.cache.get(key)
        if body is None:
            return
        job, problem = read_object(BrevJob, body)
        account = "" if problem else job.spec.instance_template.spec.account_name
        if engine.accounts.foreign(account):
            return
        with log_context(account=account):
            state, instance, cost = await child.look_up(engine, job)
            obs = JobObservation(
                child=state,
                instance=instance,
                last_cost=cost,
                sources=await self._sources(job, problem),
                operations=engine.operations.views(job.metadata.uid),
                monotonic=engine.clock.monotonic(),
                spec_hash="" if problem else spec_hash(job.spec),
                spec_problem=problem,
                refused=self._refused.get(job.metadata.uid) if state is ChildState.ABSENT else None,
            )
            plan = decide_job(job, obs, engine.clock.now(), engine.timing)
            await carry_out(engine, key, body, plan, self)
            self._count(job, plan.status)

    def gone(self, body: Body) -> None:
        """The object is gone: forget what ran for it."""
        uid = body["metadata"]["uid"]
        key = ObjectKey(Kind.JOB, body["metadata"]["namespace"], body["metadata"]["name"])
        self._engine.operations.forget(uid)
        if self._engine.cache.get(key) is None:
            self._engine.queue.forget(key)
        self._refused.pop(uid, None)

    async def perform(self, key: ObjectKey, body: Body, action: Action) -> None:
        engine = self._engine
        job, _ = read_object(BrevJob, body)
        uid = job.metadata.uid
        if isinstance(action, CreateChild):
            refused = await child.create(engine, job, action)
            if refused is None:
                self._refused.pop(uid, None)
            else:
                self._refused[uid] = refused
        elif isinstance(action, DeleteChild):
            await child.delete(engine, job, action)
        elif isinstance(action, Start):
            engine.operations.start(key, uid, action.operation, self._runner.work(job, self._instance(job), action))

    def _instance(self, job: BrevJob) -> BrevInstance | None:
        attempt = job.status.attempts[-1] if job.status.attempts else None
        if attempt is None or attempt.instance is None:
            return None
        body = self._engine.cache.get(child.child_key(job, attempt.instance))
        return read_object(BrevInstance, body)[0] if body is not None else None

    async def _sources(self, job: BrevJob, problem: str) -> SourcesView:
        """Looked at only while no machine has been asked for; a delivery reads them again."""
        deleting = job.metadata.deletion_timestamp is not None
        if problem or deleting or job.status.attempts or not has_references(job.spec):
            return SourcesView(ready=True)
        try:
            await read_sources(self._engine.kube, job.metadata.namespace, job.spec)
        except SourceMissing as missing:
            return SourcesView(ready=False, failure=missing.failure)
        return SourcesView(ready=True)

    def _count(self, job: BrevJob, status: object) -> None:
        """Observe the whole life of a job once, at the pass that ends it."""
        if not isinstance(status, type(job.status)) or status.completion_time is None:
            return
        if job.status.completion_time is not None or job.metadata.creation_timestamp is None:
            return
        seconds = (status.completion_time - job.metadata.creation_timestamp).total_seconds()
        outcome = str(status_dict(status).get("phase"))
        self._engine.metrics.job_duration.labels(outcome).observe(max(seconds, 0.0))
