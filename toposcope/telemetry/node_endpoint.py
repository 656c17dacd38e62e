"""Serves the document of one node to the pods on it: `GET /v1/topology`.

One process and one thread, whatever the clients do. Each connection costs a few kilobytes, has
deadlines for its request and for reading the answer, and carries one request at a time. A client
that waits for a change (a long poll) costs no CPU meanwhile.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, cast

from toposcope.telemetry.endpoint_clients import (
    OpenConnections,
    Refusal,
    RefusalLog,
    client_address,
)
from toposcope.telemetry.http_head import (
    END,
    LARGEST_HEAD,
    HttpError,
    RequestHead,
    check_unfinished,
    parse_head,
)
from toposcope.telemetry.served_document import DocumentFile, ServedDocument
from toposcope.text import compact

log = logging.getLogger(__name__)

TOPOLOGY: Final = "/v1/topology"
HEALTH: Final = "/healthz"
LONGEST_WAIT_SECONDS: Final = 60
_METHODS: Final = ("GET", "HEAD")
_BACKLOG: Final = 1024
"""Connections that the kernel holds until they are accepted, and asyncio until it knows them."""
_SENT_BYTES: Final = 16 << 10
_RECEIVED_BYTES: Final = 16 << 10
"""What the kernel holds of one connection, about: it counts as the container's memory."""
_UNSENT_MILLISECONDS: Final = 10_000
"""How long it holds an answer that the client does not take, also after the connection's end."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: a connection that is closed drops what was not sent."""
_OTHER_FILES: Final = 64
"""Open files that are no client's, and some to spare."""


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """What one client may take."""

    connections: int = 2048
    """At once; then one of the client with most ends, or the newest is refused."""
    refused: int = 256
    """Connections refused that still read why; more are dropped without an answer."""
    head_seconds: float = 5.0
    """From the connection, or the first byte of a later request, to the end of its head."""
    idle_seconds: float = 30.0
    """Between an answer and the next request."""
    write_seconds: float = 10.0
    """How long an answer may wait for its reader."""
    requests: int = 1000
    """On one connection."""
    linger_seconds: float = 1.0
    """How long a refused client may go on sending: else its answer could be lost."""
    look_seconds: float = 1.0
    """Between two looks at the file."""
    report_seconds: float = 60.0
    """Between two lines about what was refused."""

    @property
    def files(self) -> int:
        """How many files the process may have to open at once."""
        return self.connections + self.refused + _BACKLOG + _OTHER_FILES


