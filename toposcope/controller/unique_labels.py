"""Labels whose value alone tells the domains of a level apart, on the nodes of topologies whose spec asks for them.

kube-scheduler's gangs and pod affinity group nodes by the value of one label, so `rack-1` of two blocks is one rack to
them. With `spec.uniqueValues: [rack]` the controller writes `gpu.topology/unique-rack` on each selected node: the
values of all levels down to the rack. Where two topologies want different values on one node, the older one's counts.

A node that lacks a value on the way has no such label. A level that is not in effect says nothing, and its labels stay.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import UNIQUE_VALUES_WRITTEN, Condition
from toposcope.api.label_keys import unique_key
from toposcope.controller.node_keys import Change
from toposcope.kube.errors import ApiError
from toposcope.topology.levels import Level
from toposcope.topology.node import NodeFacts
from toposcope.topology.table import Table

LONGEST: Final = 63
"""Characters of a label value."""
_DIGITS: Final = 12
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9]+")


def unique_value(path: Sequence[str]) -> str:
    """The values of a path, broadest first, as one value; where they do not fit, the end of the last and a hash."""
    joined = ".".join(path)
    if len(joined) <= LONGEST and all(path) and "." not in "".join(path):
        return joined
    digest = hashlib.sha256("\0".join(path).encode()).hexdigest()[:_DIGITS]
    name = _NOT_IN_A_NAME.sub("-", path[-1])[-(LONGEST - _DIGITS - 1) :].strip("-")
    return f"{name or 'domain'}-{digest}"


def changes(
    topology: Topology, levels: Sequence[Level], nodes: Table, topologies: Sequence[Topology] = ()
) -> list[Change]:
    """What is still to be written for one topology at its effective `levels`.

    `nodes` are all of the cluster, `topologies` all ClusterTopologies, the oldest first.
    """
    found: dict[str, tuple[NodeFacts, dict[str, str | None]]] = {}
    for domain in dict.fromkeys((*topology.unique, *topology.once_unique)):
        key, asked = unique_key(domain), domain in topology.unique
        depth = next((depth for depth, level in enumerate(levels, 1) if level.domain == domain), 0)
        if asked and not depth:
            continue
        asking = [candidate for candidate in topologies if domain in candidate.unique]
        columns = [nodes.values(level.key) for level in levels[:depth]] if asked else [[None] * len(nodes)]
        for node, path in zip(nodes, zip(*columns, strict=True), strict=True):
            values = [value for value in path if value is not None]
            mine = asked and topology.selects(node)
            value = unique_value(values) if mine and len(values) == len(path) else None
            # Where several decide about a node the oldest counts; a label that none decides about goes.
            decides = next((candidate for candidate in asking if candidate.selects(node)), topology)
            if node.label(key) != value and decides.uid == topology.uid:
                found.setdefault(node.name, (node, {}))[1][key] = value
    return [
        Change(node.name, node.uid, labels, {key: node.label(key) for key in labels}) for node, labels in found.values()
    ]


def condition(topology: Topology, levels: Sequence[Level], left: int, error: ApiError | None) -> Condition | None:
    """The `UniqueValuesWritten` condition; None where the spec asks for none."""
    if not topology.unique:
        return None
    known = {level.domain for level in levels}
    if error:
        fix = "; install the component unique-values (docs/integrations/kube-scheduler.md)"
        text = f"{error.message}{fix if error.forbidden else ''}"
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "Rejected", text)
    if missing := [domain for domain in topology.unique if domain not in known]:
        text = f"spec.uniqueValues: no level {', '.join(missing)} is in effect; its labels stay as they are"
        return Condition(UNIQUE_VALUES_WRITTEN, "False", "LevelMissing", text)
    keys = ", ".join(map(unique_key, topology.unique))
    if left:
        return Condition(UNIQUE_VALUES_WRITTEN, "Unknown", "Writing", f"{left} nodes are still to get {keys}")
    return Condition(UNIQUE_VALUES_WRITTEN, "True", "InSync", f"Every selected node with these levels carries {keys}")


def still_there(topology: Topology, nodes: Table) -> Iterator[str]:
    """The levels that the status has to name: those of the spec, and former ones whose labels nodes still carry."""
    yield from topology.unique
    for domain in topology.once_unique:
        if nodes.distinct(unique_key(domain)) - {None}:
            yield domain
