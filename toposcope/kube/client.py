"""Requests to an API server over one kept connection, and streams over connections of their own.

They use http.client instead of an HTTP library, because it comes with the interpreter: beside TLS
it is half of what an agent weighs, and a client library would double that.
"""

import contextlib
import http.client
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from toposcope import __version__
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.errors import (
    AnswerTooLargeError,
    ApiError,
    ResourceExpiredError,
    UnreachableError,
)
from toposcope.kube.runtime import REAL, Connection, Runtime, TlsConnection
from toposcope.kube.shapes import problem, shape_of
from toposcope.text import parse, printable

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""An Accept header that asks for an object's metadata alone: less than half a Node.

A list of them is refused (406).
"""
METADATA_LIST: Final = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
"""The Accept header that asks for the metadata of a list."""

_TIMEOUT_SECONDS: Final = 15.0
_MOST_LINE_BYTES: Final = 32 << 20
"""No object can be this large (etcd refuses 1.5 MB): such a line is a broken server, not data."""
_MOST_ANSWER_BYTES: Final = 32 << 20
"""A page of 500 nodes has some 13 MB.

Where objects are larger, pages have fewer (`toposcope.kube.pages`).
"""
_READ_BYTES: Final = 1 << 15
"""Room for what one read of a stream brings; a TLS record has half of it. Larger room is given
back to the system after each read, by a thread other than the first: a page fault or two for
each Node.
"""
_MOST_MESSAGE_CHARACTERS: Final = 2000
"""Characters; a validation error of a real server names a dozen fields."""
_LONGEST_RETRY_SECONDS: Final = 300.0
"""The longest Retry-After that is respected, in seconds.

A proxy's maintenance page may ask for a day, although the server is back after a minute.
"""
_TRANSPORT: Final = (OSError, http.client.HTTPException)
_CLOSED: Final = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Signs that the server closed a kept connection while it was idle."""
UNREADABLE: Final = (ValueError, RecursionError)
"""What `parse` raises.

Lists of objects that are kept do not come here: they are typed (see `kube.listing`).
"""


class Request(NamedTuple):
    """One call, built without I/O so that it can be tested and logged."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON

    @property
    def target(self) -> str:
        """Path and query as they stand on the request line.

        Names in a path may be what a user typed.
        """
        path = quote(self.path)
        return f"{path}?{urlencode(self.query)}" if self.query else path


Observe: TypeAlias = Callable[[Request], Callable[[int], None]]
"""Called with a request as it is sent.

