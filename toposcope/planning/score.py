"""How well gangs are placed: the domains that each spans, beside the fewest it could span.

A gang's score is the mean over its levels of (the fewest domains of the level that could hold it on
an empty cluster / the domains of the level that it spans): 1 where it is as close together as it
can be, towards 0 the further it is scattered. Each level is looked at by itself, on nodes with as
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
from toposcope.integrations.framework.packing import (
    Path,
    add_pods,
    columns,
    resources_of,
    times_by_name,
)
from toposcope.integrations.framework.pods import node_filter_of
from toposcope.placement.pack import Bin, pack
from toposcope.planning.capacity import Capacity, Labels, View, with_amounts
from toposcope.planning.gangs import Gang
from toposcope.snapshot.model import PodView

_MOST_NODES: Final = 64
_MOST_CHOICES: Final = 200
"""Pods of several kinds are packed exactly for so many nodes and choices of domains."""


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
    def better_now(self) -> bool:
        """Whether it would span fewer domains of some level if it were placed anew.

        And not more domains of a broader level.
        """
        for spread in self.spreads:
            if spread.now is None or spread.now > spread.spans:
                return False
            if spread.now < spread.spans:
                return True
        return False

    @property
    def misplaced(self) -> bool:
        """Whether it spans twice the domains of some level that it would if it were placed anew."""
        if not self.better_now:
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
    better placed anew, or pods of several kinds leave too many choices to try.
    """
    if not score.better_now:
        return None
    gang = score.gang
    alike = capacity.alike(gang)
    counts = Kinds().of(gang.placed, alike)
    demand = _Demand(View.NOW, counts, freed=_held(capacity, gang))
    for depth, spread in enumerate(score.spreads, 1):
        if spread.now is None or spread.now >= spread.spans:
            continue
        domains = _Fewest(capacity, demand).place(depth, spread.now or 1)
        return None if domains is None else (spread.level, domains)
    return None


def scores(capacity: Capacity, gangs: Iterable[Gang]) -> tuple[Score, ...]:
    """The running gangs of more than one pod, the worst first, then the largest."""
    kinds = Kinds()
    made = []
    for gang in gangs:
        if len(gang.placed) <= 1:
            continue
        score = _score(capacity, kinds, gang)
        if score:
            made.append(score)
    made.sort(key=_worst_first)
    return tuple(made)


def _worst_first(score: Score) -> tuple[float, int, str]:
    gang = score.gang
    return score.value, -gang.gpus, gang.handle


class Kinds:
    """What pods request and which nodes they may use.

    Equal pods share both, so each is read once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, Labels], Pods] = {}
        self._kept: list[PodView] = []

    def of(self, pods: Iterable[PodView], alike: Labels = ()) -> dict[Pods, int]:
        """The different kinds of pods, and how many there are of each.

        Only nodes with the labels `alike` will do.
        """
        counts: dict[Pods, int] = {}
        for pod in pods:
            key = id(pod.requests), id(pod.wants), alike
            kind = self._known.get(key)
            if kind is None:
                kind = self._read(pod, key)
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def kind_of(self, pod: PodView, alike: Labels) -> Pods:
        """The kind of one pod."""
        (kind,) = self.of([pod], alike)
        return kind

    def _read(self, pod: PodView, key: tuple[int, int, Labels]) -> Pods:
        self._kept.append(pod)  # keeps the ids taken
        _, _, alike = key
        wants = node_filter_of(Field(pod.wants))
        selector = {*wants.selector, *alike}
        wants = replace(wants, selector=tuple(sorted(selector)))
        requests = sorted(pod.requests.items())
        kind = Pods(
            name="",
            count=1,
            requests=tuple(requests),
            node_filter=wants,
        )
        self._known[key] = kind
        return kind


def _score(capacity: Capacity, kinds: Kinds, gang: Gang) -> Score | None:
    """None where one of its nodes is not among those that count."""
    paths = set()
    for pod in gang.placed:
        number = capacity.number.get(pod.node)
        if number is None:
            return None
        path = capacity.paths[number]
        paths.add(path)

    alike = capacity.alike(gang)
    counts = kinds.of(gang.placed, alike)
    now = _Fewest(
        capacity,
        _Demand(View.NOW, counts, freed=_held(capacity, gang)),
    )
    empty = _Fewest(
        capacity,
        _Demand(View.EMPTY, counts, freed={}),
    )
    spreads = []
    for depth, level in enumerate(capacity.levels, 1):
        domains = {path[:depth] for path in paths}
        spans = len(domains)
        spread = Spread(
            level=level,
            spans=spans,
            now=1,
            empty=1,
            worst=min(len(gang.placed), empty.domains(depth)),
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

    view: View
    kinds: Mapping[Pods, int]
    freed: Mapping[int, Mapping[str, int]]
    """By node: what the gang holds itself, where that is room for it."""

    @property
    def alike(self) -> bool:
        """Whether all pods are of one kind."""
        return len(self.kinds) == 1


def _held(capacity: Capacity, gang: Gang) -> dict[int, dict[str, int]]:
    """By node: what the gang holds of it."""
    held: dict[int, dict[str, int]] = {}
    for pod in gang.placed:
        number = capacity.number[pod.node]
        on_node = held.setdefault(number, {})
        add_pods(on_node, pod.requests.items(), 1)
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

        For pods of several kinds in large clusters at least so many.
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

        if self._demand.alike:
            return bound
        return self._fewest_by_packing(depth, bound)

    def _fewest_by_packing(self, depth: int, bound: int) -> int | None:
        """Tries every choice of domains with an exact packing if there are few; else the bound."""
        members = self._capacity.members(depth)
        there_are = len(members)
        for count in range(bound, there_are + 1):
            choices = comb(there_are, count)
            if choices > _MOST_CHOICES:
                return count
            for domains in combinations(members, count):
                if self._may_hold(depth, domains):
                    return count
        return None

    def place(self, depth: int, count: int) -> tuple[Path, ...] | None:
        """So many domains that hold the gang: of single ones the fullest, else the roomiest."""
        rooms = [self._rooms(pods, depth) for pods in self._demand.kinds]

        def fullest_first(domain: Path) -> tuple[list[int], Path]:
            return [room[domain] for room in rooms], domain

        domains = sorted(self._capacity.members(depth), key=fullest_first)
        if count == 1:
            domains = self._roomy(domains, rooms)
        choices: Iterable[tuple[Path, ...]] = combinations(domains, count)
        if self._demand.alike and count > 1:
            roomiest = domains[-count:]
            choices = [tuple(roomiest)]

        for choice in islice(choices, _MOST_CHOICES):
            if self._demand.alike or self._may_hold(depth, choice):
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
        gains = self._gains_of(pods)
        for number, gain in gains.items():
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
            if not node.obstacle:
                slots_without = times_by_name(self._offered(number), pods.requests)
                gains[number] = slots_without - slots[number]
        return gains

    def _offered(self, number: int) -> Mapping[str, int]:
        """What a node offers to the gang."""
        demand = self._demand
        offered = self._capacity.offered(number, demand.view)
        freed = demand.freed.get(number, {})
        return with_amounts(offered, freed)

    def _may_hold(self, depth: int, domains: Iterable[Path]) -> bool:
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
        return not packing.impossible

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
                slots = capacity.slots(View.EMPTY, pods)
                allowed.append(slots[number] > 0)
            yield Bin(number, tuple(free), tuple(allowed))