class NodeEndpoint:
    """The open connections and the document that they ask for."""

    def __init__(self, file: DocumentFile, limits: EndpointLimits = EndpointLimits()) -> None:
        self.file = file
        self.limits = limits
        self.connections = OpenConnections()
        self.refused = 0
        """Connections that were never among those."""
        self.refusals = RefusalLog()
        self.waiting: set[EndpointConnection] = set()
        """Those whose clients wait for another document."""

    def has_room(self, address: str) -> bool:
        """Whether a client at this address may have a new connection; another may lose one."""
        if len(self.connections) < self.limits.connections:
            return True
        if self.connections.make_room(address):
            self.refusals.count(Refusal.DISPLACED)
            return True
        return False

    def look(self) -> None:
        """Read the file if it changed, and answer those who wait for that."""
        if not self.file.look():
            return
        waiting, self.waiting = self.waiting, set()
        for connection in waiting:
            connection.document_changed()

    def keep_looking(self) -> None:
        """Look now, and again and again."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.limits.look_seconds, self.keep_looking)
        self.look()

    def keep_reporting(self) -> None:
        """Log what is refused from now on, again and again."""
        loop = asyncio.get_running_loop()
        loop.call_later(self.limits.report_seconds, self._report)

    def _report(self) -> None:
        self.refusals.report(self.limits.report_seconds, self.connections)
        self.keep_reporting()


class EndpointConnection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_address",
        "_deadline",
        "_endpoint",
        "_is_refused",
        "_is_turned_away",
        "_polled",
        "_received",
        "_requests",
        "_transport",
        "_write_deadline",
    )

    def __init__(self, endpoint: NodeEndpoint) -> None:
        self._endpoint = endpoint
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._requests = 0
        self._polled: RequestHead | None = None
        """The request that waits for another document."""
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._address = ""
        self._is_refused = False
        """Whether its last answer says why."""
        self._is_turned_away = False
        """Whether it is none of the endpoint's connections."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._address = client_address(transport.get_extra_info("peername"))
        if not self._endpoint.has_room(self._address):
            self._turn_away()
            return
        self._endpoint.connections.add(self._address, self)
        self._set_deadline(self._endpoint.limits.head_seconds, self._late)

    def data_received(self, data: bytes) -> None:
        """A part of a request came, or several requests at once."""
        if self._closing:
            return
        is_new = not self._received and self._requests > 0
        self._received += data
        if self._polled or self._write_deadline:
            if len(self._received) > LARGEST_HEAD:
                self._transport.pause_reading()
            return
        if is_new:
            self._set_deadline(self._endpoint.limits.head_seconds, self._late)
        self._serve()

    def connection_lost(self, error: Exception | None) -> None:
        """The client has gone."""
        del error
        if self._is_turned_away:
            self._endpoint.refused -= 1
        self._endpoint.connections.discard(self._address, self)
        self._endpoint.waiting.discard(self)
        self._polled = None
        self._set_deadline(None)
        self._stop_write_deadline()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        loop = asyncio.get_running_loop()
        seconds = self._endpoint.limits.write_seconds
        self._write_deadline = loop.call_later(seconds, self._unread)

    def resume_writing(self) -> None:
        """The client has read all that there was."""
        self._stop_write_deadline()
        self._serve(has_answered=True)

    # Requests.

    @property
    def _closing(self) -> bool:
        return self._is_refused or self._transport.is_closing()

    def _serve(self, *, has_answered: bool = False) -> None:
        """Answer the requests that have come, one after the other.

        `has_answered`: the deadline that runs is none of the next request's.
        """
        while not (self._polled or self._write_deadline or self._closing):
            head: RequestHead | None = None
            try:
                head = self._next_head()
                if head is None:
                    self._transport.resume_reading()
                    if has_answered and self._received:
                        self._set_deadline(self._endpoint.limits.head_seconds, self._late)
                    return
                self._answer(head)
                has_answered = True
            except HttpError as error:
                has_document = error.status != HTTPStatus.SERVICE_UNAVAILABLE
                refusal = Refusal.INVALID if has_document else Refusal.UNDESCRIBED
                self._refuse(error, refusal, has_body=head is None or head.method != "HEAD")

    def _next_head(self) -> RequestHead | None:
        """Take the next request from what has come; None: its end has not. Raises HttpError."""
        end = self._received.find(END)
        if end < 0:
            check_unfinished(self._received)
            return None
        check_unfinished(self._received[:end])
        head = parse_head(bytes(self._received[:end]))
        del self._received[: end + len(END)]
        self._requests += 1
        return head

    def _answer(self, head: RequestHead) -> None:
        """Answer a request, now or when the document changes. Raises HttpError."""
        self._set_deadline(None)
        if head.path not in (TOPOLOGY, HEALTH):
            raise HttpError(404, f"there is no {head.path[:80]!r} here", f"GET {TOPOLOGY}")
        if head.method not in _METHODS:
            raise HttpError(405, f"{head.method} is not served", f"GET {head.path}")
        if head.path == HEALTH:
            self._send(head, HTTPStatus.OK, b"ok\n", {"Content-Type": "text/plain"})
            return
        wait = wait_seconds(head)
        document = self._endpoint.file.document
        if document is None:
            raise HttpError(
                503,
                "the agent has not described this node yet",
                "retry in some seconds; if it lasts, read the agent's log on this node",
            )
        if wait and _has(head, document):
            self._polled = head
            self._endpoint.waiting.add(self)
            self._set_deadline(wait, self._poll_over)
            return
        self._send_document(head, document)

    def document_changed(self) -> None:
        """Answer the request that waits for another document."""
        self._finish_poll()

    def _poll_over(self) -> None:
        self._endpoint.waiting.discard(self)
        self._finish_poll()

    def _finish_poll(self) -> None:
        head, document = self._polled, self._endpoint.file.document
        self._polled = None
        if head is None or document is None:
            return
        self._send_document(head, document)
        self._serve(has_answered=True)

    # Answers.

    def _send_document(self, head: RequestHead, document: ServedDocument) -> None:
        headers = {"ETag": document.etag, "Cache-Control": "no-cache"}
        if _has(head, document):
            self._send(head, HTTPStatus.NOT_MODIFIED, b"", headers)
            return
        headers["Content-Type"] = "application/json"
        self._send(head, HTTPStatus.OK, document.body, headers)

    def _send(
        self, head: RequestHead, status: HTTPStatus, body: bytes, headers: dict[str, str]
    ) -> None:
        keeps_alive = head.keeps_alive and self._requests < self._endpoint.limits.requests
        headers["Connection"] = "keep-alive" if keeps_alive else "close"
        if status is not HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(len(body))
        if head.method == "HEAD":
            body = b""
        self._write(status, headers, body)
        if keeps_alive:
            self._set_deadline(self._endpoint.limits.idle_seconds, self._close)
        else:
            self._close()

    def _turn_away(self) -> None:
        """Refuse the connection."""
        self._is_turned_away = True
        self._endpoint.refused += 1
        limits = self._endpoint.limits
        if self._endpoint.refused > limits.refused:
            self._endpoint.refusals.count(Refusal.FULL)
            self.abort()
            return
        detail = f"{limits.connections} connections are open already"
        fix = "retry in some seconds; keep one connection a pod, and close it after use"
        self._refuse(HttpError(503, detail, fix), Refusal.FULL)

    def _refuse(self, error: HttpError, refusal: Refusal, *, has_body: bool = True) -> None:
        """Answer with what is wrong and how to fix it, and close the connection."""
        self._endpoint.refusals.count(refusal)
        status = HTTPStatus(error.status)
        problem = {
            "status": error.status,
            "title": status.phrase,
            "detail": error.detail,
            "fix": error.fix,
        }
        body = compact(problem).encode()
        headers = {
            "Content-Type": "application/problem+json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        if error.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_METHODS)
        if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = "5"
        self._write(status, headers, body if has_body else b"")
        self._is_refused = True
        self._received.clear()
        self._transport.resume_reading()
        self._transport.write_eof()
        self._set_deadline(self._endpoint.limits.linger_seconds, self.abort)

    def _write(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
        for name, value in headers.items():
            lines.append(f"{name}: {value}")
        head = "\r\n".join(lines).encode("latin-1")
        self._transport.write(head + END + body)

    # Time.

    def _late(self) -> None:
        seconds = self._endpoint.limits.head_seconds
        fix = "send the whole request at once"
        error = HttpError(408, f"the request did not end within {seconds:g} s", fix)
        self._refuse(error, Refusal.LATE)

    def _unread(self) -> None:
        self._endpoint.refusals.count(Refusal.UNREAD)
        self.abort()

    def _set_deadline(
        self, seconds: float | None, work: Callable[[], object] | None = None
    ) -> None:
        """Do `work` after some seconds instead of what was to be done before; None: nothing."""
        if self._deadline:
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None and work is not None:
            self._deadline = asyncio.get_running_loop().call_later(seconds, work)

    def _stop_write_deadline(self) -> None:
        if self._write_deadline:
            self._write_deadline.cancel()
        self._write_deadline = None

    def _close(self) -> None:
        self._set_deadline(None)
        self._transport.close()

    def abort(self) -> None:
        """Drop the client, whatever it was sent."""
        connected = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self._transport.abort()


def wait_seconds(head: RequestHead) -> int:
    """How long a request waits for another document; 0: not at all. Raises HttpError."""
    for name in head.query:
        if name != "wait":
            fix = f"GET {TOPOLOGY}?wait=SECONDS"
            raise HttpError(400, f"there is no parameter {name[:80]!r}", fix)
    text = head.query.get("wait", "0")
    is_number = text.isascii() and text.isdigit() and len(text) <= len("60")
    if not is_number or int(text) > LONGEST_WAIT_SECONDS:
        raise HttpError(
            400,
            f"wait={text[:80]!r} is no whole number of seconds up to {LONGEST_WAIT_SECONDS}",
            f"GET {TOPOLOGY}?wait={LONGEST_WAIT_SECONDS} with If-None-Match",
        )
    return int(text)


def _has(head: RequestHead, document: ServedDocument) -> bool:
    """Whether the client has this version of the document already (`If-None-Match`)."""
    known = head.headers.get("if-none-match", "")
    for tag in known.split(","):
        if tag.strip().removeprefix("W/") in ("*", document.etag):
            return True
    return False


def listening_socket(port: int) -> socket.socket:
    """A socket on all addresses, IPv6 and IPv4 where there are both. Raises OSError."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_BYTES)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNSENT_MILLISECONDS)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(("", port))
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


async def serve(
    endpoint: NodeEndpoint, listening: socket.socket, stop: asyncio.Event | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, or until `stop` is set."""
    loop = asyncio.get_running_loop()
    if stop is None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(
        lambda: EndpointConnection(endpoint), sock=listening, backlog=_BACKLOG
    )
    log.info("serving %s on port %d", endpoint.file.path, listening.getsockname()[1])
    endpoint.keep_looking()
    endpoint.keep_reporting()
    await stop.wait()
    server.close()
    for connection in [*endpoint.connections]:
        connection.abort()
