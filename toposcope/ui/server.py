"""The server: uvicorn on one socket, with time limits for slow clients."""

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final

import uvicorn
from h11 import IDLE
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.guard import LOCAL, Guard
from toposcope.ui.routes import Routes
from toposcope.ui.source import Source
from toposcope.ui.stream import Stream

_CONNECTIONS: Final = 400
"""At a time; more get 503."""
HEADER_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 30
_SHUTDOWN_SECONDS: Final = 2


def application(
    broadcaster: Broadcaster, source: Source, bundle: Bundle, stream: Stream, hosts: Iterable[str] = LOCAL
) -> ASGIApp:
    """The whole application, guarded."""
    return Guard(Routes(broadcaster, source, bundle, stream).application(), hosts)


class _TimeLimited(H11Protocol):
    """Closes connections whose request began and never completes: uvicorn itself would wait for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._requested = False
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_slow)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._requested = self._requested or self.conn.their_state is not IDLE

    def _close_if_slow(self) -> None:
        if self.transport.is_closing():
            self.transport.abort()  # the client does not read what is still to be sent
            return
        if self.conn.their_state is IDLE and (not self._requested or self.conn.trailing_data[0]):
            self.transport.close()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._close_if_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """One server on one socket that already listens; `started` is called once it serves."""

    def __init__(self, app: ASGIApp, stream: Stream, started: Callable[[], None] = lambda: None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_TimeLimited,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._stream = stream
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        self._started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down: streams first, which would not end by themselves."""
        self._stream.end()
        await super().shutdown(sockets)
