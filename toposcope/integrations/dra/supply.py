"""A ResourceClaimTemplate for GPUs that are really linked on the machines of a cluster.

A claim can request devices with equal attributes, but not a link. So each form of claim is compared
with the link matrices: it is sound for a product if everything that it may select is linked on
every machine with that product.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from toposcope.api.label_keys import PREFIX
from toposcope.hardware.matrix import nv_links
from toposcope.hardware.matrix_annotation import GpuFault, MatrixError, parse
from toposcope.integrations.dra.allocation import Claim, Claims, copies
from toposcope.integrations.dra.api import GROUP
from toposcope.integrations.dra.audit import DRIVER, NUMA_NODE, PCIE_ROOT
from toposcope.integrations.dra.devices import BUS_ID, DeviceId, DraDevice, Inventory, NodeDevices
from toposcope.integrations.framework.document import Field
from toposcope.text import plural

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
"""The attributes that GPUs may have to share, widest choice first; for NVLink also Fabric Manager's
partitions.
"""
_PLACES: Final = {PCIE_ROOT: "PCIe root", NUMA_NODE: "NUMA node"}
_MAX_ALTERNATIVES: Final = 8
"""The most alternatives in a request (resource/v1: FirstAvailableDeviceRequestMaxSize)."""


@dataclass(frozen=True, slots=True)
class SuppliedNode:
    """A node's devices, and which of its GPUs are linked by NVLink."""

    node: str
    devices: NodeDevices
    linked: frozenset[frozenset[DeviceId]]
    named: Mapping[str, DraDevice]
    """By the matrix's name of a GPU: `GPU3`."""

    @property
    def gpus(self) -> tuple[DraDevice, ...]:
        """Its whole GPUs, as NVIDIA's driver offers them to containers."""
        gpus = []
        for device in self.devices.gpus_of(DRIVER):
            if device.attribute("type") != "vfio":
                gpus.append(device)
        return tuple(gpus)

    def are_linked(self, some: Iterable[DraDevice]) -> bool:
        """Whether each of them has an NVLink to each other one."""
        for gpu, other_gpu in combinations(some, 2):
            pair = frozenset((gpu.id, other_gpu.id))
            if pair not in self.linked:
                return False

        return True


@dataclass(frozen=True, slots=True)
class Supply:
    """A claim, and the nodes on which it can be met."""

    spec: Mapping[str, Any]
    words: str
    """Its request in words."""
    nodes: tuple[str, ...]
    now: int
    """The nodes with enough free devices."""
    left_out: Mapping[str, str]
    """Products of which it could select GPUs that are not linked, each with such a node."""
    nic_near: str = ""
    """The attribute that each NIC shares with its GPU; empty without NICs."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """The wanted devices of one claim."""

    gpus: int
    link: str
    nic_class: str | None

    @property
    def is_by_nvlink(self) -> bool:
        """Whether the GPUs must be linked by NVLink."""
        return self.link == "nvlink"

    def words(self, near: str) -> str:
        """The claim in words, with NICs that share the attribute `near` with their GPU."""
        words = [f"{self.gpus} {plural(self.gpus, 'GPU')}"]
        if self.link and self.gpus > 1:
            words.append(LINKS[self.link])
        if self.nic_class:
            words.append(f"each with a NIC of class {self.nic_class} on its {_PLACES[near]}")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The nodes on which claims can be met."""

    machines: Sequence[SuppliedNode]
    offered: Inventory
    claims: Claims

    def products(self) -> set[str]:
        """The products of all GPUs."""
        products = set()
        for machine in self.machines:
            for gpu in machine.gpus:
                products.add(_product(gpu))

        return products

    def meeting(self, specs: Iterable[Any]) -> tuple[tuple[str, ...], int]:
        """The nodes that can surely meet one of the claims, and how many could do so now."""
        claims = [self.claims.read_spec(Field(spec)) for spec in specs]
        nodes = self._with_devices(claims, frozenset())
        now = self._with_devices(claims, self.offered.allocated_ids)
        return nodes, len(now)

    def _with_devices(
        self, claims: Sequence[Claim], in_use: frozenset[DeviceId]
    ) -> tuple[str, ...]:
        """The nodes with devices for one of the claims; none if a selector may be in error."""
        nodes = []
        for machine in self.machines:
            least = 0
            for claim in claims:
                room = copies([claim], machine.devices, in_use)
                if room.has_error:
                    return ()
                least = max(least, room.least)

            if least:
                nodes.append(machine.node)

        return tuple(nodes)


