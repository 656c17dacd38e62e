"""A ResourceClaimTemplate for GPUs that are really linked on the machines of a cluster.

And where it can be met. A claim can ask for devices with equal attributes, not for a link. So each
form of claim is held to the link matrices: it is sound for a product if on every machine with that
product whatever it may select is linked.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from toposcope.api.label_keys import PREFIX
from toposcope.hardware.matrix import nv_links
from toposcope.hardware.matrix_annotation import MatrixError, parse
from toposcope.integrations.dra.allocation import Claims, copies
from toposcope.integrations.dra.api import GROUP
from toposcope.integrations.dra.audit import DRIVER, NUMA_NODE, PCIE_ROOT
from toposcope.integrations.dra.devices import BUS_ID, Device, DeviceId, Inventory, NodeDevices
from toposcope.integrations.framework.document import Field

LINKS: Final = {
    "nvlink": "linked by NVLink",
    "pcie": "on one PCIe root",
    "numa": "on one NUMA node",
}
_OF_GPUS: Final = {
    "": ("",),
    "pcie": (PCIE_ROOT,),
    "numa": (NUMA_NODE,),
    "nvlink": ("", PCIE_ROOT, NUMA_NODE),
}
"""The attributes that GPUs may have to share, the widest choice first; for NVLink also Fabric
Manager's partitions.
"""
_PLACES: Final = {PCIE_ROOT: "PCIe root", NUMA_NODE: "NUMA node"}
_ALTERNATIVES: Final = 8
"""The most that a request may list (resource/v1: FirstAvailableDeviceRequestMaxSize)."""
_FAULTY: Final = re.compile(r"GPU [0-9]+\b")


@dataclass(frozen=True, slots=True)
class Machine:
    """A node's devices, and which of its GPUs are linked by NVLink."""

    node: str
    there: NodeDevices
    linked: frozenset[frozenset[DeviceId]]
    named: Mapping[str, Device]
    """By the name that the agent gives a GPU: `GPU 3`."""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Its whole GPUs, as NVIDIA's driver offers them to containers."""
        return tuple(
            device for device in self.there.gpus_of(DRIVER) if device.attribute("type") != "vfio"
        )

    def all_linked(self, some: Iterable[Device]) -> bool:
        """Whether each of them has an NVLink to each other."""
        return all(frozenset((a.id, b.id)) in self.linked for a, b in combinations(some, 2))


@dataclass(frozen=True, slots=True)
class Supply:
    """A claim, and the nodes on which it can be met."""

    spec: Mapping[str, Any]
    words: str
    """What it asks for."""
    nodes: tuple[str, ...]
    now: int
    """Those with enough free devices."""
    left_out: Mapping[str, str]
    """Products of which it would select GPUs that are not linked.

    Each with a node where that is so.
    """
    nic_near: str = ""
    """The attribute that each NIC shares with its GPU; empty without NICs."""


def machine(node: str, there: NodeDevices, annotation: str | None) -> Machine:
    """A node with the devices that drivers offer of it and the matrix that its agent wrote."""
    try:
        matrix = parse(annotation or "")
    except MatrixError:
        return Machine(node, there, frozenset(), {})
    by_uuid = {device.attribute("uuid"): device for device in there.gpus_of(DRIVER)}
    gpus = [by_uuid.get(device.name) for device in matrix.devices]
    cells = matrix.links.cells if matrix.links else ()
    linked = {
        frozenset((a.id, b.id))
        for (i, a), (j, b) in combinations(enumerate(gpus[: len(cells)]), 2)
        if a and b and nv_links(cells[i][j])
    }
    named = {
        device.label.replace("GPU", "GPU "): gpu
        for device, gpu in zip(matrix.devices, gpus, strict=True)
        if gpu
    }
    return Machine(node, there, frozenset(linked), named)


def supply(
    machines: Sequence[Machine],
    offered: Inventory,
    claims: Claims,
    *,
    gpus: int,
    link: str,
    nic_class: str | None,
) -> Supply:
    """The claim that can be met on most nodes, of NICs as near as any are.

    Without nodes where none can be met.
    """
    shared = [*_OF_GPUS[link], *([f"{DRIVER}/partition{gpus}"] if link == "nvlink" else [])]
    forms = shared if gpus > 1 else ("",)

    def best(near: str) -> Supply:
        found = [
            _judged(machines, offered, claims, (gpus, link, nic_class), near=near, shared=form)
            for form in forms
        ]
        if link == "nvlink" and not nic_class:
            found.append(_by_address(machines, offered, claims, gpus))
        return max(found, key=lambda one: len(one.nodes))

    nearest = best(PCIE_ROOT if nic_class else "")
    return nearest if nearest.nodes or not nic_class else best(NUMA_NODE)


