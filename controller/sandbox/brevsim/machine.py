"""One rented machine as the service knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Machine:
    id: str
    name: str
    organization_id: str
    owner_id: str
    instance_type: str
    stoppable: bool
    price_micros: int
    directory: Path
    """Holds `home/` and `boot_id`; removed with the machine."""
    address: str
    authorized_key: str
    created_at: float
    workspace_group_id: str = ""
    cloud_cred_id: str = ""
    disk: str = "120Gi"
    startup_script: str = ""
    status: str = "DEPLOYING"
    build_status: str = ""
    health_status: str = "UNAVAILABLE"
    status_message: str = ""
    ssh_user: str = "ubuntu"
    ssh_up_at: float = 0.0
    boots: int = 0
    gone_at: float | None = None
    used: bool = False
    """Whether a command was started since everything on it was last killed."""
    port: int = 22
    additional_users: list[str] = field(default_factory=list)
    agenda: list[tuple[float, str]] = field(default_factory=list)
    """Transitions to come: (time, name of the transition), earliest first."""

    @property
    def home(self) -> Path:
        return self.directory / "home"

    @property
    def boot_id_file(self) -> Path:
        return self.directory / "boot_id"

    def wire(self) -> dict[str, Any]:
        """The workspace object of the HTTP API, as far as the real program reads it."""
        return {
            "id": self.id,
            "name": self.name,
            "workspaceGroupId": self.workspace_group_id,
            "organizationId": self.organization_id,
            "workspaceClassId": "2x8",
            "instanceType": self.instance_type,
            "createdByUserId": self.owner_id,
            "instanceTypeInfo": {"stoppable": self.stoppable},
            "dns": self.address if self.status == "RUNNING" else "",
            "status": self.status,
            "networkId": "",
            "sshPort": self.port,
            "sshUser": self.ssh_user,
            "sshProxyHostname": "",
            "hostSshPort": self.port,
            "hostSshUser": self.ssh_user,
            "hostSshProxyHostname": "",
            "verbBuildStatus": self.build_status,
            "healthStatus": self.health_status,
            "isStoppable": False,
            "statusMessage": self.status_message,
            "additionalUsers": list(self.additional_users),
            "stopTimeout": 0,
        }
