"""`GET /api/events`: events that say whether there is a newer state, and how fresh it is."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.guard import problem

MAX_STREAMS: Final = 100
STATUS_SECONDS: Final = 5.0
_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
_SEND_SECONDS: Final = 30.0
"""A page that reads nothing for this long is gone, or too slow to keep."""


class StreamServer:
    """Serves every stream of one broadcaster.

    Streams have no queues: a slow page gets the newest state and misses those before it.
    """

    def __init__(
        self,
        broadcaster: Broadcaster,
        max_streams: int = MAX_STREAMS,
        status_seconds: float = STATUS_SECONDS,
        send_seconds: float = _SEND_SECONDS,
    ) -> None:
        self._broadcaster = broadcaster
        self._max_streams = max_streams
        self._status_seconds = status_seconds
        self._send_seconds = send_seconds
        self.open_streams = 0
        """How many streams are open."""
        self.is_ending = False
        """Set when the server shuts down: streams end too."""

    def end(self) -> None:
        """End all streams."""
        self.is_ending = True
        for wake in tuple(self._broadcaster.listeners):
            wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the page disconnects or stops reading, or the server shuts down."""
        if self.open_streams >= self._max_streams:
            busy = problem(
                503, f"{self._max_streams} pages are open already; close one, then reload this one"
            )
            await busy(scope, receive, send)
            return

        loop = asyncio.get_running_loop()
        updated = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(updated.set)

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._send_seconds):
                await send(message)

        self.open_streams += 1
        self._broadcaster.listeners.add(wake)
        events = self._events(updated)
        try:
            with contextlib.suppress(TimeoutError, OSError):
                await StreamingResponse(events, headers=_HEADERS)(scope, receive, send_in_time)
        finally:
            self._broadcaster.listeners.discard(wake)
            self.open_streams -= 1
            await events.aclose()

    async def _events(self, updated: asyncio.Event) -> AsyncGenerator[bytes]:
        yield b"retry: 2000\n\n"
        while not self.is_ending:
            updated.clear()
            # which has no line breaks
            yield b"data: %b\n\n" % msgspec.json.encode(self._broadcaster.news())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(updated.wait(), self._status_seconds)
