"""The CLI as one account uses it: verbs in, values or classified errors out.

Every verb is one short process, except where a check must come first. Cancelling the task of a verb kills its process
group. Nothing here retries: the caller knows whether that is safe.
"""

import builtins
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from controller.brev import commands, errors, homes, parse
from controller.brev.features import Capabilities
from controller.brev.homes import Home, Homes
from controller.brev.invoke import SERVICE_ACCOUNT_TOKEN, Invoker, Observer
from controller.brev.login import Login
from controller.brev.model import Credential, MachineRow, OfferRow, Organization, Placement
from controller.brev.slots import Slots

# A machine shown as UNHEALTHY is RUNNING in the service; only the list's words differ.
_RUNNING = frozenset({"RUNNING", "UNHEALTHY"})
_ENDING = frozenset({"STOPPING", "STOPPED"})
_NO_SUCH_PATH = "tried to start with local path"


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
        self._gpus: dict[str, str] = {}
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
        self._login = Login(self._invoker, homes, slots, now)
        self._login.use(credential)

    @property
    def account(self) -> str:
        return self._invoker.account

    def use(self, credential: Credential) -> None:
        """Go on with another credential, from the next call; machines keep their HOMEs and keys."""
        self._login.use(credential)

    async def version(self) -> str:
        """The release, such as "v0.6.327". CliMissing; CliUnsupported with the reason and the minimum."""
        return (await self._invoker.release()).version

    async def capabilities(self) -> Capabilities:
        """What the installed release can do. CliMissing; CliUnsupported, also where the credential is not for it."""
        return await self._login.ready()

    async def organizations(self) -> list[Organization]:
        """What the login may act on. With an API key that is the key's own organisation, without a call."""
        release = await self._login.ready()
        credential = self._login.credential
        if credential.kind == "APIKey":
            return [Organization(credential.org_id, credential.org_id, is_active=True)]
        try:
            output = await self._login.ask("orgs", commands.list_organizations(release), self._slots.poll)
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
        output = await self._login.ask("ls", commands.list_machines(), self._slots.poll)
        rows = parse.machines(output.stdout)
        await self._verify_organization()
        return rows

    async def search(self) -> builtins.list[OfferRow]:
        """The GPU and CPU catalogs together. Listed is not available: only `create` tells."""
        rows: set[OfferRow] = set()
        for catalog in ("gpu", "cpu"):
            output = await self._login.ask("search", commands.search(catalog), self._slots.poll)
            rows.update(parse.offers(output.stdout))
        found = sorted(rows, key=lambda row: (row.type, row.gpu_name, row.gpu_count, row.vram_per_gpu_gb))
        self._gpus = {row.type: f"{row.gpu_name}:{row.gpu_count}" for row in found if row.gpu_name != "-"}
        return found

    async def create(self, name: str, machine_type: str, placement: Placement | None = None) -> None:
        """Ask for one machine; returns when the service accepted. An error with `ambiguous` may have created it.

        PlacementUnsupported before any call where the release has no flags for it; PlacementRequired, with the ids that
        are known, where the service wants one. A release without `--type` gets the type's GPU and count instead and
        chooses itself, so that the machine's type must be compared afterwards.
        """
        release = await self._login.ready()
        gpu = "" if release.create_type else await self._gpu(machine_type)
        arguments = commands.create(release, name, machine_type, gpu=gpu, placement=placement)
        await self._verify_organization()
        try:
            await self._login.ask("create", arguments, self._slots.mutate, machine=name)
        except errors.PlacementRequired as error:
            error.cloud_cred_ids, error.workspace_group_ids = await self._placements(release)
            raise

    async def delete(self, machine_id: str) -> None:
        """Ask for the end of a machine. Returning means accepted, not gone. InstanceNotFound if there is none."""
        arguments = commands.delete(machine_id)
        await self._verify_organization()
        try:
            await self._login.ask("delete", arguments, self._slots.mutate, machine=machine_id)
        except errors.BrevError as error:
            if "already being deleted" not in error.detail:
                raise

    async def stop(self, machine_id: str) -> None:
        """Ask a machine to stop. Returning means accepted (or stopping already). Refused for a type that cannot.

        A fresh list must have it: up to v0.6.323 `stop` of an unknown machine ends as a success.
        """
        arguments = commands.stop(machine_id)
        if (await self._row(machine_id)).status not in _ENDING:
            await self._login.ask("stop", arguments, self._slots.mutate, machine=machine_id)

    async def start(self, machine_id: str) -> None:
        """Start a stopped machine. Returning means accepted (or up already); NotRunning from any other state.

        A fresh list must have it: `start` takes what it does not know for a local path, ends as a success, and with a
        directory or an address of that name makes a new machine.
        """
        arguments = commands.start(machine_id)
        row = await self._row(machine_id)
        if row.status in _RUNNING or row.status == "STARTING":
            return
        if row.status != "STOPPED":
            raise errors.NotRunning(f"the machine {row.name} is {row.status}; only a STOPPED one can be started")
        output = await self._login.ask("start", arguments, self._slots.mutate, machine=machine_id)
        if _NO_SUCH_PATH in output.stdout:
            raise errors.InstanceNotFound(f"brev start does not know the machine {row.name}")

    async def refresh(self, name: str) -> None:
        """Fetch the machine's address and key into its own HOME. NotRunning if there is no address afterwards."""
        home = self._machine(name)
        await self._login.ready()
        async with home.lock.exclusive():
            with homes.borrowed_login(home, await self._login.lend()):
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
                with homes.borrowed_login(home, await self._login.lend()):
                    await self._invoker.call("copy", arguments, home=home, slot=self._slots.exec, machine=name)
            finally:
                homes.keep_own_host(home, name)

    async def exec(self, name: str, command: str, timeout: float) -> str:
        """Run one idempotent line on a refreshed machine; `timeout` in seconds is not scaled.

        Stdout is what the remote side wrote and a last line with the machine's name; look for a sentinel in it, also in
        `.stdout` of the error. HostUnreachable without a call if the machine has not been refreshed. Until a machine
        has answered once its calls use the slots for probes. Runs without any login in reach, except where the release
        cannot (SSH certificates, the seeds' dialect): there a fresh list must say RUNNING first.
        """
        release = await self._invoker.release()
        arguments = commands.execute(release, name, command)
        home = self._machine(name)
        lends = self._lends(release, home)
        if lends:
            await self._require_running(name)
        async with home.lock.exclusive() if lends else home.lock.shared():
            homes.remove_login(home)  # a kill during refresh or copy may have left one
            if not homes.knows_host(home, name):
                raise errors.HostUnreachable(f"no SSH address of {name} is known; it must be refreshed first")
            slot = self._slots.exec if name in self._warm else self._slots.probe
            try:
                with homes.borrowed_login(home, await self._login.lend()) if lends else nullcontext():
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

    def _lends(self, release: Capabilities, home: Home) -> bool:
        if release.exec_login == "certificate":
            return homes.needs_certificate(home)
        return release.exec_login == "always"

    async def _gpu(self, machine_type: str) -> str:
        """`L40S:1` for a type of the catalog."""
        if machine_type not in self._gpus:
            await self.search()
        if machine_type not in self._gpus:
            raise errors.UnknownType(f"the catalog has no GPU machine of type {machine_type}")
        return self._gpus[machine_type]

    async def _placements(self, release: Capabilities) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids of cloud credentials and workspace groups, as far as the CLI lists any."""
        groups = await self._login.ask("ls", commands.list_machines(), self._slots.poll)
        known = parse.workspace_groups(groups.stdout)
        if not release.placement or self._login.credential.kind == "APIKey":
            return (), known
        organizations = await self._login.ask("orgs", commands.list_organizations(release), self._slots.poll)
        return parse.cloud_credentials(organizations.stdout, self._login.credential.org_id), known

    async def _verify_organization(self) -> None:
        """OrganizationMismatch unless commands act on the pinned organisation. Free with an API key."""
        active = [each.id for each in await self.organizations() if each.is_active]
        if active == [self._login.credential.org_id]:
            return
        if not active:
            raise errors.OrganizationMismatch("the brev CLI does not say which organisation of the login is active")
        raise errors.OrganizationMismatch("the active organisation of the Brev login is not spec.orgID of the account")

    async def _require_running(self, name: str) -> None:
        rows = [row for row in await self.list() if row.name == name]
        if not rows:
            raise errors.InstanceNotFound(f"there is no machine {name} in the organisation")
        if not any(row.status in _RUNNING for row in rows):
            raise errors.NotRunning(f"the machine {name} is {rows[0].status}, not RUNNING")

    async def _row(self, machine_id: str) -> MachineRow:
        """The machine's row of a fresh list."""
        row = next((row for row in await self.list() if row.id == machine_id), None)
        if row is None:
            raise errors.InstanceNotFound(f"there is no machine {machine_id} in the organisation")
        return row
