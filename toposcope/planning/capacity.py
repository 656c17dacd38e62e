"""How many pods of a kind every domain could take: now, when work has ended, or emptied.

Counted are the nodes that carry every level, as schedulers that know topologies leave the others
out, and whole GPUs: a time slice or a MIG device that a node offers as `nvidia.com/gpu` is none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import merge
from itertools import islice
from typing import NamedTuple

from toposcope.api.label_keys import GPU_PRODUCT, GPUS
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import Taint, Toleration
from toposcope.integrations.framework.packing import Path, add_pods, times_by_name
from toposcope.kube.pod_resources import gpu_count
from toposcope.placement.nodes import nodes_of
from toposcope.placement.room import RoomNode, path_of
from toposcope.planning.gangs import Gang, ends
from toposcope.snapshot.filters import TAINTS_OF_STATES, is_fence
from toposcope.snapshot.model import Snapshot
from toposcope.snapshot.scope import Scope


class FreeBasis(StrEnum):
    """What counts as free."""

    NOW = "now"
    """What no pod holds, on nodes that are Ready and not cordoned."""
    ENDED = "ended"
    """The same once all that ends by itself has ended: Jobs, and pods without an owner."""
    EMPTY = "empty"
    """All of it, as if every node were Ready and not cordoned; taints of these states go too."""


Labels = tuple[tuple[str, str], ...]


class _CountKey(NamedTuple):
    """Pods of a kind, counted at a level (depth 1: the broadest)."""

    view: FreeBasis
    pods: Pods
    depth: int


class RankedDomain(NamedTuple):
    """A domain and what it takes; the roomiest is the smallest."""

    minus_slots: int
    domain: Path


@dataclass(frozen=True, slots=True)
class Counts:
    """What a `Capacity` has counted so far."""

    ending: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node: what is free there when running work has ended."""
    domains: dict[int, list[Path]] = field(default_factory=dict)
    slots: dict[tuple[FreeBasis, Pods], list[int]] = field(default_factory=dict)
    sums: dict[_CountKey, dict[Path, int]] = field(default_factory=dict)


