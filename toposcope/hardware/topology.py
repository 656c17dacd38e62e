"""The hardware model: a node as understood from the raw answers of NVML and sysfs.

These are named tuples and not frozen dataclasses, because an agent spends its start on imports:
defining these ten as dataclasses took a tenth of it.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from toposcope.hardware.matrix import LinkMatrix
from toposcope.hardware.pci import card, is_address


class Fabric(StrEnum):
    """NVML's fabric registration over all GPUs of a node."""

    COMPLETED = "completed"
    IN_PROGRESS = "in-progress"
    NOT_SUPPORTED = "not-supported"
    FAILED = "failed"


class Interconnect(StrEnum):
    """The best GPU-to-GPU path of a node."""

    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    PCIE = "pcie"
    NONE = "none"


class State(StrEnum):
    """Whether a node's description can be trusted, and whether the node is healthy."""

    OK = "ok"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


class GpuFabric(StrEnum):
    """One GPU's registration with the multi-node NVLink fabric."""

    COMPLETED = "completed"
    IN_PROGRESS = "in-progress"
    NOT_STARTED = "not-started"
    NOT_SUPPORTED = "not-supported"
    """NVML reports this, or "completed" with a cluster UUID of zeros: the GPU is in no fabric."""
    FAILED = "failed"
    """The registration ended with an error, NVML did not answer, or a GPU of an NVLink rack is in
    no fabric."""


class LinkEnd(StrEnum):
    """What is at the far end of an NVLink."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    CPU = "cpu"
    SELF = "self"
    """The GPU itself: the link leads nowhere."""
    UNKNOWN = "unknown"


class LinkState(StrEnum):
    """What NVML says about one NVLink."""

    ACTIVE = "active"
    SLEEP = "sleep"
    """Asleep to save power: it wakes with traffic, and counts as active."""
    DISABLED = "traffic-disabled"
    """Trained, but it carries no traffic."""
    INACTIVE = "inactive"
    UNKNOWN = "unknown"


class Fact(StrEnum):
    """A fact that stays unknown if NVML refuses to answer.

    The labels that depend on it then keep their values.
    """

    NVLINKS = "nvlinks"
    NVLINK_SPEED = "nvlink-speed"
    NVLINK_VERSION = "nvlink-version"
    PATHS = "paths"
    PRODUCT = "product"
    FABRIC = "fabric"


class Platform(NamedTuple):
    """Where a compute tray sits (GB200 and later)."""

    chassis: str
    slot: int
    tray: int
    host: int


class NvLink(NamedTuple):
    """One NVLink of one GPU. A link that is down shows neither its far end nor its speed."""

    link: int
    state: LinkState
    version: str | None
    mbps: int | None
    """Speed in MB/s and direction."""
    remote: LinkEnd | None
    remote_pci: str | None
    """None if the far end has no address on this node (NVSwitches of other trays)."""

    @property
    def is_up(self) -> bool:
        """Whether it can carry traffic."""
        return self.state in (LinkState.ACTIVE, LinkState.SLEEP)

    @property
    def joins(self) -> bool:
        """Whether it is up and leads to another GPU, directly or through a switch.

        Links to the CPU or back to the GPU do not.
        """
        if not self.is_up:
            return False
        return self.remote in (LinkEnd.GPU, LinkEnd.NVSWITCH)


class Registration(NamedTuple):
    """A GPU's place in the fabric, in NVML's numbers, and its unhealthy fields."""

    cluster_uuid: str
    """All zeros: none."""
    clique: int | None
    """The clique for memory access."""
    cliques: tuple[tuple[int, int], ...]
    """All pairs of type and id; drivers before 615 report one."""
    status: int
    """How the registration ended, an NVML error code; 0 is success."""
    health: tuple[str, ...]
    """The fields of the health mask that are unhealthy."""
    summary: str
    """NVML's own verdict: `not-supported`, `healthy`, `unhealthy`, `limited-capacity`."""


class Gpu(NamedTuple):
    """One GPU. None means that neither NVML nor sysfs reports the value."""

    index: int  # type: ignore[assignment]  # NVML's word; the tuple's own method is not used
    pci: str
    """Its PCI address, or its key if it has none: see `address`."""
    uuid: str | None
    product: str | None
    architecture: str | None
    numa: int | None
    """Its CPUs' NUMA node."""
    memory_numa: int | None
    """NUMA node of its own memory (Grace)."""
    module: int | None
    """Place on the baseboard; 0 off one."""
    mig: bool | None
    mig_devices: int | None
    """None: NVML refuses to count them."""
    path: tuple[str, ...]
    """Its PCI path from the root complex down to itself; empty when sysfs does not show it."""
    links: tuple[NvLink, ...]
    links_expected: int
    """Active links that it should have: as many as it had before, or as its board wires."""
    c2c_links: int
    """Active C2C links to its CPU (Grace)."""
    rails: tuple[str, ...]
    """Names of the NICs nearest to it, no further than PXB."""
    fabric: GpuFabric
    registration: Registration | None
    """None when NVML has no fabric information about it."""
    links_known: bool = True
    """False: NVML refused to say how many links there are, the state of one, or where one ends."""

    @property
    def address(self) -> str | None:
        """Its PCI address; None for a GPU that is not on the PCI bus (Jetson)."""
        return self.pci if is_address(self.pci) else None

    @property
    def root(self) -> str | None:
        """Its PCIe root complex, such as `pci0000:15`; None where sysfs shows no path to it."""
        if len(self.path) <= 1:
            return None
        return self.path[0]

    @property
    def links_active(self) -> int:
        """NVLinks that are up, wherever they lead."""
        is_up = [link.is_up for link in self.links]
        return sum(is_up)

    @property
    def links_joining(self) -> int:
        """NVLinks that are up and lead to another GPU, so that a job can use them."""
        joins = [link.joins for link in self.links]
        return sum(joins)

    def links_to(self, gpus: Collection[str]) -> int:
        """The `links_joining` that end in a switch, or at a GPU with one of these addresses.

        A GPU at the far end may be lost, or belong to another VM.
        """
        count = 0
        for link in self.links:
            if link.joins and (link.remote is LinkEnd.NVSWITCH or link.remote_pci in gpus):
                count += 1
        return count

    @property
    def link_mbps(self) -> int | None:
        """Speed of one active link in MB/s and direction, as NVML gives it; 26562 on H100."""
        fastest = None
        for link in self.links:
            if link.is_up and link.mbps:
                fastest = max(link.mbps, fastest or 0)
        return fastest

    @property
    def nvlink_version(self) -> str | None:
        """Generation of the active links."""
        for link in self.links:
            if link.is_up and link.version:
                return link.version
        return None


