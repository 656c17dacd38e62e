"""What is physically in a simulated machine: PCI tree, NVLink wiring, NUMA nodes.

No derived fact is stored.

The simulated NVML and the sysfs tree are two views of one `Machine`; neither hands out a link
matrix.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple

from toposcope.hardware.ranges import format_list
from toposcope.simulator.faults import MachineFaults

NVIDIA: Final = 0x10DE
CLASS_DISPLAY: Final = 0x030000
CLASS_COMPUTE: Final = 0x030200
CLASS_NVSWITCH: Final = 0x068000
CLASS_INFINIBAND: Final = 0x020700
CLASS_ETHERNET: Final = 0x020000
CLASS_DMA: Final = 0x080100
MELLANOX: Final = 0x15B3
DATA_DIRECT: Final = 0x2100
"""Device id of a ConnectX-8's Data Direct function."""

DEVICE_NAME: Final = re.compile(r"\w[\w.-]*", re.ASCII)
"""What a NIC can be called: its name is a folder in sysfs."""


class Remote(IntEnum):
    """What the far end of an NVLink is; the values are nvml.h's nvmlIntNvLinkDeviceType_t."""

    GPU = 0
    CPU = 1
    SWITCH = 2
    UNKNOWN = 255


class Ancestor(IntEnum):
    """The nearest thing that two PCI devices share.

    The values are nvml.h's nvmlGpuTopologyLevel_t.
    """

    INTERNAL = 0
    PIX = 10
    PXB = 20
    PHB = 30
    NODE = 40
    SYS = 50


@dataclass(frozen=True, slots=True)
class Slot:
    """A place on the PCI tree.

    `root` is `pciDDDD:BB`; `bridges` are the addresses from the root port down; `address` is as
    sysfs writes it. `numa_node` is what the firmware says, -1 where it says nothing.
    """

    address: str
    root: str
    bridges: tuple[str, ...]
    numa_node: int

    @property
    def card(self) -> str:
        """The address without its function."""
        return self.address.rpartition(".")[0]


class PciId(NamedTuple):
    """What a PCI function says it is."""

    vendor: int
    device: int
    pci_class: int


@dataclass(frozen=True, slots=True)
class PciFunction:
    """A PCI function and what its configuration space says it is."""

    slot: Slot
    vendor: int
    device: int
    pci_class: int

    @property
    def address(self) -> str:
        """The PCI address."""
        return self.slot.address


@dataclass(frozen=True, slots=True)
class NvLinkPort:
    """One NVLink port of a GPU.

    `address` is None where the far end has no PCI address that this machine can see.
    """

    remote: Remote
    address: str | None = None
    remote_link: int = 0
    is_active: bool = True


NO_CLUSTER: Final = uuid.UUID(int=0)
"""What a GPU outside multi-node NVLink answers."""


@dataclass(frozen=True, slots=True)
class FabricRegistration:
    """A GPU's registration with the NVLink fabric, in NVML's numbers (nvmlGpuFabricInfo_v3_t)."""

    state: int
    cluster_uuid: uuid.UUID = NO_CLUSTER
    clique: int = 0
    status: int = 0
    health_mask: int = 0
    health_summary: int = 0


@dataclass(frozen=True, slots=True)
class TrayPlatform:
    """Where a compute tray sits (nvmlPlatformInfo_v2_t). `ib_guid` is 16 bytes."""

    chassis: str
    slot: int
    tray: int
    host: int
    peer_type: int
    ib_guid: bytes


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """One GPU (on a K80: one die).

    None means that the product has no such thing, or that it is unknown.
    """

    function: PciFunction
    uuid: str
    name: str | None = None
    serial: str | None = None
    architecture: int | None = None
    """NVML_DEVICE_ARCH_*."""
    module_id: int = 0
    """Place on the baseboard, 0 off one."""
    board: int | None = None
    """Number of the board when several GPUs share one (K80)."""
    links: tuple[NvLinkPort, ...] = ()
    nvlink_version: int | None = None
    """The enum NVML_NVLINK_VERSION_*, not the number in it."""
    link_mbps: int | None = None
    c2c_links: int = 0
    c2c_mbps: int = 0
    memory_node: int | None = None
    """NUMA node of the GPU's own memory (Grace)."""
    has_pcie_p2p: bool = True
    mig: tuple[str, ...] | None = None
    """UUIDs of its MIG devices; () when MIG is off, None when the product has no MIG."""
    fabric: FabricRegistration | None = None
    platform: TrayPlatform | None = None

    @property
    def slot(self) -> Slot:
        """Its place on the PCI tree."""
        return self.function.slot


@dataclass(frozen=True, slots=True)
class SimulatedNic:
    """One RDMA device with one port.

    `physfn` is the PCI address of the parent of a virtual function.
    """

    name: str
    function: PciFunction
    link_layer: str
    is_active: bool
    node_guid: int
    physfn: str | None = None
    is_management: bool = False
    """Whether it is a bridge to the NVSwitches of an HGX B200 or B300, by its VPD."""
    has_vpd: bool = True
    """Whether the vital product data can be read, which takes root's rights."""

    @property
    def slot(self) -> Slot:
        """Its place on the PCI tree."""
        return self.function.slot


