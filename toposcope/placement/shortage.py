"""What lacks where a workload does not fit: a resource, nodes for whole pods, or domains for smaller groups.

A shortage is a bound that the workload exceeds: it needs more of something than there is. Of several such bounds the
one on the scarcest resource counts. Where every domain fails by another bound, it says how many fail by which.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group
from toposcope.placement.room import PODS, Path, Room, Shape, most_copies

_RANKS: Final = {ALLOCATABLE_GPUS: 0, "cpu": 2, "memory": 3, PODS: 5}
"""The scarcest first; 1: other devices, 4: everything else."""

Amounts = tuple[tuple[str, int], ...]
Counted = Literal["pod", "resource", "pods", "groups", "domains", "several", "pieces"]
"""What there is too little of: a resource on any one node; a resource; nodes that take whole
pods; domains for a smaller group; domains for copies that share none; in each domain something
else; nothing, but not for all at once.
"""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One copy of a group `needs` more than the `largest` domain has, or there is room for too few of its copies."""

    group: Group
    level: Level | None
    """None: any nodes will do."""
    counted: Counted
    resource: str
    """What is short; where that is no resource, the scarcest that is asked for."""
    needs: int
    largest: int
    best: Path
    """The domain; for one pod the node's name."""
    copies: int
    """How many copies are wanted."""
    room_for: int
    """How many there is room for, always fewer; 0 where one is too much already."""
    each: Amounts = ()
    """Of pods: the requests of one that are too much. Of several: what one copy needs."""
    inner: Group | None = None
    """The smaller group."""
    lacking: "tuple[Lack, ...]" = ()
    """Of several: what is short where."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What so many domains have too little of: a resource, or room for the smaller group of this name."""

    counted: Counted
    what: str
    domains: int


@dataclass(frozen=True, slots=True)
class _Bound:
    counted: Counted
    resource: str
    needs: int
    there: Mapping[Path, int]
    each: Amounts = ()
    inner: Group | None = None


def by_scarcity(resources: Iterable[str]) -> list[str]:
    """GPUs, other devices, CPU, memory, everything else, and pods, of which every node takes many."""
    return sorted(
        resources,
        key=lambda resource: (_RANKS.get(resource, 1 if "/" in resource else 4), resource),
    )


def scarce(need: Iterable[str]) -> str:
    """The resource that most often decides: GPUs, else other devices, else pods."""
    first = by_scarcity(need)[0]
    return first if "/" in first else PODS


def shortage_of(room: Room, groups: Sequence[Group]) -> Shortage:
    """What is short for the innermost group that finds no room even alone, else for all of them together."""
    short = {
        group: top.copies * times
        for top in groups
        for group, times in top.everything()
        if most_copies(room, group) < top.copies * times
    }
    if not short:
        return _together(room, groups)
    group = next(group for group in short if not any(below in short for below in group.groups))
    return _shortage(room, group, short[group])


def _together(room: Room, groups: Sequence[Group]) -> Shortage:
    whole = (
        groups[0]
        if len(groups) == 1 and groups[0].copies == 1
        else Group("all of it", groups=tuple(groups))
    )
    for bound in _resources(room, whole, ((),)):
        if bound.there[()] < bound.needs:
            return Shortage(
                whole, None, "resource", bound.resource, bound.needs, bound.there[()], (), 1, 0
            )
    return Shortage(whole, whole.required, "pieces", scarce(whole.total()), 0, 0, (), 1, 0)


def _shortage(room: Room, group: Group, copies: int) -> Shortage:
    domains = room.domains((), group.required)
    if group.anti_affinity and len(domains) < copies:
        counts = 1, 0, (), copies, len(domains)
        return Shortage(group, group.required, "domains", scarce(group.total()), *counts)
    if too_large := _too_large(room, group, copies):
        return too_large
    short: dict[Path, tuple[Counted, str]] = {}
    for bound in _bounds(room, group, domains):
        if len(bound.each) > 1 and len(short) == len(domains):
            break  # to say which resource each domain lacks says more
        fits = 0
        for domain, there in bound.there.items():
            in_it = there // bound.needs
            fits += min(in_it, 1) if group.anti_affinity else in_it
            if not in_it:
                short.setdefault(
                    domain, (bound.counted, bound.inner.name if bound.inner else bound.resource)
                )
        if fits < copies:
            best = max(domains, key=lambda domain: bound.there[domain], default=())
            largest = bound.there.get(best, 0)
            numbers = bound.needs, largest, best, copies, fits
            return Shortage(
                group,
                group.required,
                bound.counted,
                bound.resource,
                *numbers,
                bound.each,
                bound.inner,
            )
    lacking = tuple(Lack(*what, count) for what, count in Counter(short.values()).most_common())
    each, counts = _amounts(group.total()), (0, 0, (), copies, most_copies(room, group))
    return Shortage(
        group, group.required, "several", scarce(group.total()), *counts, each, lacking=lacking
    )


