"""Searches for a placement by backtracking, within a limit on steps.

A placement that it finds is valid; finding none proves nothing.

Every step chooses a domain for one copy of a group, or nodes for the pods of one copy, and can be
taken back.
"""

from collections.abc import Generator, Iterator, Sequence
from heapq import heapify, heappop
from typing import Final, NamedTuple

from toposcope.api.levels import Level
from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.packing import PODS, Path
from toposcope.integrations.framework.verdict import Placed
from toposcope.placement.pack import Bin, Packing, pack
from toposcope.placement.room import Room, Shape

TRIES: Final = 20_000
"""How many steps may be tried before the search gives up."""


class _Task(NamedTuple):
    group: Group
    domain: Path
    is_settled: bool
    """False: the task chooses a domain within this one.

    True: this is the domain, and the task chooses nodes.
    """


_Todo = tuple[_Task, "_Todo"] | None
"""The remaining tasks, the next one first; many branches share the end of the list."""


class _Put(NamedTuple):
    node: int
    shape: Shape
    pods: int


_Filling = list[_Put]
"""The pods of one copy of a group, on their nodes."""


_Choices = Generator[_Todo, None, None]
"""The choices for one task.

Each `next` makes a choice; the following `next`, or `close`, takes it back.
"""


class _ExhaustedError(ToposcopeError):
    """Every choice has been tried, or enough of them."""


class Search:
    """One search in one room, which is unchanged afterwards."""

    def __init__(self, room: Room, tries: int = TRIES) -> None:
        self._room = room
        self._tries = tries
        self._needs: dict[int, list[tuple[int, int]]] = {}
        self._taken_domains: dict[str, set[str]] = {}
        self._last_domains: dict[int, Path] = {}
        self._without_preferred: set[tuple[int, int, Path]] = set()
        """Group, depth and domain without room for the group at the preferred depth.

        They are not tried again.
        """
        self._placed: list[Placed] = []

    def place(self, groups: Sequence[Group], inside: Path = ()) -> tuple[Placed, ...] | None:
        """A placement of all copies of `groups` within `inside`; None if it found none."""
        frames: list[_Choices] = []
        todo = _with(groups, inside, None)
        try:
            while todo is not None:
                task, further_todo = todo
                choices = self._nodes if task.is_settled else self._domains
                frames.append(choices(task, further_todo))
                todo = self._advance(frames)
            return tuple(self._placed)
        except _ExhaustedError:
            return None
        finally:
            while frames:
                frames.pop().close()

    def _advance(self, frames: list[_Choices]) -> _Todo:
        """Make the next choice of the innermost task that still has one."""
        while frames:
            self._tries -= 1
            if self._tries < 0:
                break
            for todo in frames[-1]:
                return todo
            frames.pop()
        raise _ExhaustedError

    def _domains(self, task: _Task, further_todo: _Todo) -> _Choices:
        """Choose a domain for a copy of the group."""
        group = task.group
        taken_domains = self._taken_domains.setdefault(group.anti_affinity, set())
        for domain in self._candidates(group, task.domain):
            kept = self._room.kept_apart_by(group, domain)
            if kept in taken_domains:
                continue
            if kept is not None:
                taken_domains.add(kept)
            self._last_domains[id(group)] = domain
            after = (_Task(group, domain, is_settled=True), further_todo)
            try:
                yield _with(group.groups, domain, after)
            finally:
                if kept is not None:
                    taken_domains.discard(kept)

    def _candidates(self, group: Group, inside: Path) -> Iterator[Path]:
        """The domains that seem to have room.

        Domains of the preferred level come before broader ones; within a level, the fullest first.
        """
        broadest = max(len(inside), self._depth(group.required))
        narrowest = max(broadest, self._depth(group.preferred))
        last = self._last_domains.get(id(group))
        for tried in range(narrowest, broadest - 1, -1):
            place = id(group), tried, inside
            if place in self._without_preferred:
                continue
            # The next copy goes beside the one before it as long as there is room, so that the
            # other domains need not be examined.
            beside = self._beside(group, inside, tried, last)
            if beside is not None and self._seems_to_fit(group, beside):
                yield beside
            fitting = self._fitting(group, inside, tried, beside)
            if not fitting and tried > broadest:
                self._without_preferred.add(place)
            heapify(fitting)
            while fitting:
                _, domain = heappop(fitting)
                yield domain

    def _depth(self, level: Level | None) -> int:
        return self._room.depth[level] if level else 0

    @staticmethod
    def _beside(group: Group, inside: Path, depth: int, last: Path | None) -> Path | None:
        """The domain of the previous copy, if the next one may share it."""
        if last is None or group.anti_affinity:
            return None
        is_inside = last[: len(inside)] == inside
        if is_inside and len(last) == depth:
            return last
        return None

    def _fitting(
        self, group: Group, inside: Path, depth: int, beside: Path | None
    ) -> list[tuple[int, Path]]:
        """The domains of this depth, except `beside`, that seem to have room, and what is free."""
        room = self._room
        level = room.levels[depth - 1] if depth else None
        fitting = []
        for domain in room.domains(inside, level):
            if domain != beside and self._seems_to_fit(group, domain):
                free = sum(room.sums[domain])
                fitting.append((free, domain))
        return fitting

    def _seems_to_fit(self, group: Group, domain: Path) -> bool:
        sums = self._room.sums[domain]
        for column, amount in self._need(group):
            if sums[column] < amount:
                return False
        return True

    def _need(self, group: Group) -> list[tuple[int, int]]:
        """What one copy of the group needs, by column of `Room.sums`."""
        need = self._needs.get(id(group))
        if need is None:
            need = list(self._total(group).items())
            self._needs[id(group)] = need
        return need

    def _total(self, group: Group) -> dict[int, int]:
        room = self._room
        totals: dict[int, int] = {}
        for resource, amount in group.total().items():
            column = room.resources.index(resource)
            totals[column] = amount

        first_shape = len(room.resources)
        for below, times in group.everything():
            for pods in below.pods:
                column = first_shape + room.shapes[pods].number
                count = pods.count * times
                totals[column] = totals.get(column, 0) + count
        return totals

    def _nodes(self, task: _Task, further_todo: _Todo) -> _Choices:
        """Choose nodes for the pods of a copy of the group."""
        room = self._room
        for filling in self._fillings(task):
            where: dict[str, int] = {}
            for put in filling:
                room.put(put.node, put.shape, put.pods)
                name = room.names[put.node]
                where[name] = where.get(name, 0) + put.pods

            placed = Placed(task.group, task.domain, tuple(where.items()))
            self._placed.append(placed)
            try:
                yield further_todo
            finally:
                self._placed.pop()
                self._take_back(filling)

    def _take_back(self, filling: _Filling) -> None:
        for put in filling:
            self._room.put(put.node, put.shape, -put.pods)

    def _fillings(self, task: _Task) -> Iterator[_Filling]:
        """Ways to place a group's own pods on nodes of its domain.

        At most one: a greedy one, or an exact one if that fails.
        """
        wanted = wanted_by(self._room, task.group)
        members = self._room.members[task.domain]
        quick = self._greedy(wanted, members)
        if quick is not None:
            yield quick
        elif len(wanted) > 1:
            packing = fill_exactly(self._room, wanted, members)
            if packing.placed is not None:
                yield _as_filling(packing.placed, list(wanted))

    def _greedy(self, wanted: dict[Shape, int], members: Sequence[int]) -> _Filling | None:
        """Place the pods with the fewest slots first, on the nodes with the least room."""
        filling: _Filling = []
        ordered = sorted(wanted, key=lambda shape: self._slots(shape, members))
        try:
            for shape in ordered:
                if not self._put_all(shape, wanted[shape], members, filling):
                    return None
            return list(filling)
        finally:
            self._take_back(filling)

    def _slots(self, shape: Shape, members: Sequence[int]) -> int:
        """How many pods of a shape these nodes take."""
        slots = 0
        for number in members:
            slots += self._room.slots[number][shape.number]
        return slots

    def _put_all(self, shape: Shape, count: int, members: Sequence[int], filling: _Filling) -> bool:
        """Place pods of one kind on nodes, appending to `filling`; False if some don't fit."""
        room = self._room
        unplaced = count
        fullest_first = sorted(members, key=lambda number: room.slots[number][shape.number])
        for number in fullest_first:
            slots = room.slots[number][shape.number]
            taking = min(unplaced, slots)
            if taking:
                room.put(number, shape, taking)
                filling.append(_Put(number, shape, taking))
                unplaced -= taking
            if not unplaced:
                break
        return not unplaced


