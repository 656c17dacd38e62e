"""Where gangs move when their pods lose their nodes, and whether they stay close together.

Gangs are placed one after the other, those with the most GPUs first; schedulers may take another
order.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.integrations.framework.verdict import Placed
from toposcope.integrations.registry import PLUGINS
from toposcope.placement.room import Room, Shape
from toposcope.placement.search import Search
from toposcope.planning.capacity import Capacity, Labels
from toposcope.planning.gangs import Gang
from toposcope.planning.moved_pods import MovingRules
from toposcope.planning.score import Kinds
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.text import listing, plural

_REQUIRING: Final = frozenset().union(*[plugin.requiring_annotations for plugin in PLUGINS])
"""Annotations of pods that name a level all of their gang has to stay within."""
_MOST_DOMAINS: Final = 64
"""In how many domains pods are tried by the rules between them."""


class RehomingOutcome(StrEnum):
    """The outcome for a gang."""

    STAYS = "stays"
    """The pods find other nodes in the domain that holds the gang."""
    MOVES = "moves"
    """All of the gang finds room in another domain of that level."""
    SPREADS = "spreads"
    """There is room only across domains of that level."""
    WAITS = "waits"
    """There is no room, or none at the level that it requires."""
    UNCLEAR = "unclear"
    """There is room, and whether rules between pods leave it to them is not known."""


@dataclass(frozen=True, slots=True)
class Rehomed:
    """One gang, after its pods have been given other nodes."""

    gang: Gang
    lost: int
    """Pods that lose their nodes."""
    level: Level | None
    """The narrowest level of which one domain holds the gang before; None: no level has one."""
    outcome: RehomingOutcome
    domain: Path
    """The narrowest domain that holds its running pods then; empty: the cluster."""
    required: Level | None
    """The level that it requires, as far as annotations of its pods or an object for it say."""
    placed: tuple[PodView, ...]
    """The pods that go to other nodes, with those."""
    broken: tuple[Rule, ...] = ()
    """Rules between pods that keep some of them from all nodes that were tried."""
    doubt: str = ""
    """Why it is not known which pods such a rule is about."""

    @property
    def is_worse(self) -> bool:
        """Whether it is torn apart or waits, or may wait."""
        return self.outcome in (
            RehomingOutcome.SPREADS,
            RehomingOutcome.WAITS,
            RehomingOutcome.UNCLEAR,
        )

    @property
    def is_waiting_or_unclear(self) -> bool:
        """Whether it waits, or that is not known."""
        return self.outcome in (RehomingOutcome.WAITS, RehomingOutcome.UNCLEAR)

    @property
    def sentence(self) -> str:
        """The outcome in one sentence."""
        gang = self.gang
        gpus = gang.gpus
        gpu = plural(gpus, "GPU")
        pods = len(gang.placed)
        pod = plural(pods, "pod")
        size = f"{gpus:,} {gpu}, {self.lost} of {pods:,} {pod}"
        return f"{gang.handle} ({gang.kind}, {size}): {self._what_happens}"

    @property
    def _what_happens(self) -> str:
        level = "cluster"
        if self.level:
            level = self.level.domain
        where = ""
        if self.domain:
            where = self.domain[-1]
        where = where or "the cluster"

        match self.outcome:
            case RehomingOutcome.STAYS:
                return f"finds other nodes in the same {level}"
            case RehomingOutcome.MOVES:
                return f"restarts in another {level}, {where}"
            case RehomingOutcome.SPREADS:
                return f"no longer fits into one {level}; it spreads over {where}"
            case RehomingOutcome.UNCLEAR:
                why = self.doubt or f"{self._rules} keeps pods from the nodes that were tried"
                return f"unclear: there is room, but {why}"
            case RehomingOutcome.WAITS:
                return f"waits, as {self._why_it_waits}"

    @property
    def _why_it_waits(self) -> str:
        if self.broken:
            return f"{self._rules} keeps pods from the nodes that have room"
        if self.required:
            return f"no {self.required.domain} has room for it, and it requires one"
        return "there is no room for it"

    @property
    def _rules(self) -> str:
        return listing(self.broken, len(self.broken))


def rehome(
    before: Capacity,
    after: Capacity,
    snapshot: Snapshot,
    gangs: Iterable[Gang],
    lost: Collection[str],
) -> Iterator[Rehomed]:
    """The outcome for each gang when the pods `NAMESPACE/NAME` of `lost` need other nodes.

    `after` and the snapshot are without them.
    """
    losing = []
    for gang in gangs:
        if any(_name(pod) in lost for pod in gang.placed):
            losing.append(gang)
    losing.sort(key=lambda gang: (-gang.gpus, gang.handle))
    if losing:
        moving: list[PodView] = []
        for gang in losing:
            moving += gang.placed
        rules = MovingRules(snapshot, moving)
        rehoming = _Rehoming(before, after, losing, rules if rules.has_rules else None)
        for gang in losing:
            yield rehoming.place(gang, lost)


def _name(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


@dataclass(frozen=True, slots=True)
class _Case:
    """A gang that loses pods."""

    gang: Gang
    gone: Sequence[PodView]
    """The pods that need other nodes."""
    kept: Sequence[PodView]
    home: Path
    """The narrowest domain that holds it."""
    required: Level | None
    least: int
    """The depth of the level that it requires: it spreads no further."""

    @property
    def pods(self) -> Sequence[PodView]:
        """All of them."""
        return [*self.gone, *self.kept]


class _Choice(NamedTuple):
    """The outcome for a gang, and where its pods go."""

    outcome: RehomingOutcome
    placed: Sequence[PodView]
    """The pods that get other nodes, with those."""

    @property
    def is_as_close(self) -> bool:
        """Whether the gang is as close together as before."""
        return self.outcome in (RehomingOutcome.STAYS, RehomingOutcome.MOVES)


class _Rehoming:
    """The room that gangs find, which shrinks with each."""

    def __init__(
        self,
        before: Capacity,
        after: Capacity,
        gangs: Sequence[Gang],
        rules: MovingRules | None,
    ) -> None:
        """`rules`: None where no pod asks anything of the pods around it."""
        self._before = before
        self._rules = rules
        self._has_to_obey_rules = rules is not None
        self._broken: dict[Rule, None] = {}
        """What kept the current gang from nodes that have room."""
        self._levels = after.levels
        self._kinds = Kinds(after)
        self._node_labels: Labels = ()
        """Labels that nodes have to have to be like those that the current gang runs on."""
        deepest = None
        if after.levels:
            deepest = after.levels[-1]
        kinds = tuple(self._kinds_of(gangs))
        everything = Group("", kinds, required=deepest)
        self._room = Room(after.levels, after.nodes, [everything], can_lack_levels=False)
        self._number = {name: number for number, name in enumerate(self._room.names)}

    def _kinds_of(self, gangs: Iterable[Gang]) -> dict[Pods, None]:
        """All kinds of pods, on nodes like those that they run on, and on any."""
        kinds: dict[Pods, None] = {}
        for gang in gangs:
            for node_labels in (self._before.common_labels(gang), ()):
                for kind in self._kinds.of(gang.placed, node_labels):
                    kinds[kind] = None
        return kinds

    def place(self, gang: Gang, lost: Collection[str]) -> Rehomed:
        """Give the gang's pods other nodes, for good."""
        case = self._case(gang, lost)
        self._broken = {}
        choice = self._choose(case)
        doubt = self._rules.doubt if self._rules else ""
        broken: tuple[Rule, ...] = ()
        if choice.outcome is RehomingOutcome.WAITS:
            broken = tuple(self._broken)
            if broken and not self._is_barred(case):
                choice = self._unclear(case)
        elif doubt:
            choice = _Choice(RehomingOutcome.UNCLEAR, choice.placed)

        moved = choice.placed
        self._put(moved, 1)
        level = None
        if case.home:
            level = self._level_of(case.home)
        return Rehomed(
            gang=gang,
            lost=len(case.gone),
            level=level,
            outcome=choice.outcome,
            domain=self._domain_of(moved, case.kept),
            required=case.required,
            placed=tuple(moved),
            broken=broken,
            doubt=doubt,
        )

    def _unclear(self, case: _Case) -> _Choice:
        """Where the gang may go if no rule is in the way."""
        self._has_to_obey_rules = False
        choice = self._choose(case)
        self._has_to_obey_rules = True
        if choice.outcome is RehomingOutcome.WAITS:
            return choice
        return _Choice(RehomingOutcome.UNCLEAR, choice.placed)

    def _is_barred(self, case: _Case) -> bool:
        """Whether running pods keep one of its pods from all nodes that have room for it."""
        if self._rules is None:
            return False
        for pod in case.gone:
            shape = self._shape_of(pod)
            roomy = []
            for number, slots in enumerate(self._room.slots):
                if slots[shape.number] > 0:
                    roomy.append(self._room.names[number])
            if self._rules.is_barred(pod, roomy):
                return True
        return False

    def _case(self, gang: Gang, lost: Collection[str]) -> _Case:
        gone, kept = [], []
        for pod in gang.placed:
            if _name(pod) in lost:
                gone.append(pod)
            else:
                kept.append(pod)

        required = self._required(gang)
        least = 0
        if required:
            least = self._levels.index(required) + 1
        return _Case(
            gang=gang,
            gone=gone,
            kept=kept,
            home=self._home(gang),
            required=required,
            least=least,
        )

    def _level_of(self, domain: Path) -> Level:
        return self._levels[len(domain) - 1]

    def _home(self, gang: Gang) -> Path:
        """The narrowest domain that holds the gang before the change."""
        paths = []
        for pod in gang.placed:
            number = self._before.number.get(pod.node)
            if number is None:
                return ()
            path = self._before.paths[number]
            paths.append(path)
        return _common(paths)

    def _required(self, gang: Gang) -> Level | None:
        """The narrowest level that its pods or an object for it require."""
        required = {gang.required}
        for pod in gang.placed:
            for key, value in pod.annotations.items():
                if key in _REQUIRING:
                    required.add(value)

        for level in reversed(self._levels):
            if level.key in required or level.domain in required:
                return level
        return None

    def _domain_of(self, moved: Sequence[PodView], kept: Sequence[PodView]) -> Path:
        """The narrowest domain that holds a gang, once some of its pods have moved."""
        names: set[str] = set()
        nodes: set[str] = set()
        for pod in moved:
            names.add(_name(pod))
            nodes.add(pod.node)
        for pod in kept:
            if _name(pod) not in names:
                nodes.add(pod.node)

        paths = []
        for node in nodes:
            if node in self._number:
                paths.append(self._path_of(node))
        return _common(paths)

    def _path_of(self, node: str) -> Path:
        number = self._number[node]
        return self._room.paths[number]

    def _moved(self, pods: Iterable[PodView], placed: Iterable[Placed]) -> Iterator[PodView]:
        """The pods with the nodes they go to. Each placed group has pods of one kind."""
        waiting: dict[Shape, deque[PodView]] = {}
        for pod in pods:
            shape = self._shape_of(pod)
            waiting.setdefault(shape, deque()).append(pod)

        for copy in placed:
            for kind in copy.group.pods:
                shape = self._room.shapes[replace(kind, count=1)]
                for node, count in copy.nodes:
                    for _ in range(count):
                        pod = waiting[shape].popleft()
                        yield msgspec.structs.replace(pod, node=node)

    def _shape_of(self, pod: PodView) -> Shape:
        kind = self._kinds.kind_of(pod, self._node_labels)
        return self._room.shapes[kind]

    def _choose(self, case: _Case) -> _Choice:
        """Where the gang goes: onto nodes like those that it runs on, else onto others."""
        self._node_labels = self._before.common_labels(case.gang)
        choice = self._least_torn(case)
        if self._node_labels and not choice.is_as_close:
            self._node_labels = ()
            choice = self._least_torn(case)
        return choice

    def _least_torn(self, case: _Case) -> _Choice:
        """Where the gang goes, torn apart as little as possible."""
        for choose in (self._stay, self._move, self._spread):
            choice = choose(case)
            if choice:
                return choice
        return _Choice(RehomingOutcome.WAITS, ())

    def _stay(self, case: _Case) -> _Choice | None:
        """The lost pods find other nodes where the others are."""
        if not case.kept and case.home:
            return None  # all of it is lost: see `_move`
        placed = self._search(case.gone, None, case.home)
        if placed is None:
            return None
        return _Choice(RehomingOutcome.STAYS, placed)

    def _move(self, case: _Case) -> _Choice | None:
        """All of it finds room together, in any domain of the level that holds it."""
        if not case.home:
            return None
        level = self._level_of(case.home)
        self._put(case.kept, -1)
        placed = self._search(case.pods, level, ())
        if placed is None:
            self._put(case.kept, 1)
            return None
        if case.kept or self._is_elsewhere(placed, case.home):
            return _Choice(RehomingOutcome.MOVES, placed)
        return _Choice(RehomingOutcome.STAYS, placed)

    def _spread(self, case: _Case) -> _Choice | None:
        """The lost pods find room in ever broader domains around the others."""
        for depth in range(len(case.home) - 1, case.least - 1, -1):
            domain = case.home[:depth]
            level = None
            if domain:
                level = self._level_of(domain)
            inside: Path = ()
            if case.kept:
                inside = domain
            placed = self._search(case.gone, level, inside)
            if placed is not None:
                return _Choice(RehomingOutcome.SPREADS, placed)
        return None

    def _is_elsewhere(self, placed: Iterable[PodView], home: Path) -> bool:
        for pod in placed:
            path = self._path_of(pod.node)
            if path[: len(home)] != home:
                return True
        return False

    def _search(
        self, pods: Sequence[PodView], level: Level | None, inside: Path
    ) -> Sequence[PodView] | None:
        """A place for these pods inside of a domain, in one domain of the level."""
        placed = self._with_room(pods, level, inside)
        if placed is None:
            return None
        moved = list(self._moved(pods, placed))
        if self._rules is None or not self._has_to_obey_rules:
            return moved
        rule = self._rules.broken_by(moved)
        if rule is None:
            return moved
        self._broken[rule] = None
        return self._one_by_one(pods, level, inside)

    def _one_by_one(
        self, pods: Sequence[PodView], level: Level | None, inside: Path
    ) -> Sequence[PodView] | None:
        """A place by the rules: each pod on the first node where it may be, in several orders."""
        domains = self._room.domains(inside, level)
        for domain in domains[:_MOST_DOMAINS]:
            members = self._room.members[domain]
            fullest = sorted(members, key=self._slots)
            emptiest = fullest[::-1]
            for nodes in (fullest, emptiest):
                placed = self._first_nodes(pods, nodes)
                if placed is None:
                    placed = self._first_nodes(pods[::-1], nodes)
                if placed is not None:
                    return placed
        return None

    def _slots(self, number: int) -> int:
        return sum(self._room.slots[number])

    def _first_nodes(
        self, pods: Iterable[PodView], nodes: Sequence[int]
    ) -> Sequence[PodView] | None:
        """The pods, each on the first of these nodes where it may be; None: one finds none."""
        placed: list[PodView] = []
        for pod in pods:
            moved = self._on_first_node(pod, nodes)
            if moved is None:
                break
            self._put([moved], 1)
            placed.append(moved)
        else:
            self._put(placed, -1)
            return placed
        self._put(placed, -1)
        return None

    def _on_first_node(self, pod: PodView, nodes: Iterable[int]) -> PodView | None:
        shape = self._shape_of(pod)
        for number in nodes:
            slots = self._room.slots[number]
            if slots[shape.number] <= 0:
                continue
            name = self._room.names[number]
            rule = self._rules.blocked(pod, name) if self._rules else None
            if rule is None:
                return msgspec.structs.replace(pod, node=name)
        return None

    def _with_room(
        self, pods: Iterable[PodView], level: Level | None, inside: Path
    ) -> Sequence[Placed] | None:
        """The same, whatever the rules between pods."""
        shapes = self._room.shapes
        counts = self._kinds.of(pods, self._node_labels)
        groups = []
        for number, (kind, count) in enumerate(counts.items()):
            counted = replace(kind, count=count)
            shapes[counted] = shapes[kind]
            group = Group(str(number), (counted,))
            groups.append(group)
        if inside and inside not in self._room.members:
            return None
        root = Group(
            name="",
            groups=tuple(groups),
            required=level,
        )
        search = Search(self._room)
        return search.place((root,), inside)

    def _put(self, pods: Sequence[PodView], times: int) -> None:
        """Put pods on the nodes where they are, or with -1 take them away."""
        counts: Counter[tuple[int, Shape]] = Counter()
        for pod in pods:
            number = self._number.get(pod.node)
            if number is None:
                continue
            shape = self._shape_of(pod)
            counts[number, shape] += 1
        for place, count in counts.items():
            number, shape = place
            self._room.put(number, shape, count * times)
        if self._rules:
            self._rules.put(pods, times)


def _common(paths: Sequence[Path]) -> Path:
    """What the paths have in common from the broadest level down."""
    first: Path = paths[0] if paths else ()
    depth = len(first)
    for path in paths:
        while path[:depth] != first[:depth]:
            depth -= 1
    return first[:depth]
