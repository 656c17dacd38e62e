"""Tries every choice of domains, with an exact packing for each, if there are few enough.

`Search` tries only one filling of a domain, so it may miss a placement. This search misses none, so
that a small cluster always gets an answer. Its limit is a number of steps, not a time: 100 ms on a
slow machine.
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
"""Limit on choices of domains, nodes examined, and ways to fill a node, in sum."""


class _Kind(NamedTuple):
    """Equal pods that have to be in the same domain."""

    shape: Shape
    domain: Path


_Chosen = tuple[tuple[Group, Path], ...]
"""The domain of each copy of each group."""


class ExhaustiveResult(NamedTuple):
    """The result of an exhaustive search."""

    placed: tuple[Placed, ...] | None
    is_exact: bool
    """False: not everything was tried, so a missing placement proves nothing."""

    @property
    def is_impossible(self) -> bool:
        """Whether it is proven that no placement exists."""
        return self.placed is None and self.is_exact


class _ExhaustedError(ToposcopeError):
    """There is more to try than the steps allow."""


class Exhaustive:
    """An exhaustive search in one room, with the steps that it may still take."""

    def __init__(self, room: Room, steps: int = STEPS) -> None:
        self._room = room
        self._steps = steps
        self._has_room_in: dict[tuple[int, Path], bool] = {}
        """By the group's identity and domain."""

    def place(self, groups: Sequence[Group]) -> ExhaustiveResult:
        """A placement of all copies of `groups`."""
        try:
            for chosen in self._choices(groups, ()):
                if not self._are_apart(chosen):
                    continue
                placed = self._placed(chosen)
                if placed is not None:
                    return ExhaustiveResult(placed, is_exact=True)
        except _ExhaustedError:
            return ExhaustiveResult(None, is_exact=False)
        return ExhaustiveResult(None, is_exact=True)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _ExhaustedError

    def _choices(self, groups: Sequence[Group], inside: Path) -> Iterator[_Chosen]:
        if not groups:
            yield ()
            return
        group, *further_groups = groups
        domains = self._room.domains(inside, group.required)
        for copies in self._copies(group, group.copies, domains):
            for choice in self._choices(further_groups, inside):
                yield (*copies, *choice)

    def _copies(self, group: Group, count: int, domains: Sequence[Path]) -> Iterator[_Chosen]:
        """The choices for equal copies, each combination of domains once."""
        if not count:
            yield ()
            return
        for number, domain in enumerate(domains):
            self._spend(1)
            if not self._has_room(group, domain):
                continue
            own_choice = group, domain
            further = domains[number:]
            for inner in self._choices(group.groups, domain):
                for further_copies in self._copies(group, count - 1, further):
                    yield (own_choice, *inner, *further_copies)

    def _has_room(self, group: Group, domain: Path) -> bool:
        key = id(group), domain
        has_room = self._has_room_in.get(key)
        if has_room is None:
            copies = most_within(self._room, group, domain)
            has_room = copies > 0
            self._has_room_in[key] = has_room
        return has_room

    def _are_apart(self, chosen: _Chosen) -> bool:
        """Whether groups with the same anti-affinity share no domain."""
        taken_places = set()
        for group, domain in chosen:
            kept = self._room.kept_apart_by(group, domain)
            if kept is None:
                continue
            place = group.anti_affinity, kept
            if place in taken_places:
                return False
            taken_places.add(place)
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
        if not packing.is_exact:
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
        """Whether a node has room for such a pod, and is in its domain."""
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
        """The packed pods of each kind, distributed to the copies that need them."""
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