def _as_filling(placed: dict[int, tuple[int, ...]], shapes: Sequence[Shape]) -> _Filling:
    filling = []
    for number, counts in placed.items():
        for shape, count in zip(shapes, counts, strict=True):
            if count:
                filling.append(_Put(number, shape, count))
    return filling


def fill_exactly(room: Room, wanted: dict[Shape, int], members: Sequence[int]) -> Packing:
    """An exact packing of different pods onto the nodes `members`."""
    bins = []
    for number in members:
        slots = room.slots[number]
        allowed = [slots[shape.number] > 0 for shape in wanted]
        if any(allowed):
            free = tuple(room.free[number])
            bins.append(Bin(number, free, tuple(allowed)))
    sizes = [shape.amounts for shape in wanted]
    counts = tuple(wanted.values())
    return pack(bins, sizes, counts)


def wanted_by(room: Room, group: Group) -> dict[Shape, int]:
    """How many pods of each shape the group itself has."""
    wanted: dict[Shape, int] = {}
    for pods in group.pods:
        shape = room.shapes[pods]
        wanted[shape] = wanted.get(shape, 0) + pods.count
    return wanted


def _with(groups: Sequence[Group], inside: Path, after: _Todo) -> _Todo:
    """All copies of `groups` as tasks before `after`.

    Groups with constraints come first, then the largest.
    """
    ordered = sorted(groups, key=_urgency)
    for group in ordered:  # each goes to the front, so the last one comes first
        for _ in range(group.copies):
            task = _Task(group, inside, is_settled=False)
            after = task, after
    return after


def _urgency(group: Group) -> tuple[bool, int]:
    pods = group.total().get(PODS, 0)
    return not group.is_unconstrained, pods
