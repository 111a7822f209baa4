"""One pass over a BrevAccount: read its Secret, verify the login, say in conditions how it is."""

from controller.api.brevaccount import BrevAccount
from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.brev.session import BrevSession
from controller.decide.account import decide_account
from controller.decide.account import problem as account_problem
from controller.decide.types import Action, Failure, Operation, Start
from controller.kube.errors import Forbidden
from controller.logs import register_secret
from controller.reconcile.accounts import Account, uses
from controller.reconcile.cache import Body
from controller.reconcile.engine import Engine, carry_out
from controller.reconcile.operations import OperationFailed
from controller.reconcile.parse import read_object

SHOWN_USERS = 5
"""Objects that a message names; there may be thousands."""


class AccountReconciler:
    """Keeps every account's login current and its conditions true."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._told: dict[str, object] = {}
        """What dependents were last told of each account, by its name."""

    async def reconcile(self, key: ObjectKey) -> None:
        engine = self._engine
        body = engine.cache.get(key)
        if body is None:
            engine.accounts.forget(key.name)
            self._told.pop(key.name, None)
            self._wake_dependents(key)
            return
        if engine.accounts.foreign(key.name):
            engine.accounts.forget(key.name)
            return
        account = engine.accounts.of(key.name)
        if account is None:
            return
        resource, problem = read_object(BrevAccount, body)
        if not problem:
            await self._read_secret(account, resource)
        users = await self._users(key) if resource.metadata.deleting else ()
        obs = engine.accounts.observe(account, problem, users)
        plan = decide_account(resource, obs, engine.clock.now(), engine.timing)
        await carry_out(engine, key, body, plan, self)
        judgement = (
            account_problem(obs),
            obs.verified is not None,
            obs.inventory_asked is not None,
            body.get("status", {}).get("servedBy"),
            problem or resource.spec,
            resource.metadata.deleting,
        )
        if self._told.get(key.name) != judgement:
            self._told[key.name] = judgement
            self._wake_dependents(key)

    async def perform(self, key: ObjectKey, body: Body, action: Action) -> None:
        account = self._engine.accounts.of(key.name)
        if not isinstance(action, Start) or account is None or account.session is None:
            return
        work = self._verify(account.session, body["spec"]["orgID"])
        self._engine.operations.start(key, account.uid, Operation.VERIFY, work)

    async def _users(self, key: ObjectKey) -> tuple[str, ...]:
        """Some of the BrevInstances that use the account, by a live list: from this the account is let go."""
        items, _ = await self._engine.kube.list(Kind.INSTANCE)
        names = [
            f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in items if uses(body, key.name)
        ]
        return tuple(sorted(names)[:SHOWN_USERS])

    async def _read_secret(self, account: Account, resource: BrevAccount) -> None:
        engine = self._engine
        spec = resource.spec
        try:
            secret = await engine.kube.get_secret(engine.namespace, spec.secret_name)
        except Forbidden as error:
            account.credential_failure = Failure(Reason.FORBIDDEN, f"The operator may not read it: {error.message}")
            return
        for name, value in (secret or {}).items():
            if name != "BREV_ORG_ID":
                register_secret(value)
        engine.accounts.use(account, secret, spec.org_id, spec.secret_name)

    async def _verify(self, session: BrevSession, org_id: str) -> str:
        """The CLI's version, once it is supported and the login is on the pinned organization."""
        version = await session.version()
        active = [organization.id for organization in await session.organizations() if organization.is_active]
        if active != [org_id]:
            message = f'The login is not on the organization "{org_id}" of spec.orgID; nothing is created or deleted.'
            raise OperationFailed(Failure(Reason.ORGANIZATION_MISMATCH, message))
        return version

    def _wake_dependents(self, key: ObjectKey) -> None:
        for dependent in self._engine.accounts.dependents(key.name):
            self._engine.queue.add(dependent)
