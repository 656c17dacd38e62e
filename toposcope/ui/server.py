"""The server: uvicorn on one socket, with time limits for slow clients."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

import uvicorn
from h11 import IDLE
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from toposcope.ui.guard import LOCAL, Guard
from toposcope.ui.routes import Routes
from toposcope.ui.stream import StreamServer

MAX_CONNECTIONS: Final = 400
"""At a time; one more closes the connection that has been idle the longest."""
HEADER_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 30
_SHUTDOWN_SECONDS: Final = 2


def application(routes: Routes, hosts: Iterable[str] = LOCAL) -> ASGIApp:
    """The whole application, guarded."""
    return Guard(routes.application(), hosts)


class _Limited(H11Protocol):
    """Closes connections whose request never completes, and the idlest one of too many.

    uvicorn would wait for ever, and refuse new connections instead, even those of probes.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._heard_at = self.loop.time()
        self._has_request = False
        if len(self.connections) > MAX_CONNECTIONS:
            _make_room(self.connections, self)
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_slow)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        super().data_received(data)
        self._has_request = self._has_request or self.conn.their_state is not IDLE

    @property
    def idleness(self) -> tuple[bool, float]:
        """Sorts connections: idle ones first, and of those the ones that were silent longest."""
        cycle: RequestResponseCycle | None = self.cycle  # which uvicorn declares without None
        is_answering = cycle is not None and not cycle.response_complete
        return is_answering, self._heard_at

    def _close_if_slow(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # the client does not read what is still to be sent
            return
        if self.conn.their_state is IDLE and (not self._has_request or self.conn.trailing_data[0]):
            self.transport.close()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)


def _make_room(connections: Iterable[object], newest: _Limited) -> None:
    """Abort the idlest of the other connections, unless enough of them are about to close."""
    others: list[_Limited] = []
    for connection in connections:
        if isinstance(connection, _Limited) and not connection.transport.is_closing():
            others.append(connection)
    if len(others) > MAX_CONNECTIONS:
        others.remove(newest)
        min(others, key=attrgetter("idleness")).transport.abort()


class Server(uvicorn.Server):
    """A server on a socket that already listens.

    `started` is called once it serves, and `ending` when it begins to shut down.
    """

    def __init__(
        self,
        app: ASGIApp,
        stream: StreamServer,
        started: Callable[[], None] = lambda: None,
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Limited,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._stream = stream
        self._started = started
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down, beginning with what would not end by itself: streams and questions."""
        self._stream.end()
        self._ending()
        await super().shutdown(sockets)
