"""The CLI as one account uses it: verbs in, values or classified errors out.

Every verb is one short process, except where a check must come first. Cancelling the task of a verb kills its process
group. Nothing here retries: the caller knows whether that is safe.
"""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from controller.brev import commands, errors, homes, parse
from controller.brev.capabilities import require_api_keys
from controller.brev.clean import Masker
from controller.brev.credentials import CredentialInvalid, jwt_expiry
from controller.brev.homes import Home, Homes
from controller.brev.invoke import SERVICE_ACCOUNT_TOKEN, Invoker, Observer, Output
from controller.brev.model import Credential, MachineRow, OfferRow, Organization
from controller.brev.slots import Slots

# The CLI renews a token inside whichever call finds it dead. Longer than the longest call that borrows one.
RENEWAL_MARGIN = timedelta(minutes=10)

# A machine shown as UNHEALTHY is RUNNING in the service; only the list's words differ.
_RUNNING = frozenset({"RUNNING", "UNHEALTHY"})


class Clock(Protocol):
    def __call__(self) -> datetime: ...


def _utc_now() -> datetime:
    return datetime.now(UTC)


class BrevSession:
    """All calls of one BrevAccount. One per account and process; `homes` and `slots` are shared by all sessions.

    `time_scale` multiplies the time-outs of all verbs but `exec`. `extra_env` reaches the CLI only (BREV_API_URL, …).
    """

    def __init__(
        self,
        account: str,
        credential: Credential,
        *,
        homes: Homes,
        slots: Slots,
        executable: str = "brev",
        extra_env: Mapping[str, str] | None = None,
        time_scale: float = 1.0,
        on_call: Observer | None = None,
        now: Clock = _utc_now,
        service_account_token: Path = SERVICE_ACCOUNT_TOKEN,
    ) -> None:
        self._homes = homes
        self._slots = slots
        self._now = now
        self._warm: set[str] = set()
        self._invoker = Invoker(
            account=commands.checked_name(account),
            homes=homes,
            slots=slots,
            executable=executable,
            extra_env=dict(extra_env or {}),
            time_scale=time_scale,
            on_call=on_call or (lambda _verb, _outcome, _seconds: None),
            service_account_token=service_account_token,
        )
        self.use(credential)

    @property
    def account(self) -> str:
        return self._invoker.account

    def use(self, credential: Credential) -> None:
        """Go on with another credential, from the next call; machines keep their HOMEs and keys."""
        self._credential = credential
        self._invoker.mask = Masker([credential.secret])

    async def version(self) -> str:
        """The release, such as "v0.6.327". CliMissing; CliUnsupported with the reason and the minimum."""
        return (await self._invoker.release()).version

    async def organizations(self) -> list[Organization]:
        """What the login may act on. With an API key that is the key's own organisation, without a call."""
        if self._credential.kind == "APIKey":
            await self._ready()
            return [Organization(self._credential.org_id, self._credential.org_id, is_active=True)]
        try:
            output = await self._ask("orgs", commands.list_organizations(), self._slots.poll)
        except errors.BrevError as error:
            if "no orgs exist" in error.detail:
                return []
            raise
        return parse.organizations(output.stdout)

    async def list(self) -> list[MachineRow]:
        """Every machine the login sees in the pinned organisation; raises rather than give a list that may be wrong.

        With a token the organisation is checked after each list: the CLI changes to another one without a word when
        the service does not know the pinned one, and all machines would look gone.
        """
        output = await self._ask("ls", commands.list_machines(), self._slots.poll)
        rows = parse.machines(output.stdout)
        await self._verify_organization()
        return rows

    async def search(self) -> builtins.list[OfferRow]:
        """The GPU and CPU catalogs together. Listed is not available: only `create` tells."""
        rows: set[OfferRow] = set()
        for catalog in ("gpu", "cpu"):
            output = await self._ask("search", commands.search(catalog), self._slots.poll)
            rows.update(parse.offers(output.stdout))
        return sorted(rows, key=lambda row: (row.type, row.gpu_name, row.gpu_count, row.vram_per_gpu_gb))

    async def create(self, name: str, machine_type: str) -> None:
        """Ask for one machine; returns when the service accepted. An error with `ambiguous` may have created it."""
        arguments = commands.create(name, machine_type)
        await self._verify_organization()
        await self._ask("create", arguments, self._slots.mutate, machine=name)

    async def delete(self, machine_id: str) -> None:
        """Ask for the end of a machine. Returning means accepted, not gone. InstanceNotFound if there is none."""
        arguments = commands.delete(machine_id)
        await self._verify_organization()
        try:
            await self._ask("delete", arguments, self._slots.mutate, machine=machine_id)
        except errors.BrevError as error:
            if "already being deleted" not in error.detail:
                raise

    async def refresh(self, name: str) -> None:
        """Fetch the machine's address and key into its own HOME. NotRunning if there is no address afterwards."""
        home = self._machine(name)
        await self._ready()
        async with home.lock.exclusive():
            with homes.borrowed_login(home, await self._login_to_lend()):
                await self._invoker.call("refresh", commands.refresh(), home=home, slot=self._slots.probe, machine=name)
            if not homes.keep_own_host(home, name):
                raise errors.NotRunning(f"brev refresh gave no SSH address for {name}: it is not running yet")

    async def copy(self, name: str, source: Path, destination: str) -> None:
        """Upload a file or directory. A fresh list must say RUNNING: the CLI would start a stopped machine.

        `destination` is an absolute path; a directory copied onto an existing one nests inside it.
        """
        arguments = commands.copy(name, source, destination)
        if not source.exists():
            raise FileNotFoundError(source)
        home = self._machine(name)
        await self._require_running(name)
        async with home.lock.exclusive():
            try:
                with homes.borrowed_login(home, await self._login_to_lend()):
                    await self._invoker.call("copy", arguments, home=home, slot=self._slots.exec, machine=name)
            finally:
                homes.keep_own_host(home, name)

    async def exec(self, name: str, command: str, timeout: float) -> str:
        """Run one idempotent line on a refreshed machine; `timeout` in seconds is not scaled.

        Runs without any login in reach. Stdout is what the remote side wrote and a last line with the machine's name;
        look for a sentinel in it, also in `.stdout` of the error. HostUnreachable without a call if the machine has
        not been refreshed. Until a machine has answered once its calls use the slots for probes.
        """
        arguments = commands.execute(name, command)
        home = self._machine(name)
        await self._invoker.release()
        async with home.lock.shared():
            homes.remove_login(home)  # a kill during refresh or copy may have left one
            if not homes.knows_host(home, name):
                raise errors.HostUnreachable(f"no SSH address of {name} is known; it must be refreshed first")
            slot = self._slots.exec if name in self._warm else self._slots.probe
            try:
                output = await self._invoker.call(
                    "exec", arguments, home=home, slot=slot, machine=name, timeout=timeout
                )
            except errors.BrevError:
                self._warm.discard(name)
                raise
        self._warm.add(name)
        return output.stdout

    def refreshed(self, name: str) -> bool:
        """Whether the machine's address is known, so that `exec` can be tried."""
        return name in self.remembered() and homes.knows_host(self._machine(name), name)

    def remembered(self) -> set[str]:
        """Machines with a HOME here, also of an earlier process; `forget` those that are gone."""
        return self._homes.machines(self.account)

    def forget(self, name: str) -> None:
        """The machine is gone: remove its HOME, key and address. Idempotent."""
        self._warm.discard(name)
        self._homes.forget_machine(self.account, name)

    def _machine(self, name: str) -> Home:
        return self._homes.machine(self.account, name)

    async def _ready(self) -> None:
        """What must hold before any call that uses the login, checked without the service."""
        release = await self._invoker.release()
        if self._credential.kind == "APIKey":
            require_api_keys(release)
        expires = self._credential.expires_at
        if expires is not None and expires <= self._now():
            raise errors.AuthRequired(f"the JWT of the Brev login expired at {expires:%Y-%m-%dT%H:%M:%SZ}")

    async def _ask(self, verb: str, arguments: Sequence[str], slot: asyncio.Semaphore, machine: str = "") -> Output:
        """A call in the account's HOME: shared, or alone if the CLI will write credentials meanwhile."""
        await self._ready()
        home = self._homes.account(self.account)
        if not self._current(home):
            async with home.lock.exclusive():
                if not self._current(home):
                    homes.write_login(home, homes.credential_files(self._credential))
                    if self._credential.kind == "RefreshToken":
                        return await self._invoker.call(verb, arguments, home=home, slot=slot, machine=machine)
        async with home.lock.shared():
            return await self._invoker.call(verb, arguments, home=home, slot=slot, machine=machine)

    def _current(self, home: Home) -> bool:
        """Whether the login on disk is ours and needs no renewal soon."""
        stored, organization = homes.stored_login(home), homes.stored_organization(home)
        wanted = self._credential
        if organization != wanted.org_id:
            return False
        if wanted.kind == "APIKey":
            return stored.get("api_key") == wanted.secret and stored.get("api_key_org_id") == wanted.org_id
        if wanted.kind == "JWT":
            return stored.get("access_token") == wanted.secret and not stored.get("api_key")
        if stored.get("refresh_token") != wanted.secret or stored.get("api_key"):
            return False
        try:
            return jwt_expiry(stored.get("access_token", "")) > self._now() + RENEWAL_MARGIN
        except CredentialInvalid:
            return False

    async def _login_to_lend(self) -> dict[str, str]:
        """Files for a machine's HOME; a refresh credential is renewed first, in the one place where that is safe."""
        await self._ready()
        home = self._homes.account(self.account)
        if self._credential.kind == "RefreshToken" and not self._current(home):
            await self._ask("orgs", commands.list_organizations(), self._slots.poll)
        return homes.credential_files(self._credential, homes.stored_login(home).get("access_token", ""))

    async def _verify_organization(self) -> None:
        """OrganizationMismatch unless commands act on the pinned organisation. Free with an API key."""
        active = [each.id for each in await self.organizations() if each.is_active]
        if active != [self._credential.org_id]:
            raise errors.OrganizationMismatch(
                "the active organisation of the Brev login is not spec.orgID of the account"
            )

    async def _require_running(self, name: str) -> None:
        rows = [row for row in await self.list() if row.name == name]
        if not rows:
            raise errors.InstanceNotFound(f"there is no machine {name} in the organisation")
        if not any(row.status in _RUNNING for row in rows):
            raise errors.NotRunning(f"the machine {name} is {rows[0].status}, not RUNNING")
