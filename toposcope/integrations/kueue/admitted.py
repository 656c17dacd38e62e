"""What an admitted workload got: flavors, and the nodes of its pods.

Kueue assigns no nodes in a flavor without a topology, and whole domains where a topology ends above
hosts; kube-scheduler chooses nodes then. Identical pods that fill one node after the other fit if
any order does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import Decision, OfferedNode, Pods
from toposcope.integrations.framework.packing import Path, add_pods, times_by_name
from toposcope.integrations.kueue.api import VERSION
from toposcope.integrations.kueue.assignment import Assigner, LeafAssignment
from toposcope.integrations.kueue.queues import Flavor

_COARSE: Final = (
    f"ends above the nodes: {VERSION} treats each of its lowest domains as one node, ignores "
    "taints and labels of the nodes, and may admit pods that no node has room for"
)

_Placing = tuple[Pods, str, int]
"""Pods, their node and how many of them it gets; the node is empty if unknown."""


@dataclass(frozen=True, slots=True)
class OnTopology:
    """The assignment on the topology of one flavor."""

    flavor: Flavor
    assigner: Assigner
    assignments: list[LeafAssignment]

    def give_back(self) -> None:
        """Free what was assigned."""
        self.assigner.give_back(self.assignments)


@dataclass(frozen=True, slots=True)
class WithoutTopology:
    """Pods with a flavor without a topology."""

    flavor: Flavor
    pods: Pods


@dataclass(frozen=True, slots=True)
class AdmittedCopy:
    """The assignment of one copy."""

    on_topologies: list[OnTopology]
    without: list[WithoutTopology]

    @property
    def flavors(self) -> set[str]:
        """The names of the flavors that its pods run in."""
        flavors = {part.flavor.name for part in self.on_topologies}
        for part in self.without:
            flavors.add(part.flavor.name)
        return flavors


def nodes_of(
    nodes: Iterable[OfferedNode], flavor: Flavor, levels: Sequence[str]
) -> list[OfferedNode]:
    """The nodes with the labels of the flavor and of all levels."""
    labelled_nodes = []
    for node in nodes:
        labels = node.labels
        if not all(labels.get(key) == value for key, value in flavor.nodes.selector):
            continue
        if all(level in labels for level in levels):
            labelled_nodes.append(node)
    return labelled_nodes


def with_places(
    decision: Decision, copies: Sequence[AdmittedCopy], nodes: Sequence[OfferedNode]
) -> Decision:
    """The decision with the nodes of all pods, as far as known.

    Pods without a topology are left out if no pod has one.
    """
    parts: list[OnTopology] = []
    without_nodes: list[WithoutTopology] = []
    flavors: set[str] = set()
    for copy in copies:
        parts += copy.on_topologies
        without_nodes += copy.without
        flavors |= copy.flavors
    if not parts:
        return decision

    places = _Places(nodes)
    placed: list[_Placing] = []
    for part in parts:
        placed += places.on_topology(part)
    for pods in without_nodes:
        placed += places.anywhere(pods)
    notes = [f"Topology {name} {_COARSE}" for name in places.coarse]
    return replace(
        decision,
        placed=tuple(placed),
        topology=parts[0].flavor.topology,
        is_split=len(flavors) > 1,
        notes=(*decision.notes, *notes),
    )


class _Places:
    """What is left on nodes while the parts of a workload are placed one after the other."""

    def __init__(self, nodes: Iterable[OfferedNode]) -> None:
        self._nodes = {node.name: node for node in nodes if not node.obstacle}
        self._free: dict[str, dict[str, int]] = {}
        """What is left on the nodes that got pods."""
        self._domains: dict[str, dict[Path, list[OfferedNode]]] = {}
        """The nodes of the lowest domains, by flavor."""
        self.coarse: dict[str, None] = {}
        """The topologies in which pods got a domain whose nodes for them are unknown."""

    def on_topology(self, part: OnTopology) -> Iterator[_Placing]:
        """The pods of a flavor on their nodes. Pods of a whole domain go to its nodes with room."""
        for assignment in part.assignments:
            pods = assignment.pod_set.pods
            leaf = part.assigner.leaves[assignment.leaf]
            if leaf.node:
                self._take(pods, leaf.node, assignment.count)
                yield pods, leaf.node, assignment.count
                continue
            nodes = self._nodes_in(part).get(leaf.path, ())
            settled = self._settle(pods, assignment.count, nodes)
            if not settled:
                self.coarse[part.flavor.topology or ""] = None
                yield pods, "", assignment.count
            yield from settled

    def anywhere(self, part: WithoutTopology) -> list[_Placing]:
        """The pods of a flavor without a topology on its nodes."""
        pods = part.pods
        nodes = nodes_of(self._nodes.values(), part.flavor, ())
        settled = self._settle(pods, pods.count, nodes)
        if settled:
            return settled
        return [(pods, "", pods.count)]

    def _take(self, pods: Pods, name: str, count: int) -> None:
        """Subtract `count` pods from a node."""
        free = self._free.get(name)
        if free is None:
            free = dict(self._nodes[name].free)
            self._free[name] = free
        add_pods(free, pods.requests, -count)

    def _settle(self, pods: Pods, count: int, nodes: Iterable[OfferedNode]) -> list[_Placing]:
        """Nodes for `count` pods; empty if they do not all fit."""
        placed: list[_Placing] = []
        for node in nodes:
            if pods.node_filter.rejection(node.name, node.labels, node.taints):
                continue
            free = self._free.get(node.name, node.free)
            room = min(count, times_by_name(free, pods.requests))
            if room > 0:
                placed.append((pods, node.name, room))
                count -= room
        if count:
            return []
        for _, name, room in placed:
            self._take(pods, name, room)
        return placed

    def _nodes_in(self, part: OnTopology) -> Mapping[Path, Sequence[OfferedNode]]:
        """The nodes of each lowest domain of a flavor."""
        domains = self._domains.get(part.flavor.name)
        if domains is None:
            domains = {}
            levels = part.assigner.levels
            for node in nodes_of(self._nodes.values(), part.flavor, levels):
                path = tuple([node.labels[level] for level in levels])
                domains.setdefault(path, []).append(node)
            self._domains[part.flavor.name] = domains
        return domains
