"""What the process knows of each BrevAccount: its login, its machines, its catalog, and whether it may be used."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from controller.api.brevaccount import BrevAccount
from controller.api.meta import Kind, ObjectKey
from controller.api.reasons import Reason
from controller.brev.credentials import CredentialInvalid, credential_from_secret
from controller.brev.errors import BrevError
from controller.brev.model import Credential
from controller.brev.session import BrevSession
from controller.cost.offers import Offer
from controller.decide.account import view_account
from controller.decide.types import (
    AccountObservation,
    AccountView,
    CatalogView,
    Failure,
    MachineSeen,
    Operation,
    OperationView,
)
from controller.reconcile.cache import Body, Cache
from controller.reconcile.failures import translate
from controller.reconcile.inventory import Inventory
from controller.reconcile.operations import Operations
from controller.reconcile.parse import read_object

log = logging.getLogger(__name__)

SessionFactory = Callable[[str, Credential], BrevSession]


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two lists in a hurry and at rest, and the age at which the catalog is read again."""

    fast: float
    slow: float
    catalog_ttl: float


@dataclass(slots=True)
class Account:
    """One account of this process. `session` is None while its Secret holds no usable login."""

    name: str
    uid: str
    inventory: Inventory
    session: BrevSession | None = None
    credential: Credential | None = None
    credential_failure: Failure | None = None
    catalog: tuple[Offer, ...] | None = None
    catalog_failure: Failure | None = None
    catalog_at: float | None = None
    catalog_failures: int = 0
    catalog_not_before: float = 0.0
    """Monotonic second before which a failed catalog is not asked for again."""
    catalog_waiting: set[ObjectKey] = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    poller: asyncio.Task[None] | None = None
    fetching: bool = False


