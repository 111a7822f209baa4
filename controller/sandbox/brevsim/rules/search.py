"""`search`: the public catalog, filtered and sorted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from controller.sandbox.brevsim.catalog import CAPABILITY
from controller.sandbox.brevsim.rules.call import Call, CliError
from controller.sandbox.brevsim.rules.flags import Flag, Parsed
from controller.sandbox.brevsim.rules.session import Session
from controller.sandbox.brevsim.rules.text import go_json, table

_SHARED = (
    Flag("provider", "string", "p", "", "Filter by provider/cloud"),
    Flag("arch", "string", "", "", "Filter by architecture"),
    Flag("min-vcpu", "int", "", 0, "Minimum number of vCPUs"),
    Flag("min-ram", "float", "", 0.0, "Minimum RAM in GB"),
    Flag("min-disk", "float", "", 0.0, "Minimum disk size in GB"),
    Flag("max-boot-time", "int", "", 0, "Maximum boot time in minutes"),
    Flag("stoppable", "bool", "", False, "Only instances that can be stopped"),
    Flag("rebootable", "bool", "", False, "Only instances that can be rebooted"),
    Flag("flex-ports", "bool", "", False, "Only instances with configurable firewall rules"),
    Flag("sort", "string", "s", "price", "Sort by"),
    Flag("desc", "bool", "d", False, "Sort in descending order"),
    Flag("json", "bool", "", False, "Output as JSON"),
)
_GPU = (
    Flag("gpu-name", "string", "g", "", "Filter by GPU name"),
    Flag("min-vram", "float", "v", 0.0, "Minimum VRAM per GPU in GB"),
    Flag("min-total-vram", "float", "t", 0.0, "Minimum total VRAM in GB"),
    Flag("min-capability", "float", "c", 0.0, "Minimum compute capability"),
    Flag("wide", "bool", "w", False, "Show all columns"),
)
_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "arch": lambda row: row["arch"],
    "boot-time": lambda row: row["boot_time_seconds"],
    "capability": lambda row: row["capability"],
    "disk": lambda row: row["disk_max_gb"],
    "gpu-count": lambda row: row["gpu_count"],
    "price": lambda row: row["price_per_hour"],
    "provider": lambda row: row["provider"],
    "ram": lambda row: row["ram_gb"],
    "total-vram": lambda row: row["total_vram_gb"],
    "type": lambda row: row["type"],
    "vcpu": lambda row: row["vcpus"],
    "vram": lambda row: row["vram_per_gpu_gb"],
}
_AGGREGATORS = {"shadeform"}


def flags(call: Call) -> Sequence[Flag]:
    return _SHARED if "cpu" in call.argv else (*_SHARED, *_GPU)


async def run(call: Call, parsed: Parsed) -> int:
    mode = parsed.arguments[0] if parsed.arguments else "gpu"
    if mode not in {"gpu", "cpu"}:
        raise CliError(f'unknown command "{mode}" for "brev search"')
    if parsed["sort"] not in _SORTS:
        raise CliError(f'invalid sort option "{parsed["sort"]}". Valid options: {", ".join(_SORTS)}')
    if call.world.service_account_token.exists():
        await Session(call).token()
    rows = await find(call, parsed, cpu=mode == "cpu")
    if parsed["json"]:
        await call.out(f"{go_json(rows)}\n")
    elif rows:
        await call.out(_table(rows, parsed, cpu=mode == "cpu", piped=call.piped))
    return 0


async def find(call: Call, wanted: Parsed, *, cpu: bool) -> list[dict[str, Any]]:
    """Rows of `search --json` that pass the filters, sorted."""
    path = "/public/v1/instance/types" + ("?include_cpu=true" if cpu else "")
    items = (await Session(call).request("GET", path, auth=False))["items"]
    min_disk = float(wanted["min-disk"] or 0)
    rows = [row for item in items for row in _rows(item, min_disk, cpu=cpu)]
    rows = [row for row in rows if _passes(row, wanted)]
    rows.sort(key=_SORTS[wanted["sort"]], reverse=bool(wanted["desc"]))
    return rows


def _rows(item: dict[str, Any], min_disk: float, *, cpu: bool) -> list[dict[str, Any]]:
    if cpu:
        return [] if item["supported_gpus"] else [_row(item, None, min_disk)]
    return [_row(item, gpu, min_disk) for gpu in item["supported_gpus"] if gpu["manufacturer"] == "NVIDIA"]


def _row(item: dict[str, Any], gpu: dict[str, Any] | None, min_disk: float) -> dict[str, Any]:
    storage = item["supported_storage"][0]
    low, high = (float(str(storage[key]).removesuffix("GiB")) for key in ("min_size", "max_size"))
    per_month = float(storage["price_per_gb_hr"]["amount"]) * 730
    vram = gpu["memory_bytes"]["value"] / 1024 if gpu else 0
    count = gpu["count"] if gpu else 0
    provider = item["provider"]
    cloud = item["type"].partition("_")[0] if provider in _AGGREGATORS else provider
    row: dict[str, Any] = {
        "type": item["type"],
        "cloud": cloud,
        "provider": provider,
        "gpu_name": gpu["name"] if gpu else "-",
        "gpu_count": count,
        "vram_per_gpu_gb": vram,
        "total_vram_gb": vram * count,
        "capability": CAPABILITY.get(gpu["name"], 0) if gpu else 0,
        "vcpus": item["vcpu"],
        "memory": item["memory"],
        "ram_gb": item["memory_bytes"]["value"] / 1024,
        "arch": (item["supported_architectures"] or ["-"])[0],
        "disk_min_gb": low,
        "disk_max_gb": high,
    }
    if per_month:
        row["disk_price_per_gb_mo"] = round(per_month, 10)
    target = max(min_disk, low) if min_disk <= high else low
    return row | {
        "boot_time_seconds": _seconds(item["estimated_deploy_time"]),
        "stoppable": item["stoppable"],
        "rebootable": item["rebootable"],
        "flex_ports": item["can_modify_firewall_rules"],
        **({"target_disk_gb": target} if target else {}),
        "price_per_hour": _number(item["base_price"]["amount"]),
    }


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _seconds(duration: str) -> int:
    """A Go duration in seconds, 0 for an empty one."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(float(number) * units[unit]) for number, unit in re.findall(r"([\d.]+)([hms])", duration))


