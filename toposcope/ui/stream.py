"""`GET /api/events`: server-sent events, resumed after the last one that the page got."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.guard import problem

MAX_STREAMS: Final = 100
STATUS_SECONDS: Final = 10.0
_SEND_SECONDS: Final = 30.0
"""A page that reads nothing for so long is gone, or too slow to keep."""


class Stream:
    """Serves every stream of one broadcaster. Each holds a position in the broadcaster's ring, and no queue."""

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
        self.open = 0
        """How many streams are open."""
        self.ending = False
        """Set when the server shuts down: streams end too."""
        self._wakes: set[Callable[[], None]] = set()

    def end(self) -> None:
        """End all streams."""
        self.ending = True
        for wake in tuple(self._wakes):
            wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the page disconnects or stops reading, or the server shuts down."""
        if self.open >= self._max_streams:
            busy = problem(503, f"{self._max_streams} pages are open already; close one, then reload this one")
            await busy(scope, receive, send)
            return
        request = Request(scope)
        identity = request.headers.get("last-event-id") or request.query_params.get("since", "")
        self.open += 1
        loop = asyncio.get_running_loop()
        updated = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(updated.set)

        self._wakes.add(wake)
        self._broadcaster.listeners.add(wake)
        gone = asyncio.create_task(_gone(receive, updated))
        try:
            await self._send(
                send,
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", b"text/event-stream; charset=utf-8"),
                        (b"cache-control", b"no-store"),
                        (b"x-accel-buffering", b"no"),
                    ],
                },
            )
            await self._send_events(send, identity, updated, gone)
        except (TimeoutError, OSError):
            return
        finally:
            gone.cancel()
            self._broadcaster.listeners.discard(wake)
            self._wakes.discard(wake)
            self.open -= 1

    async def _send_events(self, send: Send, identity: str, updated: asyncio.Event, gone: "asyncio.Task[None]") -> None:
        broadcaster = self._broadcaster
        await self._write(send, b"retry: 2000\n\n")
        position = broadcaster.number_of(identity)
        if position is None:
            position = broadcaster.number
            await self._write(send, _event(b"reset", b'{"why":"the server was restarted"}', ""))
        health = -1
        while not (self.ending or gone.done()):
            updated.clear()
            events = broadcaster.after(position)
            if events is None:
                position = broadcaster.number
                await self._write(send, _event(b"reset", b'{"why":"too much has changed since"}', ""))
                events = []
            for event in events:
                await self._write(send, _event(event.name.encode(), event.data, broadcaster.identity(event.number)))
                position = event.number
            if broadcaster.health != health or not events:
                health = broadcaster.health
                await self._write(send, _event(b"status", msgspec.json.encode(broadcaster.status()), ""))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(updated.wait(), self._status_seconds)
        with contextlib.suppress(TimeoutError, OSError):
            await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, send: Send, data: bytes) -> None:
        await self._send(send, {"type": "http.response.body", "body": data, "more_body": True})

    async def _send(self, send: Send, message: "dict[str, object]") -> None:
        async with asyncio.timeout(self._send_seconds):
            await send(message)


async def _gone(receive: Receive, updated: asyncio.Event) -> None:
    """Wait until the page closes the connection."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            updated.set()
            return


def _event(name: bytes, data: bytes, identity: str) -> bytes:
    """One event; JSON has no line breaks of its own."""
    head = f"id: {identity}\n".encode() if identity else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, name, data)