def _too_large(room: Room, group: Group, copies: int) -> Shortage | None:
    """A pod for which no node has enough of a resource, however many nodes there are."""
    for pods in group.pods:
        shape = room.shapes[pods]
        able = [number for number, eligible in enumerate(room.eligible) if eligible[shape.number]]
        for resource, amount in _amounts(dict(pods.requests)) if able else ():
            column = room.resources.index(resource)
            best = max(able, key=lambda number: room.free[number][column])
            if room.free[best][column] < amount:
                numbers = amount, room.free[best][column], (room.names[best],), copies, 0
                return Shortage(group, group.required, "pod", resource, *numbers)
    return None


def _bounds(room: Room, group: Group, domains: Sequence[Path]) -> Iterator[_Bound]:
    """All bounds on one copy, those that are easiest to understand first."""
    yield from _resources(room, group, domains)
    for pods in group.pods:
        shape, asked = room.shapes[pods], _amounts(dict(pods.requests))
        for each in (*((amount,) for amount in asked), asked):
            there = {domain: _places(room, shape, domain, each) for domain in domains}
            yield _Bound("pods", each[0][0] if each else PODS, pods.count, there, each)
    for below in group.groups:
        there = {domain: most_copies(room, below, domain) for domain in domains}
        yield _Bound("groups", scarce(below.total()), below.copies, there, inner=below)


def _resources(room: Room, group: Group, domains: Sequence[Path]) -> Iterator[_Bound]:
    """What is free of each resource on nodes that some pod of the group may use."""
    shapes = {room.shapes[pods].number for nested, _ in group.everything() for pods in nested.pods}
    members = {
        domain: [
            number
            for number in room.members[domain]
            if any(room.eligible[number][shape] for shape in shapes)
        ]
        for domain in domains
    }
    for resource, amount in _amounts(group.total()):
        column = room.resources.index(resource)
        there = {
            domain: sum(room.free[number][column] for number in inside)
            for domain, inside in members.items()
        }
        yield _Bound("resource", resource, amount, there)


def _amounts(amounts: Mapping[str, int]) -> Amounts:
    return tuple(
        (resource, amounts[resource]) for resource in by_scarcity(amounts) if amounts[resource]
    )


def _places(room: Room, shape: Shape, domain: Path, each: Amounts) -> int:
    """How many pods that request no more than `each` there are places for."""
    columns = [
        (room.resources.index(PODS), 1),
        *((room.resources.index(name), amount) for name, amount in each),
    ]
    return sum(
        min(room.free[number][column] // amount for column, amount in columns)
        for number in room.members[domain]
        if room.eligible[number][shape.number]
    )


def usable(room: Room, group: Group, domain: Path, resource: str) -> int:
    """How much of a resource the pods of `group` could get in a domain; too little for one pod does not count."""
    most = 0
    for nested, _ in group.everything():
        for pods in nested.pods:
            amount = dict(pods.requests).get(resource, 0) if resource != PODS else 1
            most = max(most, room.room_for(domain, room.shapes[pods]) * amount)
    return most


@dataclass(frozen=True, slots=True)
class Offer:
    """One domain: `free` is what is free of the resource, `usable` what pods of the group's size could get of it."""

    name: str
    nodes: int
    free: int
    usable: int


def offers(room: Room, group: Group, level: Level, resource: str) -> tuple[Offer, ...]:
    """What the domains of `level` offer now, the best first; `group` is one of the room's, so simplified."""
    domains = [
        Offer(
            room.name_of(domain),
            len(room.members[domain]),
            room.free_in(domain, resource),
            usable(room, group, domain, resource),
        )
        for domain in room.domains((), level)
    ]
    return tuple(sorted(domains, key=lambda offer: (-offer.usable, -offer.free, offer.name)))
