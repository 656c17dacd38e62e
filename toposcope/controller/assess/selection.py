"""Which nodes a topology selects, and which topologies share nodes: pure.

Nodes that are alike in the labels that a selector names are asked once. Topologies may share nodes:
each is published under its own name, so nothing conflicts. But a scheduler that counts a node's
GPUs in two topologies may promise them twice, and a workload that names no topology is asked of
each; so both sides say so.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, compress
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SELECTORS_DISJOINT, Condition
from toposcope.hierarchy.table import Table, table_of

_MOST_NAMED_TOPOLOGIES: Final = 5
"""How many other topologies a message names."""

Overlaps = Mapping[str, int]
"""Other topologies by name, and the number of nodes shared with each; at least one."""


def selected(topology: Topology, nodes: Table) -> Table:
    """The topology's nodes; the same table if it selects all of them."""
    choice = _choice(topology, nodes)
    if choice is None:
        return nodes
    chosen = compress(nodes, choice)
    return table_of(chosen, nodes.placeholders)


def _mask(topology: Topology, nodes: Table) -> int:
    """The selected nodes as a number with one byte per node, so that `&` intersects two.

    The byte is 1 if the node is selected.
    """
    choice = _choice(topology, nodes)
    if choice is None:
        everything = b"\1" * len(nodes)
        return int.from_bytes(everything)
    return int.from_bytes(bytes(choice))


def _choice(topology: Topology, nodes: Table) -> Iterable[bool] | None:
    """For each node whether it is selected; None: all are."""
    if not topology.selector:
        return None
    table = _with_exact_labels(topology, nodes)
    values_of_groups = _selected_by(topology, table)
    examples = dict(zip(values_of_groups, table.groups, strict=True))
    chosen = set()
    for values, group in examples.items():
        if topology.selects(group):
            chosen.add(values)
    if len(chosen) == len(examples):
        return None
    choice_of_groups = [values in chosen for values in values_of_groups]
    # One look-up for each of many nodes, without a Python frame.
    return map(choice_of_groups.__getitem__, table.group_of_node)


def _with_exact_labels(topology: Topology, nodes: Table) -> Table:
    """The table with nodes apart whose own values the selector names."""
    keys: list[str] = []
    values: list[str] = []
    for requirement in topology.selector:
        if requirement.values:
            keys.append(requirement.key)
            values += requirement.values
    return nodes.expanded_for_labels(keys, values)


def _selected_by(topology: Topology, table: Table) -> list[Any]:
    """The values that each group has of the labels that the selector names."""
    columns = []
    for requirement in topology.selector:
        columns.append(table.labels(requirement.key))
    if len(columns) == 1:
        return columns[0]
    return list(zip(*columns, strict=True))


def overlaps(topologies: Sequence[Topology], nodes: Table) -> dict[str, Overlaps]:
    """What each topology shares with the others, by its name.

    Sharing with the topologies of its own segments is intended.
    """
    shared_with: dict[str, dict[str, int]] = {}
    masks: dict[str, int] = {}
    for topology in topologies:
        shared_with[topology.name] = {}
        if len(topologies) > 1:
            masks[topology.name] = _mask(topology, nodes)
    for topology, other_topology in combinations(topologies, 2):
        if topology.uid == other_topology.owner or other_topology.uid == topology.owner:
            continue
        name = topology.name
        other_name = other_topology.name
        common = masks[name] & masks[other_name]
        shared = common.bit_count()
        if shared:
            shared_with[name][other_name] = shared
            shared_with[other_name][name] = shared
    return dict(shared_with)


def disjoint_condition(shared: Overlaps, nodes: int) -> Condition:
    """The condition of one topology with `nodes` nodes."""
    if not shared:
        text = "No other ClusterTopology selects these nodes"
        return Condition(SELECTORS_DISJOINT, "True", "NoSharedNodes", text)
    text = (
        f"Other ClusterTopologies select these nodes too: {_most_shared(shared, nodes)}; "
        "each is published under its own name, and workloads must name the one they mean; "
        "unless this is intended, make the node selectors disjoint"
    )
    return Condition(SELECTORS_DISJOINT, "False", "NodesShared", text)


def _most_shared(shared: Overlaps, nodes: int) -> str:
    """The topologies that select most of these nodes."""
    by_count = sorted(shared.items(), key=_most_nodes_first)
    first_ones = by_count[:_MOST_NAMED_TOPOLOGIES]
    texts = []
    for name, count in first_ones:
        texts.append(f"{name!r} {count} of {nodes}")
    text = ", ".join(texts)
    more = len(by_count) - len(texts)
    if more:
        text += f" and {more} more"
    return text


def _most_nodes_first(entry: tuple[str, int]) -> tuple[int, str]:
    name, count = entry
    return -count, name
