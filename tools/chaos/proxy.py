"""A proxy between a program and the API server that stalls, cuts, goes silent or refuses.

It ends TLS on both sides, so that it can cut within a line and answer 429 itself. One proxy serves
one program: each can be cut off alone.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import weakref
from collections.abc import Coroutine
from enum import Enum
from typing import Final, Self

from tools.apiserver.certificates import Certificates

_PIECE_BYTES: Final = 1 << 16
_SLOW_PIECE_BYTES: Final = 2048
_SLOW_SECONDS: Final = 0.1
_MOMENT_SECONDS: Final = 0.05
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends RST."""


class Mode(Enum):
    """What the proxy does with what comes."""

    PASS = "pass"  # noqa: S105 - no password
    STALL = "stall"
    """Nothing moves; afterwards, what waited goes on, unless its sender has given up meanwhile."""
    SILENT = "silent"
    """Behave like a firewall that has lost its table.

    Connections stay open and never carry anything again.
    """
    SLOW = "slow"
    """20 kB a second in each direction."""
    CUT = "cut"
    """Half of each piece of an answer arrives, then the connection is reset."""
    REFUSE = "refuse"
    """Every connection is reset."""
    THROTTLE = "throttle"
    """Every new request is answered 429, with Retry-After."""


_TOO_MANY: Final = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,'
    b'"message":"too many requests, please try again later"}'
)
_THROTTLED: Final = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(_TOO_MANY), _TOO_MANY)
)


class Pair:
    """Two ends of one connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_dead = False

    def reset(self) -> None:
        """Drop both ends, the client's by RST."""
        raw = self.client.get_extra_info("socket")
        if raw is not None:  # else the client has gone already
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        for end in (self.client, self.server):
            end.transport.abort()


class Proxy:
    """One proxy; create and switch it from any thread. Its work is done in `ProxyThread`'s loop."""

    def __init__(self, upstream: tuple[str, int], certificates: Certificates) -> None:
        self.mode = Mode.PASS
        self.port = 0
        self.cuts = 0
        """How many times a connection was reset, silenced or throttled on purpose."""
        self._upstream = upstream
        self._inward = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._inward.load_cert_chain(certificates.certificate, certificates.key)
        self._outward = ssl.create_default_context(cafile=str(certificates.ca))
        self._pairs: set[Pair] = set()
        self._ends: weakref.WeakSet[asyncio.StreamWriter] = weakref.WeakSet()
        """Every end, those too that are about to say goodbye."""
        self._moving: asyncio.Event | None = None
        self._server: asyncio.Server | None = None

    async def serve(self) -> None:
        """Begin to listen."""
        self._moving = asyncio.Event()
        self._moving.set()
        self._server = await asyncio.start_server(
            self._handle, "127.0.0.1", 0, ssl=self._inward, limit=_PIECE_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def switch(self, mode: Mode) -> None:
        """Do this from now on, with what is open too."""
        self.mode = mode
        if mode is Mode.SILENT:
            for pair in self._pairs:
                pair.is_dead = True
                self.cuts += 1
        if mode is Mode.REFUSE:
            for pair in list(self._pairs):
                self.cuts += 1
                pair.reset()
        if self._moving:
            if mode is Mode.STALL:
                self._moving.clear()
            else:
                self._moving.set()

    async def close(self) -> None:
        """Listen no more, drop everything."""
        if self._server:
            self._server.close()
        for pair in list(self._pairs):
            pair.reset()
        for end in list(self._ends):
            end.transport.abort()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.mode is Mode.REFUSE:
                self.cuts += 1
                writer.transport.abort()
                return
            host, port = self._upstream
            upstream, server = await asyncio.open_connection(
                host, port, ssl=self._outward, limit=_PIECE_BYTES
            )
        except (OSError, ssl.SSLError):
            writer.transport.abort()
            return
        pair = Pair(writer, server)
        self._ends.update((writer, server))
        pair.is_dead = self.mode is Mode.SILENT
        self._pairs.add(pair)
        tasks = [
            asyncio.ensure_future(self._pump(pair, reader, server, is_upward=True)),
            asyncio.ensure_future(self._pump(pair, upstream, writer, is_upward=False)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._pairs.discard(pair)
            for end in (writer, server):
                end.transport.abort() if pair.is_dead else end.close()

    async def _pump(
        self,
        pair: Pair,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_upward: bool,
    ) -> None:
        """Carry bytes one way until either side ends."""
        with contextlib.suppress(OSError, ssl.SSLError):
            while piece := await reader.read(
                _SLOW_PIECE_BYTES if self.mode is Mode.SLOW else _PIECE_BYTES
            ):
                if not await self._may_go_on(pair):
                    return
                if is_upward and self.mode is Mode.THROTTLE:
                    self.cuts += 1
                    pair.client.write(_THROTTLED)
                    await pair.client.drain()
                    return
                if not is_upward and self.mode is Mode.CUT:
                    self.cuts += 1
                    writer.write(piece[: len(piece) // 2])
                    with contextlib.suppress(OSError):
                        await writer.drain()
                    await asyncio.sleep(_SLOW_SECONDS)  # so that the half arrives before the end
                    pair.reset()
                    return
                writer.write(piece)
                await writer.drain()
                if self.mode is Mode.SLOW:
                    await asyncio.sleep(_SLOW_SECONDS)

    async def _may_go_on(self, pair: Pair) -> bool:
        """Wait while nothing moves; whether there is still somebody to carry for."""
        if pair.is_dead:
            await asyncio.Event().wait()  # for ever: this connection never carries anything again
        waited = False
        while self._moving and not self._moving.is_set():
            waited = True
            await self._moving.wait()
        if pair.is_dead:
            await asyncio.Event().wait()
        # A request whose sender gave up while it waited here is one that a network would not
        # deliver either.
        return not (waited and pair.client.transport.is_closing())


class ProxyThread:
    """The event loop of all proxies, in a thread; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever,
            name="proxies",
            daemon=True,
        )
        self._proxies: list[Proxy] = []

    def add(self, upstream: tuple[str, int], certificates: Certificates) -> Proxy:
        """A proxy that listens."""
        proxy = Proxy(upstream, certificates)
        self._run(proxy.serve())
        self._proxies.append(proxy)
        return proxy

    def switch(self, proxy: Proxy, mode: Mode) -> None:
        """Have a proxy do something else, also with what is open."""
        self._run(proxy.switch(mode))

    def _run(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def __enter__(self) -> Self:
        # connections end in every way that there is
        self._loop.set_exception_handler(lambda *_: None)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._run(_end_tasks())
        for proxy in self._proxies:
            self._run(proxy.close())
        self._run(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_tasks() -> None:
    """Let every task of the loop come to its end."""
    own = asyncio.current_task()
    tasks = [task for task in asyncio.all_tasks() if task is not own]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # transports that were aborted close their sockets a little later
    await asyncio.sleep(_MOMENT_SECONDS)