@dataclass(frozen=True, slots=True)
class DataDirectFunction:
    """A Data Direct function of a ConnectX-8.

    `nic` is the name of a NIC of its card, None where nothing says which.
    """

    function: PciFunction
    nic: str | None

    @property
    def slot(self) -> Slot:
        """Its place on the PCI tree."""
        return self.function.slot


@dataclass(frozen=True, slots=True)
class SimulatedNumaNode:
    """One NUMA node; a node that is only memory has no `cpus`.

    `distances` are in the order of node ids.
    """

    id: int
    cpus: frozenset[int]
    package: int
    distances: tuple[int, ...]

    @property
    def cpulist(self) -> str:
        """Its CPUs in the kernel's list format."""
        return format_list(self.cpus)


@dataclass(frozen=True, slots=True)
class Machine:
    """One node's hardware and driver. `gpus` are in NVML's index order."""

    name: str
    driver: str | None
    """Version of the NVIDIA driver; None when unknown: it then has every call."""
    numa_nodes: tuple[SimulatedNumaNode, ...]
    gpus: tuple[SimulatedGpu, ...]
    nics: tuple[SimulatedNic, ...] = ()
    data_direct: tuple[DataDirectFunction, ...] = ()
    nvswitches: tuple[PciFunction, ...] = ()
    description: str = ""
    faults: MachineFaults = field(default_factory=MachineFaults)
    notes: tuple[str, ...] = ()
    """What was assumed where the description of the machine left something open."""
    has_known_nvlinks: bool = True
    """Whether the description says which NVLinks there are.

    Where it does not, a lack of links in `gpus` means nothing.
    """

    @property
    def functions(self) -> tuple[PciFunction, ...]:
        """Every PCI endpoint."""
        functions = [gpu.function for gpu in self.gpus]
        functions += [nic.function for nic in self.nics]
        functions += [direct.function for direct in self.data_direct]
        return (*functions, *self.nvswitches)

    @property
    def cpus(self) -> frozenset[int]:
        """Every CPU."""
        return frozenset().union(*(node.cpus for node in self.numa_nodes))


def ancestor(a: Slot, b: Slot) -> Ancestor:
    """What two places on the PCI tree share, by the legend of `nvidia-smi topo -m`."""
    if a.card == b.card:
        return Ancestor.PIX
    if a.root != b.root:
        share_node = a.numa_node == b.numa_node >= 0
        return Ancestor.NODE if share_node else Ancestor.SYS
    shared = set(a.bridges) & set(b.bridges)
    if not shared:
        return Ancestor.PHB
    for slot in (a, b):
        own = set(slot.bridges) - shared
        if len(own) > 1:
            return Ancestor.PXB
    return Ancestor.PIX


def default_distances(
    packages: dict[int, int], cpuless: Iterable[int] = ()
) -> dict[int, tuple[int, ...]]:
    """ACPI distances of nodes given as id to package.

    They are 10 on the diagonal, 12 within a package, and 20 beyond; 40 is for nodes that are only
    memory, as a GPU's memory is on Grace.
    """
    far = set(cpuless)

    def distance(a: int, b: int) -> int:
        if a == b:
            return 10
        if a in far or b in far:
            return 40
        return 12 if packages[a] == packages[b] else 20

    columns = sorted(packages)
    distances = {}
    for node in packages:
        distances[node] = tuple(distance(node, other) for other in columns)
    return distances


def identity(*parts: object) -> uuid.UUID:
    """A UUID that depends on `parts` only: the same machine has the same serials in every run."""
    text = "/".join(map(str, parts))
    content = text.encode()
    hashed = hashlib.blake2b(content, digest_size=16)
    digest = hashed.digest()
    return uuid.UUID(bytes=digest, version=4)


def with_identity(machine: Machine, name: str) -> Machine:
    """The same hardware under another name.

    GPU UUIDs, serial numbers and NIC GUIDs follow from `name`.
    """
    gpus = []
    for index, gpu in enumerate(machine.gpus):
        serial = gpu.serial
        if serial:
            serial = serial_number(name, index)
        mig = gpu.mig
        if mig:
            mig = mig_uuids(name, index, len(mig))
        renamed = replace(
            gpu,
            uuid=f"GPU-{identity(name, 'gpu', index)}",
            serial=serial,
            mig=mig,
        )
        gpus.append(renamed)

    nics = []
    for nic in machine.nics:
        unique = identity(name, nic.name)
        nics.append(replace(nic, node_guid=unique.int >> 64))

    return replace(
        machine,
        name=name,
        gpus=tuple(gpus),
        nics=tuple(nics),
    )


def mig_uuids(machine: str, gpu: int, count: int) -> tuple[str, ...]:
    """UUIDs of the MIG devices of one of a machine's GPUs."""
    uuids = []
    for number in range(count):
        uuid_of_part = identity(machine, "gpu", gpu, "mig", number)
        uuids.append(f"MIG-{uuid_of_part}")
    return tuple(uuids)


def serial_number(name: str, index: int) -> str:
    """A 13-digit board serial that follows from the machine's name."""
    drawn = identity(name, "serial", index).int
    smallest = 10**12
    return str(smallest + drawn % (9 * smallest))