def machine(node: str, node_devices: NodeDevices, annotation: str | None) -> SuppliedNode:
    """A node with its drivers' devices and the matrix that its agent published."""
    try:
        matrix = parse(annotation or "")
    except MatrixError:
        return SuppliedNode(node, node_devices, frozenset(), {})

    by_uuid = {device.attribute("uuid"): device for device in node_devices.gpus_of(DRIVER)}
    gpus = []
    named = {}
    for device in matrix.devices:
        gpu = by_uuid.get(device.name)
        gpus.append(gpu)
        if gpu:
            named[device.label] = gpu

    cells = matrix.links.cells if matrix.links else ()
    return SuppliedNode(node, node_devices, _linked(gpus, cells), named)


def _linked(
    gpus: Sequence[DraDevice | None], cells: Sequence[Sequence[str]]
) -> frozenset[frozenset[DeviceId]]:
    """The pairs of GPUs between which there is an NVLink."""
    linked = set()
    in_matrix = enumerate(gpus[: len(cells)])
    for (row, gpu), (column, other_gpu) in combinations(in_matrix, 2):
        if gpu and other_gpu and nv_links(cells[row][column]):
            linked.add(frozenset((gpu.id, other_gpu.id)))

    return frozenset(linked)


def supply(
    machines: Sequence[SuppliedNode],
    offered: Inventory,
    claims: Claims,
    *,
    gpus: int,
    link: str,
    nic_class: str | None,
) -> Supply:
    """The claim that can be met on most nodes, with the nearest possible NICs.

    It has no nodes if none can meet it.
    """
    cluster = _Cluster(machines, offered, claims)
    wish = _Wish(gpus, link, nic_class)
    if not nic_class:
        return _best(wish, cluster, near="")

    nearest = _best(wish, cluster, near=PCIE_ROOT)
    if nearest.nodes:
        return nearest
    return _best(wish, cluster, near=NUMA_NODE)


def _best(wish: _Wish, cluster: _Cluster, *, near: str) -> Supply:
    """The form of claim that most nodes can meet; of equal ones, the widest choice."""
    supplies = []
    for shared in _shared_attributes(wish):
        supplies.append(_sharing(wish, cluster, near=near, shared=shared))

    if wish.is_by_nvlink and not wish.nic_class:
        supplies.append(_by_address(cluster, wish.gpus))
    return max(supplies, key=lambda supply: len(supply.nodes))


def _shared_attributes(wish: _Wish) -> list[str]:
    """The attributes that the GPUs may have to share to be linked; empty if none are needed."""
    if wish.gpus == 1:
        return [""]
    attributes = list(_OF_GPUS[wish.link])
    if wish.is_by_nvlink:
        attributes.append(f"{DRIVER}/partition{wish.gpus}")
    return attributes


def _sharing(wish: _Wish, cluster: _Cluster, *, near: str, shared: str) -> Supply:
    """The form in which GPUs share one attribute and NICs another.

    It selects the products for which it is sound.
    """
    unsound: dict[str, str] = {}
    if wish.is_by_nvlink:
        unsound = _unsound_products(cluster.machines, wish.gpus, shared)
    sound = cluster.products() - unsound.keys()
    selectors: tuple[str, ...] = ()
    if unsound:
        selectors = _in(f"{DRIVER}/productName", sound)

    devices = _devices(wish, selectors, near=near, shared=shared)
    spec = {"devices": devices}
    nodes: tuple[str, ...] = ()
    now = 0
    if sound:
        nodes, now = cluster.meeting([spec])

    return Supply(
        spec=spec,
        words=wish.words(near),
        nodes=nodes,
        now=now,
        left_out=unsound,
        nic_near=near,
    )


def _unsound_products(machines: Iterable[SuppliedNode], gpus: int, shared: str) -> dict[str, str]:
    """Products of which a claim could select GPUs that are not linked, each with such a node."""
    unsound: dict[str, str] = {}
    for machine in machines:
        for group in _groups(machine, shared):
            if len(group) < gpus or machine.are_linked(group):
                continue
            for gpu in group:
                unsound.setdefault(_product(gpu), machine.node)

    return unsound


def _devices(wish: _Wish, selectors: Sequence[str], *, near: str, shared: str) -> dict[str, Any]:
    """The claim's devices: requests, and the attributes that must match."""
    requests = []
    constraints = []
    gpu_requests = []
    if wish.nic_class:
        for number in range(wish.gpus):
            gpu, nic = f"gpu-{number}", f"nic-{number}"
            gpu_requests.append(gpu)
            requests.append(_request(gpu, DRIVER, 1, selectors))
            requests.append(_request(nic, wish.nic_class, 1))
            constraints.append({"requests": [gpu, nic], "matchAttribute": near})
    else:
        gpu_requests.append("gpus")
        requests.append(_request("gpus", DRIVER, wish.gpus, selectors))

    if shared:
        constraints.append({"requests": gpu_requests, "matchAttribute": shared})

    devices: dict[str, Any] = {"requests": requests}
    if constraints:
        devices["constraints"] = constraints
    return devices


