"""Python's search for garbage, put off."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unhurried_collection() -> Iterator[None]:
    """Without the cyclic garbage collector: it would look at every object of a growing heap again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
