"""The label and annotation keys that Toposcope owns, and the few foreign ones it reads by name.

Only the agent of the node that carries them writes keys under `PREFIX`; `SWITCHES` is written by
`toposcope switches` there. docs/labels.md is generated from the texts below (`tools.docgen`).
"""

from typing import Final

PREFIX: Final = "gpu.topology/"

NVLINK_DOMAIN: Final = PREFIX + "nvlink-domain"
"""The scheduling level: `<cluster UUID>.<clique id>` where NVLink leaves the node (GB200 NVL72),
else the node's own name (with a hash when it is longer than 63 characters)."""
NVLINK_DOMAIN_SIZE: Final = PREFIX + "nvlink-domain-size"
"""GPUs in the node's largest NVLink domain, counted on this node."""
NVLINK_DOMAINS: Final = PREFIX + "nvlink-domains"
"""NVLink domains on this node; a GPU without NVLink is one by itself."""
INTERCONNECT: Final = PREFIX + "interconnect"
"""Best GPU-to-GPU path: `nvswitch`, `nvlink`, `pcie`, `none` (one GPU)."""
NVLINK_VERSION: Final = PREFIX + "nvlink-version"
"""NVLink generation of the active links."""
NVLINK_LINKS: Final = PREFIX + "nvlink-links"
"""Active links of each GPU in the largest domain to other GPUs, directly or through switches;
the weakest GPU counts. Links to the CPU, back to the GPU itself, or to a GPU that NVML does not
list (lost, or another VM's) do not."""
NVLINK_BANDWIDTH: Final = PREFIX + "nvlink-bandwidth"
"""Bandwidth of those links, GB/s per GPU and direction."""
NVSWITCHES: Final = PREFIX + "nvswitches"
"""NVSwitches on the PCI bus or named by links; omitted if they are outside the node."""
GPUS: Final = PREFIX + "gpus"
"""GPUs that NVML sees; a GPU with MIG instances counts as one."""
GPU_PRODUCT: Final = PREFIX + "gpu-product"
"""Product, written as in `nvidia.com/gpu.product`."""
NUMA_NODES: Final = PREFIX + "numa-nodes"
"""NUMA nodes that have CPUs."""
GPUS_PER_NUMA: Final = PREFIX + "gpus-per-numa"
"""GPUs on each of them, in their order; left out when a GPU's node is not known."""
RAIL_ALIGNED: Final = PREFIX + "rail-aligned"
"""`true`: every GPU can have a NIC card of its own no further than PXB. A port that is down does
not count, nor does Ethernet where as many GPUs have InfiniBand near them."""
SHAPE: Final = PREFIX + "shape"
"""Equal shape, equal wiring: a hash of link matrix and NUMA layout that does not depend on the
order of devices."""
FABRIC: Final = PREFIX + "fabric"
"""Fabric registration over all GPUs: `completed`, `in-progress`, `not-supported`, `failed`."""
CHASSIS: Final = PREFIX + "chassis"
"""Serial number of the chassis that a compute tray sits in (GB200 and later)."""
TRAY: Final = PREFIX + "tray"
"""Which tray of the chassis it is (GB200 and later)."""
SLOT: Final = PREFIX + "slot"
"""Which slot of the chassis it sits in (GB200 and later)."""
LEAF: Final = PREFIX + "leaf"
"""The switch in which all rails of the node end, as seen by `toposcope switches`."""
LEAF_GROUP: Final = PREFIX + "leaf-group"
"""The switches of the rails if there are several: equal for nodes with the same set, one scalable
unit."""
STATE: Final = PREFIX + "state"
"""`ok`. `degraded`: fewer GPUs or links or worse paths than this node has shown before, fewer
links than its board wires, or an unhealthy fabric, unless that was accepted. `unknown`: the
hardware does not answer, and the other labels are stale."""

MATRIX: Final = PREFIX + "matrix"
"""The node's devices, link matrix and reasons for a degraded state, as compact JSON."""

SWITCHES: Final = PREFIX + "switches"
"""The neighbour of each NIC's port, as the component `toposcope switches` sees it, as compact
JSON; where the cable is in the wrong switch, also the expected one."""

RAILS: Final = PREFIX + "rails"
"""NIC, switch and port of each rail, in rail order, as compact JSON; null where the neighbour is
not known."""

REFERENCE: Final = PREFIX + "reference"
"""The best state that the node has shown, and the faults that were accepted: the baseline for
`degraded`."""

HOSTNAME: Final = "kubernetes.io/hostname"
ALLOCATABLE_GPUS: Final = "nvidia.com/gpu"
"""Resource name under which the NVIDIA device plugin offers whole GPUs."""
GPU_COUNT: Final = "nvidia.com/gpu.count"
GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""Labels that GPU Feature Discovery and the GPU operator put on nodes with NVIDIA GPUs."""

SLINKY: Final = "topology.slinky.slurm.net/spec"
"""Annotation that Slinky's operators copy to the Slurm node."""
SLINKY_KEPT: Final = f"annotation:{SLINKY}"
"""Its place among the labels that are kept of a node; no label can have this key."""


UNIQUE: Final = PREFIX + "unique-"
"""The values of all levels down to this one: unique even where names are reused. Only with
`--unique-values`, where a ClusterTopology lists the level in `spec.uniqueValues`."""


def unique_key(domain: str) -> str:
    """The label whose value alone tells a level's domains apart: `gpu.topology/unique-rack`."""
    return UNIQUE + domain


def is_own_input(key: str) -> bool:
    """Whether agents write the label because of a ClusterTopology, whose level it can't be."""
    return key.startswith(UNIQUE)
