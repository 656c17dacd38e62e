"""What is fuzzed: a way to make cases, and an attempt that knows what may come of one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from hypothesis.strategies import SearchStrategy

Outcome = Literal["taken", "refused"]

_LONGEST: Final = 4000
_PYTHON_TALK: Final = re.compile(
    r"Traceback|object has no attribute|NoneType|unhashable|unsupported operand|not subscriptable|not iterable"
    r"|index out of range|unpack|codec can't|\b(?:Key|Type|Value|Attribute|Index|Recursion|Unicode\w*)Error\b"
    r"|<\w+ object at 0x|positional argument|set_int_max_str_digits|dict\b.*\bkeys\b"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


class BrokenInvariantError(AssertionError):
    """A promise that was not kept."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of input. `attempt` raises whatever goes wrong: any exception is a finding."""

    name: str
    promise: str
    """What holds for every case, for the table."""
    cases: SearchStrategy[Any]
    attempt: Callable[[Any], Outcome]
    guided: bool = False
    """Whether coverage finds more than chance: where we read text in Python."""


def refusal(message: object) -> Outcome:
    """Check that somebody who did not write the program can act on a refusal. Raises BrokenInvariantError."""
    text = str(message)
    if not text.strip():
        raise BrokenInvariantError("refused without a word")
    if len(text) > _LONGEST:
        raise BrokenInvariantError(f"refused with {len(text)} characters: {text[:200]!r}...")
    if len(text.split()) < 3:  # noqa: PLR2004 - fewer words are no sentence
        raise BrokenInvariantError(f"refused in no sentence: {text!r}")
    if found := _PYTHON_TALK.search(text):
        raise BrokenInvariantError(f"refused in the words of Python ({found[0]!r}): {text!r}")
    if found := _CONTROL.search(text):
        raise BrokenInvariantError(f"refused with a control character ({found[0]!r}): {text!r}")
    return "refused"


def held(condition: object, otherwise: str) -> None:
    """Raise BrokenInvariantError unless the condition holds."""
    if not condition:
        raise BrokenInvariantError(otherwise)
