"""`ls`, `org`, `set`: shapes, filters, and what a failed list looks like."""

from __future__ import annotations

import json

import pytest

from tests.contract.program import KEYS, Case, Program, where


@where(lambda rules: rules.list_is_object)
async def test_an_empty_list_is_an_object_with_null(brev: Program) -> None:
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout) == (0, '{\n  "workspaces": null\n}\n')


@where(lambda rules: not rules.groups_in_list)
async def test_a_row_has_nine_strings(brev: Program) -> None:
    machine = await brev.machine()
    (row,) = (await brev("ls", "--json")).rows()
    assert row == {
        "name": "tj-1",
        "id": machine["id"],
        "status": "RUNNING",
        "build_status": "COMPLETED",
        "shell_status": "READY",
        "health_status": "HEALTHY",
        "instance_type": "g6e.xlarge",
        "instance_kind": "gpu",
        "gpu": "L40S",
    }


async def test_the_states_of_a_boot_are_shown(brev: Program) -> None:
    await brev.simulator.set_latency(deploy=10, build=10, ssh=0)
    assert (await brev("create", "tj-1", "--type", "e2-small", "-d")).rc == 0

    async def row() -> tuple[str, ...]:
        (found,) = (await brev("ls", "--json")).rows()
        return tuple(found[key] for key in ("status", "build_status", "shell_status", "health_status"))

    assert await row() == ("DEPLOYING", "", "NOT READY", "UNAVAILABLE")
    await brev.simulator.advance(11)
    assert await row() == ("RUNNING", "BUILDING", "NOT READY", "UNAVAILABLE")
    await brev.simulator.advance(11)
    assert await row() == ("RUNNING", "COMPLETED", "READY", "HEALTHY")


async def test_a_sick_machine_is_unhealthy_and_still_ready(brev: Program) -> None:
    machine = await brev.machine()
    await brev.simulator.event(machine["id"], "unhealthy")
    (row,) = (await brev("ls", "--json")).rows()
    assert (row["status"], row["shell_status"]) == ("UNHEALTHY", "READY")


async def test_only_ones_own_machines_are_listed_unless_all_are_asked_for(brev: Program) -> None:
    await brev.machine("mine")
    teammate = await brev.simulator.jwt(user="user-2")
    brev.file("credentials.json").write_text(json.dumps({"access_token": teammate, "refresh_token": "auto-login"}))
    await brev.machine("theirs")
    await brev.log_in_by_jwt()
    mine = (await brev("ls", "--json")).rows()
    everybody = (await brev("ls", "--json", "--all")).rows()
    assert [row["name"] for row in mine] == ["mine"]
    assert [row["name"] for row in everybody] == ["mine", "theirs"]


@KEYS
async def test_an_api_key_sees_the_machines_of_the_whole_organisation(brev: Program) -> None:
    await brev.log_in_by_jwt()
    await brev.machine("mine")
    brev.simulator.log_in(brev.home)
    assert [row["name"] for row in (await brev("ls", "--json")).rows()] == ["mine"]


