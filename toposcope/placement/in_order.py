"""What becomes of a verdict where the scheduler assigns pods in an order and takes none of them back: Kueue does."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import Group, OrderedPods, Pods
from toposcope.integrations.kueue.assignment import Assigner, Assignment, Leaf, Unassigned
from toposcope.placement.room import Node
from toposcope.placement.search import Placed
from toposcope.placement.verdict import Verdict
from toposcope.topology.levels import Level
from toposcope.topology.text import plural

_VERSION: Final = "Kueue 0.19"


def in_order(
    verdict: Verdict, pod_sets: Sequence[OrderedPods], levels: Sequence[Level], nodes: Iterable[Node]
) -> Verdict:
    """The verdict that the scheduler's own order leads to.

    `nodes` are all of the cluster: the scheduler knows nothing of a ClusterTopology's selector, and takes a placeholder
    for a value like any other. A node without a label of a level is none of its topology.
    """
    nodes = [node for node in nodes if all(level.key in node.labels for level in levels)]
    ready = [node for node in nodes if not node.obstacle]
    now = Assigner(levels, [_leaf(node, levels, emptied=False) for node in ready]).assign(pod_sets)
    if not isinstance(now, Unassigned):
        return verdict if verdict.kind == "fits" else Verdict("fits", _placed(now, ready), excluded=verdict.excluded)
    if verdict.kind in {"full", "never"}:
        empty = Assigner(levels, [_leaf(node, levels, emptied=True) for node in nodes]).assign(pod_sets)
        fits_when_empty = not isinstance(empty, Unassigned)
        return replace(verdict, kind="full") if verdict.kind == "never" and fits_when_empty else verdict
    limitation = (
        f"{_VERSION} assigns pod sets one after the other and takes none back: when it comes to pod set {now.pod_set} "
        f"{_room(now)}"
    )
    return Verdict("full", steps=verdict.steps, excluded=verdict.excluded, limitation=limitation)


def _room(now: Unassigned) -> str:
    if now.fits >= now.wanted:
        return "no domain has room for it with its leader"
    return f"there is room for {now.fits} of {now.wanted} {plural(now.wanted, now.unit)}"


def _leaf(node: Node, levels: Sequence[Level], *, emptied: bool) -> Leaf:
    def usable(pods: Pods) -> bool:
        return not pods.node_filter.rejection(node.name, node.labels, node.taints)

    return Leaf(tuple(node.labels[level.key] for level in levels), node.total if emptied else node.free, usable)


def _placed(assignments: Sequence[Assignment], nodes: Sequence[Node]) -> tuple[Placed, ...]:
    return tuple(
        Placed(
            Group(f"pod set {pod_set.pods.name}", (pod_set.pods,)),
            (),
            tuple((nodes[leaf].name, count) for other, leaf, count in assignments if other is pod_set),
        )
        for pod_set in dict.fromkeys(pod_set for pod_set, _, _ in assignments)
    )
