"""Machines for tests, built from a few facts: a product, how many GPUs, and how they are wired."""

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from toposcope.simulator.machine import Machine
from toposcope.simulator.profile import load_profile

A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"
H200 = "NVIDIA H200"

_VERSIONS = {"pascal": "1.0", "volta": "2.2", "ampere": "3.1", "hopper": "4.0", "blackwell": "5.0"}
_MBPS = {"1.0": 19200, "2.2": 25781, "3.1": 25000, "4.0": 26562, "5.0": 53125}


def machine(
    folder: Path,
    product: str,
    gpus: int,
    *,
    architecture: str = "hopper",
    nvlink: Mapping[str, Any] | None = None,
    switches: int = 0,
    mig: Mapping[int, int] | None = None,
    modules: Sequence[int] = (),
    name: str = "node",
    **fields: Any,
) -> Machine:
    """A machine with a root port for each GPU. `nvlink` and `fields` are a profile's."""
    has_mig = architecture in ("ampere", "hopper", "blackwell")
    about: dict[str, Any] = {
        "count": gpus,
        "product": product,
        "architecture": architecture,
        "pci_id": 0x2330,
        "mig": dict(mig or {}) if has_mig else None,
    }
    if modules:
        about["modules"] = list(modules)
    roots: list[dict[str, Any]] = []
    for gpu in range(gpus):
        roots.append(
            {
                "numa": gpu * 2 // gpus,
                "bus": f"0000:{16 + 8 * gpu:02x}",
                "ports": [f"gpu{gpu}"],
            }
        )
    if switches:
        ports = [f"nvswitch{switch}" for switch in range(switches)]
        roots.append({"numa": 1, "bus": "0000:e0", "ports": [ports]})
    profile: dict[str, Any] = {
        "name": name,
        "description": f"{gpus} x {product}",
        "driver": "570.86.15",
        "numa": {0: "0-31", 1: "32-63"},
        "gpus": {field: value for field, value in about.items() if value is not None},
        "pci": roots,
        **fields,
    }
    if nvlink is not None:
        version = _VERSIONS[architecture]
        profile["nvlink"] = {
            "version": version,
            "mbps": _MBPS[version],
            "switch_pci_id": 0x22A3,
            **nvlink,
        }
    file = folder / f"{name}.yaml"
    file.write_text(_yaml(profile), encoding="utf-8")
    return load_profile(file)


def _yaml(value: Any) -> str:
    """Flow style: JSON, but for keys that are numbers."""
    if isinstance(value, Mapping):
        fields = [f"{key}: {_yaml(item)}" for key, item in value.items()]
        return "{" + ", ".join(fields) + "}"
    if isinstance(value, list | tuple):
        items = [_yaml(item) for item in value]
        return "[" + ", ".join(items) + "]"
    return json.dumps(value)


def mesh(gpus: int, links: int) -> list[list[int]]:
    """Direct links of every GPU to every other one."""
    return [[first, second, links] for first, second in combinations(range(gpus), 2)]
