"""Tries everything, where that is little: every choice of domains, with an exact packing for each.

What `Search` does not find may still exist, as it tries one filling of a domain only. Here nothing
is left out, so that a small cluster always gets an answer. The bound is a number of steps, not a
time: 100 ms on a slow machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.pack import Bin, pack
from toposcope.placement.room import Room, Shape, most_within

STEPS: Final = 8_000
"""Choices of domains, nodes looked at, and ways to fill one."""


class _Kind(NamedTuple):
    """Pods that are alike and have to be in the same domain."""

    shape: Shape
    domain: Path


_Chosen = tuple[tuple[Group, Path], ...]
"""The domain of each copy of each group."""


class ExhaustiveResult(NamedTuple):
    """What trying everything led to."""

    placed: tuple[Placed, ...] | None
    exact: bool
    """False: not everything was tried, so a missing placement proves nothing."""

    @property
    def impossible(self) -> bool:
        """Whether it is proven that there is no placement."""
        return self.placed is None and self.exact


class _ExhaustedError(ToposcopeError):
    """There is more to try than the steps allow."""


class Exhaustive:
    """A search through everything in one room, with the steps that it may still take."""

    def __init__(self, room: Room, steps: int = STEPS) -> None:
        self._room = room
        self._steps = steps
        self._has_room_in: dict[tuple[int, Path], bool] = {}
        """By the group's identity and domain."""

    def place(self, groups: Sequence[Group]) -> ExhaustiveResult:
        """A placement of all copies of `groups`."""
        try:
            for chosen in self._choices(groups, ()):
                if not self._apart(chosen):
                    continue
                placed = self._placed(chosen)
                if placed is not None:
                    return ExhaustiveResult(placed, exact=True)
        except _ExhaustedError:
            return ExhaustiveResult(None, exact=False)
        return ExhaustiveResult(None, exact=True)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _ExhaustedError

    def _choices(self, groups: Sequence[Group], inside: Path) -> Iterator[_Chosen]:
        if not groups:
            yield ()
            return
        group, *others = groups
        domains = self._room.domains(inside, group.required)
        for copies in self._copies(group, group.copies, domains):
            for rest in self._choices(others, inside):
                yield (*copies, *rest)

    def _copies(self, group: Group, count: int, domains: Sequence[Path]) -> Iterator[_Chosen]:
        """The choices for equal copies: each only in the order of its domains."""
        if not count:
            yield ()
            return
        for number, domain in enumerate(domains):
            self._spend(1)
            if not self._has_room(group, domain):
                continue
            here = group, domain
            further = domains[number:]
            for inner in self._choices(group.groups, domain):
                for others in self._copies(group, count - 1, further):
                    yield (here, *inner, *others)

    def _has_room(self, group: Group, domain: Path) -> bool:
        key = id(group), domain
        has_room = self._has_room_in.get(key)
        if has_room is None:
            copies = most_within(self._room, group, domain)
            has_room = copies > 0
            self._has_room_in[key] = has_room
        return has_room

    def _apart(self, chosen: _Chosen) -> bool:
        """Whether groups with the same anti-affinity share no domain."""
        taken = set()
        for group, domain in chosen:
            kept = self._room.kept_apart_by(group, domain)
            if kept is None:
                continue
            place = group.anti_affinity, kept
            if place in taken:
                return False
            taken.add(place)
        return True

    def _placed(self, chosen: _Chosen) -> tuple[Placed, ...] | None:
        """The pods of these groups on nodes of these domains; None where they do not fit."""
        room = self._room
        wanted = self._wanted(chosen)
        kinds = list(wanted)
        self._spend(1 + len(room.names))
        bins = []
        for number in range(len(room.names)):
            allowed = [self._allows(number, kind) for kind in kinds]
            if any(allowed):
                free = tuple(room.free[number])
                bins.append(Bin(number, free, tuple(allowed)))

        sizes = [kind.shape.amounts for kind in kinds]
        counts = tuple(wanted.values())
        packing = pack(bins, sizes, counts, self._steps)
        self._spend(packing.steps)
        if not packing.exact:
            raise _ExhaustedError
        if packing.placed is None:
            return None
        return self._handed_out(chosen, kinds, packing.placed)

    def _wanted(self, chosen: _Chosen) -> dict[_Kind, int]:
        """How many pods of each kind there are."""
        wanted: dict[_Kind, int] = {}
        for group, domain in chosen:
            for pods in group.pods:
                kind = _Kind(self._room.shapes[pods], domain)
                wanted[kind] = wanted.get(kind, 0) + pods.count
        return wanted

    def _allows(self, number: int, kind: _Kind) -> bool:
        """Whether a node takes such a pod, and is in its domain."""
        room = self._room
        depth = len(kind.domain)
        path = room.paths[number]
        if path[:depth] != kind.domain:
            return False
        slots = room.slots[number]
        return slots[kind.shape.number] > 0

    def _handed_out(
        self, chosen: _Chosen, kinds: Sequence[_Kind], packed: Mapping[int, Sequence[int]]
    ) -> tuple[Placed, ...]:
        """The packed pods of each kind, shared out among the copies that want them."""
        room = self._room
        pool: dict[_Kind, list[str]] = {}
        for number, counts in packed.items():
            name = room.names[number]
            for kind, count in zip(kinds, counts, strict=True):
                nodes = pool.setdefault(kind, [])
                nodes += [name] * count

        placed = []
        for group, domain in chosen:
            names: dict[str, int] = {}
            for pods in group.pods:
                kind = _Kind(room.shapes[pods], domain)
                for _ in range(pods.count):
                    name = pool[kind].pop()
                    names[name] = names.get(name, 0) + 1
            placed.append(Placed(group, domain, tuple(names.items())))
        return tuple(placed)
