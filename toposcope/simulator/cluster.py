"""Clusters as data: the demo's machines, and Node objects by the thousand for benchmarks.

Block and rack carry the label keys that GKE writes; the hierarchy zone > block > rack > NVLink
domain > host nests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.api.yaml_text import load
from toposcope.simulator.machine import (
    FabricRegistration,
    Machine,
    TrayPlatform,
    identity,
    with_identity,
)
from toposcope.simulator.node_object import node_object
from toposcope.simulator.profile import load_profile
from toposcope.text import compact

REGION_KEY: Final = "topology.kubernetes.io/region"
ZONE_KEY: Final = "topology.kubernetes.io/zone"
BLOCK_KEY: Final = "cloud.google.com/gce-topology-block"
RACK_KEY: Final = "cloud.google.com/gce-topology-subblock"

_REGION: Final = "region-1"
_TRAYS_PER_RACK: Final = 18
"""Compute trays of one NVL72 rack."""
_TRAYS_BELOW_SWITCHES: Final = 8
_SWITCH_SLOTS_PER_RACK: Final = 9
"""The NVSwitch trays sit between the eighth and the ninth compute tray."""
_CLIQUE: Final = 32766
_FIRST_CHASSIS_SERIAL: Final = 10**12
"""Below this, serial numbers of chassis would lose their length."""

# large_cluster: racks of one NVL72 each, then as many racks again of four 8-GPU nodes.
_RACKS_PER_BLOCK: Final = 16
_BLOCKS_PER_ZONE: Final = 32
_HGX_NODES_PER_RACK: Final = 4
_NODES_PER_UNIT: Final = 32
_RACKS: Final[dict[str, dict[str, str]]] = load(Path(__file__).with_name("racks.yaml").read_bytes())


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A machine in a cluster, with the labels that the platform wrote before Toposcope came."""

    name: str
    machine: Machine
    labels: dict[str, str]
    gpus: int
    """Allocatable GPUs."""

    def node_object(self) -> dict[str, Any]:
        """Its Node object, as the API server would hold it."""
        uid = identity("node", self.name)
        return node_object(
            self.name,
            self.labels,
            self.gpus,
            uid=str(uid),
        )


def demo_cluster() -> tuple[SimulatedNode, ...]:
    """30 nodes in two blocks.

    One block has a GB200 NVL72 rack and a rack of L40S nodes, the other has two racks of DGX H200.
    """
    tray = load_profile("gb200-nvl72-tray")
    trays = [_tray(tray, "rack-1", index) for index in range(_TRAYS_PER_RACK)]
    l40s = _numbered("l40s-4", "l40s", count=4)
    h200 = _numbered("dgx-h200", "h200", count=8)
    return (
        *_rack("block-1", "rack-1", trays),
        *_rack("block-1", "rack-2", l40s),
        *_rack("block-2", "rack-3", h200[:4]),
        *_rack("block-2", "rack-4", h200[4:]),
    )


def _numbered(profile: str, prefix: str, *, count: int) -> list[Machine]:
    """So many machines of a profile, numbered from 1."""
    machine = load_profile(profile)
    machines = []
    for index in range(count):
        number = index + 1
        machines.append(with_identity(machine, f"{prefix}-{number}"))
    return machines


def _rack(block: str, rack: str, machines: Sequence[Machine]) -> Iterator[SimulatedNode]:
    for machine in machines:
        yield SimulatedNode(
            name=machine.name,
            machine=machine,
            labels=_labels(machine, block, rack),
            gpus=len(machine.gpus),
        )


def _tray(machine: Machine, rack: str, index: int) -> Machine:
    """One compute tray in its place: the fabric is the rack's, slot and tray number are its own."""
    tray = with_identity(machine, f"gb200-{index + 1:02}")
    slot = index + 1
    if index >= _TRAYS_BELOW_SWITCHES:
        slot += _SWITCH_SLOTS_PER_RACK
    chassis = _FIRST_CHASSIS_SERIAL + identity(rack, "chassis").int % _FIRST_CHASSIS_SERIAL
    place = TrayPlatform(
        chassis=str(chassis),
        slot=slot,
        tray=index,
        host=1,
        peer_type=1,
        ib_guid=identity(tray.name, "platform").bytes,
    )
    gpus = []
    for gpu in tray.gpus:
        fabric = _registered(gpu.fabric, rack)
        gpus.append(replace(gpu, fabric=fabric, platform=place))
    return replace(tray, gpus=tuple(gpus))


def _registered(fabric: FabricRegistration | None, rack: str) -> FabricRegistration | None:
    if fabric is None:
        return None
    return replace(fabric, cluster_uuid=identity(rack, "fabric"), clique=_CLIQUE)


def _labels(machine: Machine, block: str, rack: str) -> dict[str, str]:
    has_grace = any(gpu.c2c_links for gpu in machine.gpus)
    return {
        "kubernetes.io/arch": "arm64" if has_grace else "amd64",
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
    number = 0
    rack = 0
    while number < count:
        is_nvl72 = rack % 2 == 0
        size = _TRAYS_PER_RACK if is_nvl72 else _HGX_NODES_PER_RACK
        gpus = 4 if is_nvl72 else 8
        left = count - number
        for position in range(min(size, left)):
            name = f"gpu-{rack:05}-{position:02}"
            labels = _large_cluster_labels(name, rack, position, seed)
            uid = str(identity(seed, "node", number))
            node = node_object(name, labels, gpus, uid=uid)
            if rails:
                unit, port = divmod(number, _NODES_PER_UNIT)
                cabling = _cabling(unit, port, rails)
                node["metadata"]["annotations"] |= cabling
            yield node
            number += 1
        rack += 1


def _large_cluster_labels(name: str, rack: int, position: int, seed: int) -> dict[str, str]:
    """Labels of one node; racks of even numbers are NVL72s."""
    is_nvl72 = rack % 2 == 0
    kind = "nvl72" if is_nvl72 else "hgx"
    block = rack // _RACKS_PER_BLOCK
    zone_number = rack // (_RACKS_PER_BLOCK * _BLOCKS_PER_ZONE)
    zone = chr(ord("a") + zone_number)
    labels = {
        **_RACKS[kind],
        label_keys.HOSTNAME: name,
        REGION_KEY: _REGION,
        ZONE_KEY: f"{_REGION}-{zone}",
        BLOCK_KEY: f"block-{block:04}",
        RACK_KEY: f"rack-{rack:05}",
        label_keys.NVLINK_DOMAIN: name,
    }
    if is_nvl72:
        fabric = identity(seed, "fabric", rack)
        labels[label_keys.NVLINK_DOMAIN] = f"{fabric}.{_CLIQUE}"
        labels[label_keys.CHASSIS] = str(_FIRST_CHASSIS_SERIAL + rack)
        labels[label_keys.TRAY] = str(position)
    return labels


def _cabling(unit: int, port: int, rails: int) -> dict[str, str]:
    ends = []
    for rail in range(rails):
        leaf = f"leaf-{unit:04}-{rail}"
        end = {
            "nic": f"mlx5_{rail}",
            "switch": leaf,
            "id": f"guid:{identity(leaf).hex[:16]}",
            "port": f"Ethernet1/{port}",
        }
        ends.append(end)
    return {label_keys.RAILS: compact(ends)}