class Port(NamedTuple):
    """One port of a NIC."""

    number: int
    link_layer: str
    """`InfiniBand` or `Ethernet`; empty if the kernel does not report it."""
    state: str
    """`ACTIVE`, `ARMED`, `INIT`, `DOWN` and the like; empty if the kernel does not report it."""

    @property
    def is_up(self) -> bool:
        """Whether it may carry traffic; an unknown state counts as up."""
        return self.state in ("", "ACTIVE")


class Nic(NamedTuple):
    """One InfiniBand or RoCE device as the kernel names it, with the PCI function it sits on."""

    name: str
    pci: str
    numa: int | None
    guid: str
    path: tuple[str, ...]
    """Its PCI path from the root complex down to itself."""
    ports: tuple[Port, ...]
    parent: str | None = None
    """Address of the physical function that a virtual one belongs to."""
    held: bool = False
    """Whether a pod holds its RDMA device, so that the state of its ports is unknown."""

    @property
    def card(self) -> str:
        """The card whose function it is: the ports of one card are one rail."""
        return card(self.parent or self.pci)

    @property
    def is_down(self) -> bool:
        """Whether it has ports and none of them is up."""
        for port in self.ports:
            if port.is_up:
                return False
        return bool(self.ports)


class DataDirect(NamedTuple):
    """A Data Direct function (ConnectX-8): its NIC's path to the memory of GPUs."""

    pci: str
    numa: int | None
    path: tuple[str, ...]
    """Its PCI path from the root complex down to itself."""
    nics: tuple[str, ...]
    """Names of the NICs of its card; empty: not known."""


class NumaNode(NamedTuple):
    """One NUMA node; memory-only nodes (Grace has 32 of them) have no CPUs."""

    id: int
    cpus: str
    distances: tuple[int, ...]


class PciLevels(NamedTuple):
    """The PCI level of every pair of devices, NVLinks aside, by source.

    None if the source does not report it. Rows and columns as in the link matrix; `nvml` knows GPUs
    only. The link matrix shows NVML's level if there is one, else the level computed from the sysfs
    paths.
    """

    sysfs: tuple[tuple[str | None, ...], ...]
    nvml: tuple[tuple[str | None, ...], ...]


class PathDispute(NamedTuple):
    """A pair of GPUs on whose PCI level NVML and sysfs disagree; the matrix shows NVML's."""

    a: str
    b: str
    nvml: str
    sysfs: str


class NodeFault(NamedTuple):
    """One fault of a node, for programs; `NodeTopology.reasons` says it to people."""

    kind: str
    """One of the agent's `FaultKind`."""
    gpu: int | None
    """NVML's index of the faulty GPU, or the first of two; None if no single GPU is faulty, or NVML
    does not list it."""


class NodeTopology(NamedTuple):
    """Everything that a node's labels and annotation are derived from."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    data_direct: tuple[DataDirect, ...]
    """In the order of their rows in the link matrix: by NIC, those of unknown NICs last."""
    numa: tuple[NumaNode, ...]
    matrix: LinkMatrix
    pci_levels: PciLevels
    nvlink_domains: tuple[tuple[int, ...], ...]
    """GPU positions, largest domain first."""
    interconnect: Interconnect
    nvswitches: int | None
    """Switches seen on the PCI bus or named by the links; None when links end in switches that
    cannot be counted."""
    fabric: Fabric
    clique: str | None
    """`<cluster UUID>.<clique id>`, set exactly when `fabric` is completed."""
    platform: Platform | None
    disputes: tuple[PathDispute, ...]
    shape: str | None
    """None while some NICs are hidden."""
    rail_aligned: bool | None
    """None while it is unknown which NICs are near GPUs."""
    state: State
    reasons: tuple[str, ...]
    """Why `state` is not ok, what is hidden and what NVML refuses to say, one sentence each."""
    faults: tuple[NodeFault, ...] = ()
    """The faults that the first `reasons` describe, in their order; the other reasons are none."""
    unknown: frozenset[Fact] = frozenset()
    """What NVML refused to say."""
    hidden_nics: tuple[str, ...] = ()
    """Addresses of NICs whose RDMA device cannot be seen."""
    nvlinks_read: bool = True
    """False: what follows from NVLinks (domains, interconnect, switches, matrix, shape) is not
    known."""
