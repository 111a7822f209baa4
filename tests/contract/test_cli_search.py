"""`search`: rows, filters, tables."""

from __future__ import annotations

import pytest

from tests.contract.program import Program


async def rows(brev: Program, *argv: str) -> list[str]:
    result = await brev("search", *argv, "--json")
    assert result.rc == 0, result.stderr
    return [row["type"] for row in result.json()]


async def test_a_row_has_the_measured_keys_in_order(brev: Program) -> None:
    found = (await brev("search", "--json", "-g", "T4", "--arch", "x86")).json()
    assert found == [
        {
            "type": "g4dn.xlarge",
            "cloud": "aws",
            "provider": "aws",
            "gpu_name": "T4",
            "gpu_count": 1,
            "vram_per_gpu_gb": 16,
            "total_vram_gb": 16,
            "capability": 7.5,
            "vcpus": 4,
            "memory": "16GiB",
            "ram_gb": 16,
            "arch": "x86_64",
            "disk_min_gb": 10,
            "disk_max_gb": 16384,
            "disk_price_per_gb_mo": 0.10001,
            "boot_time_seconds": 420,
            "stoppable": True,
            "rebootable": True,
            "flex_ports": True,
            "target_disk_gb": 10,
            "price_per_hour": 0.526,
        }
    ]


async def test_whole_numbers_are_printed_without_a_point(brev: Program) -> None:
    assert '"vram_per_gpu_gb": 16,\n' in (await brev("search", "--json", "-g", "T4")).stdout


async def test_an_aggregator_names_the_cloud_before_the_underscore(brev: Program) -> None:
    (row,) = (await brev("search", "--json", "-p", "massed")).json()
    assert (row["cloud"], row["provider"], row["boot_time_seconds"]) == ("massedcompute", "shadeform", 0)
    assert "disk_price_per_gb_mo" not in row


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["-g", "l40"], ["massedcompute_L40S", "g6e.xlarge", "g6e.xlarge"]),
        (["-g", "nope"], []),
        (["-t", "700"], ["gpu_8x_b200"]),
        (["-c", "9"], ["nebius_H100", "gpu_8x_b200", "p5.48xlarge"]),
        (["--max-boot-time", "5"], ["g6.xlarge", "g5.xlarge", "nebius_H100"]),
        (["-v", "80", "--desc"], ["p5.48xlarge", "gpu_8x_b200", "nebius_H100", "hyperstack_A100"]),
        (["--min-vcpu", "100", "--sort", "vcpu"], ["p5.48xlarge", "gpu_8x_b200"]),
        (["-p", "gcp"], ["a2-highgpu-1g"]),
        (["--arch", "arm64"], ["g5g.xlarge"]),
        (["cpu"], ["e2-small", "n2d-standard-4", "latitude_c2"]),
        (["cpu", "--stoppable"], ["e2-small", "n2d-standard-4"]),
    ],
)
async def test_filters_are_substrings_and_minima(brev: Program, argv: list[str], expected: list[str]) -> None:
    assert await rows(brev, *argv) == expected


async def test_gpus_of_other_makers_are_dropped_and_repeated_types_are_kept(brev: Program) -> None:
    found = await rows(brev)
    assert "oci_MI300X" not in found
    assert found.count("g6e.xlarge") == 2


async def test_nothing_found_is_an_empty_array_or_an_empty_table(brev: Program) -> None:
    assert (await brev("search", "--json", "-g", "nope")).stdout == "[]\n"
    assert (await brev("search", "-g", "nope")).stdout == ""


async def test_the_piped_table_is_padded_and_counts_to_the_right(brev: Program) -> None:
    lines = (await brev("search", "-g", "T4", "--arch", "x86")).stdout.splitlines()
    assert lines == [
        " TYPE         TARGET_DISK  PROVIDER  GPU  COUNT  VRAM/GPU  TOTAL_VRAM  CAPABILITY  DISK       $/GB/MO  BOOT"
        "  FEATURES  VCPUS  $/HR  ",
        " g4dn.xlarge  10           aws       T4       1  16        16          7.5         10GB-16TB  $0.10    7m  "
        "  SRP           4  $0.53 ",
    ]


async def test_a_catalog_that_is_down_is_an_error(brev: Program) -> None:
    await brev.simulator.add_fault(
        {"match": {"api": "GET /public/v1/instance/types"}, "action": {"type": "refuse", "status": 500, "body": "x"}}
    )
    result = await brev("search", "--json")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.endswith("os=linux&utm_source=cli 500 Internal Server Error x\n")