class Accounts:
    """All accounts. Passes ask for views; the account's own reconciler feeds the credential."""

    def __init__(
        self,
        cache: Cache,
        operations: Operations,
        *,
        sessions: SessionFactory,
        enqueue: Callable[[ObjectKey], None],
        monotonic: Callable[[], float],
        pace: Pace,
        identity: str = "",
        chosen: frozenset[str] = frozenset(),
    ) -> None:
        """`identity` is this operator in `status.servedBy`; accounts that the settings name (`chosen`) are ours whoever
        served them before.
        """
        self._cache = cache
        self._operations = operations
        self._sessions = sessions
        self._enqueue = enqueue
        self._monotonic = monotonic
        self._pace = pace
        self._identity = identity
        self._chosen = chosen
        self._accounts: dict[str, Account] = {}

    def of(self, name: str) -> Account | None:
        """The account of that name, if a BrevAccount object is known."""
        body = self._cache.get(ObjectKey(Kind.ACCOUNT, "", name))
        if body is None:
            self.forget(name)
            return None
        uid = body["metadata"]["uid"]
        known = self._accounts.get(name)
        if known is not None and known.uid != uid:
            self.forget(name)
            known = None
        if known is None:
            known = self._accounts[name] = self._new(name, uid)
        return known

    def foreign(self, name: str) -> bool:
        """Whether another operator serves the account: then it and everything that uses it is none of our business.

        Two operators that both took it would each see the other's machines as gone, and let them go.
        """
        body = self._cache.get(ObjectKey(Kind.ACCOUNT, "", name))
        served_by = (body or {}).get("status", {}).get("servedBy")
        return bool(served_by) and served_by != self._identity and name not in self._chosen

    def use(self, account: Account, secret: dict[str, bytes] | None, org_id: str, secret_name: str) -> bool:
        """Take over the Secret as it is now; whether the login changed. Works without a restart."""
        credential, failure = _credential(secret, org_id, secret_name)
        changed = credential != account.credential or failure != account.credential_failure
        account.credential_failure = failure
        if credential == account.credential:
            return changed
        account.credential = credential
        # Also one that still runs: how a verification of the old login ends must never be told of the new one.
        self._operations.forget(account.uid)
        if credential is None:
            account.session = None
        elif account.session is None:
            account.session = self._sessions(account.name, credential)
        else:
            account.session.use(credential)
        if account.session is not None:
            account.inventory.failure = None
            account.inventory.soon()
            if account.poller is None:
                account.poller = asyncio.create_task(account.inventory.run(), name=f"inventory {account.name}")
        return changed

    def observe(self, account: Account, spec_problem: str = "", users: tuple[str, ...] = ()) -> AccountObservation:
        views = self._operations.views(account.uid)
        running = views.get(Operation.VERIFY)
        return AccountObservation(
            credential=account.credential.kind if account.credential else None,
            credential_failure=account.credential_failure,
            verified=self._verified(account),
            verifying=running is not None and running.running,
            inventory_asked=account.inventory.asked,
            inventory_failure=account.inventory.failure,
            monotonic=self._monotonic(),
            spec_problem=spec_problem,
            expires_at=account.credential.expires_at if account.credential else None,
            users=users,
            identity=self._identity,
        )

    def needs_labels(self, name: str, namespace: str) -> bool:
        """Whether `view` needs the labels of the namespace to tell whether it may use the account."""
        body = self._cache.get(ObjectKey(Kind.ACCOUNT, "", name))
        account, problem = read_object(BrevAccount, body) if body is not None else (None, "absent")
        return account is not None and not problem and account.spec.needs_labels(namespace)

    def view(self, name: str, namespace: str, labels: Mapping[str, str] = MappingProxyType({})) -> AccountView:
        """The account as objects of `namespace`, which has these labels, see it."""
        account = self.of(name)
        if account is None:
            message = (
                f'There is no BrevAccount "{name}"; create it (again), or have whoever runs the operator create it.'
            )
            return AccountView(False, Reason.ACCOUNT_NOT_FOUND, message)
        resource, problem = read_object(BrevAccount, self._cache.get(ObjectKey(Kind.ACCOUNT, "", name)) or {})
        if problem:
            return AccountView(False, Reason.INVALID_SPEC, f'BrevAccount "{name}": {problem}')
        return view_account(resource, resource.spec.allows(namespace, labels), self.observe(account))

    def catalog(self, account: Account | None) -> CatalogView:
        """The catalog, if it is not older than it may be."""
        if account is None:
            return CatalogView()
        age = None if account.catalog_at is None else self._monotonic() - account.catalog_at
        fresh = age is not None and age < self._pace.catalog_ttl
        return CatalogView(account.catalog if fresh else None, account.catalog_failure)

    def need_catalog(self, account: Account, key: ObjectKey) -> None:
        """Read the catalog unless it is being read, or was a moment ago; `key` is looked at again when it is there.

        However many objects want it, it is read once in the slow pace, and after a failure at a growing distance.
        """
        account.catalog_waiting.add(key)
        due = self._monotonic() >= account.catalog_not_before
        if due and not account.fetching and account.session is not None:
            account.fetching = True
            task = asyncio.create_task(self._read_catalog(account, account.session), name=f"catalog {account.name}")
            account.tasks.add(task)
            task.add_done_callback(account.tasks.discard)

    def forget(self, name: str) -> None:
        """The BrevAccount is gone: end everything that runs for it."""
        account = self._accounts.pop(name, None)
        if account is None:
            return
        self._operations.forget(account.uid)
        for task in (*account.tasks, *([account.poller] if account.poller else [])):
            task.cancel()

    def ages(self) -> dict[str, float]:
        """Seconds since each account's newest good list, for the metrics."""
        now = self._monotonic()
        known = {name: account.inventory.asked for name, account in self._accounts.items()}
        return {name: now - asked for name, asked in known.items() if asked is not None}

    async def drain(self) -> None:
        """End all background work of all accounts; for the shutdown of the process."""
        tasks = [task for account in self._accounts.values() for task in (*account.tasks, account.poller) if task]
        for name in list(self._accounts):
            self.forget(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def dependents(self, name: str) -> Iterable[ObjectKey]:
        """The BrevInstances that use the account."""
        for body in self._cache.bodies(Kind.INSTANCE):
            if uses(body, name):
                yield ObjectKey(Kind.INSTANCE, body["metadata"]["namespace"], body["metadata"]["name"])

    def _new(self, name: str, uid: str) -> Account:
        async def fetch() -> list[MachineSeen]:
            session = account.session
            if session is None:
                raise CredentialInvalid("the account has no usable login")
            rows = await session.list()
            return [MachineSeen(row.name, row.id, row.status.upper()) for row in rows]

        def news(waiting: set[ObjectKey], changed: bool) -> None:
            for key in {*waiting, *(self.dependents(name) if changed else ())}:
                self._enqueue(key)
            if changed:
                self._enqueue(ObjectKey(Kind.ACCOUNT, "", name))

        inventory = Inventory(
            fetch,
            translate,
            fast=self._pace.fast,
            slow=self._pace.slow,
            monotonic=self._monotonic,
            on_news=news,
        )
        account = Account(name, uid, inventory)
        return account

    def _verified(self, account: Account) -> OperationView | None:
        return self._operations.last_finished(account.uid, Operation.VERIFY)

    async def _read_catalog(self, account: Account, session: BrevSession) -> None:
        try:
            rows = await session.search()
        except Exception as error:  # noqa: BLE001 - whoever waits for the catalog must hear of every end
            self._catalog_failed(account, error)
        else:
            account.catalog = tuple(
                Offer(
                    type=row.type,
                    provider=row.provider,
                    gpu="" if row.gpu_name == "-" else row.gpu_name,
                    gpu_count=row.gpu_count,
                    price_micros=row.price_micros,
                    stoppable=row.stoppable,
                    boot_time_seconds=row.boot_time_seconds,
                )
                for row in rows
            )
            account.catalog_at, account.catalog_failure = self._monotonic(), None
            account.catalog_failures = 0
            account.catalog_not_before = account.catalog_at + min(self._pace.slow, self._pace.catalog_ttl)
        finally:
            account.fetching = False
            waiting, account.catalog_waiting = account.catalog_waiting, set()
        for key in waiting:
            self._enqueue(key)

    def _catalog_failed(self, account: Account, error: Exception) -> None:
        failure = translate(error)
        if failure is None:
            log.error("The catalog ended in an unexpected error", exc_info=error, extra={"account": account.name})
            failure = Failure(Reason.CLI_FAILED, f"The catalog ended in {type(error).__name__}.")
        else:
            log.info("The catalog could not be read: %s", failure.message, extra={"account": account.name})
        account.catalog_failure = failure
        pause = min(self._pace.fast * 2 ** min(account.catalog_failures, 10), self._pace.slow)
        account.catalog_failures += 1
        account.catalog_not_before = self._monotonic() + pause


def _credential(
    secret: dict[str, bytes] | None, org_id: str, secret_name: str
) -> tuple[Credential | None, Failure | None]:
    if secret is None:
        message = f'The Secret "{secret_name}" does not exist in the operator\'s namespace; create it there.'
        return None, Failure(Reason.CREDENTIAL_SECRET_MISSING, message)
    try:
        return credential_from_secret(secret, org_id), None
    except (CredentialInvalid, BrevError) as error:
        failure = translate(error)
        return None, failure


def uses(body: Body, name: str) -> bool:
    """Whether this BrevInstance uses the account `name`: the one that it was created with, or will be."""
    return name == (body.get("status", {}).get("accountName") or body.get("spec", {}).get("accountName") or "default")
