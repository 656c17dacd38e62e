"""One text with conditions out of a base and its variants: pure.

Each option is known by what it makes of the base alone. Lines that it adds stand under a condition, lines that it
drops under the opposite one. Options that change the same lines cannot be woven; that all sets of the present ones
come out as kustomize renders them is what tests/charts checks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines, there when `only_with` is chosen (empty: always) and none of `never_with` is."""

    lines: tuple[str, ...]
    only_with: str = ""
    never_with: frozenset[str] = frozenset()

    def there(self, chosen: Collection[str]) -> bool:
        """Whether the lines are in the text for these options."""
        return (not self.only_with or self.only_with in chosen) and self.never_with.isdisjoint(chosen)


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
                added.setdefault(start, []).append(Piece(tuple(lines[first:last]), option))
    pieces: list[Piece] = []
    for at, line in enumerate((*base, None)):
        pieces += added.get(at, ())
        if line is None:
            break
        never = frozenset(dropped.get(at, ()))
        if pieces and not pieces[-1].only_with and pieces[-1].never_with == never:
            pieces[-1] = Piece((*pieces[-1].lines, line), "", never)
        else:
            pieces.append(Piece((line,), "", never))
    return pieces


def chosen_text(pieces: Sequence[Piece], chosen: Collection[str]) -> str:
    """The text for one set of options."""
    return "".join(f"{line}\n" for piece in pieces if piece.there(chosen) for line in piece.lines)
