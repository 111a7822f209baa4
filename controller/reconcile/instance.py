"""One pass over a BrevInstance: observe, decide, act, patch."""

from collections.abc import Mapping
from typing import Any

from controller.api.brevinstance import BrevInstance, RemoteFacts
from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.brev.errors import BrevError
from controller.brev.session import BrevSession
from controller.decide.instance import decide_instance
from controller.decide.types import (
    Action,
    Failure,
    InstanceObservation,
    InventoryView,
    Need,
    Operation,
    Start,
)
from controller.logs import log_context
from controller.reconcile.address import ensure_address
from controller.reconcile.cache import Body
from controller.reconcile.engine import Engine, carry_out
from controller.reconcile.nonce import new_nonce
from controller.reconcile.operations import OperationFailed
from controller.reconcile.parse import read_object
from controller.remote.commands import parse_probe, probe_command


class InstanceReconciler:
    """Drives machines through the account's CLI session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def reconcile(self, key: ObjectKey) -> None:
        engine = self._engine
        body = engine.cache.get(key)
        if body is None:
            return
        instance, problem = read_object(BrevInstance, body)
        account_name = _account_name(instance, body)
        if engine.accounts.foreign(account_name):
            return
        with log_context(account=account_name):
            labels = await self._labels(account_name, key.namespace)
            obs = self._observe(key, instance, account_name, problem, labels)
            plan = decide_instance(instance, obs, engine.clock.now(), engine.timing)
            await carry_out(engine, key, body, plan, self)
            self._share(key, account_name, plan.needs, plan.hurry)

    def gone(self, body: Body) -> None:
        """The object is gone, and its machine with it: forget operations and the machine's HOME."""
        key = ObjectKey(Kind.INSTANCE, body["metadata"]["namespace"], body["metadata"]["name"])
        engine = self._engine
        engine.operations.forget(body["metadata"]["uid"])
        status = body.get("status", {})
        account = engine.accounts.of(_account_of(body))
        if engine.cache.get(key) is None:
            # Otherwise a new object has the name by now, and what is planned is planned for it.
            engine.queue.forget(key)
            if account is not None:
                account.inventory.forget(key)
        if account is not None and account.session is not None:
            for attempt in status.get("attempts", []):
                account.session.forget(attempt["brevName"])

    async def perform(self, key: ObjectKey, body: Body, action: Action) -> None:
        if not isinstance(action, Start):
            return
        account_name = body.get("status", {}).get("accountName") or ""
        session = self._engine.session(account_name)
        work = self._work(session, account_name, body["metadata"]["uid"], action)
        self._engine.operations.start(key, body["metadata"]["uid"], action.operation, work)

    async def _work(self, session: BrevSession | None, account_name: str, uid: str, action: Start) -> Any:
        if session is None:
            raise OperationFailed(Failure(Reason.ACCOUNT_NOT_READY, f'BrevAccount "{account_name}" has no login now.'))
        if action.operation is Operation.CONNECT:
            return await self._connect(session, uid, action.arguments["name"], action.arguments["first"])
        try:
            if action.operation is Operation.CREATE:
                await session.create(action.arguments["name"], action.arguments["machine_type"])
            else:
                await session.delete(action.arguments["machine_id"])
        finally:
            account = self._engine.accounts.of(account_name)
            if account is not None:
                account.inventory.soon()
        return None

    async def _connect(self, session: BrevSession, uid: str, name: str, first: bool) -> RemoteFacts:
        """Fetch the machine's address where needed, then ask the machine itself for a nonce."""
        last = self._engine.operations.last_finished(uid, Operation.CONNECT)
        await ensure_address(session, name, last, first=first)
        nonce = new_nonce()
        try:
            output = await session.exec(name, probe_command(nonce), self._engine.probe_timeout)
        except BrevError as error:
            if parse_probe(error.stdout, nonce) is None:
                raise
            output = error.stdout
        probe = parse_probe(output, nonce)
        if probe is None:
            message = f"The probe of {name} came back without its nonce."
            raise OperationFailed(Failure(Reason.HOST_UNREACHABLE, message))
        return RemoteFacts(home=probe.home, python_version=probe.python, boot_id=probe.boot_id)

    async def _labels(self, account_name: str, namespace: str) -> Mapping[str, str]:
        """The labels of the namespace, where only they can tell whether it may use the account; else none."""
        if not self._engine.accounts.needs_labels(account_name, namespace):
            return {}
        return await self._engine.kube.get_namespace_labels(namespace) or {}

    def _observe(
        self, key: ObjectKey, instance: BrevInstance, account_name: str, problem: str, labels: Mapping[str, str]
    ) -> InstanceObservation:
        engine = self._engine
        account = engine.accounts.of(account_name)
        status = instance.status
        attempt = status.attempts[-1] if status.attempts else None
        inventory = InventoryView()
        if account is not None and attempt is not None:
            inventory = account.inventory.view(attempt.brev_id, attempt.brev_name)
        return InstanceObservation(
            account=engine.accounts.view(account_name, key.namespace, labels),
            inventory=inventory,
            catalog=engine.accounts.catalog(account),
            operations=engine.operations.views(instance.metadata.uid),
            monotonic=engine.clock.monotonic(),
            process_started=engine.process_started,
            cluster_id=engine.cluster_id,
            spec_problem=problem,
        )

    def _share(self, key: ObjectKey, account_name: str, needs: frozenset[Need], hurry: bool) -> None:
        account = self._engine.accounts.of(account_name)
        if account is None:
            return
        account.inventory.hurry(key, hurry)
        if Need.INVENTORY in needs:
            account.inventory.need(key)
        if Need.CATALOG in needs:
            self._engine.accounts.need_catalog(account, key)


def _account_name(instance: BrevInstance, body: Body) -> str:
    if instance.status.account_name:
        return instance.status.account_name
    return _account_of(body)


def _account_of(body: Body) -> str:
    return str(body.get("status", {}).get("accountName") or body.get("spec", {}).get("accountName") or "default")
