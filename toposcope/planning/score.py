"""How well gangs are placed: the domains that each spans, beside the fewest it could span.

A gang's score is the mean over its levels of (the fewest domains of the level that could hold it on
an empty cluster / the domains of the level that it spans): 1 where it is as close together as it
can be, towards 0 the further it is scattered. Each level is judged by itself, on nodes with as
many GPUs of the same product as those it runs on. A level at which it has no choice does not count:
where there is only one domain, or where every pod fills a domain.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_terms import node_filter_of
from toposcope.integrations.framework.packing import (
    Path,
    add_pods,
    columns,
    resources_of,
    times_by_name,
)
from toposcope.placement.pack import Bin, pack
from toposcope.planning.capacity import Capacity, FreeBasis, Labels, with_amounts
from toposcope.planning.gangs import Gang
from toposcope.snapshot.model import PodView

_MOST_NODES: Final = 64
_MOST_CHOICES: Final = 200
"""Pods of several kinds are packed exactly up to this many nodes and choices of domains."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One gang at one level, in numbers of domains."""

    level: Level
    spans: int
    now: int | None
    """The fewest that could hold it with what is free now and what it holds itself.

    None: not all of it fits again.
    """
    empty: int
    """The same on an empty cluster; never more than it spans."""
    worst: int
    """The most domains that it could span."""


@dataclass(frozen=True)
class Score:
    """How well one gang is placed."""

    gang: Gang
    spreads: tuple[Spread, ...]
    """Broadest level first."""

    @cached_property
    def value(self) -> float:
        """From 0 to 1."""
        shares = []
        for spread in self.spreads:
            if spread.empty < spread.worst:
                share = spread.empty / spread.spans
                shares.append(share)
        if not shares:
            return 1.0
        return sum(shares) / len(shares)

    @cached_property
    def can_improve(self) -> bool:
        """Whether it would span fewer domains of some level if it were placed again.

        It must not span more domains of a broader level for that.
        """
        for spread in self.spreads:
            if spread.now is None or spread.now > spread.spans:
                return False
            if spread.now < spread.spans:
                return True
        return False

    @property
    def is_misplaced(self) -> bool:
        """Whether it spans twice the domains of some level that it would if placed again."""
        if not self.can_improve:
            return False
        for spread in self.spreads:
            if spread.now is None:
                continue
            if spread.spans >= 2 * spread.now:
                return True
        return False


def better_place(capacity: Capacity, score: Score) -> tuple[Level, tuple[Path, ...]] | None:
    """The fewest domains that could hold a gang now.

    They are of the broadest level at which that is fewer than it spans. None where it would not be
    better placed again, or pods of several kinds leave too many choices to try.
    """
    if not score.can_improve:
        return None
    gang = score.gang
    common_labels = capacity.common_labels(gang)
    demand = _Demand(
        view=FreeBasis.NOW,
        kinds=Kinds(capacity).of(gang.placed, common_labels),
        freed=_held(capacity, gang),
    )
    fewest = _Fewest(capacity, demand)
    for depth, spread in enumerate(score.spreads, 1):
        if spread.now is None or spread.now >= spread.spans:
            continue
        domains = fewest.place(depth, spread.now or 1)
        if domains is None:
            return None
        return spread.level, domains
    return None


def scores(capacity: Capacity, gangs: Iterable[Gang]) -> tuple[Score, ...]:
    """The running gangs of more than one pod, the worst first, then the largest."""
    kinds = Kinds(capacity)
    ranking = []
    for gang in gangs:
        if len(gang.placed) <= 1:
            continue
        score = _score(capacity, kinds, gang)
        if score:
            ranking.append(score)
    ranking.sort(key=_worst_first)
    return tuple(ranking)


def _worst_first(score: Score) -> tuple[float, int, str]:
    gang = score.gang
    return score.value, -gang.gpus, gang.handle


