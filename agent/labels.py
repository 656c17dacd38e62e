"""From a `NodeTopology` to the labels of the Node: what each means is in the design's table and in docs/labels.md."""

from collections import Counter
from typing import NamedTuple

from topology import keys
from topology.hardware import Fabric, NodeTopology, State
from topology.ranges import kernel_list
from topology.values import is_label_value, label_safe, short_name


class Labels(NamedTuple):
    """What the Node should carry. A key in `unknown` keeps the value it has until the facts are known again."""

    known: dict[str, str]
    unknown: frozenset[str] = frozenset()


ALL = frozenset(
    {
        keys.NVLINK_DOMAIN,
        keys.NVLINK_DOMAIN_SIZE,
        keys.NVLINK_DOMAINS,
        keys.INTERCONNECT,
        keys.NVLINK_VERSION,
        keys.NVLINK_LINKS,
        keys.NVLINK_BANDWIDTH,
        keys.NVSWITCHES,
        keys.GPUS,
        keys.GPU_PRODUCT,
        keys.NUMA_NODES,
        keys.GPUS_PER_NUMA,
        keys.RAIL_ALIGNED,
        keys.SHAPE,
        keys.FABRIC,
        keys.CHASSIS,
        keys.TRAY,
        keys.SLOT,
        keys.STATE,
    }
)
"""Every label that an agent can write."""

NOTHING_KNOWN = Labels({keys.STATE: State.UNKNOWN}, ALL - {keys.STATE})
"""NVML did not answer: whatever the Node says stands, and `state` says that nobody can vouch for it."""

NO_GPUS = Labels({})
"""NVML and the PCI bus agree that there is none: the Node carries no label of ours."""


def labels_for(topology: NodeTopology, node_name: str) -> Labels:
    """The labels of a node with at least one GPU. Values that no label can hold are left out."""
    largest = topology.nvlink_domains[0]
    known = {
        keys.GPUS: str(len(topology.gpus)),
        keys.NVLINK_DOMAIN_SIZE: str(len(largest)),
        keys.NVLINK_DOMAINS: str(len(topology.nvlink_domains)),
        keys.INTERCONNECT: topology.interconnect,
        keys.RAIL_ALIGNED: "true" if topology.rail_aligned else "false",
        keys.SHAPE: topology.shape,
        keys.FABRIC: topology.fabric,
        keys.STATE: topology.state,
        **_nvlink(topology, largest),
        **_numa(topology),
    }
    product = label_safe(_products(topology))
    if product:
        known[keys.GPU_PRODUCT] = product
    if topology.platform:
        known[keys.CHASSIS] = topology.platform.chassis
        known[keys.TRAY] = str(topology.platform.tray)
        known[keys.SLOT] = str(topology.platform.slot)
    unknown = set()
    if topology.fabric is Fabric.IN_PROGRESS:
        unknown.add(keys.NVLINK_DOMAIN)
    else:
        # Where NVLink ends at the node, the node is its own domain: so every GPU node carries the level.
        known[keys.NVLINK_DOMAIN] = topology.clique or short_name(node_name)
    return Labels({key: value for key, value in known.items() if is_label_value(value)}, frozenset(unknown))


def _nvlink(topology: NodeTopology, largest: tuple[int, ...]) -> dict[str, str]:
    """What a job on the largest NVLink domain can count on: the weakest of its GPUs."""
    members = [topology.gpus[position] for position in largest]
    links = min(gpu.links_active for gpu in members)
    labels = {keys.NVLINK_LINKS: str(links)}
    if topology.nvswitches is not None:
        labels[keys.NVSWITCHES] = str(topology.nvswitches)
    speeds = [gpu.link_mbps for gpu in members if gpu.link_mbps]
    if links and speeds:
        labels[keys.NVLINK_BANDWIDTH] = str(links * min(speeds) // 1000)
    versions = sorted(gpu.nvlink_version for gpu in members if gpu.nvlink_version)
    if links and versions:
        labels[keys.NVLINK_VERSION] = versions[0]
    return labels


def _numa(topology: NodeTopology) -> dict[str, str]:
    """NUMA nodes with CPUs, and the GPUs on each; the second only when every GPU's node is known."""
    with_cpus = [node.id for node in topology.numa if kernel_list(node.cpus)]
    if not with_cpus:
        return {}
    labels = {keys.NUMA_NODES: str(len(with_cpus))}
    # On a machine with one node there is no other place for a device whose place the firmware does not tell.
    only = with_cpus[0] if len(with_cpus) == 1 else None
    count = Counter(only if gpu.numa is None else gpu.numa for gpu in topology.gpus)
    if set(count) <= set(with_cpus):
        labels[keys.GPUS_PER_NUMA] = "-".join(str(count[node]) for node in with_cpus)
    return labels


def _products(topology: NodeTopology) -> str:
    """The product that most GPUs of the node are; nodes with several are rare, and one label holds one value."""
    names = Counter(gpu.product for gpu in topology.gpus if gpu.product)
    return max(names, key=names.__getitem__, default="")
