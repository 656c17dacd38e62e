"""Limits the questions to the worker: one at a time, some in a queue, no more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from toposcope.errors import ToposcopeError

MAX_WAITING: Final = 8
"""Questions that may wait while one is answered."""
RETRY_SECONDS: Final = 5
"""When to ask again if the queue is full."""


class BusyError(ToposcopeError):
    """The queue is full."""


class Turns:
    """A queue with `max_waiting` places, for the coroutines of one event loop."""

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._places = max_waiting + 1
        self._occupied = 0
        self._running = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait in the queue for our turn; it ends with the block.

        Raises BusyError at once where the queue is full.
        """
        if self._occupied == self._places:
            raise BusyError("too many requests are waiting; try again in a few seconds")

        self._occupied += 1
        try:
            async with self._running:
                yield
        finally:
            self._occupied -= 1
