"""Modules are loaded without the garbage collector: it would look at all of them a dozen times, and none is rubbish."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load modules while the collector rests, and keep it from looking at them whenever it runs later.

    A page that it looks at is written to, and shared with a forked worker no longer.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
