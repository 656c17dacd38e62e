"""What is short if a workload does not fit: a resource, nodes for pods, or domains for groups.

A shortage is a bound that the workload exceeds: it needs more of something than there is. If it
exceeds several bounds, the one on the scarcest resource counts. If every domain fails by a
different bound, the shortage counts the domains of each.
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
    available: Mapping[Path, int]
    each: Amounts = ()
    inner: Group | None = None

    @property
    def what(self) -> str:
        """The resource, or the smaller group."""
        return self.inner.name if self.inner else self.resource

    def copies_in(self, domain: Path, group: Group) -> int:
        """For how many copies of the group the domain has enough."""
        copies = self.available[domain] // self.needs
        return min(copies, 1) if group.anti_affinity else copies

    def shortage(self, group: Group, *, copies: int, room_for: int) -> Shortage:
        """The shortage if there is room for only `room_for` of the `copies`."""
        best = max(self.available, key=self.available.__getitem__, default=())
        return Shortage(
            group=group,
            level=group.required,
            counted=self.counted,
            resource=self.resource,
            needs=self.needs,
            largest=self.available.get(best, 0),
            best=best,
            copies=copies,
            room_for=room_for,
            each=self.each,
            inner=self.inner,
        )


def by_scarcity(resources: Iterable[str]) -> list[str]:
    """The resources, scarcest first: GPUs, other devices, CPU, memory, everything else, pods."""
    return sorted(resources, key=_rank)


def _rank(resource: str) -> tuple[int, str]:
    rank_of_kind = _RANK_OF_DEVICES if "/" in resource else _RANK_OF_OTHERS
    return _RANKS.get(resource, rank_of_kind), resource


def scarce(need: Iterable[str]) -> str:
    """The resource that usually decides: GPUs, else other devices, else pods."""
    first = by_scarcity(need)[0]
    return first if "/" in first else PODS


def shortage_of(room: Room, groups: Sequence[Group]) -> Shortage:
    """What is short for the innermost group that does not even fit alone, else for all groups."""
    short = _short_alone(room, groups)
    for group, copies in short.items():
        if not any(below in short for below in group.groups):
            return _shortage(room, group, copies)
    return _together(room, groups)


def _short_alone(room: Room, groups: Sequence[Group]) -> dict[Group, int]:
    """The groups that do not even fit alone, and how many copies each has."""
    short = {}
    for top in groups:
        for group, count in top.everything():
            copies = top.copies * count
            if most_copies(room, group) < copies:
                short[group] = copies
    return short


def _together(room: Room, groups: Sequence[Group]) -> Shortage:
    """The shortage if each group fits alone, but not all of them together."""
    if len(groups) == 1 and groups[0].copies == 1:
        everything = groups[0]
    else:
        everything = Group("all of it", groups=tuple(groups))
    for bound in _resource_bounds(room, everything, ((),)):
        available = bound.available[()]
        if available < bound.needs:
            return Shortage(
                group=everything,
                level=None,
                counted="resource",
                resource=bound.resource,
                needs=bound.needs,
                largest=available,
                best=(),
                copies=1,
                room_for=0,
            )
    return _uncounted(everything, "pieces", copies=1, room_for=0)


def _shortage(room: Room, group: Group, copies: int) -> Shortage:
    """Why `copies` copies of a group do not fit even alone."""
    domains = room.domains((), group.required)
    if group.anti_affinity and len(domains) < copies:
        return _of_domains(group, copies=copies, domains=len(domains))
    one_pod = _barred(room, group, copies) or _too_large(room, group, copies)
    if one_pod:
        return one_pod
    return _of_bounds(room, group, copies, domains)


def _of_bounds(room: Room, group: Group, copies: int, domains: Sequence[Path]) -> Shortage:
    """The bound that `copies` copies exceed, if each of their pods fits on some node."""
    short: dict[Path, tuple[Counted, str]] = {}
    """By domain: what is short there even for one copy."""
    for bound in _bounds(room, group, domains):
        if len(bound.each) > 1 and len(short) == len(domains):
            break  # naming the resource that each domain lacks is more precise
        fits = 0
        for domain in bound.available:
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
    """The shortage if each domain lacks something else."""
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
    """A shortage without a single resource and number."""
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
    """Pods that every node excludes, if there are nodes at all."""
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
    """A pod that needs more of a resource than any node has."""
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
    """All bounds on one copy, the easiest to understand first."""
    yield from _resource_bounds(room, group, domains)
    for pods in group.pods:
        yield from _pod_bounds(room, pods, domains)
    for below in group.groups:
        available = {domain: most_copies(room, below, domain) for domain in domains}
        yield _Bound("groups", scarce(below.total()), below.copies, available, inner=below)


def _pod_bounds(room: Room, pods: Pods, domains: Sequence[Path]) -> Iterator[_Bound]:
    """Bounds on pods of one kind: by each resource alone, then by all of them."""
    requests = _amounts(dict(pods.requests))
    shape = room.shapes[pods]
    for resource, amount in requests:
        each: Amounts = ((resource, amount),)
        available = _places_in(room, shape, domains, each)
        yield _Bound("pods", resource, pods.count, available, each)

    available = _places_in(room, shape, domains, requests)
    scarcest = requests[0][0] if requests else PODS
    yield _Bound("pods", scarcest, pods.count, available, requests)


def _places_in(room: Room, shape: Shape, domains: Iterable[Path], each: Amounts) -> dict[Path, int]:
    """By domain: how many pods that request `each` fit there."""
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
        available = {}
        for domain, numbers in members.items():
            free = 0
            for number in numbers:
                free += room.free[number][column]
            available[domain] = free
        yield _Bound("resource", resource, amount, available)


def _usable_by_some(room: Room, domain: Path, shapes: Iterable[int]) -> list[int]:
    """The nodes of a domain that pods of some of these shapes may use."""
    numbers = []
    for number in room.members[domain]:
        eligible = room.eligible[number]
        if any(eligible[shape] for shape in shapes):
            numbers.append(number)
    return numbers


def _amounts(amounts: Mapping[str, int]) -> Amounts:
    """The amounts that are not zero, the scarcest first."""
    requested = []
    for resource in by_scarcity(amounts):
        if amounts[resource]:
            requested.append((resource, amounts[resource]))
    return tuple(requested)


def _places(room: Room, shape: Shape, domain: Path, each: Amounts) -> int:
    """How many pods that request `each` fit into the domain."""
    amounts = columns(each, room.resources)
    places = 0
    for number in room.members[domain]:
        if room.eligible[number][shape.number]:
            places += times(room.free[number], amounts)
    return places


def usable(room: Room, group: Group, domain: Path, resource: str) -> int:
    """How much of a resource the pods of `group` could get in a domain.

    What is too little for one pod does not count.
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
