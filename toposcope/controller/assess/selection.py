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
from toposcope.text import plural

_MOST_NAMED: Final = 5
"""How many other topologies a message names."""

Overlaps = Mapping[str, int]
"""Other topologies by name, and the number of nodes shared with each; at least one."""


def selected(topology: Topology, nodes: Table) -> Table:
    """The topology's nodes; the same table if it selects all of them."""
    choice = _choice(topology, nodes)
    return nodes if choice is None else table_of(compress(nodes, choice), nodes.placeholders)


def _mask(topology: Topology, nodes: Table) -> int:
    """The selected nodes as a number with one byte per node, 1 if it is selected, so that `&` intersects two."""
    choice = _choice(topology, nodes)
    return int.from_bytes(b"\1" * len(nodes) if choice is None else bytes(choice))


def _choice(topology: Topology, nodes: Table) -> Iterable[bool] | None:
    """For each node whether it is selected; None: all are."""
    if not topology.selector:
        return None
    keys = [requirement.key for requirement in topology.selector]
    exact = [requirement for requirement in topology.selector if requirement.values]
    table = nodes.expanded_for_labels(
        [requirement.key for requirement in exact],
        [value for requirement in exact for value in requirement.values],
    )
    labels = [table.labels(key) for key in keys]
    alike: list[Any] = labels[0] if len(labels) == 1 else list(zip(*labels, strict=True))
    examples = dict(zip(alike, table.groups, strict=True))
    chosen = {values for values, group in examples.items() if topology.selects(group)}
    if len(chosen) == len(examples):
        return None
    taken = list(map(chosen.__contains__, alike))
    return map(taken.__getitem__, table.group_of_node)


def overlaps(topologies: Sequence[Topology], nodes: Table) -> dict[str, Overlaps]:
    """What each topology shares with the others, by its name; sharing with its own segments' topologies is intended."""
    shared_with: dict[str, dict[str, int]] = {topology.name: {} for topology in topologies}
    if len(topologies) > 1:
        masks = {topology.name: _mask(topology, nodes) for topology in topologies}
        for topology, other in combinations(topologies, 2):
            shared = (masks[topology.name] & masks[other.name]).bit_count()
            if shared and topology.uid != other.owner and other.uid != topology.owner:
                shared_with[topology.name][other.name] = shared_with[other.name][topology.name] = (
                    shared
                )
    return dict(shared_with)


def disjoint_condition(shared: Overlaps, nodes: int) -> Condition:
    """The condition of one topology with `nodes` nodes."""
    if not shared:
        return Condition(
            SELECTORS_DISJOINT,
            "True",
            "NoSharedNodes",
            "No other ClusterTopology selects these nodes",
        )
    ranked = sorted(shared.items(), key=lambda entry: (-entry[1], entry[0]))
    named = ", ".join(f"{count} with {name!r}" for name, count in ranked[:_MOST_NAMED])
    more = f" and some with {len(ranked) - _MOST_NAMED} more" if len(ranked) > _MOST_NAMED else ""
    text = (
        f"Of {nodes} {plural(nodes, 'node')}, {named}{more} are shared with another ClusterTopology; "
        "each is published under its own name, and workloads must say which they mean; "
        "give them selectors that exclude each other unless this is intended"
    )
    return Condition(SELECTORS_DISJOINT, "False", "NodesShared", text)
