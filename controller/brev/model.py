"""The values that the CLI layer takes and gives."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal


@dataclass(frozen=True, slots=True)
class Output:
    """What a successful call printed, decoded with replacement characters for broken bytes."""

    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One row of `brev ls --json`, words as the service gave them; "" where it gave none.

    `gpu` and `instance_kind` come from the public catalog and are wrong when that was not reachable: never decide on
    them. `shell_status` is computed by the CLI from the other two, not probed.
    """

    name: str
    id: str
    status: str
    build_status: str
    shell_status: str
    health_status: str
    instance_type: str
    instance_kind: str
    gpu: str


@dataclass(frozen=True, slots=True)
class OfferRow:
    """One machine type of `brev search --json`. Listed does not mean available.

    `price_micros` is micro-dollars per hour, None where the catalog has no readable price. `gpu_name` is "-" on a CPU
    type. `boot_time_seconds` is 0 where unknown. Sizes are gigabytes as the catalog writes them.
    """

    type: str
    provider: str
    cloud: str
    gpu_name: str
    gpu_count: int
    vram_per_gpu_gb: float
    price_micros: int | None
    stoppable: bool
    boot_time_seconds: int
    disk_min_gb: float
    disk_max_gb: float
    vcpus: int
    memory: str


@dataclass(frozen=True, slots=True)
class Organization:
    """An organisation that the login can see; `is_active` is the one the next command acts on."""

    id: str
    name: str
    is_active: bool


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """A Brev login. Its repr never shows the secret. `expires_at` is known for a JWT only."""

    kind: Literal["APIKey", "RefreshToken", "JWT"]
    secret: str
    org_id: str
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Credential(kind={self.kind!r}, org_id={self.org_id!r})"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the machines of an account with several cloud credentials or workspace groups go; "" leaves one open."""

    cloud_cred_id: str = ""
    workspace_group_id: str = ""

    def __bool__(self) -> bool:
        return bool(self.cloud_cred_id or self.workspace_group_id)
