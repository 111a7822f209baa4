"""The login of one account: what is written into its HOME, when the CLI may renew it, and what is lent to machines."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from controller.brev import commands, errors, homes
from controller.brev.clean import Masker
from controller.brev.credentials import CredentialInvalid, jwt_expiry
from controller.brev.features import Capabilities, require_api_keys
from controller.brev.homes import Home, Homes
from controller.brev.invoke import Invoker
from controller.brev.model import Credential, Output
from controller.brev.slots import Slots

# The CLI renews a token inside whichever call finds it dead. Longer than the longest call that borrows one.
RENEWAL_MARGIN = timedelta(minutes=10)


class Login:
    """Calls that use the account's login. One per session."""

    def __init__(self, invoker: Invoker, homes_: Homes, slots: Slots, now: Callable[[], datetime]) -> None:
        self._invoker = invoker
        self._homes = homes_
        self._slots = slots
        self._now = now
        self.credential = Credential("APIKey", "", "")

    def use(self, credential: Credential) -> None:
        """Go on with another credential, from the next call."""
        self.credential = credential
        self._invoker.mask = Masker([credential.secret])

    async def ready(self) -> Capabilities:
        """What must hold before any call that uses the login, checked without the service."""
        release = await self._invoker.release()
        if self.credential.kind == "APIKey":
            require_api_keys(release)
        expires = self.credential.expires_at
        if expires is not None and expires <= self._now():
            raise errors.AuthRequired(f"the JWT of the Brev login expired at {expires:%Y-%m-%dT%H:%M:%SZ}")
        return release

    async def ask(self, verb: str, arguments: Sequence[str], slot: asyncio.Semaphore, machine: str = "") -> Output:
        """A call in the account's HOME: shared, or alone if the CLI will write credentials meanwhile."""
        await self.ready()
        home = self._homes.account(self._invoker.account)
        if not self._current(home):
            async with home.lock.exclusive():
                if not self._current(home):
                    homes.write_login(home, homes.credential_files(self.credential))
                    if self.credential.kind == "RefreshToken":
                        return await self._invoker.call(verb, arguments, home=home, slot=slot, machine=machine)
        async with home.lock.shared():
            return await self._invoker.call(verb, arguments, home=home, slot=slot, machine=machine)

    async def lend(self) -> dict[str, str]:
        """Files for a machine's HOME; a refresh credential is renewed first, in the one place where that is safe."""
        release = await self.ready()
        home = self._homes.account(self._invoker.account)
        if self.credential.kind == "RefreshToken" and not self._current(home):
            await self.ask("orgs", commands.list_organizations(release), self._slots.poll)
        return homes.credential_files(self.credential, homes.stored_login(home).get("access_token", ""))

    def _current(self, home: Home) -> bool:
        """Whether the login on disk is ours and needs no renewal soon."""
        stored, organization = homes.stored_login(home), homes.stored_organization(home)
        wanted = self.credential
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
