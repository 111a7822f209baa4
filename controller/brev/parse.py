"""Reading what `brev … --json` prints. Pure. Anything unexpected is Unparsable; nothing is ever guessed to be empty.

Text may stand before the JSON (a notice about the token's issuer, v0.6.317 to v0.6.327) and after it (the onboarding of
v0.6.317 to v0.6.322): the first line that can begin a document begins it, and what follows its end is ignored.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any, NoReturn, TypeVar

from controller.brev.errors import Unparsable
from controller.brev.model import MachineRow, OfferRow, Organization

MICROS = 1_000_000

# "[error]" and "[Worker 1]" begin lines of noise, so an opening bracket alone is not enough.
_DOCUMENT = re.compile(r'^(?:\[\s*(?:$|[\]{"])|\{\s*(?:$|[}"])|null\s*$)', re.MULTILINE)
_VERSION = re.compile(r"^Current Version:[^\S\n]*(\S*)", re.MULTILINE)

_MACHINE = tuple(field.name for field in fields(MachineRow))

Row = TypeVar("Row")


def document(stdout: str) -> Any:
    """The first JSON document of the output, numbers with a fraction as Decimal."""
    start = _DOCUMENT.search(stdout)
    if start is None:
        raise Unparsable("brev printed no JSON", detail=stdout[:200])
    decoder = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)
    try:
        return decoder.raw_decode(stdout, start.start())[0]
    except ValueError as error:
        raise Unparsable("brev printed broken or unfinished JSON", detail=str(error)) from error


def machines(stdout: str) -> list[MachineRow]:
    """Rows of `brev ls --json`: `{"workspaces": […]}` since v0.6.323, a bare array before; null is no machines."""
    value = document(stdout)
    if isinstance(value, dict):
        if "workspaces" not in value:
            raise Unparsable("brev ls printed an object without workspaces")
        value = value["workspaces"]
    return _rows(value, _machine)


def offers(stdout: str) -> list[OfferRow]:
    """Rows of `brev search --json`, one for each type and GPU model, ordered by type.

    A type that the catalog repeats (it does, by location) becomes one row with the values that promise least: the
    highest price, unknown if one of them is; the smallest disk range; stoppable only if everywhere. Which location a
    machine comes from is not ours to choose.
    """
    merged: dict[tuple[str, str, int, float], OfferRow] = {}
    for row in _rows(document(stdout), _offer):
        key = (row.type, row.gpu_name, row.gpu_count, row.vram_per_gpu_gb)
        merged[key] = _least(merged[key], row) if key in merged else row
    return [merged[key] for key in sorted(merged)]


def organizations(stdout: str) -> list[Organization]:
    """Rows of `brev ls orgs --json`. Where no row says which is active, the only one is."""
    value = document(stdout)
    rows = _rows(value, _organization)
    if len(rows) == 1 and "is_active" not in value[0]:
        return [replace(rows[0], is_active=True)]
    return rows


def cloud_credentials(stdout: str, org_id: str) -> tuple[str, ...]:
    """Ids of the organisation's `cloudCredentials`, a field that only the seeds know. Empty where there are none."""
    value = document(stdout)
    rows = (
        [row for row in value if isinstance(row, dict) and row.get("id") == org_id] if isinstance(value, list) else []
    )
    return _ids(item.get("id") for row in rows for item in row.get("cloudCredentials") or () if isinstance(item, dict))


def workspace_groups(stdout: str) -> tuple[str, ...]:
    """Ids of the machines' `workspaceGroupId`, a field that only the seeds know. Empty where there are none."""
    value = document(stdout)
    rows = value.get("workspaces") if isinstance(value, dict) else value
    return _ids(row.get("workspaceGroupId") for row in rows or () if isinstance(row, dict))


def _ids(found: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted({each for each in found if isinstance(each, str) and each}))


def version_text(stdout: str) -> str | None:
    """The word after `Current Version:`; "" for a build without one, None if there is no such line."""
    found = _VERSION.search(stdout)
    return None if found is None else found.group(1)


def _rows(value: Any, convert: Callable[[dict[str, Any]], Row]) -> list[Row]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Unparsable("brev printed JSON that is not a list of rows")
    return [convert(item) for item in value]


def _machine(row: dict[str, Any]) -> MachineRow:
    values: list[Any] = [row.get(key) for key in _MACHINE]
    if not all(isinstance(value, str) and value for value in values):  # rare, and a list may have thousands of rows
        values = [_required(row, "name"), _required(row, "id"), *(_text(row, key) for key in _MACHINE[2:])]
    return MachineRow(*values)


def _offer(row: dict[str, Any]) -> OfferRow:
    return OfferRow(
        type=_required(row, "type"),
        provider=_text(row, "provider"),
        cloud=_text(row, "cloud"),
        gpu_name=_text(row, "gpu_name") or "-",
        gpu_count=int(_number(row, "gpu_count")),
        vram_per_gpu_gb=float(_number(row, "vram_per_gpu_gb")),
        price_micros=_price(row),
        stoppable=row.get("stoppable") is True,
        boot_time_seconds=int(_number(row, "boot_time_seconds")),
        disk_min_gb=float(_number(row, "disk_min_gb")),
        disk_max_gb=float(_number(row, "disk_max_gb")),
        vcpus=int(_number(row, "vcpus")),
        memory=_text(row, "memory"),
    )


def _organization(row: dict[str, Any]) -> Organization:
    return Organization(id=_required(row, "id"), name=_text(row, "name"), is_active=row.get("is_active") is True)


def _least(one: OfferRow, other: OfferRow) -> OfferRow:
    prices = (one.price_micros, other.price_micros)
    boots = (one.boot_time_seconds, other.boot_time_seconds)
    return OfferRow(
        type=one.type,
        provider=min(one.provider, other.provider),
        cloud=min(one.cloud, other.cloud),
        gpu_name=one.gpu_name,
        gpu_count=one.gpu_count,
        vram_per_gpu_gb=one.vram_per_gpu_gb,
        price_micros=None if None in prices else max(price for price in prices if price is not None),
        stoppable=one.stoppable and other.stoppable,
        boot_time_seconds=0 if 0 in boots else max(boots),
        disk_min_gb=max(one.disk_min_gb, other.disk_min_gb),
        disk_max_gb=min(one.disk_max_gb, other.disk_max_gb),
        vcpus=min(one.vcpus, other.vcpus),
        memory=min(one.memory, other.memory),
    )


def _price(row: dict[str, Any]) -> int | None:
    """Micro-dollars per hour, rounded up. The CLI turns a price that it cannot read into 0, so 0 is unknown."""
    price = _number(row, "price_per_hour")
    return int((price * MICROS).to_integral_value(ROUND_CEILING)) if price > 0 else None


def _number(row: dict[str, Any], key: str) -> Decimal:
    value = row.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unparsable(f"brev search printed a {key} that is not a number")
    try:
        return Decimal(value)
    except InvalidOperation as error:
        raise Unparsable(f"brev search printed a {key} that is not a number") from error


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unparsable(f"brev printed a {key} that is not a text")
    return value


def _required(row: dict[str, Any], key: str) -> str:
    value = _text(row, key)
    if not value:
        raise Unparsable(f"brev printed a row without {key}")
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
