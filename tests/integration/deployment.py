"""One operator with everything of its own on the run's control plane: namespaces, account, lease and simulated Brev."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from controller.api.meta import API_VERSION, Kind
from controller.sandbox.brevsim.harness import Simulator
from controller.sandbox.controlplane import Cluster
from controller.sandbox.janitor import Janitor
from controller.sandbox.operator import OperatorOptions, OperatorProcess
from tests.integration.kubeapi import path_of

TIME_SCALE = 0.02
SECRET = "brev-login"
PATIENT_LEASE = {
    f"BREV_OPERATOR_LEASE_{name}": f"{seconds / TIME_SCALE:g}"
    for name, seconds in (("DURATION", 15), ("RENEW_DEADLINE", 10), ("RENEW_INTERVAL", 3))
}
"""What the lease has in production, after the time scale: a busy computer must not cost an operator its lease."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a test wants to be other than usual."""

    namespaces: int = 1
    """Tenant namespaces that the operator watches and the account allows."""
    time_scale: float = TIME_SCALE
    log_level: str = "INFO"
    secret: Mapping[str, str] | None = None
    """The account's Secret; None for the simulator's own login, empty for no Secret."""
    account: bool = True
    org_id: str = ""
    allowed: bool = True
    cli: Path | None = None
    patient: bool = True
    """Whether the lease keeps its full length; else it is as short as the time scale makes it."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the operator."""
    module: str = "controller"
    """What runs as the operator."""


class Deployment:
    """Independent of any event loop. `operator` is not started by the constructor."""

    def __init__(
        self, cluster: Cluster, brev: Simulator, directory: Path, janitor: Janitor, wishes: Wishes | None = None
    ) -> None:
        wishes = wishes or Wishes()
        self.cluster, self.brev = cluster, brev
        suffix = secrets.token_hex(4)
        self.cluster_id = f"t{suffix}"
        self.home = f"operator-{suffix}"
        self.account = f"account-{suffix}"
        self.tenants = tuple(f"team-{suffix}-{number}" for number in range(wishes.namespaces))
        for namespace in (self.home, *self.tenants):
            self._create("namespaces", "", {"metadata": {"name": namespace}})
        login = {"BREV_API_KEY": brev.api_key, "BREV_ORG_ID": brev.org_id}
        if wishes.secret is None or wishes.secret:
            self.create_secret(dict(wishes.secret or login))
        if wishes.account:
            self.create_account(self.account, wishes.org_id or brev.org_id, self.tenants if wishes.allowed else ())
        self.options = OperatorOptions(
            cluster_id=self.cluster_id,
            namespace=self.home,
            watch_namespaces=self.tenants,
            watch_accounts=(self.account,),
            lease_name=f"lease-{suffix}",
            time_scale=wishes.time_scale,
            log_level=wishes.log_level,
            extra={**(PATIENT_LEASE if wishes.patient else {}), **wishes.extra},
        )
        self._starts = 1
        self._directory, self._janitor = directory, janitor
        self._cli = wishes.cli or brev.cli
        self._module = wishes.module
        self.operator = self.another_operator("operator")

    def another_operator(self, name: str, options: OperatorOptions | None = None) -> OperatorProcess:
        """A further process of the same deployment, with a state directory of its own."""
        return OperatorProcess(
            kubeconfig=self.cluster.kubeconfig,
            cli=self._cli,
            directory=self._directory / name,
            janitor=self._janitor,
            options=options or self.options,
            module=self._module,
        )

    def restart(self) -> None:
        """Start it again after its end, on the same state. The lease is a new one: nobody waits for the dead one's."""
        self._starts += 1
        options = replace(self.options, lease_name=f"{self.options.lease_name}-{self._starts}")
        self.operator = self.another_operator("operator", options)
        self.operator.start()

    def without(self, variable: str) -> None:
        """Leave this variable out from the next start of the operator on."""
        extra = {name: value for name, value in self.options.extra.items() if name != variable}
        self.options = replace(self.options, extra=extra)

    def watch_also(self, account: str) -> None:
        """Serve this account too, from the next start of the operator on."""
        self.options = replace(self.options, watch_accounts=(*self.options.watch_accounts, account))
        self.operator = self.another_operator("operator")

    def create_secret(self, values: dict[str, str]) -> None:
        self._create("secrets", self.home, {"metadata": {"name": SECRET}, "stringData": values})

    def create_account(self, name: str, org_id: str, namespaces: tuple[str, ...], secret: str = SECRET) -> None:
        spec: dict[str, Any] = {"secretName": secret, "orgID": org_id}
        if namespaces:
            spec["allowedNamespaces"] = {"names": [*namespaces]}
        body = {"apiVersion": API_VERSION, "kind": str(Kind.ACCOUNT), "metadata": {"name": name}, "spec": spec}
        self._create(Kind.ACCOUNT, "", body)

    def remove(self) -> None:
        """Stop the operator and let the API server forget the rest; nothing is waited for but the process."""
        asyncio.run(self.operator.stop())
        self.cluster.request("DELETE", path_of(Kind.ACCOUNT, "", self.account))
        for namespace in (self.home, *self.tenants):
            self.cluster.request("DELETE", path_of("namespaces", "", namespace))

    def _create(self, kind: Kind | str, namespace: str, body: dict[str, Any]) -> None:
        made = self.cluster.request("POST", path_of(kind, namespace), body)
        assert made.status == HTTPStatus.CREATED, made.body.get("message")
