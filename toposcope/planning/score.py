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
from toposcope.integrations.framework.packing import PODS, Path
from toposcope.integrations.framework.pods import node_filter_of
from toposcope.placement.pack import Bin, pack
from toposcope.planning.capacity import Capacity, Labels, View, add, fits
from toposcope.planning.gangs import Gang
from toposcope.snapshot.model import PodView

_MOST_NODES: Final = 64
_MOST_CHOICES: Final = 200
"""Pods of several kinds are packed exactly within so many nodes, and for so many choices of domains."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One gang at one level, in numbers of domains."""

    level: Level
    spans: int
    now: int | None
    """The fewest that could hold it with what is free now and what it holds itself; None: not all of it fits again."""
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
        shares = [
            spread.empty / spread.spans for spread in self.spreads if spread.empty < spread.worst
        ]
        return sum(shares) / len(shares) if shares else 1.0

    @cached_property
    def better_now(self) -> bool:
        """Whether it would span fewer domains of some level if it were placed anew, and not more of a broader one."""
        for spread in self.spreads:
            if spread.now is None or spread.now > spread.spans:
                return False
            if spread.now < spread.spans:
                return True
        return False

    @property
    def misplaced(self) -> bool:
        """Whether it spans at least twice the domains of some level that it would span if it were placed anew."""
        return self.better_now and any(
            tier.now is not None and 2 * tier.now <= tier.spans for tier in self.spreads
        )


def better_place(capacity: Capacity, score: Score) -> tuple[Level, tuple[Path, ...]] | None:
    """The fewest domains that could hold a gang now, at the broadest level at which that is fewer than it spans.

    None where it would not be better placed anew, or pods of several kinds leave too many choices to try.
    """
    return _Scorer(capacity).place(score) if score.better_now else None


def scores(capacity: Capacity, gangs: Iterable[Gang]) -> tuple[Score, ...]:
    """The running gangs of more than one pod, the worst first, then the largest."""
    scorer = _Scorer(capacity)
    made = [scorer.score(gang) for gang in gangs if len(gang.placed) > 1]
    return tuple(
        sorted(filter(None, made), key=lambda one: (one.value, -one.gang.gpus, one.gang.handle))
    )


