"""The paths of all nodes, as a policy looks them up when a pod is bound."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from toposcope.hierarchy.node import OWN_HOSTNAME, OWN_VALUES, NodeFacts, Traits
from toposcope.integrations.binding_paths import shared_path
from toposcope.integrations.node_path import path_keys, path_of
from toposcope.integrations.node_plan import NodePlan


@dataclass(slots=True)
class SharedPaths:
    """The path of each node that has one."""

    by_node: dict[str, str] = field(default_factory=dict)
    """By the node's name, without that name: see `shared_path`."""
    unusable: int = 0
    """Nodes whose path is too long, or has a level whose name is too long for a label."""


def shared_paths(plan: NodePlan, nodes: Iterable[NodeFacts]) -> SharedPaths:
    """The path of each node, worked out once for nodes that are alike."""
    paths = SharedPaths()
    alike = _Alike(plan)
    path_by_traits: dict[int, str | None] = {}
    for node in nodes:
        identity = id(node.traits)
        is_known = identity in path_by_traits and node.name not in plan.placeholders
        path = path_by_traits[identity] if is_known else _path(plan, node)
        if not is_known and alike.shares_path(node):
            path_by_traits[identity] = path
        if path is None:
            paths.unusable += 1
        elif path:
            paths.by_node[node.name] = path
    return paths


def _path(plan: NodePlan, node: NodeFacts) -> str | None:
    """The path as nodes share it; empty without one, None for one that pods cannot have."""
    steps = path_of(plan, node).steps
    try:
        return shared_path(node.name, steps)
    except ValueError:
        return None


class _Alike:
    """Which nodes have the same path as every other node of their traits."""

    def __init__(self, plan: NodePlan) -> None:
        self._placeholders = plan.placeholders
        self._path_keys = path_keys(plan)
        self._selecting: set[str] = set()
        for topology in plan.topologies:
            for requirement in topology.selector:
                self._selecting.add(requirement.key)

    def shares_path(self, node: NodeFacts) -> bool:
        """Whether it does: neither its name nor its hostname decides about it."""
        if node.name in self._placeholders:
            return False
        return not self._is_decided_by_own_value(node.traits)

    def _is_decided_by_own_value(self, traits: Traits) -> bool:
        if OWN_VALUES.isdisjoint(traits.values):
            return False
        for key, value in zip(traits.keys, traits.values, strict=True):
            if value not in OWN_VALUES or key not in self._path_keys:
                continue
            # `shared_path` leaves out names, and no hostnames.
            if value == OWN_HOSTNAME or key in self._selecting:
                return True
        return False
