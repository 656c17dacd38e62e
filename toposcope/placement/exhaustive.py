"""Tries everything, where that is little: every choice of domains, and for each of them an exact packing.

What `Search` does not find may still exist, as it tries one filling of a domain only. Here nothing is left out, so that
a small cluster always gets an answer. The bound is a number of steps, not a time: 100 ms on a slow machine.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.pack import Bin, Packing, pack
from toposcope.placement.room import Room, Shape, most_within

STEPS: Final = 8_000
"""Choices of domains, nodes looked at, and ways to fill one."""


class _Kind(NamedTuple):
    """Pods that are alike and have to be in the same domain."""

    shape: Shape
    domain: Path


_Chosen = tuple[tuple[Group, Path], ...]
"""The domain of each copy of each group."""


class Outcome(NamedTuple):
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
    """One room and what is left of the steps."""

    def __init__(self, room: Room, steps: int = STEPS) -> None:
        self._room = room
        self._steps = steps
        self._known: dict[tuple[int, Path], bool] = {}

    def place(self, groups: Sequence[Group]) -> Outcome:
        """A placement of all copies of `groups`."""
        try:
            for chosen in self._choices(groups, ()):
                placed = self._placed(chosen) if self._apart(chosen) else None
                if placed is not None:
                    return Outcome(placed, exact=True)
        except _ExhaustedError:
            return Outcome(None, exact=False)
        return Outcome(None, exact=True)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _ExhaustedError

    def _choices(self, groups: Sequence[Group], inside: Path) -> Iterator[_Chosen]:
        if not groups:
            yield ()
            return
        domains = self._room.domains(inside, groups[0].required)
        for first in self._copies(groups[0], groups[0].copies, domains):
            for others in self._choices(groups[1:], inside):
                yield (*first, *others)

    def _copies(self, group: Group, count: int, domains: Sequence[Path]) -> Iterator[_Chosen]:
        """Equal copies in the order of their domains only."""
        if not count:
            yield ()
            return
        for number, domain in enumerate(domains):
            self._spend(1)
            if not self._has_room(group, domain):
                continue
            for inner in self._choices(group.groups, domain):
                for others in self._copies(group, count - 1, domains[number:]):
                    yield ((group, domain), *inner, *others)

    def _has_room(self, group: Group, domain: Path) -> bool:
        known = self._known.get((id(group), domain))
        if known is None:
            known = self._known[id(group), domain] = most_within(self._room, group, domain) > 0
        return known

    def _apart(self, chosen: _Chosen) -> bool:
        """Whether groups with the same anti-affinity share no domain."""
        taken = set()
        for group, domain in chosen:
            kept = self._room.kept_apart_by(group, domain)
            if kept is None:
                continue
            if (group.anti_affinity, kept) in taken:
                return False
            taken.add((group.anti_affinity, kept))
        return True

    def _placed(self, chosen: _Chosen) -> tuple[Placed, ...] | None:
        """The pods of these groups on nodes of these domains; None where they do not fit."""
        room = self._room
        wanted = self._wanted(chosen)
        kinds = list(wanted)
        self._spend(1 + len(room.names))
        bins = []
        for number in range(len(room.names)):
            allowed = tuple([self._allows(number, kind) for kind in kinds])
            if any(allowed):
                bins.append(Bin(number, tuple(room.free[number]), allowed))
        sizes = [kind.shape.amounts for kind in kinds]
        packing = pack(bins, sizes, tuple(wanted.values()), self._steps)
        self._spend(packing.steps)
        if not packing.exact:
            raise _ExhaustedError
        return None if packing.placed is None else self._handed_out(chosen, kinds, packing)

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
        in_domain = room.paths[number][: len(kind.domain)] == kind.domain
        return in_domain and room.slots[number][kind.shape.number] > 0

    def _handed_out(
        self, chosen: _Chosen, kinds: Sequence[_Kind], packing: Packing
    ) -> tuple[Placed, ...]:
        """The packed pods of each kind, shared out among the copies that want them."""
        pool: dict[_Kind, list[str]] = {kind: [] for kind in kinds}
        for number, counts in (packing.placed or {}).items():
            for kind, count in zip(kinds, counts, strict=True):
                pool[kind] += [self._room.names[number]] * count
        placed = []
        for group, domain in chosen:
            names: dict[str, int] = {}
            for pods in group.pods:
                waiting = pool[_Kind(self._room.shapes[pods], domain)]
                for _ in range(pods.count):
                    name = waiting.pop()
                    names[name] = names.get(name, 0) + 1
            placed.append(Placed(group, domain, tuple(names.items())))
        return tuple(placed)