def _passes(row: dict[str, Any], wanted: Parsed) -> bool:
    def text(flag: str, *values: str) -> bool:
        needle = str(wanted.values.get(flag) or "").lower()
        return any(needle in value.lower() for value in values)

    def least(flag: str, value: float) -> bool:
        return value >= float(wanted.values.get(flag) or 0)

    boot = int(wanted["max-boot-time"] or 0) * 60
    return (
        text("gpu-name", row["gpu_name"])
        and text("provider", row["provider"], row["cloud"])
        and text("arch", row["arch"])
        and least("min-vram", row["vram_per_gpu_gb"])
        and least("min-total-vram", row["total_vram_gb"])
        and least("min-capability", row["capability"])
        and least("min-vcpu", row["vcpus"])
        and least("min-ram", row["ram_gb"])
        and least("min-disk", row["disk_max_gb"])
        and (not boot or 0 < row["boot_time_seconds"] <= boot)
        and all(row[key] for key in ("stoppable", "rebootable") if wanted[key])
        and (row["flex_ports"] or not wanted["flex-ports"])
    )


def _size(gigabytes: float) -> str:
    return f"{gigabytes / 1024:g}TB" if gigabytes >= 1024 else f"{gigabytes:g}GB"


def _table(rows: list[dict[str, Any]], parsed: Parsed, *, cpu: bool, piped: bool) -> str:
    wide = bool(parsed.values.get("wide")) or cpu
    columns: list[tuple[str, Callable[[dict[str, Any]], str], bool]] = [
        ("TYPE", lambda row: row["type"], False),
        *([("TARGET_DISK", lambda row: f"{row.get('target_disk_gb', 0):g}", False)] if piped else []),
        (
            "PROVIDER",
            lambda r: r["provider"] if r["cloud"] == r["provider"] else f"{r['cloud']}:{r['provider']}",
            False,
        ),
    ]
    unit = "" if piped else " GB"
    if cpu:
        columns.append(("VCPUS", lambda row: str(row["vcpus"]), True))
    else:
        columns += [
            ("GPU", lambda row: row["gpu_name"], False),
            ("COUNT", lambda row: str(row["gpu_count"]), True),
            ("VRAM/GPU", lambda row: f"{row['vram_per_gpu_gb']:g}{unit}", False),
            ("TOTAL_VRAM" if piped else "TOTAL VRAM", lambda row: f"{row['total_vram_gb']:g}{unit}", False),
            ("CAPABILITY", lambda row: f"{row['capability']:.1f}" if row["capability"] else "-", False),
        ]
    if wide:
        columns += [("RAM", lambda row: f"{row['ram_gb']:g}", False), ("ARCH", lambda row: row["arch"], False)]
    columns += [
        ("DISK", _disk, False),
        ("$/GB/MO", lambda r: f"${r['disk_price_per_gb_mo']:.2f}" if "disk_price_per_gb_mo" in r else "-", False),
        ("BOOT", lambda row: f"{row['boot_time_seconds'] // 60}m" if row["boot_time_seconds"] else "-", False),
        ("FEATURES", _features, False),
        *([] if cpu else [("VCPUS", lambda row: str(row["vcpus"]), True)]),
        ("$/HR", lambda row: f"${row['price_per_hour']:.2f}", False),
    ]
    right = frozenset(number for number, column in enumerate(columns) if column[2])
    text = table([column[0] for column in columns], [[column[1](row) for column in columns] for row in rows], right)
    return text if piped else f"{text}\nFound {len(rows)} {'CPU' if cpu else 'GPU'} instance types\n"


def _disk(row: dict[str, Any]) -> str:
    low, high = row["disk_min_gb"], row["disk_max_gb"]
    return _size(low) if low == high else f"{_size(low)}-{_size(high)}"


def _features(row: dict[str, Any]) -> str:
    letters = {"stoppable": "S", "rebootable": "R", "flex_ports": "P"}
    return "".join(letter for key, letter in letters.items() if row[key])
