"""One text with conditions out of a base and its variants: pure.

Each option is known by what it makes of the base alone. Lines that it adds stand under a condition, lines that it
drops under the opposite one. Options that add the same lines at the same place share them up to where they differ, so
that a list which two of them begin has one head. Options that change the same lines in other ways cannot be woven;
that the sets which make sense come out as kustomize renders them is what tests/charts checks.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines, there when one of `only_with` is chosen (empty: always) and none of `never_with` is."""

    lines: tuple[str, ...]
    only_with: frozenset[str] = frozenset()
    never_with: frozenset[str] = frozenset()

    def there(self, chosen: Collection[str]) -> bool:
        """Whether the lines are in the text for these options."""
        return not (self.only_with and self.only_with.isdisjoint(chosen)) and self.never_with.isdisjoint(chosen)


def weave(base: Sequence[str], variants: Mapping[str, Sequence[str]]) -> list[Piece]:
    """The pieces of a text; `variants` has what each option makes of it. Lines added at one place stay in its order."""
    dropped: dict[int, set[str]] = {}
    added: dict[int, list[Piece]] = {}
    for option, lines in variants.items():
        for change, start, end, first, last in SequenceMatcher(None, base, lines, autojunk=False).get_opcodes():
            if change == "equal":
                continue
            for at in range(start, end):
                dropped.setdefault(at, set()).add(option)
            if first < last:
                added.setdefault(start, []).append(Piece(tuple(lines[first:last]), frozenset((option,))))
    pieces: list[Piece] = []
    for at, line in enumerate((*base, None)):
        pieces += _shared(added.get(at, ()))
        if line is None:
            break
        never = frozenset(dropped.get(at, ()))
        if pieces and not pieces[-1].only_with and pieces[-1].never_with == never:
            pieces[-1] = Piece((*pieces[-1].lines, line), frozenset(), never)
        else:
            pieces.append(Piece((line,), frozenset(), never))
    return pieces


def _shared(added: Sequence[Piece]) -> Iterator[Piece]:
    """What is added at one place: lines with which several begin stand once, under either's condition."""
    left = list(added)
    while left:
        alike = [piece for piece in left if piece.lines[0] == left[0].lines[0]]
        common = _common(alike)
        if not common:
            alike, common = left[:1], len(left[0].lines)
        left = [piece for piece in left if piece not in alike]
        yield Piece(alike[0].lines[:common], frozenset().union(*(piece.only_with for piece in alike)))
        yield from _shared([Piece(p.lines[common:], p.only_with) for p in alike if p.lines[common:]])


def _common(pieces: Sequence[Piece]) -> int:
    """How many first lines all of them share; an item of a list is shared whole or not at all."""
    first = pieces[0].lines
    common = 0
    while all(len(piece.lines) > common and piece.lines[common] == first[common] for piece in pieces):
        common += 1
    if all(len(piece.lines) == common for piece in pieces):
        return common
    items = [at for at in range(common) if first[at].lstrip().startswith("- ")]
    return items[-1] if items else common


def chosen_text(pieces: Sequence[Piece], chosen: Collection[str]) -> str:
    """The text for one set of options."""
    return "".join(f"{line}\n" for piece in pieces if piece.there(chosen) for line in piece.lines)
