"""Regular expressions that users put into objects, for Go's matcher.

Go's matcher needs linear time for any of them. Python's backtracks if a text can match in several
ways, so a pattern is applied here only if its number of ways is known and small. What other
patterns match is unknown.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_CHARACTERS: Final = 256
"""Characters of a pattern, and of a name that it is applied to: Kubernetes' names have up to 253.
"""
_MAX_WAYS: Final = 1 << 18
_DIGITS: Final = tuple("123456789")
_PAIRS: Final = ("(?", ")*", ")+", "){")
_ONLY_IN_GO: Final = ("[[:", "\\p", "\\P", "\\Q", "\\z", "\\C")
"""Python rejects these, or reads them differently."""


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern; None if Python cannot apply it in bounded time."""
    if (
        len(pattern) > MAX_CHARACTERS
        or any(words in pattern for words in _ONLY_IN_GO)
        or _ways(pattern) > _MAX_WAYS
    ):
        return None
    try:
        # linear: the ways to match a name are counted and bounded
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError):
        return None


def _ways(pattern: str) -> float:
    """The most ways in which the pattern may match a name; infinite without a bound."""
    ways = 1.0
    alternatives = [1]
    for token in _tokens(pattern):
        match token:
            case "(" | "(?:":
                alternatives.append(1)
            case "|":
                alternatives[-1] += 1
            case ")" if len(alternatives) > 1:
                ways *= alternatives.pop()
            case "*" | "+" | "{":
                ways *= MAX_CHARACTERS
            case "?":
                ways *= 2
            case "(?" | ")*" | ")+" | "){" | "\\1":
                # Lookaheads and flags, a loop around whatever is in a group, what a group has
                # matched before.
                return float("inf")
    anchored = pattern.startswith("^") and alternatives == [1]
    return ways if anchored else ways * MAX_CHARACTERS * alternatives[0]


def _tokens(pattern: str) -> Iterator[str]:
    """The characters with a meaning, some of them with the one after.

    Classes and escaped characters have none.
    """
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            escaped = pattern[at + 1 : at + 2]
            if escaped in _DIGITS:
                yield "\\1"
            at += 2
        elif character == "[":
            at = _end_of_class(pattern, at) + 1
        else:
            token = _token_at(pattern, at)
            yield token
            at += len(token)


def _token_at(pattern: str, at: int) -> str:
    if pattern.startswith("(?:", at):
        return "(?:"
    pair = pattern[at : at + 2]
    if pair in _PAIRS:
        return pair
    return pattern[at]


def _end_of_class(pattern: str, begin: int) -> int:
    """The bracket that closes the one at `begin`, or the end of the pattern."""
    at = begin + 1
    if pattern.startswith("^", at):
        at += 1
    if pattern.startswith("]", at):  # there it stands for itself
        at += 1
    while at < len(pattern):
        if pattern[at] == "]":
            break
        if pattern[at] == "\\":
            at += 1
        at += 1
    return at
