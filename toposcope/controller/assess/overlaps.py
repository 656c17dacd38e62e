"""Topologies that select the same nodes: allowed, and told on both sides. Pure.

Each is published under its own name, so nothing fights. But a scheduler that counts a node's GPUs in two topologies may
promise them twice, and a workload that names no topology is asked of each.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SELECTORS_DISJOINT, Condition
from toposcope.controller.assess.selection import mask
from toposcope.topology.table import Table
from toposcope.topology.text import plural

MOST_NAMED: Final = 5
"""How many other topologies a message names."""

Overlaps = Mapping[str, int]
"""Other topologies by name, and how many nodes are shared with each; at least one."""


def overlaps(topologies: Sequence[Topology], nodes: Table) -> dict[str, Overlaps]:
    """What each topology shares with the others, by its name; with those of its own segments it shares by design."""
    found: dict[str, dict[str, int]] = {topology.name: {} for topology in topologies}
    if len(topologies) > 1:
        masks = {topology.name: mask(topology, nodes) for topology in topologies}
        for one, other in combinations(topologies, 2):
            shared = (masks[one.name] & masks[other.name]).bit_count()
            if shared and one.uid != other.owner and other.uid != one.owner:
                found[one.name][other.name] = found[other.name][one.name] = shared
    return dict(found)


def most_shared(shared: Overlaps) -> list[tuple[str, int]]:
    """The topologies that share most, first; equal ones by name."""
    return sorted(shared.items(), key=lambda entry: (-entry[1], entry[0]))


def disjoint_condition(shared: Overlaps, nodes: int) -> Condition:
    """The condition of one topology of `nodes` nodes."""
    if not shared:
        return Condition(SELECTORS_DISJOINT, "True", "NoSharedNodes", "No other ClusterTopology selects these nodes")
    ranked = most_shared(shared)
    named = ", ".join(f"{count} with {name!r}" for name, count in ranked[:MOST_NAMED])
    more = f" and some with {len(ranked) - MOST_NAMED} more" if len(ranked) > MOST_NAMED else ""
    text = (
        f"Of {nodes} {plural(nodes, 'node')}, {named}{more} are shared with another ClusterTopology; "
        "each is published under its own name, and workloads must say which they mean; "
        "give them selectors that exclude each other unless this is meant"
    )
    return Condition(SELECTORS_DISJOINT, "False", "NodesShared", text)