def _judged(
    machines: Sequence[Machine],
    offered: Inventory,
    claims: Claims,
    wanted: tuple[int, str, str | None],
    *,
    near: str,
    shared: str,
) -> Supply:
    """The form in which GPUs share one attribute and NICs another.

    For the products for which it is sound.
    """
    gpus, link, nic_class = wanted
    products = {_product(gpu) for machine in machines for gpu in machine.gpus}
    unsound: dict[str, str] = {}
    for machine in machines if link == "nvlink" else ():
        for group in _groups(machine, shared):
            if len(group) >= gpus and not machine.all_linked(group):
                unsound |= {
                    _product(gpu): machine.node for gpu in group if _product(gpu) not in unsound
                }
    sound = products - unsound.keys()
    only = _in("productName", sound) if unsound else ()
    requests, constraints = list[Any](), list[Any]()
    if nic_class:
        for number in range(gpus):
            pair = [f"gpu-{number}", f"nic-{number}"]
            requests += [_request(pair[0], DRIVER, 1, only), _request(pair[1], nic_class, 1)]
            constraints.append({"requests": pair, "matchAttribute": near})
    else:
        requests.append(_request("gpus", DRIVER, gpus, only))
    if shared:
        over = [request["name"] for request in requests if request["name"].startswith("gpu")]
        constraints.append({"requests": over, "matchAttribute": shared})
    devices = {"requests": requests, **({"constraints": constraints} if constraints else {})}
    words = [f"{gpus} GPU{'s' if gpus > 1 else ''}", *([LINKS[link]] if link and gpus > 1 else [])]
    words += [f"each with a NIC of class {nic_class} on its {_PLACES[near]}"] if nic_class else []
    nodes, now = _met([{"devices": devices}], machines, offered, claims) if sound else ((), 0)
    return Supply(
        spec={"devices": devices},
        words=", ".join(words),
        nodes=nodes,
        now=now,
        left_out=unsound,
        nic_near=near,
    )


def _product(gpu: Device) -> str:
    return str(gpu.attribute("productName"))


def _groups(one: Machine, shared: str) -> Iterable[list[Device]]:
    """Its GPUs that share an attribute; all of them without one."""
    groups: dict[Any, list[Device]] = {}
    for gpu in one.gpus:
        if (value := gpu.attribute(shared) if shared else "") is not None:
            groups.setdefault(value, []).append(gpu)
    return groups.values()


def _by_address(
    machines: Sequence[Machine], offered: Inventory, claims: Claims, gpus: int
) -> Supply:
    """Alternatives by PCI address, as bridges link GPUs.

    Of each, those that a machine has are linked on all.
    """
    sets: Counter[frozenset[str]] = Counter()
    at = [
        {gpu.id: str(gpu.attribute(BUS_ID)) for gpu in machine.gpus if gpu.attribute(BUS_ID)}
        for machine in machines
    ]
    for machine, addresses in zip(machines, at, strict=True):
        near = {
            frozenset((a, *(b for b in addresses if frozenset((a, b)) in machine.linked)))
            for a in addresses
        }
        sets.update(frozenset(addresses[gpu] for gpu in some) for some in near if len(some) >= gpus)

    def linked(some: frozenset[str]) -> bool:
        return all(
            machine.all_linked(gpu for gpu in machine.gpus if addresses.get(gpu.id) in some)
            for machine, addresses in zip(machines, at, strict=True)
        )

    chosen = [some for some, _ in sets.most_common() if linked(some)][:_ALTERNATIVES]
    alternatives = [_request("gpus", DRIVER, gpus, _in(BUS_ID, some)) for some in chosen]
    named = [{"name": f"set-{n}", **choice["exactly"]} for n, choice in enumerate(alternatives)]
    spec = {"devices": {"requests": [{"name": "gpus", "firstAvailable": named}]}}
    nodes, now = _met(
        [{"devices": {"requests": [choice]}} for choice in alternatives], machines, offered, claims
    )
    return Supply(spec, f"{gpus} GPUs {LINKS['nvlink']}, by PCI address", nodes, now, {})


def _met(
    specs: Sequence[Any], machines: Sequence[Machine], offered: Inventory, claims: Claims
) -> tuple[tuple[str, ...], int]:
    """The nodes on which one of the claims can surely be met.

    And how many of them have the devices free.
    """
    asked = [claims.read_spec(Field(spec)) for spec in specs]

    def met(taken: frozenset[DeviceId]) -> tuple[str, ...]:
        found = {
            machine.node: [copies([claim], machine.there, taken) for claim in asked]
            for machine in machines
        }
        if any(room.error for rooms in found.values() for room in rooms):
            return ()
        return tuple(node for node, rooms in found.items() if any(room.least for room in rooms))

    return met(frozenset()), len(met(offered.taken))


def _in(attribute: str, values: Iterable[str]) -> tuple[str, ...]:
    domain, _, name = attribute.rpartition("/")
    listed = ", ".join(f'"{value}"' for value in sorted(values))
    return (f'device.attributes["{domain or DRIVER}"].{name} in [{listed}]',)


def _request(
    name: str, device_class: str, count: int, selectors: Sequence[str] = ()
) -> dict[str, Any]:
    chosen = (
        {"selectors": [{"cel": {"expression": expression}} for expression in selectors]}
        if selectors
        else {}
    )
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **chosen}}


def taint_rules(
    machines: Iterable[Machine], reasons: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """A DeviceTaintRule for each GPU that a node's agent finds fault with, and the fault."""
    for machine in machines:
        for reason in reasons.get(machine.node, ()):
            found = _FAULTY.match(reason)
            if found and (gpu := machine.named.get(found[0])):
                selector = {"driver": gpu.driver, "pool": gpu.pool, "device": gpu.name}
                taint = {"key": f"{PREFIX}degraded", "value": "true", "effect": "NoSchedule"}
                rule = {"apiVersion": f"{GROUP}/v1beta2", "kind": "DeviceTaintRule"}
                metadata = {"name": f"degraded-{machine.node}-{gpu.name}"}
                yield (
                    {
                        **rule,
                        "metadata": metadata,
                        "spec": {"deviceSelector": selector, "taint": taint},
                    },
                    reason,
                )
