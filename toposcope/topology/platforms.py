"""The label keys that platforms are known to write, by domain, and those that are easily taken for one of them.

Sources: the platforms' documentation and the code that writes the labels. Left out on purpose: keys of the machine
under a virtual one (`cloud.google.com/gce-topology-host`, `oci.oraclecloud.com/rdma.host_id`), which say what the host
level says; fault domains of Azure, which say what fails together and not what is near; anything that is renumbered.
"""

from collections.abc import Mapping
from typing import Final

from toposcope.api.label_keys import HOSTNAME, LEAF, LEAF_GROUP, NVLINK_DOMAIN

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    "zone": (
        "topology.kubernetes.io/zone",
        "topology.k8s.aws/zone-id",
        "topology.gpustack.ai/zone",
        "failure-domain.beta.kubernetes.io/zone",
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
    # The leaves of a rail-optimised fabric together: a node has one in each.
    "leaf-group": (LEAF_GROUP,),
    "leaf": (
        "topology.k8s.aws/network-node-layer-3",
        "oci.oraclecloud.com/rdma.local_block_id",
        "backend.coreweave.cloud/leafgroup",
        "ib.coreweave.cloud/leafgroup",
        "topology.nebius.com/tier-1",
        "crusoe.ai/pod.id",
        "fabric.topograph.run/tier-0",
        # After those who know the tiers above too, so that all tiers come from one source.
        LEAF,
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
        "topology.gpustack.ai/accelerator-domain",
        "xclr.topology.nvidia.com/domain",
        "network.topology.nvidia.com/accelerator",
    ),
    # A part of a fabric that Topograph finds on OCI; where our own domain is known it is mostly the same.
    "nvlink-partition": ("accelerator.topograph.run/sub-domain", "xclr.topology.nvidia.com/sub-domain"),
    "host": (HOSTNAME,),
}
"""Domains, broadest first, to the keys that can carry each, preferred first.

The order is written down because it cannot be computed: AWS counts its layers from the farthest, Topograph from the
nearest, and real racks may span blocks, so neither a number in a key nor containment of values decides.
"""

_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"

PLACEHOLDERS: Final = frozenset({"no-topology", "", _NO_FABRIC, *(f"{_NO_FABRIC}.{i}" for i in (0, 1, 32766))})
"""Values that say "unknown": taken as a domain they put strangers into one.

Topograph writes the first; an HGX board without multi-node NVLink may report an all-zero cluster UUID with any of the
clique ids seen in the field.
"""

RETIRED: Final[Mapping[str, tuple[str, str]]] = {
    "failure-domain.beta.kubernetes.io/region": ("topology.kubernetes.io/region", "Kubernetes before 1.17"),
    "failure-domain.beta.kubernetes.io/zone": ("topology.kubernetes.io/zone", "Kubernetes before 1.17"),
    "ib.coreweave.cloud/fabric": ("backend.coreweave.cloud/fabric", "an older CoreWeave"),
    "ib.coreweave.cloud/superpod": ("backend.coreweave.cloud/superpod", "an older CoreWeave"),
    "ib.coreweave.cloud/leafgroup": ("backend.coreweave.cloud/leafgroup", "an older CoreWeave"),
    "oci.oraclecloud.com/host.network_block_id": ("oci.oraclecloud.com/rdma.network_block_id", "an older OKE"),
    "network.topology.nvidia.com/tier-0": ("fabric.topograph.run/tier-0", "a Topograph pre-release"),
    "network.topology.nvidia.com/tier-1": ("fabric.topograph.run/tier-1", "a Topograph pre-release"),
    "network.topology.nvidia.com/tier-2": ("fabric.topograph.run/tier-2", "a Topograph pre-release"),
    "network.topology.nvidia.com/tier-3": ("fabric.topograph.run/tier-3", "a Topograph pre-release"),
    "xclr.topology.nvidia.com/domain": ("accelerator.topograph.run/domain", "a Topograph pre-release"),
    "xclr.topology.nvidia.com/sub-domain": ("accelerator.topograph.run/sub-domain", "a Topograph pre-release"),
    "network.topology.nvidia.com/core": ("fabric.topograph.run/tier-2", "Topograph 0.3 to 0.5"),
    "network.topology.nvidia.com/spine": ("fabric.topograph.run/tier-1", "Topograph 0.1 to 0.5"),
    "network.topology.nvidia.com/leaf": ("fabric.topograph.run/tier-0", "Topograph 0.3 to 0.5"),
    "network.topology.nvidia.com/accelerator": ("accelerator.topograph.run/domain", "Topograph 0.1 to 0.5"),
    "network.topology.nvidia.com/datacenter": ("fabric.topograph.run/tier-2", "Topograph 0.1"),
    "network.topology.nvidia.com/block": ("fabric.topograph.run/tier-0", "Topograph 0.1"),
}
"""Keys that still say where a node is, to their successor and their writer, whose later versions leave them behind."""

MISTAKEN: Final[Mapping[str, tuple[str, str]]] = {
    "nvidia.com/gpu-clique": ("nvidia.com/gpu.clique", "nothing writes it"),
    "fabric.topograph.run/leaf": ("fabric.topograph.run/tier-0", "Topograph counts its tiers from the node up"),
    "fabric.topograph.run/spine": ("fabric.topograph.run/tier-1", "Topograph counts its tiers from the node up"),
    "fabric.topograph.run/core": ("fabric.topograph.run/tier-2", "Topograph counts its tiers from the node up"),
    "kubernetes.io/zone": ("topology.kubernetes.io/zone", "no platform writes it"),
    "kubernetes.io/region": ("topology.kubernetes.io/region", "no platform writes it"),
    "hostname": (HOSTNAME, "no kubelet writes it"),
    "topology.kubernetes.io/hostname": (HOSTNAME, "no kubelet writes it"),
    "backend.coreweave.cloud/leafgroup-name": ("backend.coreweave.cloud/leafgroup", "it is a name for people"),
    "topology.k8s.aws/capacity-block-id": ("topology.k8s.aws/ultraserver-id", "it is a reservation and no place"),
}
"""Keys that are not levels, to the key that was meant, and why."""

_YOURS: Final = "no platform writes it; if you do, give it the domain {!r} in the controller's --config FILE"

UNKNOWN: Final[Mapping[str, str]] = {
    **{f"topology.kubernetes.io/{name}": _YOURS.format(name) for name in ("datacenter", "block", "leaf", "rack")},
    **{f"kubernetes.io/{name}": _YOURS.format(name) for name in ("datacenter", "block", "rack")},
    "topology.kubernetes.io/spine": _YOURS.format("block"),
    "ib/torset": "its values are renumbered whenever the job that writes them runs",
}
"""Keys that look like a level, without one that could have been meant, and what to do about them."""
