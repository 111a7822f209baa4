"""The rendered roles are `PERMISSIONS`: nothing less, nothing more, and Secrets only where somebody has said so."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from controller.kube.permissions import PERMISSIONS, Permission, Scope
from controller.kube.roles import helm_template, rules
from tests.chart.rendering import USUAL, Rendering, render

pytestmark = pytest.mark.usefixtures("helm_program")

Grant = tuple[str, str, str, str]
"""Namespace ("*" for all), API group, resource, verb."""

OPERATOR = "ops"
TENANTS = ["team-a", "team-b"]


def granted(rendering: Rendering) -> Counter[Grant]:
    """What the chart's ServiceAccount may do, as the API server's RBAC authorizer reads the rendered objects."""
    account = rendering.one("ServiceAccount")["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    found: Counter[Grant] = Counter()
    for binding in rendering.of("RoleBinding") + rendering.of("ClusterRoleBinding"):
        assert binding["subjects"] == [subject]
        namespace = binding["metadata"].get("namespace", "*")
        (role,) = (
            role
            for role in rendering.of(binding["roleRef"]["kind"])
            if role["metadata"]["name"] == binding["roleRef"]["name"]
            and role["metadata"].get("namespace", namespace) == namespace
        )
        for rule in role["rules"]:
            assert set(rule) == {"apiGroups", "resources", "verbs"}
            found.update(
                (namespace, group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            )
    return found


def needed(tenants: list[str], watched: list[str]) -> set[Grant]:
    places: dict[Scope, list[str]] = {
        Scope.CLUSTER: ["*"],
        Scope.WATCHED: watched or ["*"],
        Scope.OPERATOR: [OPERATOR],
        Scope.TENANT: tenants,
        Scope.DEFAULT: ["default"],
    }
    return {
        (namespace, row.group, row.resource, verb)
        for row in PERMISSIONS
        for namespace in places[row.scope]
        for verb in row.verbs
    }


@pytest.mark.parametrize("tenants", [[], TENANTS], ids=["no tenants", "tenants"])
@pytest.mark.parametrize("watched", [[], ["team-a"]], ids=["everywhere", "watched"])
def test_the_rendered_roles_are_the_permissions_of_the_code(tenants: list[str], watched: list[str]) -> None:
    values = {**USUAL, "tenants": tenants, "watchNamespaces": watched}
    found = granted(render(values, namespace=OPERATOR))
    assert set(found) == needed(tenants, watched)
    assert max(found.values()) == 1, "nothing is granted twice"


def test_secrets_are_readable_only_in_the_operators_namespace_and_in_those_listed() -> None:
    found = granted(render({**USUAL, "tenants": TENANTS}, namespace=OPERATOR))
    secrets = {grant for grant in found if grant[2] in ("secrets", "configmaps")}
    assert {namespace for namespace, _, resource, _ in secrets if resource == "secrets"} == {OPERATOR, *TENANTS}
    assert {verb for *_, verb in secrets} == {"get"}


def test_one_release_in_the_tenants_own_namespace_binds_both_roles() -> None:
    found = granted(render({**USUAL, "tenants": [OPERATOR]}, namespace=OPERATOR))
    assert (OPERATOR, "", "configmaps", "get") in found


def test_every_scope_has_rules_and_a_place() -> None:
    text = helm_template()
    for scope in Scope:
        assert rules(scope), scope
        assert f'define "brev-operator.rules.{scope}"' in text


def test_a_new_permission_reaches_the_template() -> None:
    more: list[Any] = [*PERMISSIONS, Permission("batch", "jobs/status", ("list",), Scope.TENANT)]
    added = set(helm_template(more).splitlines()) - set(helm_template().splitlines())
    assert added == {'- apiGroups: ["batch"]', '  resources: ["jobs/status"]', '  verbs: ["list"]'}
