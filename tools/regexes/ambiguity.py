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


def _growth(found: Automaton) -> Growth:
    worst = [Growth.LINEAR, *map(_growth, found.pieces)]
    judge = _Judge(found)
    if judge.is_exponential():
        worst.append(Growth.EXPONENTIAL)
    elif judge.is_quadratic():
        worst.append(Growth.QUADRATIC)
    return max(worst, key=list(Growth).index)


class _Judge:
    def __init__(self, found: Automaton) -> None:
        self._automaton = found
        self._following = found.following()
        positions = range(len(found.characters))
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
                if first == second or self._left_at_once(first):
                    continue
                if self._both(first, second):
                    return True
        return False

    def _is_loop(self, loop: list[int]) -> bool:
        if len(loop) > 1:
            return True
        only = loop[0]
        return (only, only) in self._automaton.edges

    def _left_at_once(self, loop: frozenset[int]) -> bool:
        """Whether the loop is possessive, and nothing around it repeats it."""
        return len(loop) == 1 and loop <= self._automaton.atomic

    def _has_two_ways(self, loop: frozenset[int]) -> bool:
        """Whether one text leads around the loop in two ways."""
        for (before, after), ways in self._automaton.edges.items():
            if ways > 1 and before in loop and after in loop:
                return True

        def pairs(pair: tuple[int, int]) -> Iterator[tuple[int, int]]:
            for one in self._within(loop, pair[0]):
                for other in self._within(loop, pair[1]):
                    if self._common(one, other):
                        yield one, other

        starts = [(position, position) for position in loop]
        for component in components(starts, pairs):
            same = [one == other for one, other in component]
            if any(same) and not all(same):
                return True
        return False

    def _both(self, first: frozenset[int], second: frozenset[int]) -> bool:
        """Whether one text leads around the first loop, on to the second, and around that."""
        for start, end in product(first, second):
            if self._leads(first, second, start, end):
                return True
        return False

    def _leads(self, first: frozenset[int], second: frozenset[int], p: int, q: int) -> bool:
        goal, seen = (p, q, q), {(p, p, q)}
        left = [(p, p, q)]
        while left:
            a, b, c = left.pop()
            for x in self._within(first, a):
                for z in self._within(second, c):
                    if not self._common(x, z):
                        continue
                    for y in self._following[b]:
                        step = x, y, z
                        if step not in seen and self._common(x, z, y):
                            if step == goal:
                                return True
                            seen.add(step)
                            left.append(step)
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
    found: list[list[_Node]] = []

    def enter(node: _Node) -> tuple[_Node, Iterator[_Node]]:
        number[node] = lowest[node] = len(number)
        path.append(node)
        on_path.add(node)
        return node, iter(following(node))

    def leave(node: _Node) -> None:
        if lowest[node] != number[node]:
            return
        at = path.index(node)
        found.append(path[at:])
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
    return found
