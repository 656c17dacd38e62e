"""Sets of characters as bits of an integer, over an alphabet that has one character of each kind.

The first 256 characters stand for themselves. Of the others there is one of each kind that a
pattern can tell apart, and each one that the pattern names.
"""

import re
from collections.abc import Iterable
from re import _constants as op  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import Any, Final

_KINDS: Final = "\u0416\u0663\u2003\u2028\u20ac\U0001f600"
"""A letter, a digit, a space, what ends a line, a sign, and a character beyond 16 bits."""


class Alphabet:
    """The characters that a pattern with these flags is judged by."""

    def __init__(self, named: Iterable[int], *, is_binary: bool) -> None:
        codes = set(range(256))
        if not is_binary:
            codes.update(map(ord, _KINDS))
            codes.update(named)
        self._characters = [chr(code) for code in sorted(codes)]
        self._binary = is_binary
        every = 1 << len(self._characters)
        self.all = every - 1

    def character(self, code: int, flags: int) -> int:
        """The set of one character."""
        return self._where(lambda character: ord(character) == code, flags)

    def any(self, flags: int) -> int:
        """What a dot matches."""
        if flags & re.DOTALL:
            return self.all
        newline = self.character(ord("\n"), 0)
        return self.all & ~newline

    def of(self, items: Iterable[tuple[Any, Any]], flags: int) -> int:
        """What brackets match, from the parser's items."""
        is_negated, characters = False, 0
        for kind, value in items:
            if kind is op.NEGATE:
                is_negated = True
            else:
                characters |= self._item(kind, value, flags)
        return self.all & ~characters if is_negated else characters

    def _item(self, kind: Any, value: Any, flags: int) -> int:
        if kind is op.LITERAL:
            return self.character(value, flags)
        if kind is op.RANGE:
            least, most = value
            return self._where(lambda character: least <= ord(character) <= most, flags)
        return self._category(str(value), flags)

    def _category(self, name: str, flags: int) -> int:
        tests = {
            "DIGIT": str.isdecimal,
            "SPACE": str.isspace,
            "WORD": _is_word,
        }
        _, _, kind = name.rpartition("_")
        test = tests[kind]
        ascii_only = self._binary or flags & re.ASCII

        def is_in_category(character: str) -> bool:
            if ascii_only and not character.isascii():
                return False
            return test(character)

        members = self._where(is_in_category, 0)
        if "_NOT_" in name:
            return self.all & ~members
        return members

    def _where(self, test: Any, flags: int) -> int:
        members = 0
        for at, character in enumerate(self._characters):
            forms = {character}
            if flags & re.IGNORECASE:
                forms |= _other_cases(character)
            if any(map(test, forms)):
                members |= 1 << at
        return members


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _other_cases(character: str) -> set[str]:
    cases = set()
    for form in (character.lower(), character.upper()):
        if len(form) == 1:
            cases.add(form)
    return cases
