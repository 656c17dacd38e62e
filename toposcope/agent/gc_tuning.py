"""Loads modules without the garbage collector.

It would look at all of them a dozen times and find nothing.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Load modules with the collector off and exempt.

    Pages it looks at are no longer shared with a forked worker.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
