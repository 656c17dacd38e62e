"""How often Python looks for rubbish that holds itself: rarely, because a look at all nodes makes little of it."""

import gc
from typing import Final

_YOUNG: Final = 20_000
"""New objects before the youngest are looked through; Python's own 700 are a small part of one look at the nodes, whose
lists would be gone through again and again: a fifth of its time.
"""
_OLDER: Final = 10
"""How many times that before the next generation is; as Python has it."""


def look_rarely() -> None:
    """Have it so from now on, in the whole process."""
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
