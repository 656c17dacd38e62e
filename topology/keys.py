"""The label and annotation keys that Toposcope owns, and the few foreign ones it reads by name.

Every key under `PREFIX` is written by the agent of the node that carries it and by nobody else.
"""

from typing import Final

PREFIX: Final = "gpu.topology/"

NVLINK_DOMAIN: Final = PREFIX + "nvlink-domain"
NVLINK_DOMAIN_SIZE: Final = PREFIX + "nvlink-domain-size"
NVLINK_DOMAINS: Final = PREFIX + "nvlink-domains"
INTERCONNECT: Final = PREFIX + "interconnect"
NVLINK_VERSION: Final = PREFIX + "nvlink-version"
NVLINK_LINKS: Final = PREFIX + "nvlink-links"
NVLINK_BANDWIDTH: Final = PREFIX + "nvlink-bandwidth"
NVSWITCHES: Final = PREFIX + "nvswitches"
GPUS: Final = PREFIX + "gpus"
GPU_PRODUCT: Final = PREFIX + "gpu-product"
NUMA_NODES: Final = PREFIX + "numa-nodes"
GPUS_PER_NUMA: Final = PREFIX + "gpus-per-numa"
RAIL_ALIGNED: Final = PREFIX + "rail-aligned"
SHAPE: Final = PREFIX + "shape"
FABRIC: Final = PREFIX + "fabric"
CHASSIS: Final = PREFIX + "chassis"
TRAY: Final = PREFIX + "tray"
SLOT: Final = PREFIX + "slot"
STATE: Final = PREFIX + "state"

MATRIX: Final = PREFIX + "matrix"
"""Annotation: the node's devices, link matrix and reasons as compact JSON (see `agent.annotation`)."""

REFERENCE: Final = PREFIX + "reference"
"""Annotation: the best that the node has shown (see `agent.reference`)."""

HOSTNAME: Final = "kubernetes.io/hostname"
ALLOCATABLE_GPUS: Final = "nvidia.com/gpu"
"""Resource name under which the NVIDIA device plugin offers whole GPUs."""
GPU_PRESENT: Final = "nvidia.com/gpu.present"
"""Label that GPU Feature Discovery and the GPU operator put on nodes with NVIDIA GPUs."""
