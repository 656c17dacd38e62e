"""The label keys that platforms put on nodes to say where a node is, and the order of what they mean.

The order is written down because it cannot be computed: AWS counts its layers from the farthest, Topograph from the
nearest, and real racks may span blocks, so neither a number in a key nor containment of values decides.
"""

from collections.abc import Container
from typing import Final

from topology.keys import HOSTNAME, NVLINK_DOMAIN
from topology.levels import Level

DOMAINS: Final = ("region", "zone", "datacenter", "fabric", "block", "leaf", "rack", "nvlink-domain", "host")
"""Every domain that inference can name, broadest first."""

CATALOGUE: Final[dict[str, tuple[str, ...]]] = {
    "region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    "zone": (
        "topology.kubernetes.io/zone",
        "topology.k8s.aws/zone-id",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.gpustack.ai/zone",
    ),
    "datacenter": (
        "fabric.topograph.run/tier-3",
        "network.topology.nvidia.com/tier-3",
        "network.topology.nvidia.com/datacenter",
    ),
    "fabric": (
        "topology.k8s.aws/network-node-layer-1",
        "oci.oraclecloud.com/rdma.hpc_island_id",
        "backend.coreweave.cloud/fabric",
        "ib.coreweave.cloud/fabric",
        "topology.nebius.com/gpu-cluster-id",
        "crusoe.ai/ib.partition.id",
        "fabric.topograph.run/tier-2",
        "network.topology.nvidia.com/tier-2",
        "network.topology.nvidia.com/core",
    ),
    "block": (
        "topology.k8s.aws/network-node-layer-2",
        "cloud.google.com/gce-topology-block",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/host.network_block_id",
        "backend.coreweave.cloud/superpod",
        "ib.coreweave.cloud/superpod",
        "topology.nebius.com/tier-2",
        "fabric.topograph.run/tier-1",
        "network.topology.nvidia.com/tier-1",
        "network.topology.nvidia.com/spine",
        "cloud.provider.com/topology-block",
    ),
    "leaf": (
        "topology.k8s.aws/network-node-layer-3",
        "oci.oraclecloud.com/rdma.local_block_id",
        "backend.coreweave.cloud/leafgroup",
        "ib.coreweave.cloud/leafgroup",
        "topology.nebius.com/tier-1",
        "crusoe.ai/pod.id",
        "fabric.topograph.run/tier-0",
        "network.topology.nvidia.com/tier-0",
        "network.topology.nvidia.com/leaf",
        "network.topology.nvidia.com/block",
    ),
    "rack": (
        "topology.k8s.aws/network-node-layer-4",
        "cloud.google.com/gce-topology-subblock",
        "oci.oraclecloud.com/host.rack_id",
        "node.coreweave.cloud/rack",
        "topology.nebius.com/tier-0",
        "topology.gpustack.ai/rack",
        "cloud.provider.com/topology-rack",
    ),
    # Ours first: every GPU node carries it, also where NVLink ends at the node.
    "nvlink-domain": (
        NVLINK_DOMAIN,
        "nvidia.com/gpu.clique",
        "ds.coreweave.com/nvlink.domain",
        "topology.k8s.aws/ultraserver-id",
        "oci.oraclecloud.com/host.gpu_memory_fabric_id",
        "accelerator.topograph.run/domain",
        "topology.nebius.com/nvl-instance-group-id",
        "network.topology.nvidia.com/accelerator",
        "topology.gpustack.ai/accelerator-domain",
    ),
    "host": (HOSTNAME,),
}
"""Domain to the keys that can carry it, preferred first."""

KEYS: Final = frozenset(key for keys in CATALOGUE.values() for key in keys)

PLACEHOLDERS: Final = frozenset({"no-topology", ""})
"""Values that say "unknown" (Topograph writes the first): taken as a domain they put strangers into one."""


def infer_levels(full: Container[str]) -> tuple[Level, ...]:
    """The levels of a cluster whose nodes all carry the keys in `full`: one key per domain, broadest first."""
    levels: list[Level] = []
    for domain in DOMAINS:
        key = next((key for key in CATALOGUE[domain] if key in full), None)
        if key is not None:
            levels.append(Level(domain, key))
    return tuple(levels)
