"""Searches for a placement by trying, within a limit.

What it finds is valid; that it finds none proves nothing.

Every step chooses a domain for one copy of a group, or nodes for the pods of one copy, and can be
taken back.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from typing import Final, NamedTuple

from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group
from toposcope.placement.pack import Bin, Packing, pack
from toposcope.placement.room import Path, Room, Shape

TRIES: Final = 20_000
"""How many steps may be tried before the search gives up."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One copy of a group: where it is kept together, and how many of its own pods are on which node."""

    group: Group
    domain: Path
    nodes: tuple[tuple[str, int], ...] = ()


class _Task(NamedTuple):
    group: Group
    domain: Path
    settled: bool
    """False: it has to find a domain within this one.

    True: this is its domain, its pods have to find nodes.
    """


_Todo = tuple[_Task, "_Todo"] | None
"""What is left to do, the next task first; a list that many branches of the search share the end of."""

_Filling = list[tuple[int, Shape, int]]
"""Node number, what of, how many."""


_Choices = Generator[_Todo, None, None]
"""One task's choices: each is made when it is asked for, and taken back before the next one, or when closed."""


class _ExhaustedError(ToposcopeError):
    """Every choice has been tried, or enough of them."""


class Search:
    """One search in one room, which is as before when it is over."""

    def __init__(self, room: Room, tries: int = TRIES) -> None:
        self._room = room
        self._tries = tries
        self._needs: dict[int, list[tuple[int, int]]] = {}
        self._taken: dict[str, set[str]] = {}
        self._last: dict[int, Path] = {}
        self._in_vain: set[tuple[int, int, Path]] = set()
        """Group, depth and domain in which nothing as narrow as preferred was found: not worth a second look."""
        self._placed: list[Placed] = []

    def place(self, groups: Sequence[Group], inside: Path = ()) -> tuple[Placed, ...] | None:
        """A placement of all copies of `groups` within the domain `inside`; None when none was found."""
        frames: list[_Choices] = []
        todo = _with(groups, inside, None)
        try:
            while todo is not None:
                task, rest = todo
                frames.append(
                    self._nodes(task, rest) if task.settled else self._domains(task, rest)
                )
                todo = self._advance(frames)
            return tuple(self._placed)
        except _ExhaustedError:
            return None
        finally:
            while frames:
                frames.pop().close()

    def _advance(self, frames: list[_Choices]) -> _Todo:
        """Make the next choice: of the innermost task that still has one."""
        while frames:
            self._tries -= 1
            if self._tries < 0:
                break
            for todo in frames[-1]:
                return todo
            frames.pop()
        raise _ExhaustedError

    def _domains(self, task: _Task, rest: _Todo) -> _Choices:
        group = task.group
        taken = self._taken.setdefault(group.anti_affinity, set()) if group.anti_affinity else set()
        for domain in self._candidates(group, task.domain):
            # Anti-affinity compares the label's value, not what lies above it.
            kept = (
                domain[self._room.depth[group.required] - 1]
                if group.anti_affinity and group.required
                else None
            )
            if kept is not None:
                if kept in taken:
                    continue
                taken.add(kept)
            self._last[id(group)] = domain
            after = (_Task(group, domain, settled=True), rest)
            try:
                yield _with(group.groups, domain, after)
            finally:
                if kept is not None:
                    taken.discard(kept)

    def _candidates(self, group: Group, inside: Path) -> Iterator[Path]:
        """Domains that seem to have room: as narrow as preferred before broader ones, the fullest ones first."""
        room = self._room
        broadest = max(len(inside), room.depth[group.required] if group.required else 0)
        narrowest = max(broadest, room.depth[group.preferred] if group.preferred else 0)
        last = self._last.get(id(group))
        for depth in range(narrowest, broadest - 1, -1):
            if (id(group), depth, inside) in self._in_vain:
                continue
            # The next copy goes beside the one before it as long as there is room: no need to look
            # at all others.
            beside = (
                last is not None
                and len(last) == depth
                and last[: len(inside)] == inside
                and not group.anti_affinity
            )
            if last is not None and beside and self._seems_to_fit(group, last):
                yield last
            level = room.levels[depth - 1] if depth else None
            fitting = [
                (sum(room.sums[domain]), domain)
                for domain in room.domains(inside, level)
                if self._seems_to_fit(group, domain) and not (beside and domain == last)
            ]
            if not fitting and depth > broadest:
                self._in_vain.add((id(group), depth, inside))
            heapify(fitting)
            while fitting:
                yield heappop(fitting)[1]

    def _seems_to_fit(self, group: Group, domain: Path) -> bool:
        sums = self._room.sums[domain]
        return all(sums[column] >= amount for column, amount in self._need(group))

    def _need(self, group: Group) -> list[tuple[int, int]]:
        """Columns of `Room.sums` and what one copy of the group needs there."""
        need = self._needs.get(id(group))
        if need is None:
            room = self._room
            totals = {
                room.resources.index(resource): amount for resource, amount in group.total().items()
            }
            for nested, times in group.everything():
                for pods in nested.pods:
                    column = len(room.resources) + room.shapes[pods].number
                    totals[column] = totals.get(column, 0) + pods.count * times
            need = self._needs[id(group)] = list(totals.items())
        return need

    def _nodes(self, task: _Task, rest: _Todo) -> _Choices:
        room = self._room
        for filling in self._fillings(task):
            for number, shape, count in filling:
                room.put(number, shape, count)
            where: dict[str, int] = {}
            for number, _, count in filling:
                where[room.names[number]] = where.get(room.names[number], 0) + count
            self._placed.append(Placed(task.group, task.domain, tuple(where.items())))
            try:
                yield rest
            finally:
                self._placed.pop()
                for number, shape, count in filling:
                    room.put(number, shape, -count)

    def _fillings(self, task: _Task) -> Iterator[_Filling]:
        """Ways to put a group's own pods onto nodes of its domain: a quick one, and if that fails an exact one."""
        wanted = wanted_by(self._room, task.group)
        members = self._room.members[task.domain]
        quick = self._greedy(wanted, members)
        if quick is not None:
            yield quick
        elif len(wanted) > 1:
            placed = fill_exactly(self._room, wanted, members).placed
            if placed is not None:
                yield [
                    (number, shape, count)
                    for number, counts in placed.items()
                    for shape, count in zip(wanted, counts, strict=True)
                    if count
                ]

    def _greedy(self, wanted: dict[Shape, int], members: Sequence[int]) -> _Filling | None:
        """The pods that find the fewest places first, each kind onto the nodes with the least room for it."""
        room, filling = self._room, _Filling()
        try:
            for shape in sorted(
                wanted,
                key=lambda shape: sum(room.slots[number][shape.number] for number in members),
            ):
                left = wanted[shape]
                for number in sorted(members, key=lambda number: room.slots[number][shape.number]):
                    count = min(left, room.slots[number][shape.number])
                    if count:
                        room.put(number, shape, count)
                        filling.append((number, shape, count))
                        left -= count
                    if not left:
                        break
                if left:
                    return None
            return list(filling)
        finally:
            for number, shape, count in filling:
                room.put(number, shape, -count)


def fill_exactly(room: Room, wanted: dict[Shape, int], members: Sequence[int]) -> Packing:
    """Different pods onto the nodes `members`."""
    shapes = list(wanted)
    bins = [
        Bin(
            number,
            tuple(room.free[number]),
            tuple(bool(room.slots[number][shape.number]) for shape in shapes),
        )
        for number in members
        if any(room.slots[number][shape.number] for shape in shapes)
    ]
    return pack(bins, [shape.amounts for shape in shapes], tuple(wanted.values()))


def wanted_by(room: Room, group: Group) -> dict[Shape, int]:
    """How many pods of each shape the group itself has."""
    wanted: dict[Shape, int] = {}
    for pods in group.pods:
        shape = room.shapes[pods]
        wanted[shape] = wanted.get(shape, 0) + pods.count
    return wanted


def _with(groups: Sequence[Group], inside: Path, after: _Todo) -> _Todo:
    """All copies of `groups` as tasks before `after`: what must stay closest and what is biggest comes first."""
    ordered = sorted(
        groups, key=lambda group: (not group.unconstrained, group.total().get("pods", 0))
    )
    for group in ordered:  # the last one put in front is the first to be done
        for _ in range(group.copies):
            after = (_Task(group, inside, settled=False), after)
    return after
