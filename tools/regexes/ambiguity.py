"""Whether backtracking over a pattern can take more than linear time.

The pattern's automaton is searched for it.

Exponential: some text leads from a position back to it in two ways. Quadratic or worse: some text
leads from a first loop back to it, from there to a second loop, and from the second back to it.
Both only cost where the match may fail afterwards.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from itertools import product
from typing import TypeAlias, TypeVar

from tools.regexes.automaton import Automaton, Mode, automaton

_Node = TypeVar("_Node")
_Next: TypeAlias = Callable[[_Node], Iterable[_Node]]


class Growth(StrEnum):
    """How the time grows with the text."""

    LINEAR = "linear"
    QUADRATIC = "quadratic or worse"
    EXPONENTIAL = "exponential"


def growth(pattern: str | bytes, flags: int = 0, mode: Mode = Mode.SEARCH) -> Growth:
    """How the time for one call may grow with the text that the pattern is applied to.

    Raises re.error.
    """
    return _growth(automaton(pattern, flags, mode))


def _growth(machine: Automaton) -> Growth:
    worst = [Growth.LINEAR, *map(_growth, machine.pieces)]
    judge = _Judge(machine)
    if judge.is_exponential():
        worst.append(Growth.EXPONENTIAL)
    elif judge.is_quadratic():
        worst.append(Growth.QUADRATIC)
    return max(worst, key=list(Growth).index)


class _Judge:
    def __init__(self, machine: Automaton) -> None:
        self._automaton = machine
        self._following = machine.following()
        positions = range(len(machine.characters))
        loops = components(positions, self._following.__getitem__)
        self._loops = [frozenset(loop) for loop in loops if self._is_loop(loop)]

    def is_exponential(self) -> bool:
        for loop in self._loops:
            if not loop <= self._automaton.sure and self._has_two_ways(loop):
                return True
        return False

    def is_quadratic(self) -> bool:
        for second in self._loops:
            if second <= self._automaton.sure:
                continue
            for first in self._loops:
                if first == second or self._is_left_at_once(first):
                    continue
                if self._has_text_through_both(first, second):
                    return True
        return False

    def _is_loop(self, loop: list[int]) -> bool:
        if len(loop) > 1:
            return True
        only = loop[0]
        return (only, only) in self._automaton.edges

    def _is_left_at_once(self, loop: frozenset[int]) -> bool:
        """Whether the loop is possessive, and nothing around it repeats it."""
        return len(loop) == 1 and loop <= self._automaton.atomic

    def _has_two_ways(self, loop: frozenset[int]) -> bool:
        """Whether one text leads around the loop in two ways."""
        for (before, after), ways in self._automaton.edges.items():
            if ways > 1 and before in loop and after in loop:
                return True

        def pairs(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
            for first in self._within(loop, pair[0]):
                for second in self._within(loop, pair[1]):
                    if self._common(first, second):
                        yield first, second

        starts = [(position, position) for position in loop]
        for component in components(starts, pairs):
            same = [first == second for first, second in component]
            if any(same) and not all(same):
                return True
        return False

    def _has_text_through_both(self, first: frozenset[int], second: frozenset[int]) -> bool:
        """Whether one text leads around the first loop, on to the second, and around that."""
        for start, end in product(first, second):
            if self._has_way(first, second, start, end):
                return True
        return False

    def _has_way(self, first: frozenset[int], second: frozenset[int], p: int, q: int) -> bool:
        goal, visited = (p, q, q), {(p, p, q)}
        queue = [(p, p, q)]
        while queue:
            a, b, c = queue.pop()
            for x in self._within(first, a):
                for z in self._within(second, c):
                    if not self._common(x, z):
                        continue
                    for y in self._following[b]:
                        step = x, y, z
                        if step not in visited and self._common(x, z, y):
                            if step == goal:
                                return True
                            visited.add(step)
                            queue.append(step)
        return False

    def _within(self, loop: frozenset[int], position: int) -> list[int]:
        return [after for after in self._following[position] if after in loop]

    def _common(self, *positions: int) -> int:
        """The characters that all of these positions take."""
        common = -1
        for position in positions:
            common &= self._automaton.characters[position]
        return common


def components(nodes: Iterable[_Node], following: _Next[_Node]) -> list[list[_Node]]:
    """The strongly connected components among these nodes (Tarjan's algorithm, no recursion)."""
    number: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    path: list[_Node] = []
    on_path: set[_Node] = set()
    strongly_connected: list[list[_Node]] = []

    def enter(node: _Node) -> tuple[_Node, Iterator[_Node]]:
        number[node] = lowest[node] = len(number)
        path.append(node)
        on_path.add(node)
        return node, iter(following(node))

    def leave(node: _Node) -> None:
        if lowest[node] != number[node]:
            return
        at = path.index(node)
        strongly_connected.append(path[at:])
        on_path.difference_update(path[at:])
        del path[at:]

    for start in nodes:
        work = [] if start in number else [enter(start)]
        while work:
            node, rest = work[-1]
            after = next(rest, None)
            if after is None:
                work.pop()
                leave(node)
                if work:
                    above = work[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
            elif after not in number:
                work.append(enter(after))
            elif after in on_path:
                lowest[node] = min(lowest[node], number[after])
    return strongly_connected
