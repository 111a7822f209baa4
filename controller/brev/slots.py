"""How many CLI processes may run at once, by kind, so that slow calls cannot keep fast ones waiting."""

from asyncio import Semaphore


class Slots:
    """One pool for each kind of call; shared by all sessions of the process.

    `poll`: lists and searches. `mutate`: create, delete. `probe`: refresh, and exec on a machine that has not answered
    yet (each may take its full time-out). `exec`: exec and copy on machines that have. Each is an `asyncio.Semaphore`.
    """

    def __init__(self, *, poll: int = 4, mutate: int = 8, probe: int = 16, exec: int = 16) -> None:  # noqa: A002
        self.poll = Semaphore(poll)
        self.mutate = Semaphore(mutate)
        self.probe = Semaphore(probe)
        self.exec = Semaphore(exec)
