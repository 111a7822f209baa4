"""Reading lists: three shapes, noise on both sides, and nothing guessed."""

import json
from typing import Any

import pytest

from controller.brev import parse
from controller.brev.errors import Unparsable
from controller.brev.model import MachineRow, Organization

ROW = {
    "name": "tj-1",
    "id": "aaa000001",
    "status": "RUNNING",
    "build_status": "COMPLETED",
    "shell_status": "READY",
    "health_status": "HEALTHY",
    "instance_type": "g6e.xlarge",
    "instance_kind": "gpu",
    "gpu": "L40S",
}
OFFER: dict[str, Any] = {
    "type": "g6e.xlarge",
    "cloud": "aws",
    "provider": "aws",
    "gpu_name": "L40S",
    "gpu_count": 1,
    "vram_per_gpu_gb": 48,
    "total_vram_gb": 48,
    "capability": 8.9,
    "vcpus": 4,
    "memory": "32GiB",
    "ram_gb": 32,
    "arch": "x86_64",
    "disk_min_gb": 10,
    "disk_max_gb": 16384,
    "disk_price_per_gb_mo": 0.10001,
    "boot_time_seconds": 420,
    "stoppable": True,
    "rebootable": True,
    "flex_ports": True,
    "target_disk_gb": 10,
    "price_per_hour": 2.11,
}


def text(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


@pytest.mark.parametrize("value", [[ROW], {"workspaces": [ROW]}, {"workspaces": [ROW], "nodes": []}])
def test_a_list_is_read_in_every_shape_that_a_release_prints(value: object) -> None:
    assert parse.machines(text(value)) == [MachineRow(**ROW)]


@pytest.mark.parametrize("value", [None, {"workspaces": None}, [], {"workspaces": []}])
def test_an_empty_list_is_empty_in_every_shape(value: object) -> None:
    assert parse.machines(text(value)) == []


@pytest.mark.parametrize(
    "before",
    [
        "no oauth found for token\n",
        "WARN: malformed refresh token, logging out\n",
        "[error] something\n[Worker 1] x\n{curly noise\n",
    ],
)
@pytest.mark.parametrize("after", ["\n", "\nThe command brev ls shows your instances\n[and more]\n{}\nnull\n"])
def test_text_before_and_after_the_json_does_not_matter(before: str, after: str) -> None:
    assert parse.machines(before + text([ROW]) + after) == [MachineRow(**ROW)]
    assert parse.machines(before + text({"workspaces": [ROW]}) + after) == [MachineRow(**ROW)]


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no oauth found for token\n",
        "You are currently logged out, would you like to log in? [Y/n]: ",
        "nothing null here\n",
        text({"workspaces": [ROW]})[:-40],
        text([ROW])[:-3],
        '{"workspaces": [\n',
        "{}\n",
        '{"errors": []}\n',
        '{"workspaces": {}}\n',
        '["tj-1"]\n',
        '{"workspaces": "none"}\n',
    ],
)
def test_a_failed_list_is_unknown_not_empty(output: str) -> None:
    with pytest.raises(Unparsable):
        parse.machines(output)


def test_half_a_list_with_a_whole_one_behind_is_not_read_from_there() -> None:
    with pytest.raises(Unparsable):
        parse.machines(text([ROW])[:-3] + "\nnull\n")


@pytest.mark.parametrize("key", ["name", "id"])
@pytest.mark.parametrize("value", ["", None, 7])
def test_a_row_without_name_or_id_spoils_the_list(key: str, value: object) -> None:
    with pytest.raises(Unparsable):
        parse.machines(text([ROW, ROW | {key: value}]))


def test_missing_words_are_empty_and_unknown_words_and_keys_pass() -> None:
    row = {"name": "a", "id": "b", "status": "WEIRD", "build_status": None, "new_key": {"x": 1}}
    assert parse.machines(text([row])) == [MachineRow("a", "b", "WEIRD", "", "", "", "", "", "")]


def test_an_offer_is_read_with_its_price_exact() -> None:
    [offer] = parse.offers(text([OFFER]))
    assert offer.price_micros == 2_110_000
    assert (offer.type, offer.gpu_name, offer.gpu_count, offer.vram_per_gpu_gb) == ("g6e.xlarge", "L40S", 1, 48.0)
    assert (offer.stoppable, offer.boot_time_seconds, offer.vcpus, offer.memory) == (True, 420, 4, "32GiB")
    assert (offer.disk_min_gb, offer.disk_max_gb) == (10.0, 16384.0)


@pytest.mark.parametrize(
    ("price", "micros"),
    [(0, None), (0.0, None), (-1, None), (1.006, 1_006_000), (98.32, 98_320_000), (1e-7, 1), (3, 3_000_000)],
)
def test_a_price_of_zero_is_unknown(price: float, micros: int | None) -> None:
    assert parse.offers(text([OFFER | {"price_per_hour": price}]))[0].price_micros == micros


def test_a_missing_price_is_unknown_and_a_text_is_refused() -> None:
    without = {key: value for key, value in OFFER.items() if key != "price_per_hour"}
    assert parse.offers(text([without]))[0].price_micros is None
    with pytest.raises(Unparsable):
        parse.offers(text([OFFER | {"price_per_hour": "2.11"}]))
    with pytest.raises(Unparsable):
        parse.offers(text([OFFER]).replace("2.11", "NaN"))


def test_a_repeated_type_becomes_one_row_that_promises_least() -> None:
    other = OFFER | {"price_per_hour": 2.5, "stoppable": False, "boot_time_seconds": 600, "disk_max_gb": 500}
    for rows in ([OFFER, other], [other, OFFER], [OFFER, other, OFFER]):
        [offer] = parse.offers(text(rows))
        assert (offer.price_micros, offer.stoppable, offer.boot_time_seconds) == (2_500_000, False, 600)
        assert offer.disk_max_gb == 500
    [offer] = parse.offers(text([OFFER, OFFER | {"price_per_hour": 0}]))
    assert offer.price_micros is None


def test_a_type_with_several_gpu_models_keeps_a_row_for_each_in_a_fixed_order() -> None:
    rows = [OFFER, OFFER | {"gpu_name": "A10G"}, OFFER | {"type": "a"}]
    expected = [("a", "L40S"), ("g6e.xlarge", "A10G"), ("g6e.xlarge", "L40S")]
    for order in (rows, rows[::-1]):
        assert [(offer.type, offer.gpu_name) for offer in parse.offers(text(order))] == expected


def test_organizations_are_read() -> None:
    rows = [{"id": "org-a", "name": "acme", "is_active": True}, {"id": "org-b", "name": "b", "is_active": False}]
    assert parse.organizations(text(rows)) == [Organization("org-a", "acme", True), Organization("org-b", "b", False)]


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("Current Version: v0.6.327\n", "v0.6.327"),
        ("\nCurrent Version: v0.6.317\n\n\nHi Dev! Looks like it's your first time\n", "v0.6.317"),
        ("Current Version: \n", ""),
        ("brev 1\n", None),
        ("", None),
    ],
)
def test_the_version_line_is_found(output: str, version: str | None) -> None:
    assert parse.version_text(output) == version
