"""The hardware model: what a node is, once the raw answers of NVML and sysfs have been understood."""

from dataclasses import dataclass
from enum import StrEnum

from topology.matrix import LinkMatrix


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
    """How far a node's description can be trusted, and whether the node is whole."""

    OK = "ok"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a compute tray sits (GB200 and later)."""

    chassis: str
    slot: int
    tray: int
    host: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. None means that neither NVML nor sysfs told."""

    index: int
    pci: str
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
    mig_devices: int
    links_active: int
    links_total: int
    link_mbps: int | None
    """Speed of one active link in MB/s and direction, as NVML gives it; 26562 on H100."""
    nvlink_version: str | None
    c2c_links: int
    """Active C2C links to its CPU (Grace)."""
    rails: tuple[str, ...]
    """Names of the NICs nearest to it, no further than PXB."""
    fabric_health: tuple[str, ...]
    """What its fabric health mask says is bad, by field name."""


@dataclass(frozen=True, slots=True)
class Nic:
    """One InfiniBand or RoCE device as the kernel names it, with the PCI function it sits on."""

    name: str
    pci: str
    numa: int | None
    guid: str
    link_layer: str | None
    active: bool
    """Whether one of its ports is up."""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node; memory-only nodes (Grace has 32 of them) have no CPUs."""

    id: int
    cpus: str
    distances: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PathDispute:
    """A pair of GPUs whose PCI level NVML and sysfs name differently; the matrix shows NVML's."""

    a: str
    b: str
    nvml: str
    sysfs: str


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """Everything that a node's labels and annotation are made of."""

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    numa: tuple[NumaNode, ...]
    matrix: LinkMatrix
    nvlink_domains: tuple[tuple[int, ...], ...]
    """GPU positions, largest domain first."""
    interconnect: Interconnect
    nvswitches: int | None
    """Switches seen on the PCI bus or named by the links; None when links end in switches nobody can count."""
    fabric: Fabric
    clique: str | None
    """`<cluster UUID>.<clique id>`, set exactly when `fabric` is completed."""
    platform: Platform | None
    disputes: tuple[PathDispute, ...]
    shape: str
    rail_aligned: bool
    state: State
    reasons: tuple[str, ...]
    """Why `state` is not ok, in plain words, one sentence each."""
