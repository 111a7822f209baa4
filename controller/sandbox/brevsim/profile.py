"""How long things take in the simulated world."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Profile:
    """Latencies in seconds of simulated time.

    `poll` and `probe` stand for sleeps inside the real program: it looks every 5 s while it waits for a machine, and
    tries ssh up to 41 times, 1 s apart.
    """

    cli: float = 0.05
    """Every `brev` process, before it does anything (start-up and TLS of the real one)."""
    deploy: float = 5.0
    """Accepted create until RUNNING."""
    build: float = 2.0
    """RUNNING until the build is COMPLETED (and so `shell_status` READY)."""
    ssh: float = 1.0
    """RUNNING until sshd answers."""
    stop: float = 2.0
    start: float = 4.0
    delete: float = 2.0
    poll: float = 0.5
    probe: float = 0.2
    connect: float = 0.02
    """Setting up one ssh connection."""
    silent: float = 0.5
    """A connection to a host that accepts and says nothing (5 s, then 11 s a probe in the real program)."""

    @classmethod
    def default(cls) -> Profile:
        """Seconds that a person likes to watch: a machine is usable after about 8 s."""
        return cls()

    @classmethod
    def instant(cls) -> Profile:
        """No latency at all; a transition is visible with the next look."""
        return cls(**dict.fromkeys((field.name for field in fields(cls)), 0.0))

    @classmethod
    def realistic(cls) -> Profile:
        """The sleeps of the real program, and a boot of a few minutes."""
        return cls(
            cli=0.15,
            deploy=150,
            build=60,
            ssh=30,
            stop=40,
            start=60,
            delete=60,
            poll=5,
            probe=1,
            connect=0.3,
            silent=11,
        )

    def changed(self, values: dict[str, float]) -> Profile:
        """A copy with some latencies replaced; an unknown name raises TypeError."""
        return replace(self, **values)

    def as_dict(self) -> dict[str, float]:
        return asdict(self)
