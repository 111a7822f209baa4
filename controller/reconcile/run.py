"""The background operations of a job on its machine: deliver and start, poll, stop."""

import tempfile
from pathlib import Path

from controller.api.brevinstance import BrevInstance
from controller.api.brevjob import BrevJob
from controller.api.hash import spec_hash
from controller.api.reasons import Reason
from controller.brev.errors import BrevError
from controller.brev.session import BrevSession
from controller.decide.names import run_key
from controller.decide.types import Failure, Operation, RunView, RunWord, Start
from controller.reconcile.address import ensure_address
from controller.reconcile.engine import Engine
from controller.reconcile.nonce import new_nonce
from controller.reconcile.operations import OperationFailed
from controller.reconcile.sources import SourceMissing, read_sources
from controller.remote.bundle import JobBundle, write_bundle
from controller.remote.commands import parse_complaint, parse_state, start_command, state_command, stop_command
from controller.remote.protocol import REMOTE_ROOT, ProbeResult, RemoteState


class Runner:
    """`bundles` is a private directory for bundles in flight, on a memory file system in a pod."""

    def __init__(self, engine: Engine, bundles: Path) -> None:
        self._engine = engine
        self._bundles = bundles

    async def work(self, job: BrevJob, instance: BrevInstance | None, action: Start) -> RunView:
        """One operation; raises OperationFailed or an error of the layers below.

        A call that fails asks for a list of the machines: it may say at once why, and no further call is made then.
        """
        try:
            return await self._work(job, instance, action)
        except (BrevError, OperationFailed):
            name = instance.status.account_name if instance is not None else None
            account = self._engine.accounts.of(name) if name else None
            if account is not None and instance is not None:
                account.inventory.need(instance.key)
            raise

    async def _work(self, job: BrevJob, instance: BrevInstance | None, action: Start) -> RunView:
        session, name, home = self._machine(job, instance)
        key = run_key(job.metadata.uid, len(job.status.attempts) or 1)
        nonce = new_nonce()
        await ensure_address(session, name, self._engine.operations.last_finished(job.metadata.uid, action.operation))
        if action.operation is Operation.DELIVER:
            _check_python(instance)
            delivery = new_nonce()
            await self._copy(session, job, name, home, key, delivery)
            command = start_command(home, key, delivery, nonce)
        elif action.operation is Operation.POLL:
            command = state_command(home, key, nonce, job.spec.logs.tail_bytes)
        else:
            command = stop_command(home, key, nonce, job.spec.deadlines.stop_grace.total_seconds())
        return await self._ask(session, name, command, nonce)

    def _machine(self, job: BrevJob, instance: BrevInstance | None) -> tuple[BrevSession, str, str]:
        status = instance.status if instance is not None else None
        if status is None or not status.brev_name or status.remote is None:
            raise OperationFailed(Failure(Reason.MACHINE_VANISHED, "The machine of the job is not known any more."))
        account = status.account_name or job.spec.instance_template.spec.account_name
        session = self._engine.session(account)
        if session is None:
            message = f'BrevAccount "{account}" does not exist or has no usable login now; its own conditions say why.'
            raise OperationFailed(Failure(Reason.ACCOUNT_NOT_READY, message))
        return session, status.brev_name, status.remote.home

    async def _copy(self, session: BrevSession, job: BrevJob, name: str, home: str, key: str, delivery: str) -> None:
        try:
            sources = await read_sources(self._engine.kube, job.metadata.namespace, job.spec)
        except SourceMissing as missing:
            raise OperationFailed(missing.failure) from None
        bundle = JobBundle(
            key=key,
            interpreter=job.spec.script.interpreter,
            script=sources.script,
            env=sources.env,
            files=sources.files,
            masks=sources.masks,
            marker=self._marker(job),
            stop_grace_seconds=job.spec.deadlines.stop_grace.total_seconds(),
        )
        self._bundles.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._bundles) as parent:
            directory = Path(parent) / delivery
            try:
                write_bundle(directory, bundle)
            except ValueError as error:
                raise OperationFailed(Failure(Reason.INVALID_SPEC, f"The job cannot be delivered: {error}.")) from None
            await session.copy(name, directory, f"{home}/{REMOTE_ROOT}/in/{delivery}")

    def _marker(self, job: BrevJob) -> dict[str, str]:
        """Who the directory on the machine belongs to."""
        return {
            "clusterID": self._engine.cluster_id,
            "kind": str(job.kind),
            "namespace": job.metadata.namespace,
            "name": job.metadata.name,
            "uid": job.metadata.uid,
            "attempt": str(len(job.status.attempts) or 1),
            "specHash": spec_hash(job.spec),
        }

    async def _ask(self, session: BrevSession, name: str, command: str, nonce: str) -> RunView:
        """The runner's answer; no sentinel is an unknown outcome and never a verdict, whatever the exit code."""
        try:
            output = await session.exec(name, command, self._engine.exec_timeout)
        except BrevError as error:
            state = parse_state(error.stdout, nonce)
            if state is None:
                raise
            return _view(state)
        state = parse_state(output, nonce)
        if state is None:
            complaint = parse_complaint(output, nonce) or "no report came back"
            message = f"The runner on machine {name} gave no answer: {complaint}."
            raise OperationFailed(Failure(Reason.HOST_UNREACHABLE, message, ambiguous=True))
        return _view(state)


def _check_python(instance: BrevInstance | None) -> None:
    remote = instance.status.remote if instance is not None else None
    version = remote.python_version if remote is not None else ""
    if not ProbeResult(home="/", python=version, boot_id="").python_supported:
        found = f"has Python {version}" if version else "has no python3"
        message = (
            f"The machine {found}; the runner needs Python 3.8 or newer. Choose a machine type whose image has it."
        )
        raise OperationFailed(Failure(Reason.INTERPRETER_MISSING, message))


def _view(state: RemoteState) -> RunView:
    return RunView(
        word=RunWord(state.state.value),
        exit_code=state.exit_code,
        signal=state.signal,
        started_at=state.started_at,
        finished_at=state.finished_at,
        tail=state.tail,
        truncated=state.truncated,
        log_bytes=state.log_bytes,
        detail=state.detail.rstrip("."),
        setup_failed=state.setup_failed,
        dropped_bytes=state.dropped_bytes,
    )
