"""Where gangs go whose pods lose their nodes, and what becomes of their being close together.

Gangs are placed one after the other, those with the most GPUs first; schedulers may take another
order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.verdict import Placed
from toposcope.integrations.kai import api as kai
from toposcope.integrations.kueue import api as kueue
from toposcope.integrations.lws import api as lws
from toposcope.placement.room import Room, Shape
from toposcope.placement.search import Search
from toposcope.planning.capacity import Capacity, Labels
from toposcope.planning.gangs import Gang
from toposcope.planning.score import Kinds
from toposcope.snapshot.model import PodView
from toposcope.text import plural

_REQUIRING: Final = (kueue.REQUIRED, kai.REQUIRED, lws.EXCLUSIVE)


class Outcome(StrEnum):
    """What becomes of a gang."""

    STAYS = "stays"
    """The pods find other nodes in the domain that holds the gang."""
    MOVES = "moves"
    """All of the gang finds room in another domain of that level."""
    SPREADS = "spreads"
    """There is room only across domains of that level."""
    WAITS = "waits"
    """There is no room, or none at the level that it requires."""


@dataclass(frozen=True, slots=True)
class Rehomed:
    """One gang, after its pods have been given other nodes."""

    gang: Gang
    lost: int
    """Pods that lose their nodes."""
    level: Level | None
    """The narrowest level of which one domain holds the gang before; None: not even one of the broadest."""
    outcome: Outcome
    domain: Path
    """The narrowest domain that holds its running pods then; empty: the cluster."""
    required: Level | None
    """The level that it requires, as far as annotations of its pods or an object for the gang say."""
    placed: tuple[PodView, ...]
    """The pods that go to other nodes, with those."""

    @property
    def worse(self) -> bool:
        """Whether it is torn apart or waits."""
        return self.outcome in (Outcome.SPREADS, Outcome.WAITS)

    @property
    def sentence(self) -> str:
        """What becomes of it, for people."""
        gang, level = self.gang, self.level.domain if self.level else "cluster"
        gpus, pods = gang.gpus, len(gang.placed)
        what = f"{gpus:,} {plural(gpus, 'GPU')}, {self.lost} of {pods:,} {plural(pods, 'pod')}"
        name = f"{gang.handle} ({gang.kind}, {what})"
        where = "/".join(self.domain[-1:]) or "the cluster"
        match self.outcome:
            case Outcome.STAYS:
                return f"{name}: finds other nodes in the same {level}"
            case Outcome.MOVES:
                return f"{name}: restarts in another {level}, {where}"
            case Outcome.SPREADS:
                return f"{name}: no longer fits into one {level}; it spreads over {where}"
            case Outcome.WAITS if self.required:
                return f"{name}: waits, as no {self.required.domain} has room for it, and it requires one"
            case Outcome.WAITS:
                return f"{name}: waits, as there is no room for it"


def rehome(
    before: Capacity, after: Capacity, gangs: Iterable[Gang], lost: Collection[str]
) -> Iterator[Rehomed]:
    """What becomes of the gangs when the pods `NAMESPACE/NAME` of `lost` need other nodes; `after` is without them."""
    hit = [gang for gang in gangs if any(_name(pod) in lost for pod in gang.placed)]
    hit.sort(key=lambda gang: (-gang.gpus, gang.handle))
    if hit:
        rehoming = _Rehoming(before, after, hit)
        yield from (rehoming.place(gang, lost) for gang in hit)


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


class _Rehoming:
    def __init__(self, before: Capacity, after: Capacity, gangs: Sequence[Gang]) -> None:
        self._before = before
        self._levels = after.levels
        self._kinds = Kinds()
        self._alike: Labels = ()
        pods = dict.fromkeys(
            kind
            for gang in gangs
            for alike in (before.alike(gang), ())
            for kind in self._kinds.of(gang.placed, alike)
        )
        self._deepest = after.levels[-1] if after.levels else None
        everything = Group("", tuple(pods), required=self._deepest)
        self._room = Room(after.levels, after.nodes, [everything], partial=False)
        self._number = {name: number for number, name in enumerate(self._room.names)}

    def place(self, gang: Gang, lost: Collection[str]) -> Rehomed:
        """Give the gang's pods other nodes, for good."""
        gone = [pod for pod in gang.placed if _name(pod) in lost]
        kept = [pod for pod in gang.placed if _name(pod) not in lost]
        home = self._home(gang)
        required = self._required(gang)
        least = self._levels.index(required) + 1 if required else 0
        self._alike = self._before.alike(gang)
        outcome, placed = self._choose(gone, kept, home, least)
        if self._alike and outcome not in (Outcome.STAYS, Outcome.MOVES):
            self._alike = ()  # nodes unlike those that it runs on
            outcome, placed = self._choose(gone, kept, home, least)
        moved = list(self._moved([*gone, *kept], placed))
        names = {_name(pod) for pod in moved}
        where = {pod.node for pod in (*moved, *(pod for pod in kept if _name(pod) not in names))}
        domain = _common(
            [self._room.paths[self._number[name]] for name in where if name in self._number]
        )
        level = self._levels[len(home) - 1] if home else None
        return Rehomed(gang, len(gone), level, outcome, domain, required, tuple(moved))

    def _moved(self, pods: Iterable[PodView], placed: Iterable[Placed]) -> Iterator[PodView]:
        """The pods with the nodes they go to, which they now take; each placed group has pods of one kind."""
        waiting: dict[Shape, list[PodView]] = {}
        for pod in pods:
            (kind,) = self._kinds.of([pod], self._alike)
            waiting.setdefault(self._room.shapes[kind], []).append(pod)
        for copy in placed:
            for kind in copy.group.pods:
                shape = self._room.shapes[replace(kind, count=1)]
                for name, count in copy.nodes:
                    self._room.put(self._number[name], shape, count)
                    for _ in range(count):
                        yield msgspec.structs.replace(waiting[shape].pop(0), node=name)

    def _choose(
        self, gone: Sequence[PodView], kept: Sequence[PodView], home: Path, least: int
    ) -> tuple[Outcome, Sequence[Placed]]:
        """What becomes of a gang, and the placement; it may spread no further than to the level of depth `least`."""
        if kept and (placed := self._search(gone, None, home)) is not None:
            return Outcome.STAYS, placed
        if home:
            self._put(kept, -1)
            if (
                placed := self._search([*gone, *kept], self._levels[len(home) - 1], ())
            ) is not None:
                return (
                    Outcome.MOVES if kept or self._elsewhere(placed, home) else Outcome.STAYS
                ), placed
            self._put(kept, 1)
        elif not kept and (placed := self._search(gone, None, ())) is not None:
            return Outcome.STAYS, placed
        for depth in range(len(home) - 1, least - 1, -1):
            level = self._levels[depth - 1] if depth else None
            if (placed := self._search(gone, level, home[:depth] if kept else ())) is not None:
                return Outcome.SPREADS, placed
        return Outcome.WAITS, ()

    def _elsewhere(self, placed: Sequence[Placed], home: Path) -> bool:
        return any(
            self._room.paths[self._number[name]][: len(home)] != home
            for copy in placed
            for name, _ in copy.nodes
        )

    def _home(self, gang: Gang) -> Path:
        """The narrowest domain that holds the gang before the change."""
        numbers = [self._before.number.get(pod.node) for pod in gang.placed]
        paths = [self._before.paths[number] for number in numbers if number is not None]
        return _common(paths) if len(paths) == len(numbers) else ()

    def _required(self, gang: Gang) -> Level | None:
        asked = {
            pod.annotations[key]
            for pod in gang.placed
            for key in _REQUIRING
            if key in pod.annotations
        }
        asked.add(gang.required)
        return next(
            (
                level
                for level in reversed(self._levels)
                if level.key in asked or level.domain in asked
            ),
            None,
        )

    def _search(
        self, pods: Iterable[PodView], level: Level | None, inside: Path
    ) -> Sequence[Placed] | None:
        kinds = self._kinds.of(pods, self._alike)
        groups = tuple(
            Group(str(number), (replace(kind, count=count),))
            for number, (kind, count) in enumerate(kinds.items())
        )
        for kind, count in kinds.items():
            self._room.shapes[replace(kind, count=count)] = self._room.shapes[kind]
        if inside and inside not in self._room.members:
            return None
        return Search(self._room).place((Group("", groups=groups, required=level),), inside)

    def _put(self, pods: Iterable[PodView], times: int) -> None:
        for pod in pods:
            number = self._number.get(pod.node)
            if number is not None:
                for kind, count in self._kinds.of([pod], self._alike).items():
                    self._room.put(number, self._room.shapes[kind], count * times)


def _common(paths: Sequence[Path]) -> Path:
    """What the paths have in common from the broadest level down."""
    first: Path = paths[0] if paths else ()
    depth = len(first)
    for path in paths:
        while path[:depth] != first[:depth]:
            depth -= 1
    return first[:depth]