class Kinds:
    """What pods request and which nodes they may use.

    Equal pods share both, so each is read once.
    """

    def __init__(self, capacity: Capacity) -> None:
        self._tolerations = (*capacity.fences, *capacity.tolerations)
        """What all pods tolerate."""
        self._by_identity: dict[tuple[int, int, Labels], Pods] = {}
        self._kept: list[PodView] = []
        """Pods whose ids stay taken while they are in `_by_identity`."""

    def of(self, pods: Iterable[PodView], node_labels: Labels = ()) -> dict[Pods, int]:
        """The different kinds of pods, on nodes with these labels, and how many of each."""
        counts: dict[Pods, int] = {}
        for pod in pods:
            key = id(pod.requests), id(pod.wants), node_labels
            kind = self._by_identity.get(key)
            if kind is None:
                kind = self._read(pod, node_labels)
                self._by_identity[key] = kind
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def kind_of(self, pod: PodView, node_labels: Labels) -> Pods:
        """The kind of one pod."""
        (kind,) = self.of([pod], node_labels)
        return kind

    def _read(self, pod: PodView, node_labels: Labels) -> Pods:
        self._kept.append(pod)
        wants = node_filter_of(Field(pod.wants))
        selector = {*wants.selector, *node_labels}
        tolerations = dict.fromkeys((*wants.tolerations, *self._tolerations))
        wants = replace(
            wants,
            selector=tuple(sorted(selector)),
            tolerations=tuple(tolerations),
        )
        requests = sorted(pod.requests.items())
        return Pods(
            name="",
            count=1,
            requests=tuple(requests),
            node_filter=wants,
        )


def _score(capacity: Capacity, kinds: Kinds, gang: Gang) -> Score | None:
    """The score; None where one of its nodes is not among those that count."""
    paths = set()
    for pod in gang.placed:
        number = capacity.number.get(pod.node)
        if number is None:
            return None
        path = capacity.paths[number]
        paths.add(path)

    common_labels = capacity.common_labels(gang)
    counts = kinds.of(gang.placed, common_labels)
    demand_now = _Demand(FreeBasis.NOW, counts, freed=_held(capacity, gang))
    demand_empty = _Demand(FreeBasis.EMPTY, counts, freed={})
    now = _Fewest(capacity, demand_now)
    empty = _Fewest(capacity, demand_empty)

    spreads = []
    for depth, level in enumerate(capacity.levels, 1):
        domains = {path[:depth] for path in paths}
        spans = len(domains)
        taking = empty.domains(depth)
        spread = Spread(
            level=level,
            spans=spans,
            now=1,
            empty=1,
            worst=min(len(gang.placed), taking),
        )
        if spans > 1:
            fewest = empty.fewest(depth) or spans
            spread = replace(
                spread,
                now=now.fewest(depth),
                empty=min(fewest, spans),
            )
        spreads.append(spread)
    return Score(gang, tuple(spreads))


@dataclass(frozen=True, slots=True)
class _Demand:
    """The pods of one gang, and what counts as free for them."""

    view: FreeBasis
    kinds: Mapping[Pods, int]
    freed: Mapping[int, Mapping[str, int]]
    """By node: what the gang holds itself, where that is room for it."""

    @property
    def is_of_one_kind(self) -> bool:
        """Whether all pods request the same."""
        return len(self.kinds) == 1


def _held(capacity: Capacity, gang: Gang) -> dict[int, dict[str, int]]:
    """By node: what the gang holds of it."""
    held: dict[int, dict[str, int]] = {}
    for pod in gang.placed:
        number = capacity.number[pod.node]
        held_there = held.setdefault(number, {})
        requests = pod.requests.items()
        add_pods(held_there, requests, 1)
    return held


