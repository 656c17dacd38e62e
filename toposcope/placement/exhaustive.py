"""Tries everything, where that is little: every choice of domains, and for each of them an exact packing.

What `Search` does not find may still exist, as it tries one filling of a domain only. Here nothing is left out, so that
a small cluster always gets an answer. The bound is a number of steps, not a time: 100 ms on a slow machine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group
from toposcope.placement.pack import Bin, Packing, pack
from toposcope.placement.room import Path, Room, Shape, most_within
from toposcope.placement.search import Placed

STEPS: Final = 8_000
"""Choices of domains, nodes looked at, and ways to fill one."""

_Kind = tuple[Shape, Path]
"""Pods that are alike and have to be in the same domain."""
_Chosen = tuple[tuple[Group, Path], ...]
"""The domain of each copy of each group."""


class _ExhaustedError(ToposcopeError):
    """There is more to try than the steps allow."""


class Exhaustive:
    """One room and what is left of the steps."""

    def __init__(self, room: Room, steps: int = STEPS) -> None:
        self._room = room
        self._steps = steps
        self._known: dict[tuple[int, Path], bool] = {}

    def place(self, groups: Sequence[Group]) -> tuple[tuple[Placed, ...] | None, bool]:
        """A placement of all copies of `groups`, and whether None proves that there is none."""
        try:
            for chosen in self._choices(groups, ()):
                if self._apart(chosen) and (placed := self._packed(chosen)) is not None:
                    return placed, True
        except _ExhaustedError:
            return None, False
        return None, True

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
        """Whether groups with the same anti-affinity share no value of their level, whatever lies above it."""
        kept = [
            (group.anti_affinity, domain[self._room.depth[group.required] - 1])
            for group, domain in chosen
            if group.anti_affinity and group.required
        ]
        return len(kept) == len(set(kept))

    def _packed(self, chosen: _Chosen) -> tuple[Placed, ...] | None:
        room = self._room
        wanted: dict[_Kind, int] = {}
        for group, domain in chosen:
            for pods in group.pods:
                kind = room.shapes[pods], domain
                wanted[kind] = wanted.get(kind, 0) + pods.count
        self._spend(1 + len(room.names))
        bins = [
            Bin(number, tuple(room.free[number]), self._allowed(number, wanted))
            for number in range(len(room.names))
        ]
        sizes = [shape.amounts for shape, _ in wanted]
        packing = pack(
            [tried for tried in bins if any(tried.allowed)],
            sizes,
            tuple(wanted.values()),
            self._steps,
        )
        self._spend(packing.steps)
        if not packing.exact:
            raise _ExhaustedError
        return (
            self._handed_out(chosen, list(wanted), packing) if packing.placed is not None else None
        )

    def _allowed(self, number: int, kinds: Iterable[_Kind]) -> tuple[bool, ...]:
        path, slots = self._room.paths[number], self._room.slots[number]
        return tuple(
            bool(slots[shape.number]) and path[: len(domain)] == domain for shape, domain in kinds
        )

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
            names = Counter(
                pool[self._room.shapes[pods], domain].pop()
                for pods in group.pods
                for _ in range(pods.count)
            )
            placed.append(Placed(group, domain, tuple(names.items())))
        return tuple(placed)
