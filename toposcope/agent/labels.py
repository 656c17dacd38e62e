"""From a `NodeTopology` to the labels of the Node, whose meanings are in docs/labels.md."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from toposcope.api import label_keys
from toposcope.api.label_values import is_label_value, label_safe, short_name
from toposcope.hardware.ranges import kernel_list
from toposcope.hardware.topology import Fabric, Fact, Gpu, NodeTopology, State


class Labels(NamedTuple):
    """What the Node should carry.

    A key in `unknown` keeps its value until the facts are known again.
    """

    by_key: dict[str, str]
    unknown: frozenset[str] = frozenset()


ALL = frozenset(
    {
        label_keys.NVLINK_DOMAIN,
        label_keys.NVLINK_DOMAIN_SIZE,
        label_keys.NVLINK_DOMAINS,
        label_keys.INTERCONNECT,
        label_keys.NVLINK_VERSION,
        label_keys.NVLINK_LINKS,
        label_keys.NVLINK_BANDWIDTH,
        label_keys.NVSWITCHES,
        label_keys.GPUS,
        label_keys.GPU_PRODUCT,
        label_keys.NUMA_NODES,
        label_keys.GPUS_PER_NUMA,
        label_keys.RAIL_ALIGNED,
        label_keys.SHAPE,
        label_keys.FABRIC,
        label_keys.CHASSIS,
        label_keys.TRAY,
        label_keys.SLOT,
        label_keys.LEAF,
        label_keys.LEAF_GROUP,
        label_keys.STATE,
    }
)
"""Every label that an agent can write."""

NOTHING_KNOWN = Labels({label_keys.STATE: State.UNKNOWN}, ALL - {label_keys.STATE})
"""NVML did not answer: the Node keeps its labels, and `state` says that they are not verified."""

NO_GPUS = Labels({})
"""NVML and the PCI bus agree that there are no GPUs: the Node carries no label of ours."""


_ABOUT_NVLINKS = frozenset(
    {
        label_keys.NVLINK_DOMAIN_SIZE,
        label_keys.NVLINK_DOMAINS,
        label_keys.INTERCONNECT,
        label_keys.NVLINK_VERSION,
        label_keys.NVLINK_LINKS,
        label_keys.NVLINK_BANDWIDTH,
        label_keys.NVSWITCHES,
        label_keys.SHAPE,
    }
)
_BY_FACT = {
    Fact.NVLINKS: _ABOUT_NVLINKS,
    Fact.NVLINK_SPEED: frozenset({label_keys.NVLINK_BANDWIDTH}),
    Fact.NVLINK_VERSION: frozenset({label_keys.NVLINK_VERSION}),
    Fact.PATHS: frozenset({label_keys.SHAPE}),
    Fact.PRODUCT: frozenset({label_keys.GPU_PRODUCT}),
    Fact.FABRIC: frozenset({label_keys.NVLINK_DOMAIN}),
}
"""The labels that depend on a fact: they keep their values while NVML refuses to say it."""
_KNOWN_OF_ONE_GPU = frozenset(
    {label_keys.INTERCONNECT, label_keys.NVLINK_DOMAIN_SIZE, label_keys.NVLINK_DOMAINS}
)
"""Whatever its links: one GPU reaches no other."""


def labels_for(topology: NodeTopology, node_name: str) -> Labels:
    """The labels of a node with at least one GPU. Values that no label can hold are left out."""
    values = {
        label_keys.GPUS: str(len(topology.gpus)),
        label_keys.FABRIC: topology.fabric,
        label_keys.STATE: topology.state,
        label_keys.NVLINK_DOMAIN: topology.clique or short_name(node_name),
        label_keys.SHAPE: topology.shape or "",
        label_keys.RAIL_ALIGNED: "true" if topology.rail_aligned else "false",
        **_nvlink(topology),
        **_numa(topology),
        **_place(topology),
    }
    product = _most_frequent_product(topology)
    if product:
        values[label_keys.GPU_PRODUCT] = product
    unknown = _unknown(topology)
    known = {
        key: value for key, value in values.items() if key not in unknown and is_label_value(value)
    }
    return Labels(known, unknown)


def _unknown(topology: NodeTopology) -> frozenset[str]:
    """The labels whose facts are not known at the moment."""
    unknown = set()
    # Where NVLink ends at the node, the node is its own domain: so every GPU node carries the
    # level, unless it still registers with a fabric.
    if topology.fabric is Fabric.IN_PROGRESS:
        unknown.add(label_keys.NVLINK_DOMAIN)
    if topology.shape is None:
        unknown.add(label_keys.SHAPE)
    if topology.rail_aligned is None:
        unknown.add(label_keys.RAIL_ALIGNED)
    for fact in topology.unknown:
        unknown |= _BY_FACT[fact]
    if len(topology.gpus) == 1:
        unknown -= _KNOWN_OF_ONE_GPU
    return frozenset(unknown)


def _most_frequent_product(topology: NodeTopology) -> str | None:
    """Nodes with several products are rare, and one label holds one value: that of most GPUs."""
    products = Counter(gpu.product for gpu in topology.gpus if gpu.product)
    if not products:
        return None
    return label_safe(max(products, key=products.__getitem__))


def _place(topology: NodeTopology) -> dict[str, str]:
    platform = topology.platform
    if platform is None:
        return {}
    return {
        label_keys.CHASSIS: platform.chassis,
        label_keys.TRAY: str(platform.tray),
        label_keys.SLOT: str(platform.slot),
    }


def _nvlink(topology: NodeTopology) -> dict[str, str]:
    """What a job on the largest NVLink domain can count on.

    The weakest of its GPUs, and links between GPUs only.
    """
    largest = topology.nvlink_domains[0]
    members = [topology.gpus[position] for position in largest]
    node_gpus = {gpu.pci for gpu in topology.gpus}
    links = min(gpu.links_to(node_gpus) for gpu in members)
    labels = {
        label_keys.NVLINK_DOMAIN_SIZE: str(len(largest)),
        label_keys.NVLINK_DOMAINS: str(len(topology.nvlink_domains)),
        label_keys.INTERCONNECT: topology.interconnect,
        label_keys.NVLINK_LINKS: str(links),
    }
    if topology.nvswitches is not None:
        labels[label_keys.NVSWITCHES] = str(topology.nvswitches)
    if links:
        labels.update(_of_weakest_links(members, links))
    return labels


def _of_weakest_links(members: Sequence[Gpu], links: int) -> dict[str, str]:
    speeds, versions = [], []
    for gpu in members:
        if gpu.link_mbps:
            speeds.append(gpu.link_mbps)
        if gpu.nvlink_version:
            versions.append(gpu.nvlink_version)
    labels = {}
    if speeds:
        labels[label_keys.NVLINK_BANDWIDTH] = str(links * min(speeds) // 1000)
    if versions:
        labels[label_keys.NVLINK_VERSION] = min(versions)
    return labels


def _numa(topology: NodeTopology) -> dict[str, str]:
    """NUMA nodes with CPUs, and the GPUs on each.

    The second only when every GPU's node is known.
    """
    gpus_on: dict[int | None, int] = {}
    for node in topology.numa:
        if kernel_list(node.cpus):
            gpus_on[node.id] = 0
    if not gpus_on:
        return {}
    labels = {label_keys.NUMA_NODES: str(len(gpus_on))}
    for gpu in topology.gpus:
        if gpu.numa not in gpus_on:
            return labels
        gpus_on[gpu.numa] += 1
    counts = [str(count) for count in gpus_on.values()]
    labels[label_keys.GPUS_PER_NUMA] = "-".join(counts)
    return labels
