"""What lacks where a workload does not fit: a resource, nodes for pods, or domains for groups.

A shortage is a bound that the workload exceeds: it needs more of something than there is. Of
several such bounds the one on the scarcest resource counts. Where every domain fails by another
bound, it says how many fail by which.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods, pods_in
from toposcope.integrations.framework.packing import PODS, Path, columns, times
from toposcope.integrations.framework.verdict import Amounts, Counted, Lack, Shortage
from toposcope.placement.room import Room, Shape, most_copies

_RANKS: Final = {ALLOCATABLE_GPUS: 0, "cpu": 2, "memory": 3, PODS: 5}
"""The scarcest first."""
_RANK_OF_DEVICES: Final = 1
_RANK_OF_OTHERS: Final = 4


@dataclass(frozen=True, slots=True)
class _Bound:
    """How much of something one copy of a group needs, and how much of it each domain has."""

    counted: Counted
    resource: str
    needs: int
    there: Mapping[Path, int]
    each: Amounts = ()
    inner: Group | None = None

    @property
    def what(self) -> str:
        """The resource, or the smaller group."""
        return self.inner.name if self.inner else self.resource

    def copies_in(self, domain: Path, group: Group) -> int:
        """How many copies of the group the domain has enough for."""
        copies = self.there[domain] // self.needs
        return min(copies, 1) if group.anti_affinity else copies

    def shortage(self, group: Group, *, copies: int, room_for: int) -> Shortage:
        """The shortage where there is room for so few copies of the group only."""
        best = max(self.there, key=self.there.__getitem__, default=())
        return Shortage(
            group=group,
            level=group.required,
            counted=self.counted,
            resource=self.resource,
            needs=self.needs,
            largest=self.there.get(best, 0),
            best=best,
            copies=copies,
            room_for=room_for,
            each=self.each,
            inner=self.inner,
        )


def by_scarcity(resources: Iterable[str]) -> list[str]:
    """GPUs, other devices, CPU, memory, everything else, and pods: every node takes many."""
    return sorted(resources, key=_rank)


def _rank(resource: str) -> tuple[int, str]:
    others = _RANK_OF_DEVICES if "/" in resource else _RANK_OF_OTHERS
    return _RANKS.get(resource, others), resource


def scarce(need: Iterable[str]) -> str:
    """The resource that most often decides: GPUs, else other devices, else pods."""
    first = by_scarcity(need)[0]
    return first if "/" in first else PODS


def shortage_of(room: Room, groups: Sequence[Group]) -> Shortage:
    """What is short for the innermost group without room even alone, else for all together."""
    short = _short_alone(room, groups)
    for group, copies in short.items():
        if not any(below in short for below in group.groups):
            return _shortage(room, group, copies)
    return _together(room, groups)


def _short_alone(room: Room, groups: Sequence[Group]) -> dict[Group, int]:
    """The groups of which too few copies find room even alone, and how many copies there are."""
    short = {}
    for top in groups:
        for group, count in top.everything():
            copies = top.copies * count
            if most_copies(room, group) < copies:
                short[group] = copies
    return short


def _together(room: Room, groups: Sequence[Group]) -> Shortage:
    """The shortage where each group finds room alone, and all of them together do not."""
    if len(groups) == 1 and groups[0].copies == 1:
        whole = groups[0]
    else:
        whole = Group("all of it", groups=tuple(groups))
    for bound in _resource_bounds(room, whole, ((),)):
        there = bound.there[()]
        if there < bound.needs:
            return Shortage(
                group=whole,
                level=None,
                counted="resource",
                resource=bound.resource,
                needs=bound.needs,
                largest=there,
                best=(),
                copies=1,
                room_for=0,
            )
    return _uncounted(whole, "pieces", copies=1, room_for=0)


def _shortage(room: Room, group: Group, copies: int) -> Shortage:
    """What keeps so many copies of a group from finding room, were they alone."""
    domains = room.domains((), group.required)
    if group.anti_affinity and len(domains) < copies:
        return _of_domains(group, copies=copies, domains=len(domains))
    one_pod = _barred(room, group, copies) or _too_large(room, group, copies)
    if one_pod:
        return one_pod
    return _of_bounds(room, group, copies, domains)


def _of_bounds(room: Room, group: Group, copies: int, domains: Sequence[Path]) -> Shortage:
    """Which bound keeps so many copies from finding room, each pod of which finds some."""
    short: dict[Path, tuple[Counted, str]] = {}
    """By domain: what is short there for even one copy."""
    for bound in _bounds(room, group, domains):
        if len(bound.each) > 1 and len(short) == len(domains):
            break  # to say which resource each domain lacks says more
        fits = 0
        for domain in bound.there:
            in_it = bound.copies_in(domain, group)
            fits += in_it
            if not in_it:
                short.setdefault(domain, (bound.counted, bound.what))
        if fits < copies:
            return bound.shortage(group, copies=copies, room_for=fits)
    return _several(room, group, copies, Counter(short.values()))


def _several(
    room: Room, group: Group, copies: int, short: Counter[tuple[Counted, str]]
) -> Shortage:
    """The shortage where each domain lacks something else."""
    lacking = []
    for (counted, what), domains in short.most_common():
        lacking.append(Lack(counted, what, domains))
    return _uncounted(
        group,
        "several",
        copies=copies,
        room_for=most_copies(room, group),
        each=_amounts(group.total()),
        lacking=tuple(lacking),
    )


def _uncounted(
    group: Group,
    counted: Counted,
    *,
    copies: int,
    room_for: int,
    each: Amounts = (),
    lacking: tuple[Lack, ...] = (),
) -> Shortage:
    """A shortage of no single thing."""
    return Shortage(
        group=group,
        level=group.required,
        counted=counted,
        resource=scarce(group.total()),
        needs=0,
        largest=0,
        best=(),
        copies=copies,
        room_for=room_for,
        each=each,
        lacking=lacking,
    )


def _of_domains(group: Group, *, copies: int, domains: int) -> Shortage:
    """There are fewer domains than copies that share none."""
    return Shortage(
        group=group,
        level=group.required,
        counted="domains",
        resource=scarce(group.total()),
        needs=1,
        largest=0,
        best=(),
        copies=copies,
        room_for=domains,
    )


def _barred(room: Room, group: Group, copies: int) -> Shortage | None:
    """Pods that no node takes, where nodes take other pods."""
    for pods in group.pods:
        shape = room.shapes[pods]
        if not room.names or _able(room, shape):
            continue
        return Shortage(
            group=group,
            level=group.required,
            counted="barred",
            resource=scarce(group.total()),
            needs=pods.count,
            largest=0,
            best=(),
            copies=copies,
            room_for=0,
            kind=pods.name,
            barred=tuple(sorted(room.barred[shape.number].items())),
        )
    return None


def _too_large(room: Room, group: Group, copies: int) -> Shortage | None:
    """A pod for which no node has enough of a resource, however many nodes there are."""
    for pods in group.pods:
        able = _able(room, room.shapes[pods])
        if not able:
            continue
        for resource, amount in _amounts(dict(pods.requests)):
            column = room.resources.index(resource)
            best = _freest(room, able, column)
            largest = room.free[best][column]
            if largest < amount:
                return Shortage(
                    group=group,
                    level=group.required,
                    counted="pod",
                    resource=resource,
                    needs=amount,
                    largest=largest,
                    best=(room.names[best],),
                    copies=copies,
                    room_for=0,
                )
    return None


def _able(room: Room, shape: Shape) -> list[int]:
    """The nodes that pods of this shape may use."""
    return [number for number, eligible in enumerate(room.eligible) if eligible[shape.number]]


def _freest(room: Room, numbers: Sequence[int], column: int) -> int:
    return max(numbers, key=lambda number: room.free[number][column])


def _bounds(room: Room, group: Group, domains: Sequence[Path]) -> Iterator[_Bound]:
    """All bounds on one copy, those that are easiest to understand first."""
    yield from _resource_bounds(room, group, domains)
    for pods in group.pods:
        yield from _pod_bounds(room, pods, domains)
    for below in group.groups:
        there = {domain: most_copies(room, below, domain) for domain in domains}
        yield _Bound("groups", scarce(below.total()), below.copies, there, inner=below)


def _pod_bounds(room: Room, pods: Pods, domains: Sequence[Path]) -> Iterator[_Bound]:
    """The places for pods of one kind: by each resource alone, then by all of them."""
    requests = _amounts(dict(pods.requests))
    shape = room.shapes[pods]
    for resource, amount in requests:
        each: Amounts = ((resource, amount),)
        there = _places_in(room, shape, domains, each)
        yield _Bound("pods", resource, pods.count, there, each)

    there = _places_in(room, shape, domains, requests)
    scarcest = requests[0][0] if requests else PODS
    yield _Bound("pods", scarcest, pods.count, there, requests)


def _places_in(room: Room, shape: Shape, domains: Iterable[Path], each: Amounts) -> dict[Path, int]:
    """By domain: how many pods that request no more than `each` there are places for."""
    places = {}
    for domain in domains:
        places[domain] = _places(room, shape, domain, each)
    return places


def _resource_bounds(room: Room, group: Group, domains: Sequence[Path]) -> Iterator[_Bound]:
    """What is free of each resource on nodes that some pod of the group may use."""
    shapes = {room.shapes[pods].number for pods in pods_in((group,))}
    members = {domain: _usable_by_some(room, domain, shapes) for domain in domains}
    for resource, amount in _amounts(group.total()):
        column = room.resources.index(resource)
        there = {}
        for domain, numbers in members.items():
            free = 0
            for number in numbers:
                free += room.free[number][column]
            there[domain] = free
        yield _Bound("resource", resource, amount, there)


def _usable_by_some(room: Room, domain: Path, shapes: Iterable[int]) -> list[int]:
    """The nodes of a domain that pods of some of these shapes may use."""
    numbers = []
    for number in room.members[domain]:
        eligible = room.eligible[number]
        if any(eligible[shape] for shape in shapes):
            numbers.append(number)
    return numbers


def _amounts(amounts: Mapping[str, int]) -> Amounts:
    """What is asked for at all, the scarcest first."""
    asked = []
    for resource in by_scarcity(amounts):
        if amounts[resource]:
            asked.append((resource, amounts[resource]))
    return tuple(asked)


def _places(room: Room, shape: Shape, domain: Path, each: Amounts) -> int:
    """How many pods that request no more than `each` there are places for."""
    amounts = columns(each, room.resources)
    places = 0
    for number in room.members[domain]:
        if room.eligible[number][shape.number]:
            places += times(room.free[number], amounts)
    return places


def usable(room: Room, group: Group, domain: Path, resource: str) -> int:
    """How much of a resource the pods of `group` could get in a domain.

    Too little for one pod does not count.
    """
    most = 0
    for pods in pods_in((group,)):
        amount = 1 if resource == PODS else dict(pods.requests).get(resource, 0)
        slots = room.room_for(domain, room.shapes[pods])
        most = max(most, slots * amount)
    return most


@dataclass(frozen=True, slots=True)
class Offer:
    """One domain: what is free of the resource, and how much pods of the group's size could get."""

    name: str
    nodes: int
    free: int
    usable: int


def offers(room: Room, group: Group, level: Level, resource: str) -> tuple[Offer, ...]:
    """What the domains of `level` offer now, the best first.

    `group` is one of the room's, so simplified.
    """
    domains = []
    for domain in room.domains((), level):
        offer = Offer(
            name=room.name_of(domain),
            nodes=len(room.members[domain]),
            free=room.free_in(domain, resource),
            usable=usable(room, group, domain, resource),
        )
        domains.append(offer)
    return tuple(sorted(domains, key=lambda offer: (-offer.usable, -offer.free, offer.name)))
