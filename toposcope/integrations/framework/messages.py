"""The messages that schedulers and operators left on a workload.

A system's `messages.py` has `MEANINGS`, what its messages mean wherever they turn up, and where its objects carry
conditions worth quoting a function `messages`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

Meanings = Mapping[str, str]
"""Regular expression of a message to its meaning in plain words, with the groups as `{0}`, `{1}`."""


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """One message and what it is about."""

    about: str
    text: str
    meaning: str = ""
    """In plain words; empty where the message speaks for itself."""


def meaning_of(text: str, meanings: Meanings) -> str:
    """The meaning of a message; empty where none is known."""
    for pattern, words in meanings.items():
        if match := re.search(pattern, text):
            return words.format(*match.groups())
    return ""
