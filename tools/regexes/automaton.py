"""The automaton of a pattern's positions (Glushkov's): characters, and which may come next.

Edges are counted, because `(a*)*` has two ways from one `a` to the next. A repetition with a bound
is unrolled a few times; with a large bound, or around text of any length, it counts as one without.
Lookaheads are side branches that lead nowhere; a backreference stands for its group's pattern.

Source of the method: Weideman, van der Merwe, Berglund, Watson, "Analyzing Matching Time Behavior
of Backtracking Regular Expression Matchers by Using Ambiguity of NFA" (CIAA 2016).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from re import _constants as op  # type: ignore[attr-defined]  # typeshed leaves it out
from re import _parser as parser  # type: ignore[attr-defined]  # same
from typing import Any, Final

from tools.regexes.characters import Alphabet

MOST_ROUNDS: Final = 512
"""A repetition that may have more rounds than this counts as one without a bound."""
_COPY_COUNT: Final = 3
_REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT)


class Mode(StrEnum):
    """How a pattern is applied.

    `search` stands for all functions that try every place of the text.
    """

    MATCH = "match"
    FULLMATCH = "fullmatch"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class _Part:
    """What a piece of the pattern contributes.

    These are positions that it can begin and end with, by the number of ways.
    """

    first: Mapping[int, int] = field(default_factory=dict)
    last: Mapping[int, int] = field(default_factory=dict)
    empty: int = 1
    """Ways to match nothing."""
    is_surely_empty: bool = True
    """Whether it matches nothing wherever it stands: an assertion does not."""
    sure_last: frozenset[int] = frozenset()
    """Positions after which this piece needs nothing more."""


_EMPTY: Final = _Part()
_ASSERTION: Final = _Part(is_surely_empty=False)


@dataclass
class Automaton:
    """Positions, the characters of each, and the edges between them with their number of ways.

    Two ways stand for any larger number.
    """

    characters: list[int] = field(default_factory=list)
    edges: dict[tuple[int, int], int] = field(default_factory=dict)
    sure: frozenset[int] = frozenset()
    """Positions at which the pattern has matched already: nothing that follows makes it go back."""
    atomic: set[int] = field(default_factory=set)
    """Positions that stand for a possessive or atomic piece, which is left at one place only."""
    pieces: list["Automaton"] = field(default_factory=list)
    """The possessive and atomic pieces, each judged on its own."""

    def following(self) -> list[list[int]]:
        """For each position those that may come next."""
        following: list[list[int]] = [[] for _ in self.characters]
        for before, after in self.edges:
            following[before].append(after)
        return following


def automaton(pattern: str | bytes, flags: int, mode: Mode) -> Automaton:
    """The automaton of a pattern that is applied in this way. Raises re.error."""
    tree = parser.parse(pattern, flags)
    alphabet = Alphabet(_named(tree), is_binary=isinstance(pattern, bytes))
    builder = _Builder(alphabet)
    part = builder.sequence(tree, tree.state.flags)
    machine = builder.automaton
    if mode is Mode.FULLMATCH:
        loops = {
            at
            for at in part.sure_last
            if (at, at) in machine.edges and machine.characters[at] == alphabet.all
        }
        machine.sure = frozenset(loops)
        return machine
    machine.sure = part.sure_last
    if mode is Mode.SEARCH:
        builder.every_start(part, _anchor(list(tree), tree.state.flags))
    return machine


class _Builder:
    def __init__(self, alphabet: Alphabet) -> None:
        self._alphabet = alphabet
        self._groups: dict[int, tuple[Any, int]] = {}
        self.automaton = Automaton()

    def sequence(self, tree: Iterable[tuple[Any, Any]], flags: int) -> _Part:
        """One piece after the other."""
        combined = _EMPTY
        for kind, value in tree:
            combined = self._then(combined, self._piece(kind, value, flags))
        return combined

    def every_start(self, part: _Part, anchor: str) -> None:
        """Two positions for the text before the match: the end of a line, and everything else."""
        if anchor == "text":
            return
        newline = self._alphabet.character(ord("\n"), 0)
        no_newline = self._alphabet.all & ~newline
        line_end = self._position(newline)
        elsewhere = self._position(no_newline)
        positions = (line_end, elsewhere)
        for before in positions:
            for after in positions:
                self._edge(before, after, 1)

        starts: tuple[int, ...] = positions
        if anchor == "line":
            starts = positions[:1]
        for before in starts:
            for after, ways in part.first.items():
                self._edge(before, after, ways)

    def _piece(self, kind: Any, value: Any, flags: int) -> _Part:
        characters = self._characters(kind, value, flags)
        if characters is not None:
            return self._single(characters)
        if kind is op.SUBPATTERN:
            return self._group(value, flags)

        if kind is op.BRANCH:
            _, branches = value
            parts = [self.sequence(branch, flags) for branch in branches]
            return self._branch(parts)

        if kind in _REPEATS:
            least, most, body = value
            return self._repeat(body, least, most, flags)
        if kind in (op.POSSESSIVE_REPEAT, op.ATOMIC_GROUP):
            return self._atomic(value, flags)
        return self._rarely(kind, value, flags)

    def _rarely(self, kind: Any, value: Any, flags: int) -> _Part:
        if kind in (op.ASSERT, op.ASSERT_NOT):
            direction, body = value
            if direction < 0:
                return _ASSERTION  # what is looked for behind has a fixed length
            part = self.sequence(body, flags)
            return self._side_branch(part)

        if kind is op.GROUPREF:
            body, group_flags = self._groups[value]
            return self.sequence(body, group_flags)

        if kind is op.GROUPREF_EXISTS:
            _, yes, no = value
            matched = self.sequence(yes, flags)
            unmatched = self.sequence(no or (), flags)
            return self._branch([matched, unmatched])

        return _ASSERTION  # anchors, boundaries of words, what never matches

    def _characters(self, kind: Any, value: Any, flags: int) -> int | None:
        if kind is op.LITERAL:
            return self._alphabet.character(value, flags)
        if kind is op.NOT_LITERAL:
            return self._alphabet.all & ~self._alphabet.character(value, flags)
        if kind is op.ANY:
            return self._alphabet.any(flags)
        if kind is op.IN:
            return self._alphabet.of(value, flags)
        return None

    def _position(self, characters: int) -> int:
        self.automaton.characters.append(characters)
        return len(self.automaton.characters) - 1

    def _single(self, characters: int) -> _Part:
        at = self._position(characters)
        return _Part(
            {at: 1},
            {at: 1},
            empty=0,
            is_surely_empty=False,
            sure_last=frozenset((at,)),
        )

    def _edge(self, before: int, after: int, ways: int) -> None:
        edges = self.automaton.edges
        edge = before, after
        edges[edge] = min(2, edges.get(edge, 0) + ways)

    def _join(self, before_part: _Part, after_part: _Part) -> None:
        for before, ways in before_part.last.items():
            for after, more in after_part.first.items():
                self._edge(before, after, ways * more)

    def _then(self, before_part: _Part, after_part: _Part) -> _Part:
        self._join(before_part, after_part)
        return _Part(
            first=_sum(before_part.first, after_part.first, before_part.empty),
            last=_sum(after_part.last, before_part.last, after_part.empty),
            empty=min(2, before_part.empty * after_part.empty),
            is_surely_empty=before_part.is_surely_empty and after_part.is_surely_empty,
            sure_last=after_part.sure_last
            | (before_part.sure_last if after_part.is_surely_empty else frozenset()),
        )

    def _branch(self, parts: Sequence[_Part]) -> _Part:
        first: Mapping[int, int] = {}
        last: Mapping[int, int] = {}
        empty = 0
        is_surely_empty = False
        sure_last: frozenset[int] = frozenset()
        for part in parts:
            first = _sum(first, part.first, 1)
            last = _sum(last, part.last, 1)
            empty += part.empty
            is_surely_empty = is_surely_empty or part.is_surely_empty
            sure_last |= part.sure_last

        return _Part(
            first,
            last,
            empty=min(2, empty),
            is_surely_empty=is_surely_empty,
            sure_last=sure_last,
        )

    def _side_branch(self, body: _Part) -> _Part:
        """A lookahead: it reads on, and the match goes on from where it began."""
        return _Part(first=body.first, is_surely_empty=False)

    def _group(self, value: Any, flags: int) -> _Part:
        number, added, removed, body = value
        within = (flags | added) & ~removed
        if number is not None:
            self._groups[number] = (body, within)
        return self.sequence(body, within)

    def _repeat(self, body: Any, least: int, most: Any, flags: int) -> _Part:
        shortest, longest = body.getwidth()
        is_fixed = shortest == longest
        has_bound = most is not op.MAXREPEAT and most <= MOST_ROUNDS
        if has_bound and (is_fixed or most <= _COPY_COUNT):
            return self._rounds(body, least, most, flags)

        combined = _EMPTY
        copies = max(0, least - 1)
        for _ in range(min(_COPY_COUNT, copies)):
            part = self.sequence(body, flags)
            combined = self._then(combined, part)

        loop = self.sequence(body, flags)
        self._join(loop, loop)
        if least == 0:
            loop = _optional(loop)
        return self._then(combined, loop)

    def _rounds(self, body: Any, least: int, most: int, flags: int) -> _Part:
        combined = _EMPTY
        for _ in range(min(_COPY_COUNT, least)):
            part = self.sequence(body, flags)
            combined = self._then(combined, part)
        optional_rounds = _EMPTY
        for _ in range(min(_COPY_COUNT, most - least)):
            part = self.sequence(body, flags)
            optional_rounds = _optional(self._then(part, optional_rounds))
        return self._then(combined, optional_rounds)

    def _atomic(self, value: Any, flags: int) -> _Part:
        """One position for all of it, left at one place; the inside is judged on its own."""
        least, most, body = (1, 1, value)
        if isinstance(value, tuple):
            least, most, body = value
        inside = _Builder(self._alphabet)
        inside._groups = self._groups
        part = inside.sequence(body, flags)
        inside.automaton.sure = part.sure_last
        self.automaton.pieces.append(inside.automaton)

        characters = 0
        for more in inside.automaton.characters:
            characters |= more
        single = self._single(characters)
        (at,) = single.first
        if most != 1 or _longer(body):
            self._edge(at, at, 1)
        self.automaton.atomic.add(at)

        if least == 0 or part.empty:
            return _optional(single)
        return single


def _sum(ways: Mapping[int, int], more: Mapping[int, int], times: int) -> Mapping[int, int]:
    if not times:
        return ways
    total = dict(ways)
    for at, count in more.items():
        total[at] = min(2, total.get(at, 0) + count * times)
    return total


def _optional(part: _Part) -> _Part:
    return _Part(
        part.first,
        part.last,
        min(2, part.empty + 1),
        is_surely_empty=True,
        sure_last=part.sure_last,
    )


def _longer(body: Any) -> bool:
    """Whether it can match more than one character."""
    return bool(body.getwidth()[1] > 1)


def _anchor(tree: Sequence[tuple[Any, Any]], flags: int) -> str:
    """Where alone a match can begin: `text`, `line`, or empty for everywhere."""
    if not tree:
        return ""

    kind, value = tree[0]
    if kind is op.AT:
        if value is op.AT_BEGINNING_STRING:
            return "text"
        if value is op.AT_BEGINNING:
            return "line" if flags & re.MULTILINE else "text"
        return ""

    if kind is op.SUBPATTERN:
        _, added, removed, body = value
        inner_flags = (flags | added) & ~removed
        return _anchor(list(body), inner_flags)
    return ""


def _named(tree: Any) -> Iterator[int]:
    """Every character that the pattern names, and those beside the ends of its ranges."""
    for kind, value in tree:
        if kind in (op.LITERAL, op.NOT_LITERAL):
            yield value
        elif kind is op.RANGE:
            yield from value
        elif kind is op.IN:
            yield from _named(value)
        else:
            for part in _parts(value):
                yield from _named(part)


def _parts(value: Any) -> Iterator[Any]:
    """The patterns within the value of an operation."""
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part)