class Kinds:
    """What pods request and which nodes they may use; equal pods share both, so each is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, Labels], Pods] = {}
        self._kept: list[PodView] = []

    def of(self, pods: Iterable[PodView], alike: Labels = ()) -> dict[Pods, int]:
        """The different kinds of pods, and how many there are of each; only nodes with the labels `alike` will do."""
        found: dict[Pods, int] = {}
        for pod in pods:
            key = id(pod.requests), id(pod.wants), alike
            kind = self._known.get(key)
            if kind is None:
                self._kept.append(pod)  # keeps the ids taken
                wants = node_filter_of(Field(pod.wants))
                wants = replace(wants, selector=tuple(sorted({*wants.selector, *alike})))
                kind = self._known[key] = Pods("", 1, tuple(sorted(pod.requests.items())), wants)
            found[kind] = found.get(kind, 0) + 1
        return found


class _Scorer:
    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._kinds = Kinds()
        self._gained: tuple[
            Mapping[int, Mapping[str, int]], dict[tuple[View, Pods], dict[int, int]]
        ] = {}, {}
        """What the gang at hand holds, and what that is worth for its pods."""

    def score(self, gang: Gang) -> Score | None:
        """None where one of its nodes is not among those that count."""
        capacity = self._capacity
        numbers = [capacity.number.get(pod.node) for pod in gang.placed]
        if None in numbers:
            return None
        paths = {capacity.paths[number] for number in numbers if number is not None}
        kinds = self._kinds.of(gang.placed, capacity.alike(gang))
        freed = _held(capacity, gang)
        spreads = []
        for depth, level in enumerate(capacity.levels, 1):
            spans = len({path[:depth] for path in paths})
            domains = max(len(capacity.ranked(View.EMPTY, pods, depth)) for pods in kinds)
            worst = min(len(gang.placed), domains)
            if spans == 1:
                spreads.append(Spread(level, 1, 1, 1, worst))
                continue
            empty = self._fewest(View.EMPTY, kinds, depth, {})
            now = self._fewest(View.NOW, kinds, depth, freed)
            spreads.append(Spread(level, spans, now, min(empty or spans, spans), worst))
        return Score(gang, tuple(spreads))

    def place(self, score: Score) -> tuple[Level, tuple[Path, ...]] | None:
        """As `better_place`: of single domains the fullest that holds it, else the roomiest ones."""
        capacity, gang = self._capacity, score.gang
        depth = next(
            at
            for at, tier in enumerate(score.spreads, 1)
            if tier.now is not None and tier.now < tier.spans
        )
        count = score.spreads[depth - 1].now or 1
        kinds, freed = self._kinds.of(gang.placed, capacity.alike(gang)), _held(capacity, gang)
        rooms = [
            {**capacity.sums(View.NOW, pods, depth), **self._instead(View.NOW, pods, depth, freed)}
            for pods in kinds
        ]
        members = capacity.members(depth)
        domains = sorted(members, key=lambda domain: (*(room[domain] for room in rooms), domain))
        if count == 1:
            domains = [
                d
                for d in domains
                if all(
                    room[d] >= wanted for room, wanted in zip(rooms, kinds.values(), strict=True)
                )
            ]
        chosen = (
            [tuple(domains[-count:])]
            if len(kinds) == 1 and count > 1
            else combinations(domains, count)
        )
        for place in islice(chosen, _MOST_CHOICES):
            numbers = [number for domain in place for number in members[domain]]
            if (
                len(kinds) == 1
                or len(numbers) > _MOST_NODES
                or self._fit(View.NOW, kinds, numbers, freed)
            ):
                return score.spreads[depth - 1].level, place
        return None

    def _fewest(
        self,
        view: View,
        kinds: Mapping[Pods, int],
        depth: int,
        freed: Mapping[int, Mapping[str, int]],
    ) -> int | None:
        """The fewest domains that hold all pods; for pods of several kinds in large clusters at least so many."""
        bound = 1
        for pods, wanted in kinds.items():
            fewest = self._capacity.fewest(
                view, pods, depth, wanted, self._instead(view, pods, depth, freed)
            )
            if fewest is None:
                return None
            bound = max(bound, fewest)
        return bound if len(kinds) == 1 else self._packed(view, kinds, depth, freed, bound)

    def _instead(
        self, view: View, pods: Pods, depth: int, freed: Mapping[int, Mapping[str, int]]
    ) -> dict[Path, int]:
        """The domains of a gang with what it holds itself counted as free."""
        capacity, changed = self._capacity, dict[Path, int]()
        if not freed:
            return changed
        sums = capacity.sums(view, pods, depth)
        for number, gain in self._gains(view, pods, freed).items():
            domain = capacity.paths[number][:depth]
            changed[domain] = changed.get(domain, sums[domain]) + gain
        return changed

    def _gains(
        self, view: View, pods: Pods, freed: Mapping[int, Mapping[str, int]]
    ) -> Mapping[int, int]:
        """By node of a gang: how many more pods fit there without it; the same at every level."""
        key = view, pods
        if self._gained[0] is not freed:
            self._gained = freed, {}
        known = self._gained[1]
        if key not in known:
            capacity, slots = self._capacity, self._capacity.slots(view, pods)
            amounts = [
                (PODS, 1),
                *((resource, amount) for resource, amount in pods.requests if amount),
            ]
            known[key] = {
                number: 0
                if capacity.nodes[number].obstacle
                else fits(_more(capacity.offered(number, view), held), amounts) - slots[number]
                for number, held in freed.items()
            }
        return known[key]

    def _packed(
        self,
        view: View,
        kinds: Mapping[Pods, int],
        depth: int,
        freed: Mapping[int, Mapping[str, int]],
        bound: int,
    ) -> int | None:
        """Tries every choice of domains with an exact packing, as long as that is little; else the bound."""
        members = self._capacity.members(depth)
        for count in range(bound, len(members) + 1):
            if comb(len(members), count) > _MOST_CHOICES:
                return count
            for choice in combinations(members.values(), count):
                numbers = [number for domain in choice for number in domain]
                if len(numbers) > _MOST_NODES or self._fit(view, kinds, numbers, freed):
                    return count
        return None

    def _fit(
        self,
        view: View,
        kinds: Mapping[Pods, int],
        numbers: Sequence[int],
        freed: Mapping[int, Mapping[str, int]],
    ) -> bool:
        """Whether all pods fit onto these nodes, or that takes too long to find out."""
        resources = list(
            dict.fromkeys([PODS, *(name for pods in kinds for name, _ in pods.requests)])
        )
        asked = [dict(pods.requests) | {PODS: 1} for pods in kinds]
        bins = list(self._bins(view, kinds, numbers, freed, resources))
        sizes = [tuple(amounts.get(name, 0) for name in resources) for amounts in asked]
        packing = pack(bins, sizes, tuple(kinds.values()))
        return packing.placed is not None or not packing.exact

    def _bins(
        self,
        view: View,
        kinds: Mapping[Pods, int],
        numbers: Sequence[int],
        freed: Mapping[int, Mapping[str, int]],
        resources: Sequence[str],
    ) -> Iterator[Bin]:
        capacity = self._capacity
        for number in numbers:
            if capacity.nodes[number].obstacle and view is not View.EMPTY:
                continue
            offered = _more(capacity.offered(number, view), freed.get(number, {}))
            may = tuple(capacity.slots(View.EMPTY, pods)[number] > 0 for pods in kinds)
            yield Bin(number, tuple(max(0, offered.get(name, 0)) for name in resources), may)


def _held(capacity: Capacity, gang: Gang) -> dict[int, dict[str, int]]:
    """By node: what the gang holds of it."""
    held: dict[int, dict[str, int]] = {}
    for pod in gang.placed:
        add(held.setdefault(capacity.number[pod.node], {}), pod.requests)
    return held


def _more(offered: Mapping[str, int], held: Mapping[str, int]) -> Mapping[str, int]:
    return (
        {name: amount + held.get(name, 0) for name, amount in offered.items()} if held else offered
    )
