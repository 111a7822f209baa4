"""The stateful service: machines and what becomes of them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import shutil
import uuid
from pathlib import Path
from typing import Any

from controller.sandbox.brevsim import release as releases
from controller.sandbox.brevsim.accounts import Accounts, RefusedError, User
from controller.sandbox.brevsim.catalog import Catalog
from controller.sandbox.brevsim.clock import Clock
from controller.sandbox.brevsim.faults import Faults, Point
from controller.sandbox.brevsim.ledger import Ledger
from controller.sandbox.brevsim.machine import Machine
from controller.sandbox.brevsim.processes import Processes
from controller.sandbox.brevsim.profile import Profile


class World:
    """One service with all its state. All methods belong to the thread of the event loop."""

    def __init__(self, directory: Path, release: str, profile: Profile, world_id: str, variant: str = "a") -> None:
        self.id = world_id
        self.directory = directory
        self.processes = Processes(world_id, directory)
        self.url = ""
        """Base URL of the backend, once it listens."""
        self.version = 0
        self._stirred = asyncio.Event()
        self._begin(release, profile, variant)

    def _begin(self, release: str, profile: Profile, variant: str) -> None:
        self.release = releases.release(release, variant)
        self.profile = profile
        self.clock = Clock()
        self.accounts = Accounts.default(self.clock.now)
        self.catalog = Catalog()
        self.faults = Faults()
        self.ledger = Ledger()
        self.machines: dict[str, Machine] = {}
        self.history: list[Machine] = []
        self.service_account_token = Path("/var/run/secrets/kubernetes.io/serviceaccount/token.brevsim-off")
        self.online = True
        """Whether the program can reach the internet (it downloads cloudflared when it is missing)."""

    def restart(self, release: str, profile: Profile, variant: str = "a") -> None:
        """Begin again as a new world behind the same address: machines, accounts, logs, faults and clock."""
        self.end()
        self._begin(release, profile, variant)
        self.touch()

    def visible(self, organization_id: str) -> list[Machine]:
        self.settle()
        return [machine for machine in self.machines.values() if machine.organization_id == organization_id]

    def find(self, machine_id: str) -> Machine:
        self.settle()
        machine = self.machines.get(machine_id)
        if machine is None:
            raise RefusedError(404, "workspace not found")
        return machine

    def at_address(self, address: str, port: int) -> Machine | None:
        """The running machine that answers there, if any."""
        self.settle()
        places = (m for m in self.machines.values() if m.address == address and m.port == port)
        return next((machine for machine in places if machine.status == "RUNNING"), None)

    def create(self, user: User, organization_id: str, body: dict[str, Any]) -> Machine:
        self.settle()
        organization = next((o for o in self.accounts.organizations if o.id == organization_id), None)
        if organization is None or user.id not in organization.members:
            raise RefusedError(404, "organization not found")
        name, instance_type = str(body.get("name", "")), str(body.get("instanceType", ""))
        if any(machine.name == name for machine in self.visible(organization_id)):
            raise RefusedError(400, f"duplicate workspace with name {name}")
        if not organization.credits:
            raise RefusedError(
                402,
                "there was issues with your credits You have run out of credits "
                "visit the settings page to purchase more",
            )
        organization.check_placement(body)
        row = self.catalog.find(instance_type)
        if row is None or instance_type in self.catalog.sold_out:
            raise RefusedError(400, f"instance type {instance_type} is not available")
        machine = self._new(user, organization_id, body, stoppable=bool(row["stoppable"]))
        self.machines[machine.id] = machine
        self.history.append(machine)
        machine.agenda = [(machine.created_at + self.profile.deploy, "running")]
        self._apply_faults("create", machine)
        self.touch()
        return machine

    def _new(self, user: User, organization_id: str, body: dict[str, Any], *, stoppable: bool) -> Machine:
        number = len(self.history) + 1
        digest = base64.b32encode(hashlib.sha256(f"{self.id}/{number}".encode()).digest()).decode().lower()
        directory = self.directory / "machines" / digest[:9]
        script = (body.get("vmBuild") or {}).get("lifeCycleScriptAttr") or {}
        return Machine(
            id=digest[:9],
            name=str(body["name"]),
            organization_id=organization_id,
            owner_id=user.id,
            instance_type=str(body["instanceType"]),
            stoppable=stoppable,
            price_micros=self.catalog.price_micros(str(body["instanceType"])),
            directory=directory,
            address=f"198.18.{number // 250}.{number % 250 + 1}",
            authorized_key=user.private_key(),
            created_at=self.clock.now(),
            workspace_group_id=str(body.get("workspaceGroupId", "")),
            cloud_cred_id=str(body.get("cloudCredId", "")),
            disk=str(body.get("diskStorage", "")),
            startup_script=str(script.get("script", "")),
        )

    def _apply_faults(self, verb: str, machine: Machine) -> None:
        now = self.clock.now()
        for action in self.faults.take(Point.MACHINE, verb=verb, name=machine.name, machine=machine.id):
            match action["type"]:
                case "stuck":
                    machine.agenda = []
                case "failure":
                    machine.status_message = str(action.get("message", "out of quota"))
                    machine.agenda = [(now + action.get("after", self.profile.deploy), "failure")]
                case "vanish":
                    machine.agenda.append((now + action.get("after", 0.0), "gone"))
                case effect:
                    machine.agenda.append((now + self.profile.deploy, effect))
        machine.agenda.sort(key=lambda item: item[0])

    def delete(self, machine: Machine) -> None:
        """Accept a deletion; one that is already under way is accepted again."""
        if machine.status != "DELETING":
            self.processes_end(machine)
            machine.status = "DELETING"
            machine.agenda = [(self.clock.now() + self.profile.delete, "gone")]
            self._apply_faults("delete", machine)
            self.touch()

    def stop(self, machine: Machine) -> None:
        if not machine.stoppable:
            raise RefusedError(400, f"instance type {machine.instance_type} does not support stop")
        if machine.status in {"STOPPED", "STOPPING"}:
            return
        self.processes_end(machine)
        machine.status = "STOPPING"
        machine.agenda = [(self.clock.now() + self.profile.stop, "stopped")]
        self._apply_faults("stop", machine)
        self.touch()

    def start(self, machine: Machine) -> None:
        if machine.status != "STOPPED":
            raise RefusedError(400, f"workspace is {machine.status}")
        machine.status = "STARTING"
        machine.agenda = [(self.clock.now() + self.profile.start, "running")]
        self._apply_faults("start", machine)
        self.touch()

    def reset(self, machine: Machine) -> None:
        self.processes_end(machine)
        machine.status = "STARTING"
        machine.agenda = [(self.clock.now() + self.profile.start, "running")]
        self._apply_faults("reset", machine)
        self.touch()

    def happen(self, machine: Machine, event: str, message: str = "") -> None:
        """Something that nobody asked for: vanish (gone), failure, unhealthy, healthy, stuck, running, stopped …"""
        if message:
            machine.status_message = message
        if event == "stuck":
            machine.agenda = []
        else:
            machine.agenda = [item for item in machine.agenda if event in {"unhealthy", "healthy"}]
            self._transition(machine, "gone" if event == "vanish" else event, self.clock.now())
        self.touch()

    def settle(self) -> None:
        """Let everything happen that is due by now, in order."""
        now = self.clock.now()
        for machine in list(self.machines.values()):
            while machine.agenda and machine.agenda[0][0] <= now:
                when, event = machine.agenda.pop(0)
                self._transition(machine, event, when)
                self.touch()

    def next_due(self) -> float | None:
        return min((machine.agenda[0][0] for machine in self.machines.values() if machine.agenda), default=None)

    def _transition(self, machine: Machine, event: str, when: float) -> None:
        match event:
            case "running":
                self._boot(machine, when)
            case "built":
                machine.build_status, machine.health_status = "COMPLETED", "HEALTHY"
            case "build_failed":
                machine.build_status = "CREATE_FAILED"
                machine.agenda = [item for item in machine.agenda if item[1] != "built"]
            case "healthy" | "unhealthy":
                machine.health_status = event.upper()
            case "no_build":
                machine.build_status = ""
                machine.agenda = [item for item in machine.agenda if item[1] != "built"]
            case "untyped":
                machine.instance_type = ""
            case "no_ssh_user":
                machine.ssh_user = ""
            case "stopped":
                machine.status = "STOPPED"
            case "failure":
                self.processes_end(machine)
                machine.status, machine.health_status = "FAILURE", ""
            case "gone":
                self._remove(machine, when)
            case _:
                raise ValueError(f"no such transition: {event}")

    def _boot(self, machine: Machine, when: float) -> None:
        machine.home.mkdir(parents=True, exist_ok=True)
        machine.boot_id_file.write_text(f"{uuid.uuid4()}\n")
        machine.boots += 1
        machine.status = "RUNNING"
        machine.ssh_up_at = when + self.profile.ssh
        if machine.build_status != "COMPLETED":
            machine.build_status = "BUILDING"
            machine.agenda.append((when + self.profile.build, "built"))
            machine.agenda.sort(key=lambda item: item[0])
            if machine.startup_script:
                self.ledger.command(when, machine, machine.startup_script, 0)
                machine.used = True
                self.processes.start_silent(machine.id, machine.home, machine.startup_script)

    def processes_end(self, machine: Machine) -> None:
        """Kill everything on a machine; whoever starts a command there sets `used` first."""
        if machine.used:
            self.processes.kill(machine.id)
            machine.used = False

    def _remove(self, machine: Machine, when: float) -> None:
        self.processes_end(machine)
        shutil.rmtree(machine.directory, ignore_errors=True)
        machine.gone_at = when
        machine.status = "GONE"
        machine.agenda = []
        del self.machines[machine.id]

    def touch(self) -> None:
        """Wake whoever waits for a change: a machine's state, or a new process of the executable."""
        self.version += 1
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def change(self, timeout: float | None) -> None:
        """Return when something has changed, or after `timeout` real seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), timeout)

    def advance(self, seconds: float) -> float:
        """Move the clock; what falls due by it has happened on return."""
        now = self.clock.advance(seconds)
        self.settle()
        self.touch()
        return now

    def end(self) -> None:
        """Kill everything that runs on any machine, and remove the machines."""
        for machine in self.machines.values():
            self.processes_end(machine)
        shutil.rmtree(self.directory / "machines", ignore_errors=True)

    async def run(self) -> None:
        """Make transitions happen when they are due, without anybody looking."""
        while True:
            self.settle()
            due = self.next_due()
            left = None if due is None else max(0.0, due - self.clock.now()) / self.clock.factor
            await self.change(left)
