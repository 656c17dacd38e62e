"""Which nodes a topology selects, by columns: nodes that are alike in what the selector looks at are asked once."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, compress
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SELECTORS_DISJOINT, Condition
from toposcope.topology.live_table import LiveTable
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table, table_of
from toposcope.topology.text import plural


def selected(topology: Topology, nodes: Table) -> Table:
    """The topology's nodes; the same table where that is all of them."""
    if isinstance(nodes, LiveTable):
        return nodes.part(topology.selector, topology.selects, partial(_chosen, topology))
    return table_of(_chosen(topology, nodes), nodes.placeholders)


def _chosen(topology: Topology, nodes: Table) -> Iterable[NodeFacts]:
    """The topology's nodes; the table itself where that is all of them."""
    choice = _choice(topology, nodes)
    return nodes if choice is None else list(compress(nodes, choice))


def mask(topology: Topology, nodes: Table) -> int:
    """The topology's nodes as a number with one byte a node, 1 where it is selected: two of them meet in a `&`."""
    choice = _choice(topology, nodes)
    return int.from_bytes(b"\1" * len(nodes) if choice is None else bytes(choice))


def _choice(topology: Topology, nodes: Table) -> Iterable[bool] | None:
    """For each node whether it is selected; None: all are."""
    if not topology.selector:
        return None
    keys = [requirement.key for requirement in topology.selector]
    exact = [requirement for requirement in topology.selector if requirement.values]
    told = nodes.told_by([each.key for each in exact], [value for each in exact for value in each.values])
    labels = [told.labels(key) for key in keys]
    alike: list[Any] = labels[0] if len(labels) == 1 else list(zip(*labels, strict=True))
    examples = dict(zip(alike, told.kinds, strict=True))
    chosen = {each for each, kind in examples.items() if topology.selects(kind)}
    if len(chosen) == len(examples):
        return None
    taken = list(map(chosen.__contains__, alike))
    return map(taken.__getitem__, told.places())


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