class _Fewest:
    """The fewest domains of each level that could hold one gang."""

    def __init__(self, capacity: Capacity, demand: _Demand) -> None:
        self._capacity = capacity
        self._demand = demand
        self._gains: dict[Pods, dict[int, int]] = {}
        """By kind of pods and node: how many more fit there without the gang."""

    def domains(self, depth: int) -> int:
        """How many domains of a level take some of the pods."""
        most = 0
        for pods in self._demand.kinds:
            ranked = self._capacity.ranked(self._demand.view, pods, depth)
            most = max(most, len(ranked))
        return most

    def fewest(self, depth: int) -> int | None:
        """The fewest domains that hold all pods.

        A lower bound where pods of several kinds leave too many choices to try.
        """
        bound = 1
        for pods, wanted in self._demand.kinds.items():
            fewest = self._capacity.fewest(
                self._demand.view,
                pods,
                depth,
                wanted,
                instead=self._instead(pods, depth),
            )
            if fewest is None:
                return None
            bound = max(bound, fewest)

        if self._demand.is_of_one_kind:
            return bound
        return self._fewest_by_packing(depth, bound)

    def _fewest_by_packing(self, depth: int, bound: int) -> int | None:
        """Tries every choice of domains with an exact packing if there are few; else the bound."""
        members = self._capacity.members(depth)
        total = len(members)
        for count in range(bound, total + 1):
            choices = comb(total, count)
            if choices > _MOST_CHOICES:
                return count
            for domains in combinations(members, count):
                if self._can_hold(depth, domains):
                    return count
        return None

    def place(self, depth: int, count: int) -> tuple[Path, ...] | None:
        """`count` domains that hold the gang: one as full as possible, or the roomiest."""
        rooms = [self._rooms(pods, depth) for pods in self._demand.kinds]

        def fullest_first(domain: Path) -> tuple[list[int], Path]:
            return [room[domain] for room in rooms], domain

        domains = sorted(self._capacity.members(depth), key=fullest_first)
        if count == 1:
            domains = self._roomy(domains, rooms)
        if self._demand.is_of_one_kind:
            chosen = domains[-count:]
            if count == 1:
                chosen = domains[:1]  # the fullest with room
            return tuple(chosen) or None
        choices = combinations(domains, count)
        for choice in islice(choices, _MOST_CHOICES):
            if self._can_hold(depth, choice):
                return choice
        return None

    def _rooms(self, pods: Pods, depth: int) -> dict[Path, int]:
        """By domain: how many of these pods it takes."""
        sums = self._capacity.sums(self._demand.view, pods, depth)
        return {**sums, **self._instead(pods, depth)}

    def _roomy(self, domains: Iterable[Path], rooms: Sequence[Mapping[Path, int]]) -> list[Path]:
        """The domains with room for all pods of each kind, were they alone."""
        roomy = list(domains)
        counts = self._demand.kinds.values()
        for room, wanted in zip(rooms, counts, strict=True):
            roomy = [domain for domain in roomy if room[domain] >= wanted]
        return roomy

    def _instead(self, pods: Pods, depth: int) -> dict[Path, int]:
        """The domains of the gang with what it holds itself counted as free."""
        if not self._demand.freed:
            return {}
        sums = self._capacity.sums(self._demand.view, pods, depth)
        changed: dict[Path, int] = {}
        for number, gain in self._gains_of(pods).items():
            path = self._capacity.paths[number]
            domain = path[:depth]
            before = changed.get(domain, sums[domain])
            changed[domain] = before + gain
        return changed

    def _gains_of(self, pods: Pods) -> Mapping[int, int]:
        """By node of the gang: how many more pods fit there without it."""
        gains = self._gains.get(pods)
        if gains is None:
            gains = self._count_gains(pods)
            self._gains[pods] = gains
        return gains

    def _count_gains(self, pods: Pods) -> dict[int, int]:
        slots = self._capacity.slots(self._demand.view, pods)
        gains = {}
        for number in self._demand.freed:
            gains[number] = 0
            node = self._capacity.nodes[number]
            if node.obstacle:
                continue
            offered = self._offered(number)
            slots_without = times_by_name(offered, pods.requests)
            gains[number] = slots_without - slots[number]
        return gains

    def _offered(self, number: int) -> Mapping[str, int]:
        """What a node offers to the gang."""
        demand = self._demand
        offered = self._capacity.offered(number, demand.view)
        freed = demand.freed.get(number, {})
        return with_amounts(offered, freed)

    def _can_hold(self, depth: int, domains: Iterable[Path]) -> bool:
        """Whether all pods fit into these domains, or that takes too long to find out."""
        members = self._capacity.members(depth)
        numbers: list[int] = []
        for domain in domains:
            numbers += members[domain]
        if len(numbers) > _MOST_NODES:
            return True

        kinds = self._demand.kinds
        resources = resources_of(pods.requests for pods in kinds)
        sizes = [columns(pods.requests, resources) for pods in kinds]
        bins = list(self._bins(numbers, resources))
        counts = tuple(kinds.values())
        packing = pack(bins, sizes, counts)
        return not packing.is_impossible

    def _bins(self, numbers: Iterable[int], resources: Sequence[str]) -> Iterator[Bin]:
        capacity, view = self._capacity, self._demand.view
        for number in numbers:
            if capacity.is_closed(number, view):
                continue
            free = []
            offered = self._offered(number)
            for resource in resources:
                amount = offered.get(resource, 0)
                free.append(max(0, amount))

            allowed = []
            for pods in self._demand.kinds:
                slots = capacity.slots(FreeBasis.EMPTY, pods)
                allowed.append(slots[number] > 0)
            yield Bin(number, tuple(free), tuple(allowed))
