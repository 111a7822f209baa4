"""A machine's address: fetched when it is not known, and again when a machine does not answer for long."""

from controller.brev.session import BrevSession
from controller.decide.types import OperationView

REFRESH_EVERY = 5
"""After so many failed calls in a row the address is fetched anew: it may have changed."""


async def ensure_address(session: BrevSession, name: str, last: OperationView | None, *, first: bool = False) -> None:
    """Have the machine's address and key in its HOME before a call to it.

    `last` is the newest ended operation of the same kind, whose streak of failures counts. `first` asks for a fresh
    address in any case: the first call of each run of the machine. HOMEs may be empty after a restart of the pod.
    """
    failures = last.failures if last is not None else 0
    if first or not session.refreshed(name) or (failures and failures % REFRESH_EVERY == 0):
        await session.refresh(name)
