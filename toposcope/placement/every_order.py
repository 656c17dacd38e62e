"""Tries every order of a workload's pods and every choice of nodes, where that is little."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.errors import ToposcopeError
from toposcope.placement.board import Placement, RuledRoom, Spot, Stuck, is_closer

LOOKS: Final = 200_000
"""How many nodes may be looked at before there are too many states: a second on a slow machine."""
_DEEPEST: Final = 200
"""The most pods of which every state is tried."""


class _TooManyError(ToposcopeError):
    """There are more states than may be looked at."""


@dataclass(slots=True)
class Ends:
    """How it can end."""

    placement: Placement | None = None
    """One of all pods; None: there is none."""
    stuck: Stuck | None = None
    """Of the ends in which a rule leaves no node for a pod: one with the most pods placed."""
    states: set[object] = field(default_factory=set)

    @property
    def is_decided(self) -> bool:
        """Whether more states tell nothing new."""
        return self.placement is not None and self.stuck is not None


class EveryOrder:
    """All states of a board that can be reached, each looked at once."""

    def __init__(self, board: RuledRoom) -> None:
        self._board = board
        self._looks = LOOKS
        self._alike: list[int] = []

    def ends(self) -> Ends | None:
        """How it can end; None: there is too much to try."""
        if sum(self._board.wanted) > _DEEPEST:
            return None
        self._alike = list(self._classes())
        ends = Ends()
        try:
            self._explore(ends)
        except _TooManyError:
            return None
        finally:
            self._board.clear()
        return ends

    def _explore(self, ends: Ends) -> None:
        """Depth first."""
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
        """Keep how it fails because of rules; what different sizes lead to is not their doing."""
        stuck = self._board.stuck()
        if stuck.rules and is_closer(stuck, ends.stuck):
            ends.stuck = stuck

    def _state(self) -> object:
        """The same for states that differ only in which of equal nodes has which pods."""
        self._looks -= len(self._alike)
        if self._looks < 0:
            raise _TooManyError
        rows: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for node, alike in enumerate(self._alike):
            row = alike, self._board.on(node)
            rows[row] += 1
        return frozenset(rows.items())

    def _spots(self, missing: Sequence[int]) -> list[Spot]:
        """Where one of the missing pods can go now; of equal nodes the first."""
        spots = []
        looked: set[object] = set()
        for kind in missing:
            for node, alike in enumerate(self._alike):
                look = kind, alike, self._board.on(node)
                if look in looked:
                    continue
                looked.add(look)
                if self._board.can(kind, node):
                    spots.append(Spot(kind, node))
        return spots

    def _classes(self) -> Iterator[int]:
        """By node: a number that nodes share which differ in nothing that rules go by."""
        room = self._board.room
        numbers: dict[object, int] = {}
        for node in self._board.nodes:
            labels = tuple(self._labels(node))
            facts = tuple(self._facts(node))
            look = labels, facts, tuple(room.free[node]), room.eligible[node]
            next_number = len(numbers)
            yield numbers.setdefault(look, next_number)

    def _labels(self, node: int) -> Iterator[str | None]:
        """The values of labels that rules go by, as far as other nodes may share them."""
        single = self._board.state.single_keys()
        for key in self._board.state.values:
            value = self._board.value(key, node)
            if value is not None and key in single:
                value = ""
            yield value

    def _facts(self, node: int) -> Iterator[object]:
        """What rules know of a node besides its labels: what runs there and around it."""
        board = self._board
        state = board.state
        name = board.name(node)
        for kind in board.kinds:
            yield state.barred[kind].get(name)
            follows = state.follows[kind]
            if follows:
                for key, found in zip(follows.keys, follows.found, strict=True):
                    yield board.value(key, node) in found
            for spreads in state.spreads[kind]:
                value = board.value(spreads.rule.key, node)
                yield board.is_counted(node, spreads.is_counted)
                yield spreads.pods.get(value or "")