def _product(gpu: DraDevice) -> str:
    return str(gpu.attribute("productName"))


def _groups(machine: SuppliedNode, shared: str) -> Iterable[list[DraDevice]]:
    """Its GPUs that share an attribute; all of them without one."""
    groups: dict[Any, list[DraDevice]] = {}
    for gpu in machine.gpus:
        value = gpu.attribute(shared) if shared else ""
        if value is not None:
            groups.setdefault(value, []).append(gpu)

    return groups.values()


@dataclass(frozen=True, slots=True)
class _Addressed:
    """A machine's GPUs by PCI address."""

    machine: SuppliedNode
    addresses: Mapping[DeviceId, str]

    @classmethod
    def of(cls, machine: SuppliedNode) -> "_Addressed":
        """Those of its GPUs whose address is published."""
        addresses = {}
        for gpu in machine.gpus:
            address = gpu.attribute(BUS_ID)
            if address:
                addresses[gpu.id] = str(address)
        return cls(machine, addresses)

    def linked_sets(self, least: int) -> Iterable[frozenset[str]]:
        """Addresses of a GPU and of all that it has NVLinks to, if there are as many as `least`.

        Each once, in the order of the GPUs.
        """
        sets = {}
        for gpu in self.addresses:
            near = {gpu}
            for other_address in self.addresses:
                if frozenset((gpu, other_address)) in self.machine.linked:
                    near.add(other_address)

            if len(near) >= least:
                sets[frozenset(near)] = frozenset([self.addresses[each] for each in near])
        return sets.values()

    def are_linked(self, addresses: Collection[str]) -> bool:
        """Whether those of its GPUs that have one of the addresses are linked to each other."""
        gpus = []
        for gpu in self.machine.gpus:
            if self.addresses.get(gpu.id) in addresses:
                gpus.append(gpu)
        return self.machine.are_linked(gpus)


def _by_address(cluster: _Cluster, gpus: int) -> Supply:
    """Alternatives by PCI address, for GPUs linked by bridges.

    The GPUs of one alternative are all linked on each machine.
    """
    addressed = [_Addressed.of(machine) for machine in cluster.machines]
    alternatives = []
    listed = []
    for number, addresses in enumerate(_sound_sets(addressed, gpus)):
        request = _request("gpus", DRIVER, gpus, _in(BUS_ID, addresses))
        alternatives.append({"devices": {"requests": [request]}})
        listed.append({"name": f"set-{number}", **request["exactly"]})

    nodes, now = cluster.meeting(alternatives)
    return Supply(
        spec={"devices": {"requests": [{"name": "gpus", "firstAvailable": listed}]}},
        words=f"{gpus} GPUs {LINKS['nvlink']}, by PCI address",
        nodes=nodes,
        now=now,
        left_out={},
    )


def _sound_sets(addressed: Sequence[_Addressed], gpus: int) -> list[frozenset[str]]:
    """The sets of addresses that are linked on every machine, those of most machines first."""
    uses: Counter[frozenset[str]] = Counter()
    for each in addressed:
        uses.update(each.linked_sets(gpus))

    sound: list[frozenset[str]] = []
    for addresses, _ in uses.most_common():
        if len(sound) == _MAX_ALTERNATIVES:
            break
        if all(each.are_linked(addresses) for each in addressed):
            sound.append(addresses)
    return sound


def _in(attribute: str, values: Iterable[str]) -> tuple[str, ...]:
    """A selector for devices whose attribute has one of the values."""
    domain, _, name = attribute.rpartition("/")
    quoted = [f'"{value}"' for value in sorted(values)]
    listed = ", ".join(quoted)
    return (f'device.attributes["{domain}"].{name} in [{listed}]',)


def _request(
    name: str, device_class: str, count: int, selectors: Sequence[str] = ()
) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": device_class, "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": selector}} for selector in selectors]
    return {"name": name, "exactly": exactly}


def taint_rules(
    machines: Iterable[SuppliedNode], faults: Mapping[str, Sequence[GpuFault]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """A DeviceTaintRule for each fault of a GPU that a node's agent finds, and the fault."""
    for machine in machines:
        for fault in faults.get(machine.node, ()):
            gpu = machine.named.get(fault.label)
            if gpu:
                yield _taint_rule(machine.node, gpu), fault.reason


def _taint_rule(node: str, gpu: DraDevice) -> dict[str, Any]:
    selector = {"driver": gpu.driver, "pool": gpu.pool, "device": gpu.name}
    taint = {"key": f"{PREFIX}degraded", "value": "true", "effect": "NoSchedule"}
    return {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"degraded-{node}-{gpu.name}"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
