"""Which nodes a topology selects, by columns: nodes that are alike in what the selector looks at are asked once."""

from collections.abc import Iterable
from functools import partial
from itertools import compress
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.topology.live_table import LiveTable
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table, table_of


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
