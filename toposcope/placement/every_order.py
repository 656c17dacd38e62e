"""Tries every order of a workload's pods and every choice of nodes, if there are few enough."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.placement.board import Placement, RuledRoom, Spot, Stuck, is_closer

LOOKS: Final = 200_000
"""How many nodes may be examined before it gives up: a second on a slow machine."""
_MAX_PODS: Final = 200
"""It tries no workload with more pods."""


class _TooManyError(ToposcopeError):
    """There are more states than may be examined."""


@dataclass(slots=True)
class Ends:
    """How placing the pods can end."""

    placement: Placement | None = None
    """A placement of all pods; None if there is none."""
    stuck: Stuck | None = None
    """Among the ends in which a rule leaves a pod no node: one with the most pods placed."""
    states: set[object] = field(default_factory=set)

    @property
    def is_decided(self) -> bool:
        """Whether further states cannot change the result."""
        return self.placement is not None and self.stuck is not None


class EveryOrder:
    """Visits each reachable state of a board once."""

    def __init__(self, board: RuledRoom) -> None:
        self._board = board
        self._looks = LOOKS
        self._node_classes: list[int] = []

    def ends(self) -> Ends | None:
        """How it can end; None if there is too much to try."""
        if sum(self._board.wanted) > _MAX_PODS:
            return None
        self._node_classes = list(self._classes())
        ends = Ends()
        try:
            self._explore(ends)
        except _TooManyError:
            return None
        finally:
            self._board.clear()
        return ends

    def _explore(self, ends: Ends) -> None:
        """Visit the states below the current one, depth first."""
        board = self._board
        state = self._state()
        if state in ends.states:
            return
        ends.states.add(state)
        missing = board.missing()
        if not missing:
            ends.placement = ends.placement or board.placement
            return
        spots = self._spots(missing)
        for spot in spots:
            board.put(spot)
            self._explore(ends)
            board.take_back()
            if ends.is_decided:
                return
        if not spots:
            self._note_stuck(ends)

    def _note_stuck(self, ends: Ends) -> None:
        """Keep an end that rules cause; ends caused by pods of different sizes don't count."""
        stuck = self._board.stuck()
        if stuck.rules and is_closer(stuck, ends.stuck):
            ends.stuck = stuck

    def _state(self) -> object:
        """The current state, equal for states that differ only in pods of equal nodes."""
        self._looks -= len(self._node_classes)
        if self._looks < 0:
            raise _TooManyError
        rows: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for node, node_class in enumerate(self._node_classes):
            row = node_class, self._board.on(node)
            rows[row] += 1
        return frozenset(rows.items())

    def _spots(self, missing: Sequence[int]) -> list[Spot]:
        """Where an unplaced pod can go now; only the first of equal nodes."""
        spots = []
        looked: set[object] = set()
        for kind in missing:
            for node, node_class in enumerate(self._node_classes):
                look = kind, node_class, self._board.on(node)
                if look in looked:
                    continue
                looked.add(look)
                if self._board.can_take(kind, node):
                    spots.append(Spot(kind, node))
        return spots

    def _classes(self) -> Iterator[int]:
        """By node: the number of its class; rules cannot tell nodes of one class apart."""
        room = self._board.room
        numbers: dict[object, int] = {}
        for node in self._board.nodes:
            labels = tuple(self._labels(node))
            facts = tuple(self._facts(node))
            look = labels, facts, tuple(room.free[node]), room.eligible[node]
            next_number = len(numbers)
            yield numbers.setdefault(look, next_number)

    def _labels(self, node: int) -> Iterator[str | None]:
        """The values of the labels that rules use, if other nodes may share them."""
        single = self._board.state.single_keys()
        for key in self._board.state.values:
            value = self._board.value(key, node)
            if value is not None and key in single:
                value = ""
            yield value

    def _facts(self, node: int) -> Iterator[object]:
        """What rules use of a node besides its labels: what runs there and in its domains."""
        board = self._board
        state = board.state
        name = board.name(node)
        for kind in board.kinds:
            yield state.barred[kind].get(name)
            follows = state.follows[kind]
            if follows:
                for key, running_values in zip(follows.keys, follows.running_values, strict=True):
                    yield board.value(key, node) in running_values
            for spreads in state.spreads[kind]:
                value = board.value(spreads.rule.key, node)
                yield board.is_counted(node, spreads.is_counted)
                yield spreads.pods.get(value or "")