class Capacity:
    """The nodes of a scope, and for every kind of pods how many of them fit on each."""

    def __init__(
        self,
        snapshot: Snapshot,
        scope: Scope,
        gangs: Iterable[Gang] | None = None,
        like: "Capacity | None" = None,
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        """`gangs`: those whose end `View.ENDED` foresees, beside that of pods without GPUs.

        `like`: before a change, of which most still holds. `tolerations` are what all pods of
        gangs tolerate beside what they say themselves.
        """
        self.scope = scope
        self.levels = scope.levels
        self.tolerations: tuple[Toleration, ...] = like.tolerations if like else tolerations
        self.nodes: list[RoomNode] = []
        self.paths: list[Path] = []
        self.left_out: list[str] = []
        """Nodes that lack a level."""
        self._take_in(snapshot, scope)
        self.number = {node.name: number for number, node in enumerate(self.nodes)}
        self.fences = tuple(self._fences())
        """Tolerations for the taints that keep only pods without GPUs away."""
        self.counted = Counts(ending={} if gangs is None else _ending(snapshot, gangs))

        self._like: Capacity | None = None
        self._changed: list[int] = []
        """The nodes that offer something else than those of `like`."""
        if like is not None and self._has_nodes_of(like):
            self._like = like
            self._changed += self._differing(like)

        self._members: dict[int, dict[Path, list[int]]] = {}
        self._ranked: dict[_CountKey, list[RankedDomain]] = {}

    def _take_in(self, snapshot: Snapshot, scope: Scope) -> None:
        selected = {node.name for node in scope.nodes}
        nodes = nodes_of(snapshot.in_whole_gpus, None, {})
        for node in nodes:
            if node.name not in selected:
                continue
            path, lacking = path_of(node, self.levels)
            if lacking:
                self.left_out.append(node.name)
                continue
            self.nodes.append(node)
            self.paths.append(path)

    def _fences(self) -> Iterator[Toleration]:
        taints: dict[Taint, None] = {}
        for node in self.nodes:
            for taint in node.taints:
                taints[taint] = None
        for taint in taints:
            if is_fence(taint):
                yield Toleration(taint.key, "Exists", effect=taint.effect)

    def _has_nodes_of(self, like: "Capacity") -> bool:
        """Whether it has the same nodes in the same domains."""
        if like.levels != self.levels:
            return False
        if like.number != self.number:
            return False
        return like.paths == self.paths

    def _differing(self, like: "Capacity") -> Iterator[int]:
        """The nodes that offer something else than they did."""
        ending = self.counted.ending
        ending_before = like.counted.ending
        for number, node in enumerate(self.nodes):
            before = like.nodes[number]
            if (
                node.free != before.free
                or node.obstacle != before.obstacle
                or ending.get(node.name) != ending_before.get(node.name)
            ):
                yield number

    def offered(self, number: int, view: FreeBasis) -> Mapping[str, int]:
        """The amounts that a node offers, by resource."""
        node = self.nodes[number]
        if view is FreeBasis.EMPTY:
            return node.total
        if view is FreeBasis.NOW:
            return node.free
        ending = self.counted.ending.get(node.name, {})
        return with_amounts(node.free, ending)

    def is_closed(self, number: int, view: FreeBasis) -> bool:
        """Whether a node takes no pods."""
        if view is FreeBasis.EMPTY:
            return False
        return bool(self.nodes[number].obstacle)

    def common_labels(self, gang: Gang) -> Labels:
        """What the nodes of a gang have in common of product and number of GPUs."""
        numbers = set()
        for pod in gang.placed:
            number = self.number.get(pod.node)
            if number is not None:
                numbers.add(number)

        common = []
        for key in (GPU_PRODUCT, GPUS):
            value = self._common_value(key, numbers)
            if value is not None:
                common.append((key, value))
        return tuple(common)

    def _common_value(self, key: str, numbers: Iterable[int]) -> str | None:
        """The value of a label that all of these nodes have."""
        values = set()
        for number in numbers:
            labels = self.nodes[number].labels
            values.add(labels.get(key))
        if len(values) != 1:
            return None
        return values.pop()

    def slots(self, view: FreeBasis, pods: Pods) -> list[int]:
        """By node: how many such pods fit, were they alone."""
        key = view, pods
        counted = self.counted.slots.get(key)
        if counted is not None:
            return counted

        before = None
        if self._like:
            before = self._like.counted.slots.get(key)
        if before:
            counted = before.copy()
            self._count(counted, self._changed, view, pods)
        else:
            total = len(self.nodes)
            counted = [0] * total
            self._count(counted, range(total), view, pods)
        self.counted.slots[key] = counted
        return counted

    def _count(self, slots: list[int], numbers: Iterable[int], view: FreeBasis, pods: Pods) -> None:
        """Count the slots of these nodes again."""
        allowed: dict[tuple[object, ...], bool] = {}
        for number in numbers:
            node = self.nodes[number]
            slots[number] = 0
            taints = node.taints
            if taints and view is FreeBasis.EMPTY:
                taints = tuple(taint for taint in taints if taint.key not in TAINTS_OF_STATES)
            if node.obstacle and view is not FreeBasis.EMPTY:
                continue
            if _can_use(node, pods, taints, allowed):
                offered = self.offered(number, view)
                slots[number] = times_by_name(offered, pods.requests)

    def sums(self, view: FreeBasis, pods: Pods, depth: int) -> Mapping[Path, int]:
        """By domain of the level with this depth (1: the broadest): how many such pods fit."""
        key = _CountKey(view, pods, depth)
        counted = self.counted.sums.get(key)
        if counted is not None:
            return counted

        if self._like and self._like.counted.sums.get(key):
            counted = self._sums_since(self._like, key)
        else:
            counted = self._fresh_sums(key)
        self.counted.sums[key] = counted
        return counted

    def _sums_since(self, like: "Capacity", key: _CountKey) -> dict[Path, int]:
        """The sums before the change, corrected by the nodes that differ."""
        before = like.counted.sums[key]
        sums = dict(before)
        slots = self.slots(key.view, key.pods)
        slots_before = like.slots(key.view, key.pods)
        domains = self._domains(key.depth)
        for number in self._changed:
            gain = slots[number] - slots_before[number]
            sums[domains[number]] += gain
        return sums

    def _fresh_sums(self, key: _CountKey) -> dict[Path, int]:
        domains = self._domains(key.depth)
        slots = self.slots(key.view, key.pods)
        sums = dict.fromkeys(domains, 0)
        for domain, count in zip(domains, slots, strict=True):
            if count:
                sums[domain] += count
        return sums

    def _domains(self, depth: int) -> Sequence[Path]:
        """By node: its domain of a level."""
        by_depth = self.counted.domains
        if self._like:
            by_depth = self._like.counted.domains
        if depth not in by_depth:
            by_depth[depth] = [path[:depth] for path in self.paths]
        return by_depth[depth]

    def members(self, depth: int) -> Mapping[Path, Sequence[int]]:
        """By domain of the level with this depth: the numbers of its nodes."""
        members = self._members.get(depth)
        if members is None:
            members = {}
            self._members[depth] = members
            domains = self._domains(depth)
            for number, domain in enumerate(domains):
                in_domain = members.setdefault(domain, [])
                in_domain.append(number)
        return members

    def ranked(self, view: FreeBasis, pods: Pods, depth: int) -> Sequence[RankedDomain]:
        """The domains of a level that take such pods, the roomiest first."""
        key = _CountKey(view, pods, depth)
        ranked = self._ranked.get(key)
        if ranked is None:
            sums = self.sums(view, pods, depth)
            ranked = _ranked(sums)
            self._ranked[key] = ranked
        return ranked

    def fewest(
        self,
        view: FreeBasis,
        pods: Pods,
        depth: int,
        wanted: int,
        *,
        instead: Mapping[Path, int] | None = None,
    ) -> int | None:
        """The fewest domains of a level that hold this many pods; None where all of them do not.

        `instead` are domains with another capacity than counted here.
        """
        ranked: Iterable[RankedDomain] = self.ranked(view, pods, depth)
        if instead:
            unchanged = (entry for entry in ranked if entry.domain not in instead)
            changed = _ranked(instead)
            ranked = merge(unchanged, changed)

        slots = 0
        for number, entry in enumerate(islice(ranked, wanted), 1):
            slots -= entry.minus_slots
            if slots >= wanted:
                return number
        return None


def _ending(snapshot: Snapshot, gangs: Iterable[Gang]) -> dict[str, dict[str, int]]:
    """By node: what gangs, and pods without GPUs, that end by themselves hold there."""
    ending: dict[str, dict[str, int]] = {}
    for pod in snapshot.in_whole_gpus.pods or ():
        if pod.node and ends(pod) and not gpu_count(pod.requests):
            held = ending.setdefault(pod.node, {})
            add_pods(held, pod.requests.items(), 1)
    for gang in gangs:
        if not gang.ends:
            continue
        for pod in gang.placed:
            held = ending.setdefault(pod.node, {})
            requests = pod.requests.items()
            add_pods(held, requests, 1)
    return ending


def _ranked(sums: Mapping[Path, int]) -> list[RankedDomain]:
    ranked = []
    for domain, count in sums.items():
        if count:
            ranked.append(RankedDomain(-count, domain))
    ranked.sort()
    return ranked


def with_amounts(offered: Mapping[str, int], more: Mapping[str, int]) -> Mapping[str, int]:
    """What is offered and what is added to it, of the resources that are offered."""
    if not more:
        return offered
    total = {}
    for name, amount in offered.items():
        total[name] = amount + more.get(name, 0)
    return total


def _can_use(
    node: RoomNode, pods: Pods, taints: tuple[Taint, ...], allowed: dict[tuple[object, ...], bool]
) -> bool:
    """Whether the pods may use the node with these taints as far as its labels say."""
    wants = pods.node_filter
    if not (wants.selector or wants.terms or taints):
        return True

    values = [node.labels.get(key) for key, _ in wants.selector]
    name = node.name if wants.terms else ""
    key = name, tuple(values), taints
    is_allowed = allowed.get(key)
    if is_allowed is None:
        repelling = [taint for taint in taints if not is_fence(taint)]
        rejection = wants.rejection(node.name, node.labels, repelling)
        is_allowed = rejection is None
        allowed[key] = is_allowed
    return is_allowed
