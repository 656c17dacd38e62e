"""Where a node is: the values of the levels in effect on it, broadest first.

Derived from the plan that the controller keeps and the node's own labels, so agent and controller
say the same. Without msgspec, because agents import this.
"""

from dataclasses import dataclass

from toposcope.api.requirement import Labelled
from toposcope.integrations.node_plan import NodePlan, PlannedTopology


@dataclass(frozen=True, slots=True)
class PathStep:
    """One level on the way to a node."""

    level: str
    """The level's domain, such as `rack`."""
    key: str
    """The label that says it."""
    value: str


@dataclass(frozen=True, slots=True)
class NodePath:
    """The path of one node in one ClusterTopology."""

    topology: str | None = None
    """The name of the ClusterTopology; None where none selects the node."""
    steps: tuple[PathStep, ...] = ()
    """Broadest first; they end before the first level that the node lacks."""
    is_complete: bool = False
    """Whether the node has every level in effect, and there is one."""


NO_PATH = NodePath()


def path_of(plan: NodePlan, node: Labelled) -> NodePath:
    """The path in the first (oldest) ClusterTopology that selects the node.

    It is never complete where the plan had no room for all topologies: an older one may be missing.
    """
    paths = paths_of(plan, node)
    return paths[0] if paths else NO_PATH


def paths_of(plan: NodePlan, node: Labelled) -> list[NodePath]:
    """The path in each ClusterTopology that selects the node, the oldest first."""
    paths = []
    for topology in plan.topologies:
        if topology.selects(node):
            paths.append(_path(plan, topology, node))
    return paths


def path_keys(plan: NodePlan) -> frozenset[str]:
    """The labels that decide which paths a node has."""
    keys: set[str] = set()
    for topology in plan.topologies:
        keys |= topology.path_keys()
    return frozenset(keys)


def _path(plan: NodePlan, topology: PlannedTopology, node: Labelled) -> NodePath:
    steps = []
    lacks_level = False
    for level in topology.levels:
        value = plan.value(node, level.key)
        if not value:
            lacks_level = True
            break
        steps.append(PathStep(level.domain, level.key, value))
    return NodePath(
        topology=topology.name,
        steps=tuple(steps),
        is_complete=plan.has_all_paths and bool(steps) and not lacks_level,
    )
