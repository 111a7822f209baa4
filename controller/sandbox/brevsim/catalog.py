"""The catalog: offers in the wire format of the public listing, and which of them have capacity.

Prices and sizes are of the order of the public price lists; they are fixed so that invoices can be asserted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from controller.sandbox.brevsim.money import micros

Offer = dict[str, Any]

CAPABILITY = {
    "V100": 7.0,
    "T4": 7.5,
    "T4G": 7.5,
    "A100": 8.0,
    "A10G": 8.6,
    "L4": 8.9,
    "L40S": 8.9,
    "H100": 9.0,
    "H200": 9.0,
    "B200": 10.0,
}
"""Compute capability by GPU; the real program has such a table too and prints 0 for what it does not know."""


def offer(
    type_name: str,
    *,
    gpu: str | None,
    price: str,
    count: int = 1,
    vram: int = 0,
    vcpu: int = 4,
    ram: int = 16,
    provider: str = "aws",
    location: str = "us-east-1",
    stoppable: bool = True,
    boot: str = "7m0s",
    disk: tuple[int, int] = (10, 16384),
    arch: str = "x86_64",
    manufacturer: str = "NVIDIA",
) -> Offer:
    """One row; sizes in GiB, `price` in USD per hour, `boot` a Go duration (empty = unknown)."""
    gpus = [] if gpu is None else [_gpu(gpu, count, vram, manufacturer)]
    fixed_disk = disk[0] == disk[1]
    return {
        "type": type_name,
        "supported_gpus": gpus,
        "supported_storage": [
            {
                "count": 1,
                "size": f"{disk[0]}GiB" if fixed_disk else "",
                "type": "ssd",
                "min_size": f"{disk[0]}GiB",
                "max_size": f"{disk[1]}GiB",
                "size_bytes": {"value": disk[0], "unit": "GiB"},
                "price_per_gb_hr": {"currency": "USD", "amount": "0" if fixed_disk else "0.000137"},
            }
        ],
        "supported_architectures": [arch],
        "memory": f"{ram}GiB",
        "memory_bytes": {"value": ram * 1024, "unit": "MiB"},
        "vcpu": vcpu,
        "base_price": {"currency": "USD", "amount": price},
        "location": location,
        "sub_location": "",
        "available_locations": [location],
        "provider": provider,
        "estimated_deploy_time": boot,
        "stoppable": stoppable,
        "rebootable": True,
        "can_modify_firewall_rules": provider == "aws",
    }


def _gpu(name: str, count: int, vram: int, manufacturer: str) -> dict[str, Any]:
    return {
        "count": count,
        "name": name,
        "manufacturer": manufacturer,
        "memory": f"{vram}GiB",
        "memory_bytes": {"value": vram * 1024, "unit": "MiB"},
    }


# A row a line reads as the table that it is.
# fmt: off
def default_offers() -> list[Offer]:
    resold = partial(offer, provider="shadeform", stoppable=False)
    google = partial(offer, provider="gcp", location="us-central1")
    return [
        offer("g4dn.xlarge", gpu="T4", vram=16, price="0.526"),
        offer("g5.xlarge", gpu="A10G", vram=24, price="1.006", boot="5m0s"),
        offer("g5.12xlarge", gpu="A10G", count=4, vram=24, vcpu=48, ram=192, price="5.672"),
        offer("g6.xlarge", gpu="L4", vram=24, price="0.8048", boot="5m0s"),
        offer("g6e.xlarge", gpu="L40S", vram=48, ram=32, price="1.861"),
        offer("g6e.xlarge", gpu="L40S", vram=48, ram=32, price="2.011", location="us-west-2"),
        resold("massedcompute_L40S", gpu="L40S", vram=48, vcpu=8, ram=64, price="0.88", boot="", disk=(500, 500)),
        resold("hyperstack_A100", gpu="A100", vram=80, vcpu=28, ram=120, price="1.35", boot="10m0s", disk=(850, 850)),
        google("a2-highgpu-1g", gpu="A100", vram=40, vcpu=12, ram=85, price="3.673"),
        resold("nebius_H100", gpu="H100", vram=80, vcpu=16, ram=200, price="2.95", boot="3m30s", disk=(50, 2048)),
        offer("p5.48xlarge", gpu="H100", count=8, vram=80, vcpu=192, ram=2048, price="98.32", boot="12m0s"),
        resold("gpu_8x_b200", gpu="B200", count=8, vram=180, vcpu=208, ram=2900, price="39.92", disk=(2048, 2048)),
        offer("g5g.xlarge", gpu="T4G", vram=16, ram=8, price="0.42", arch="arm64"),
        offer("oci_MI300X", gpu="MI300X", vram=192, price="3.99", provider="oci", manufacturer="AMD"),
        google("n2d-standard-4", gpu=None, price="0.169", boot="2m30s"),
        google("e2-small", gpu=None, vcpu=2, ram=2, price="0.0168", boot="2m30s"),
        resold("latitude_c2", gpu=None, vcpu=8, ram=32, price="0.18", boot="", disk=(480, 480)),
    ]
# fmt: on


class Catalog:
    """Offers and capacity; a type without capacity is listed, but has no workspace group."""

    def __init__(self) -> None:
        self.offers = default_offers()
        self.sold_out = {"gpu_8x_b200"}

    def public(self, *, include_cpu: bool) -> list[Offer]:
        return [row for row in self.offers if include_cpu or row["supported_gpus"]]

    def for_organization(self) -> list[Offer]:
        return [dict(row, workspace_groups=self._groups(row)) for row in self.offers]

    def for_credential(self, cloud_cred_id: str) -> list[Offer]:
        """The catalog without groups of the fourth generation; a type without capacity has no credential."""
        return [dict(row, cloudCredId="" if row["type"] in self.sold_out else cloud_cred_id) for row in self.offers]

    def _groups(self, row: Offer) -> list[dict[str, str]]:
        if row["type"] in self.sold_out:
            return []
        return [{"id": f"wg-{row['provider']}", "name": row["provider"].upper(), "platformType": "dev-plane"}]

    def find(self, type_name: str) -> Offer | None:
        """The first offer of this type; a type may be listed once per location."""
        return next((row for row in self.offers if row["type"] == type_name), None)

    def price_micros(self, type_name: str) -> int:
        """Hourly price in micro-dollars, 0 for a type that the catalog does not have."""
        row = self.find(type_name)
        return micros(row["base_price"]["amount"]) if row else 0
