"""How many pods of a kind every domain of a topology could take: now, when running work has ended, or emptied.

Counted are the nodes that carry every level, as KAI and Kueue leave the others out, and whole GPUs: a time slice or a
MIG device that a node offers as `nvidia.com/gpu` is none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from itertools import accumulate, islice

from toposcope.api.label_keys import GPU_PRODUCT, GPUS
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import PODS, Path
from toposcope.kube.pod_resources import is_gpu
from toposcope.placement.nodes import nodes_of
from toposcope.placement.room import Node, path_of
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


@dataclass(frozen=True, slots=True)
class Counted:
    """What a `Capacity` has counted so far."""

    ending: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node: what is free there when running work has ended."""
    domains: dict[int, list[Path]] = field(default_factory=dict)
    slots: dict[tuple[View, Pods], list[int]] = field(default_factory=dict)
    sums: dict[tuple[View, Pods, int], dict[Path, int]] = field(default_factory=dict)


class Capacity:
    """The nodes of a scope, and for every kind of pods how many of them fit on each."""

    def __init__(
        self,
        snapshot: Snapshot,
        scope: Scope,
        gangs: Iterable[Gang] = (),
        like: "Capacity | None" = None,
    ) -> None:
        """`gangs`: those whose end `View.ENDED` foresees; `like`: before a change, of which most still holds."""
        self.levels = scope.levels
        selected = {node.name for node in scope.nodes}
        self.nodes: list[Node] = []
        self.paths: list[Path] = []
        self.left_out: list[str] = []
        """Nodes that lack a level."""
        for node in nodes_of(snapshot.in_whole_gpus, None, {}):
            if node.name not in selected:
                continue
            path, lacks = path_of(node, self.levels)
            if lacks:
                self.left_out.append(node.name)
                continue
            self.nodes.append(node)
            self.paths.append(path)
        self.number = {node.name: number for number, node in enumerate(self.nodes)}
        self.counted = Counted()
        for gang in gangs:
            if gang.ends:
                for pod in gang.placed:
                    add(self.counted.ending.setdefault(pod.node, {}), pod.requests)
        same = like is not None and (like.levels, like.number, like.paths) == (
            self.levels,
            self.number,
            self.paths,
        )
        self._like = like if same else None
        self._changed = [*self._differing(like)] if like and same else []
        self._members: dict[int, dict[Path, list[int]]] = {}
        self._ranked: dict[tuple[View, Pods, int], list[tuple[int, Path]]] = {}

    def _differing(self, like: "Capacity") -> Iterator[int]:
        """The nodes that offer something else than they did."""
        for number, (node, was) in enumerate(zip(self.nodes, like.nodes, strict=True)):
            ending, ended = self.counted.ending.get(node.name), like.counted.ending.get(node.name)
            if (node.free, node.obstacle, ending) != (was.free, was.obstacle, ended):
                yield number

    def offered(self, number: int, view: View) -> Mapping[str, int]:
        """The amounts that a node offers, by resource."""
        node = self.nodes[number]
        if view is View.EMPTY:
            return node.total
        ending = self.counted.ending.get(node.name) if view is View.ENDED else None
        if not ending:
            return node.free
        return {name: amount + ending.get(name, 0) for name, amount in node.free.items()}

    def alike(self, gang: Gang) -> Labels:
        """What the nodes of a gang have in common of product and number of GPUs."""
        nodes = [
            self.nodes[self.number[name]]
            for name in {pod.node for pod in gang.placed}
            if name in self.number
        ]
        values = ((key, {node.labels.get(key) for node in nodes}) for key in (GPU_PRODUCT, GPUS))
        return tuple(
            (key, value)
            for key, shown in values
            if len(shown) == 1 and (value := shown.pop()) is not None
        )

    def slots(self, view: View, pods: Pods) -> list[int]:
        """By node: how many such pods fit, were they alone."""
        made = self.counted.slots.get((view, pods))
        if made is None:
            allowed: dict[tuple[object, ...], bool] = {}
            before = self._like and self._like.counted.slots.get((view, pods))
            made = self.counted.slots[view, pods] = (
                before.copy() if before else [0] * len(self.nodes)
            )
            amounts = [
                (PODS, 1),
                *((resource, amount) for resource, amount in pods.requests if amount),
            ]
            for number in self._changed if before else range(len(self.nodes)):
                node = self.nodes[number]
                closed = node.obstacle and view is not View.EMPTY
                made[number] = (
                    0
                    if closed or not _may_use(node, pods, allowed)
                    else fits(self.offered(number, view), amounts)
                )
        return made

    def sums(self, view: View, pods: Pods, depth: int) -> Mapping[Path, int]:
        """By domain of the level with this depth (1: the broadest): how many such pods fit."""
        made = self.counted.sums.get((view, pods, depth))
        if made is None:
            domains, slots = self._domains(depth), self.slots(view, pods)
            before = self._like and self._like.counted.sums.get((view, pods, depth))
            if before and self._like:
                made = self.counted.sums[view, pods, depth] = before.copy()
                was = self._like.slots(view, pods)
                for number in self._changed:
                    made[domains[number]] += slots[number] - was[number]
                return made
            made = self.counted.sums[view, pods, depth] = dict.fromkeys(domains, 0)
            for domain, count in zip(domains, slots, strict=True):
                if count:
                    made[domain] += count
        return made

    def _domains(self, depth: int) -> Sequence[Path]:
        """By node: its domain of a level."""
        known = (self._like or self).counted.domains
        if depth not in known:
            known[depth] = [path[:depth] for path in self.paths]
        return known[depth]

    def members(self, depth: int) -> Mapping[Path, Sequence[int]]:
        """By domain of the level with this depth: the numbers of its nodes."""
        made = self._members.get(depth)
        if made is None:
            made = self._members[depth] = {}
            for number, domain in enumerate(self._domains(depth)):
                made.setdefault(domain, []).append(number)
        return made

    def ranked(self, view: View, pods: Pods, depth: int) -> Sequence[tuple[int, Path]]:
        """The domains of a level that take such pods, with the negative number of pods: the roomiest first."""
        made = self._ranked.get((view, pods, depth))
        if made is None:
            counts = (
                (-count, domain) for domain, count in self.sums(view, pods, depth).items() if count
            )
            made = self._ranked[view, pods, depth] = sorted(counts)
        return made

    def fewest(
        self,
        view: View,
        pods: Pods,
        depth: int,
        wanted: int,
        instead: Mapping[Path, int] | None = None,
    ) -> int | None:
        """The fewest domains of a level that hold so many pods; None where all of them do not.

        `instead` are domains with another capacity than counted here.
        """
        ranked = self.ranked(view, pods, depth)
        if instead:
            others = sorted((-count, domain) for domain, count in instead.items() if count)
            ranked_now: Iterable[tuple[int, Path]] = merge(
                (pair for pair in ranked if pair[1] not in instead), others
            )
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
        # pods with GPUs tolerate these
        taints = [taint for taint in node.taints if not is_gpu(taint.key)]
        may = known[key] = not wants.rejection(node.name, node.labels, taints)
    return may
