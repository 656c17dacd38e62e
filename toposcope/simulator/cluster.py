"""Clusters as data: the demo's machines, and Node objects by the thousand for benchmarks.

Block and rack carry the label keys that GKE writes; the hierarchy zone > block > rack > NVLink
domain > host nests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.api.yaml_text import load
from toposcope.simulator.machine import Fabric, Machine, Platform, identity, with_identity
from toposcope.simulator.node_object import node_object
from toposcope.simulator.profile import load_profile
from toposcope.text import compact

REGION_KEY: Final = "topology.kubernetes.io/region"
ZONE_KEY: Final = "topology.kubernetes.io/zone"
BLOCK_KEY: Final = "cloud.google.com/gce-topology-block"
RACK_KEY: Final = "cloud.google.com/gce-topology-subblock"

_REGION: Final = "region-1"
_TRAYS: Final = 18
"""Compute trays of one NVL72 rack."""
_FIRST_TRAYS: Final = 8
_SWITCH_SLOTS: Final = 9
"""The NVSwitch trays sit between the eighth and the ninth compute tray."""
_CLIQUE: Final = 32766
_CHASSIS: Final = 10**12
"""Below this, serial numbers of chassis would lose their length."""

# large_cluster: racks of one NVL72 each, then as many racks again of four 8-GPU nodes.
_BLOCK_RACKS: Final = 16
_ZONE_BLOCKS: Final = 32
_HGX_NODES: Final = 4
_UNIT: Final = 32
_RACKS: Final[dict[str, dict[str, str]]] = load(Path(__file__).with_name("racks.yaml").read_bytes())


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A machine in a cluster: the labels are those that the platform wrote before Toposcope came."""

    name: str
    machine: Machine
    labels: dict[str, str]
    gpus: int
    """Allocatable GPUs."""

    def node_object(self) -> dict[str, Any]:
        """Its Node object, as the API server would hold it."""
        return node_object(self.name, self.labels, self.gpus, uid=str(identity("node", self.name)))


def demo_cluster() -> tuple[SimulatedNode, ...]:
    """30 nodes: a GB200 NVL72 rack and a rack of L40S nodes in one block, two racks of DGX H200 in the other."""
    tray, dgx, pcie = (load_profile(name) for name in ("gb200-nvl72-tray", "dgx-h200", "l40s-4"))
    racks = [
        ("block-1", "rack-1", [_tray(tray, "rack-1", i) for i in range(_TRAYS)]),
        ("block-1", "rack-2", [with_identity(pcie, f"l40s-{i + 1}") for i in range(4)]),
        ("block-2", "rack-3", [with_identity(dgx, f"h200-{i + 1}") for i in range(4)]),
        ("block-2", "rack-4", [with_identity(dgx, f"h200-{i + 1}") for i in range(4, 8)]),
    ]
    return tuple(
        SimulatedNode(machine.name, machine, _labels(machine, block, rack), len(machine.gpus))
        for block, rack, machines in racks
        for machine in machines
    )


def _tray(machine: Machine, rack: str, index: int) -> Machine:
    """One compute tray in its place: the fabric is the rack's, slot and tray number are its own."""
    tray = with_identity(machine, f"gb200-{index + 1:02}")
    place = Platform(
        chassis=str(_CHASSIS + identity(rack, "chassis").int % _CHASSIS),
        slot=index + 1 + (_SWITCH_SLOTS if index >= _FIRST_TRAYS else 0),
        tray=index,
        host=1,
        peer_type=1,
        ib_guid=identity(tray.name, "platform").bytes,
    )

    def registered(fabric: Fabric | None) -> Fabric | None:
        return fabric and replace(fabric, cluster_uuid=identity(rack, "fabric"), clique=_CLIQUE)

    return replace(
        tray,
        gpus=tuple(
            replace(gpu, fabric=registered(gpu.fabric), platform=place) for gpu in tray.gpus
        ),
    )


def _labels(machine: Machine, block: str, rack: str) -> dict[str, str]:
    grace = any(gpu.c2c_links for gpu in machine.gpus)
    return {
        "kubernetes.io/arch": "arm64" if grace else "amd64",
        "kubernetes.io/os": "linux",
        label_keys.HOSTNAME: machine.name,
        label_keys.GPU_PRESENT: "true",
        ZONE_KEY: "zone-1",
        BLOCK_KEY: block,
        RACK_KEY: rack,
    }


def large_cluster(count: int, seed: int = 0, rails: int = 0) -> Iterator[dict[str, Any]]:
    """`count` Node objects of some 26 kB, agent labels included; equal arguments give equal nodes.

    With `rails` every 32 nodes are a unit with so many leaf switches, one for each rail.

    The parts that are alike on every node are shared between the objects: do not change them in
    place.
    """
    made = 0
    rack = 0
    while made < count:
        nvl72 = rack % 2 == 0
        fabric = identity(seed, "fabric", rack)
        for position in range(min(_TRAYS if nvl72 else _HGX_NODES, count - made)):
            name = f"gpu-{rack:05}-{position:02}"
            zone = f"{_REGION}-{chr(ord('a') + rack // (_BLOCK_RACKS * _ZONE_BLOCKS))}"
            labels = {
                **_RACKS["nvl72" if nvl72 else "hgx"],
                label_keys.HOSTNAME: name,
                REGION_KEY: _REGION,
                ZONE_KEY: zone,
                BLOCK_KEY: f"block-{rack // _BLOCK_RACKS:04}",
                RACK_KEY: f"rack-{rack:05}",
                label_keys.NVLINK_DOMAIN: f"{fabric}.{_CLIQUE}" if nvl72 else name,
            }
            if nvl72:
                labels |= {label_keys.CHASSIS: str(_CHASSIS + rack), label_keys.TRAY: str(position)}
            node = node_object(
                name, labels, 4 if nvl72 else 8, uid=str(identity(seed, "node", made))
            )
            node["metadata"]["annotations"] |= (
                _cabling(*divmod(made, _UNIT), rails) if rails else {}
            )
            yield node
            made += 1
        rack += 1


def _cabling(unit: int, port: int, rails: int) -> dict[str, str]:
    leaves = [f"leaf-{unit:04}-{rail}" for rail in range(rails)]
    ends = [
        {"switch": leaf, "id": f"guid:{identity(leaf).hex[:16]}", "port": f"Ethernet1/{port}"}
        for leaf in leaves
    ]
    return {
        label_keys.RAILS: compact([{"nic": f"mlx5_{rail}", **end} for rail, end in enumerate(ends)])
    }
