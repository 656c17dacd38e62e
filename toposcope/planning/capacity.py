"""How many pods of a kind every domain of a topology could take: now, when running work has ended, or emptied.

Counted are the nodes that carry every level, as KAI and Kueue leave the others out.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from heapq import merge
from itertools import accumulate, islice

from toposcope.api.label_keys import GPU_PRODUCT, GPUS
from toposcope.integrations.framework.constraints import Pods
from toposcope.kube.pod_resources import is_gpu
from toposcope.placement.check import nodes_of
from toposcope.placement.room import PODS, Node, Path, path_of
from toposcope.planning.gangs import Gang
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope


class View(StrEnum):
    """What counts as free."""

    NOW = "now"
    """What no pod holds, on nodes that are Ready and not cordoned."""
    ENDED = "ended"
    """The same once all that ends by itself has ended: Jobs of any kind, and pods that nobody owns."""
    EMPTY = "empty"
    """All of it, as if every node were Ready and not cordoned."""


Labels = tuple[tuple[str, str], ...]


class Capacity:
    """The nodes of a scope, and for every kind of pods how many of them fit on each."""

    def __init__(self, snapshot: Snapshot, scope: Scope, gangs: Iterable[Gang] = ()) -> None:
        """`gangs`: those whose end `View.ENDED` foresees."""
        self.levels = scope.levels
        selected = {node.name for node in scope.nodes}
        self.nodes: list[Node] = []
        self.paths: list[Path] = []
        self.left_out: list[str] = []
        """Nodes that lack a level."""
        for node in nodes_of(snapshot, None, {}):
            if node.name not in selected:
                continue
            path, lacks = path_of(node, self.levels)
            if lacks:
                self.left_out.append(node.name)
                continue
            self.nodes.append(node)
            self.paths.append(path)
        self.number = {node.name: number for number, node in enumerate(self.nodes)}
        self._ending: dict[str, dict[str, int]] = {}
        for gang in gangs:
            if gang.ends:
                for pod in gang.placed:
                    add(self._ending.setdefault(pod.node, {}), pod.requests)
        self._domain_of: dict[int, list[Path]] = {}
        self._slots: dict[tuple[View, Pods], list[int]] = {}
        self._sums: dict[tuple[View, Pods, int], dict[Path, int]] = {}
        self._ranked: dict[tuple[View, Pods, int], list[tuple[int, Path]]] = {}

    def offered(self, number: int, view: View) -> Mapping[str, int]:
        """The amounts that a node offers, by resource."""
        node = self.nodes[number]
        if view is View.EMPTY:
            return node.total
        ending = self._ending.get(node.name) if view is View.ENDED else None
        if not ending:
            return node.free
        return {name: amount + ending.get(name, 0) for name, amount in node.free.items()}

    def alike(self, gang: Gang) -> Labels:
        """What the nodes of a gang have in common of product and number of GPUs."""
        nodes = [self.nodes[self.number[name]] for name in {pod.node for pod in gang.placed} if name in self.number]
        values = ((key, {node.labels.get(key) for node in nodes}) for key in (GPU_PRODUCT, GPUS))
        return tuple((key, value) for key, found in values if len(found) == 1 and (value := found.pop()) is not None)

    def slots(self, view: View, pods: Pods) -> list[int]:
        """By node: how many such pods fit, were they alone."""
        made = self._slots.get((view, pods))
        if made is None:
            allowed: dict[tuple[object, ...], bool] = {}
            made = self._slots[view, pods] = []
            amounts = [(PODS, 1), *((resource, amount) for resource, amount in pods.requests if amount)]
            for number, node in enumerate(self.nodes):
                closed = node.obstacle and view is not View.EMPTY
                made.append(
                    0 if closed or not _may_use(node, pods, allowed) else fits(self.offered(number, view), amounts)
                )
        return made

    def sums(self, view: View, pods: Pods, depth: int) -> Mapping[Path, int]:
        """By domain of the level with this depth (1: the broadest): how many such pods fit."""
        made = self._sums.get((view, pods, depth))
        if made is None:
            made = self._sums[view, pods, depth] = dict.fromkeys(self._domains(depth), 0)
            for domain, count in zip(self._domains(depth), self.slots(view, pods), strict=True):
                if count:
                    made[domain] += count
        return made

    def _domains(self, depth: int) -> Sequence[Path]:
        """By node: its domain of a level."""
        made = self._domain_of.get(depth)
        if made is None:
            made = self._domain_of[depth] = [path[:depth] for path in self.paths]
        return made

    def ranked(self, view: View, pods: Pods, depth: int) -> Sequence[tuple[int, Path]]:
        """The domains of a level that take such pods, with the negative number of pods: the roomiest first."""
        made = self._ranked.get((view, pods, depth))
        if made is None:
            counts = ((-count, domain) for domain, count in self.sums(view, pods, depth).items() if count)
            made = self._ranked[view, pods, depth] = sorted(counts)
        return made

    def fewest(
        self, view: View, pods: Pods, depth: int, wanted: int, instead: Mapping[Path, int] | None = None
    ) -> int | None:
        """The fewest domains of a level that hold so many pods; None where all of them do not.

        `instead` are domains with another capacity than counted here.
        """
        ranked = self.ranked(view, pods, depth)
        if instead:
            others = sorted((-count, domain) for domain, count in instead.items() if count)
            ranked_now: Iterable[tuple[int, Path]] = merge((one for one in ranked if one[1] not in instead), others)
        else:
            ranked_now = ranked
        held = accumulate(-count for count, _ in islice(ranked_now, wanted))
        return next((number for number, total in enumerate(held, 1) if total >= wanted), None)


def add(total: dict[str, int], requests: Mapping[str, int], times: int = 1) -> None:
    """Add what a pod holds of a node; a negative number of `times` takes it away."""
    total[PODS] = total.get(PODS, 0) + times
    for resource, amount in requests.items():
        total[resource] = total.get(resource, 0) + amount * times


def fits(offered: Mapping[str, int], amounts: Sequence[tuple[str, int]]) -> int:
    """How many pods of these amounts fit into what is offered."""
    return max(0, min(offered.get(resource, 0) // amount for resource, amount in amounts))


def _may_use(node: Node, pods: Pods, known: dict[tuple[object, ...], bool]) -> bool:
    """Whether the pods may use the node as far as its labels and taints say."""
    wants = pods.node_filter
    if not (wants.selector or wants.terms or node.taints):
        return True
    asked = tuple([node.labels.get(key) for key, _ in wants.selector]) if wants.selector else ()
    key = (node.name if wants.terms else "", asked, node.taints)
    may = known.get(key)
    if may is None:
        taints = [taint for taint in node.taints if not is_gpu(taint.key)]  # pods with GPUs tolerate these
        may = known[key] = not wants.rejection(node.name, node.labels, taints)
    return may