What it returns is called with the HTTP status of the answer, 0 if none came. Not called for a
request that is not sent.
"""


def unobserved(_request: Request) -> Callable[[int], None]:
    """An observer that ignores requests."""
    return lambda _code: None


class ApiClient:
    """A client of one API server.

    Safe to share between threads (requests take turns, streams do not).
    """

    def __init__(
        self,
        cluster: ClusterAccess,
        user_agent: str = "toposcope",
        timeout: float | None = _TIMEOUT_SECONDS,
        *,
        observe: Observe = unobserved,
        most_bytes: int | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        """No answer, and no line of a watch, may have more than `most_bytes`, if given."""
        self._most_bytes = most_bytes
        self._observe = observe
        self._cluster = cluster
        self._user_agent = f"{user_agent}/{__version__}"
        self._timeout = timeout
        self._runtime = runtime
        self._lock = runtime.lock()
        self._connection: Connection | None = None
        self._is_closed = False

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._cluster.server

    @property
    def namespace(self) -> str:
        """The namespace of our context or pod."""
        return self._cluster.namespace

    def call(self, request: Request) -> Any:
        """Send a request and return the decoded answer.

        It is of the shape that `kube.shapes` gives for it. Raises what `read` raises, and
        UnreachableError for an answer of another shape.
        """
        body = self.read(request)
        try:
            answer = parse(body)
        except UNREADABLE as error:
            why = "it is not text" if isinstance(error, UnicodeError) else error
            raise UnreachableError(
                f"the answer to {request.method} {request.path} is not JSON ({why}): {body[:80]!r}"
            ) from error
        wrong = problem(answer, shape_of(request.method, request.path))
        if wrong:
            raise UnreachableError(
                f"the answer to {request.method} {request.path} is not a Kubernetes API server's: "
                f"{wrong} in {printable(repr(body[:80]))}"
            )
        return answer

    def read(self, request: Request) -> bytes:
        """Send a request and return the answer's JSON text.

        Raises ApiError for an error Status, UnreachableError if there is no answer. A request on a
        kept connection that the server closed meanwhile is sent once more: nothing was answered,
        and all our writes are idempotent.
        """
        try:
            with self._lock:
                is_reused = self._connection is not None
                try:
                    return self._exchange(request)
                except UnreachableError as error:
                    if not (is_reused and isinstance(error.__cause__, _CLOSED)):
                        raise
                    return self._exchange(request)
        finally:
            if self._is_closed:
                self._drop_if_idle()

    def _exchange(self, request: Request) -> bytes:
        connection = self._kept()
        answered = self._observe(request)
        response: http.client.HTTPResponse | None = None
        try:
            response = self._send(connection, request)
            body = _body(response, self._most_bytes or _MOST_ANSWER_BYTES)
        except BaseException as error:
            # Half an answer may be left in it. The response holds the socket too, if the server
            # ends the connection.
            self._drop()
            if response is not None:
                response.close()
            if not isinstance(error, _TRANSPORT):
                raise
            answered(0)
            raise _unreachable(self._cluster.server, error) from error
        answered(response.status)
        if response.will_close:
            self._drop()
        _check(self._cluster.server, response, body)
        return body

    def _kept(self) -> Connection:
        """The kept connection, or a new one where there is none or the certificates have changed.

        At each request, an API server checks whether the client certificate of its connection has
        expired.
        """
        if self._is_closed:
            raise UnreachableError("this client is closed")
        kept = self._connection
        tls = self._cluster.tls
        if isinstance(kept, TlsConnection) and tls and kept.tls is not tls():
            self._drop()
        if self._connection is None:
            self._connection = self._connect(self._timeout)
        return self._connection

    def stream(self, request: Request, idle_timeout: float) -> "WatchStream":
        """A watch over a connection of its own; nothing is sent before the first line is asked for.

        `idle_timeout` is how long the server may be silent, in seconds: a half-open connection is
        silent for ever.
        """
        return WatchStream(
            self._connect(idle_timeout),
            lambda connection: self._send(connection, request),
            self._cluster.server,
            lambda: self._observe(request),
            self._most_bytes or _MOST_LINE_BYTES,
        )

    def close(self) -> None:
        """Close for good: a request in flight fails, and later ones do too.

        Streams end with their readers.

        Threads that are about to end may still send a request; it must not open a connection that
        nobody closes.
        """
        self._is_closed = True
        connection = self._connection
        if not self._drop_if_idle() and connection is not None:
            _shut_down(connection)  # and the thread that uses it drops it

    def _drop_if_idle(self) -> bool:
        """Drop the kept connection unless a request is in flight; whether that was so."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._drop()
        finally:
            self._lock.release()
        return True

    def _drop(self) -> None:
        """Close the kept connection; the next request makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self, timeout: float | None) -> Connection:
        where = urlsplit(self._cluster.server)
        host = where.hostname or ""
        tls = self._cluster.tls() if self._cluster.tls else None
        return self._runtime.connection(
            host, where.port, timeout, tls, self._cluster.server_name or host
        )

    def _send(self, connection: Connection, request: Request) -> http.client.HTTPResponse:
        headers = {"Accept": request.accept, "User-Agent": self._user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        token = self._cluster.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if connection.sock is None:
            connection.connect()
        self._about_to_send(request)
        connection.request(
            request.method,
            self._cluster.base_path + request.target,
            body=request.body,
            headers=headers,
        )
        return connection.getresponse()

    def _about_to_send(self, request: Request) -> None:
        """Called right before the request is sent; an exception here prevents that."""


class Caller(Protocol):
    """Whatever sends requests: an `ApiClient`, or something wrapped around one."""

    def call(self, request: Request) -> Any:
        """Send a request and return the decoded answer. Raises KubeError."""


def find(client: Caller, path: str) -> dict[str, Any] | None:
    """The object at a path; None if it does not exist or its kind is not served.

    Raises KubeError.
    """
    try:
        document: dict[str, Any] = client.call(Request("GET", path, {}))
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
    return document


class WatchStream:
    """The lines of a watch, each a JSON document, until the server ends it; to be read once."""

    def __init__(
        self,
        connection: Connection,
        send: Callable[[Connection], http.client.HTTPResponse],
        server: str,
        observe: Callable[[], Callable[[int], None]],
        most_bytes: int,
    ) -> None:
        self._most_bytes = most_bytes
        self._connection = connection
        self._send = send
        self._observe = observe
        self._server = server
        self._is_interrupted = False

    def __iter__(self) -> Iterator[bytes]:
        """Raises ApiError if the server refuses the watch, UnreachableError if it breaks off."""
        response: http.client.HTTPResponse | None = None
        try:
            response = self._begin()
            if response.status != http.HTTPStatus.OK:
                _check(self._server, response, _body(response, self._most_bytes))
            yield from _lines(response, self._most_bytes)
        except _TRANSPORT as error:
            raise _unreachable(self._server, error) from error
        finally:
            self._connection.close()
            if response is not None:
                response.close()  # holds the socket too, if the server ends the connection

    def _begin(self) -> http.client.HTTPResponse:
        answered = self._observe()
        try:
            self._connection.connect()
            if self._is_interrupted:
                raise UnreachableError("the watch was interrupted before it began")
            response = self._send(self._connection)
        except _TRANSPORT:
            answered(0)
            raise
        answered(response.status)
        return response

    def interrupt(self) -> None:
        """Cut the connection, from another thread; the reader sees it break off."""
        self._is_interrupted = True
        _shut_down(self._connection)


def _shut_down(connection: Connection) -> None:
    """Break the connection, so that a reader in another thread notices."""
    with contextlib.suppress(OSError, TypeError):  # not connected yet, or already closed
        connection.shut_down()


def _unreachable(server: str, error: BaseException) -> UnreachableError:
    words = printable(str(error)) or type(error).__name__
    return UnreachableError(f"{server} does not answer: {words}")


def _body(response: http.client.HTTPResponse, largest: int) -> bytes:
    """The whole answer.

    Raises IncompleteRead, which `read(n)` alone does not, and Unreachable for one without end.
    """
    body = response.read(largest + 1)
    if len(body) > largest:
        raise AnswerTooLargeError(
            f"an answer of more than {largest >> 20} MiB: too large to be read whole"
        )
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body


def _check(server: str, response: http.client.HTTPResponse, body: bytes) -> None:
    """Raise the error in the answer, if any."""
    if response.status < http.HTTPStatus.MULTIPLE_CHOICES:
        return
    if response.status < http.HTTPStatus.BAD_REQUEST:
        # Followed, it would carry our token to wherever it points.
        target = printable(str(response.getheader("Location")))
        raise UnreachableError(
            f"{server} redirects ({response.status}) to {target}, which API servers never do; "
            "is a login page in between? Use the API server's own URL"
        )
    try:
        document = parse(body)
    except UNREADABLE:
        document = None  # a proxy's error page
    status = document if isinstance(document, dict) else {}
    reason = status.get("reason") or response.reason
    message = status.get("message") or body[:200].decode(errors="replace")
    kind = ResourceExpiredError if response.status == http.HTTPStatus.GONE else ApiError
    raise kind(
        response.status,
        printable(str(reason)),
        printable(str(message), _MOST_MESSAGE_CHARACTERS),
        _seconds(response.getheader("Retry-After")),
        tuple(_causes(status.get("details"))),
    )


def _causes(details: Any) -> Iterator[tuple[str, str]]:
    """Fields and messages of `metav1.StatusDetails`; `<nil>` names no field."""
    causes = details.get("causes") if isinstance(details, dict) else None
    if not isinstance(causes, list):
        return
    for cause in causes:
        if not isinstance(cause, dict):
            continue
        field = printable(str(cause.get("field") or ""))
        message = printable(str(cause.get("message") or ""), _MOST_MESSAGE_CHARACTERS)
        yield field.replace("<nil>", ""), message


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; API servers never send the date form."""
    if not header or not header.isascii() or not header.isdigit():
        return None
    return min(float(header), _LONGEST_RETRY_SECONDS)


def _lines(response: http.client.HTTPResponse, largest: int) -> Iterator[bytes]:
    """Split a chunked body into lines as they arrive.

    `read1` returns what is there; `read(n)` would wait until n bytes have come, which on a quiet
    watch is minutes.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := response.read1(_READ_BYTES):
        start = 0
        # `split` looks at one byte after the other: a tenth of reading and decoding all Nodes.
        while (end := chunk.find(b"\n", start)) >= 0:
            yield b"".join((*parts, chunk[start:end]))
            parts, size = [], 0
            start = end + 1
        parts.append(chunk[start:])
        size += len(chunk) - start
        if size > largest:
            raise UnreachableError(
                f"a line of more than {largest >> 20} MiB in a watch: not a Kubernetes API server"
            )
    if any(parts):
        raise UnreachableError("the watch was cut in the middle of an event")