@pytest.mark.parametrize(
    "case",
    [
        Case("unknown word", ["ls", "banana", "--json"], 0, source="§3"),
        Case("two words", ["ls", "a", "b"], 1, "", "too many args provided\n", source="§3"),
        Case("nodes", ["ls", "nodes", "--json"], 0, r"\[\]\n", source="§3"),
        Case("orgs", ["ls", "orgs", "--json"], 1, "", "api key auth cannot list organizations\n", source="§2.3"),
        Case("users", ["ls", "users"], 1, "", "api key auth cannot list users\n", source="§2.3"),
        Case("--org", ["ls", "--org", "acme"], 1, "", r"api key auth is scoped .*; --org is not supported\n"),
        Case("set", ["set", "acme"], 1, "", r"api key auth is scoped to the org saved during login; run .*\n"),
        Case("no machines", ["ls"], 0, "No instances in org acme\n\nStart a new instance:\n", source="§3"),
    ],
    ids=str,
)
@KEYS
async def test_words_of_ls_with_an_api_key(brev: Program, case: Case) -> None:
    await case.run(brev)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "orgs",
            ["ls", "orgs", "--json"],
            0,
            r'\[\n  \{\n    "name": "acme",.*"is_active": true\n  \},.*false\n  \}\n\]\n',
        ),
        Case(
            "org by name",
            ["ls", "--org", "BETA", "--json"],
            0,
            r'\{\n  "workspaces": null\n\}\n',
            source="§3",
            fits=lambda rules: rules.list_is_object,
        ),
        Case("org by id", ["ls", "--org", "org-x"], 1, "", "no org found with name org-x\n", source="§3"),
        Case("set by name", ["set", "beta"], 0, source="§4"),
        Case("set unknown", ["set", "nope"], 1, "", "no orgs exist with name nope\n", source="§4"),
        Case("org set", ["org", "set", "beta"], 0, "\nOrg Beta is now active 🤙\n", source="§4"),
        Case("org set unknown", ["org", "set", "nope"], 1, "\n", "no orgs exist with name nope\n", source="§4"),
        Case(
            "org table", ["org"], 0, r"Your organizations:\n NAME +ID +\n \* acme .*\n\nSwitch orgs:\n\tbrev org set .*"
        ),
        Case("users", ["ls", "users", "--json"], 0, source="§3"),
    ],
    ids=str,
)
async def test_organisations_with_a_jwt(brev: Program, case: Case) -> None:
    await brev.log_in_by_jwt()
    await case.run(brev)


async def test_a_vanished_active_organisation_silently_becomes_the_first(brev: Program) -> None:
    await brev.log_in_by_jwt()
    brev.file("active_org.json").write_text('{"id": "org-gone", "name": "gone", "userNetworkId": ""}')
    found = (await brev("ls", "orgs", "--json")).json()
    assert [organization["name"] for organization in found if organization["is_active"]] == ["acme"]


@KEYS
async def test_setting_the_organisation_with_an_api_key_says_so_and_changes_nothing(brev: Program) -> None:
    assert (await brev("org", "set", "beta")).stdout == "\nOrg Beta is now active 🤙\n"
    await brev.machine("tj-1")
    (machine,) = await brev.simulator.machines()
    assert machine["organization"] == brev.simulator.org_id


@pytest.mark.parametrize(
    ("action", "stderr"),
    [
        ({"status": 401, "message": "unauthorized"}, "unauthorized\n\n"),
        ({"status": 429, "message": "slow down"}, "slow down\n\n"),
        ({"status": 502, "body": "bad gateway"}, "502 Bad Gateway bad gateway\n"),
        ({"status": 500, "body": "<html>oops</html>"}, "500 Internal Server Error <html>oops</html>\n"),
        ({"status": 200, "body": ""}, "unexpected end of JSON input\n"),
    ],
)
async def test_a_failed_list_is_exit_1_and_never_an_empty_list(
    brev: Program, action: dict[str, object], stderr: str
) -> None:
    await brev.machine()
    await brev.simulator.add_fault({"match": {"verb": "list"}, "action": {"type": "refuse", **action}})
    result = await brev("ls", "--json")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith(stderr)


async def test_a_403_is_tried_once_more(brev: Program) -> None:
    await brev.simulator.add_fault(
        {"match": {"verb": "list"}, "action": {"type": "refuse", "status": 403, "message": "token is expired"}}
    )
    assert (await brev("ls", "--json")).rc == 0


async def test_a_catalog_outage_makes_a_gpu_machine_look_like_a_cpu_machine(brev: Program) -> None:
    await brev.machine()
    await brev.simulator.add_fault(
        {"match": {"api": "GET /public/v1/instance/types"}, "action": {"type": "refuse", "status": 500, "body": "x"}}
    )
    (row,) = (await brev("ls", "--json")).rows()
    assert (row["instance_kind"], row["gpu"]) == ("cpu", "-")
