"""The HTTP side: a threaded HTTP/1.1 server on the loopback interface, with TLS on request."""

import contextlib
import select
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import yaml

from toposcope.errors import ToposcopeError
from toposcope.kube.runtime import REAL, Runtime, Thread
from toposcope.simulator.apiserver.api import Api
from toposcope.simulator.apiserver.requests import HttpRequest, Response
from toposcope.simulator.apiserver.statuses import StatusError
from toposcope.simulator.apiserver.store import Store


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the CA that clients trust, the server's certificate with its chain, its key."""

    ca: Path
    certificate: Path
    key: Path


_SHUTDOWN_POLL_SECONDS = 0.02
_MESSAGES = {
    429: (
        "TooManyRequests",
        "the server has received too many requests and has asked us to try again later",
    ),
    500: ("InternalError", "an error on the server has prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


@dataclass(slots=True)
class _Rejection:
    code: int
    rejections_left: int
    retry_after: int | None
    applies: Callable[[HttpRequest], bool]


@dataclass
class ServerFaults:
    """Faults of one server, and the requests it has seen as (method, path)."""

    store: Store
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    _rejections: list[_Rejection] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thawed: threading.Event = field(default_factory=threading.Event)
    # How often watches were cut so far; a stream compares it with the count at its start.
    cuts: int = 0

    def __post_init__(self) -> None:
        self._thawed.set()

    def reject(
        self,
        code: int,
        times: int = 1,
        *,
        retry_after: int | None = None,
        applies: Callable[[HttpRequest], bool] = lambda _request: True,
    ) -> None:
        """Answer the next `times` requests that `applies` accepts with an error.

        `retry_after` is in seconds.
        """
        with self._lock:
            self._rejections.append(_Rejection(code, times, retry_after, applies))

    def stop_rejecting(self) -> None:
        """Undo every `reject`."""
        with self._lock:
            self._rejections.clear()

    def expire_history(self) -> None:
        """Forget all changes: any resourceVersion given out so far is too old (410)."""
        self.store.expire_history()

    def cut_watches(self) -> None:
        """Break every running watch in the middle of a line."""
        self.cuts += 1
        self.store.wake_watches()

    def freeze(self) -> None:
        """Stop sending anything while connections stay open, as a half-open connection does."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Undo `freeze`."""
        self._thawed.set()

    def wait_while_frozen(self) -> None:
        """Block as long as the server is frozen."""
        self._thawed.wait()

    def answer(self, request: HttpRequest) -> Response | None:
        """Count the request; return the failure it meets, if any."""
        with self._lock:
            self.requests[request.method, request.path] += 1
            rejection = next((r for r in self._rejections if r.applies(request)), None)
            if rejection is None:
                return None
            rejection.rejections_left -= 1
            if not rejection.rejections_left:
                self._rejections.remove(rejection)
        reason, message = _MESSAGES.get(rejection.code, ("", "injected fault"))
        details: dict[str, object] = {}
        headers = {}
        if rejection.retry_after is not None:
            details["retryAfterSeconds"] = rejection.retry_after
            headers["Retry-After"] = str(rejection.retry_after)
        return Response.of(
            StatusError(
                rejection.code,
                reason,
                message,
                details=details,
                headers=headers,
            )
        )


class _DisconnectedError(ToposcopeError):
    """The connection is to be closed without another word."""


class EmbeddedApiServer:
    """One API server in this process; a context manager that stops it and closes its connections.

    `history` is how many changes of each resource stay available to watches. `bookmark_interval` is
    in seconds; clients take a watch that is silent for longer for dead. `runtime` gives the time
    and the uids that objects carry, and times watches; connections have real threads in any case.
    """

    def __init__(
        self,
        port: int = 0,
        tls: Certificates | None = None,
        *,
        history: int = 10_000,
        bookmark_interval: float = 60.0,
        runtime: Runtime = REAL,
    ) -> None:
        self.store = Store(history, runtime)
        self.faults = ServerFaults(self.store)
        self.api = Api(self.store, bookmark_interval=bookmark_interval)
        self._tls = tls
        self._http = _HttpServer(port, self.api, self.faults, tls)
        self._runtime = runtime
        self._thread: Thread | None = None

    @property
    def url(self) -> str:
        """Base URL, without a slash at the end."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> Counter[tuple[str, str]]:
        """How often each (method, path) was asked for."""
        return self.faults.requests

    def load(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Store many objects without a request each."""
        self.api.load(objects)

    def kubeconfig(self) -> dict[str, Any]:
        """Kubeconfig that reaches this server; there are no credentials to give."""
        return kubeconfig(self.url, self._tls.ca if self._tls else None, {})

    def write_kubeconfig(self, path: Path | str) -> None:
        """Write the kubeconfig to a file."""
        Path(path).write_text(yaml.safe_dump(self.kubeconfig()), encoding="utf-8")

    def start(self) -> None:
        """Begin to answer requests."""
        self._thread = self._runtime.thread("API server", self._serve)

    def stop(self) -> None:
        """Stop answering, end all watches and close all connections."""
        self.faults.thaw()
        self._http.shutdown()
        self._http.disconnect_all()
        self.store.wake_watches()
        self._http.server_close()  # waits for the connections' threads
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        self._http.serve_forever(poll_interval=_SHUTDOWN_POLL_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def kubeconfig(url: str, ca: Path | None, user: Mapping[str, str]) -> dict[str, Any]:
    """A kubeconfig of one cluster and one user."""
    cluster = {"server": url} | ({"certificate-authority": str(ca)} if ca else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": dict(user)}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


class _HttpServer(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, api: Api, faults: ServerFaults, tls: Certificates | None) -> None:
        self.api = api
        self.faults = faults
        self.is_stopping = False
        self._context = None
        if tls:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(tls.certificate, tls.key)
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection in its own thread; the TLS handshake belongs there too."""
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = request
        with contextlib.suppress(OSError, _DisconnectedError):
            with self._guard:
                self._connections.add(request)
            if self._context:
                # A close without a TLS goodbye, as a killed client makes it, is an end like any
                # other.
                connection = self._context.wrap_socket(
                    request, server_side=True, suppress_ragged_eofs=True
                )
                with self._guard:
                    self._connections ^= {request, connection}
            if not self.is_stopping:
                super().finish_request(connection, client_address)
        with self._guard:
            self._connections.discard(connection)
        connection.close()

    def disconnect_all(self) -> None:
        """End every connection from this side."""
        self.is_stopping = True
        with self._guard:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer
    protocol_version = "HTTP/1.1"
    server_version = "toposcope-simulator"
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Print nothing: what was asked is counted in `Faults.requests`."""

    def _answer(self) -> None:
        split = urlsplit(self.path)
        request = HttpRequest(
            self.command,
            unquote(split.path),
            dict(parse_qsl(split.query, keep_blank_values=True)),
            {name.lower(): value for name, value in self.headers.items()},
            self._body(),
        )
        faults = self.server.faults
        faults.wait_while_frozen()
        response = faults.answer(request) or self.server.api.handle(request)
        faults.wait_while_frozen()
        self.send_response(response.code)
        self.send_header("Content-Type", response.content_type)
        for name, value in response.headers.items():
            self.send_header(name, value)
        for warning in response.warnings:
            self.send_header("Warning", f"299 - {msgspec.json.encode(warning).decode()}")
        if response.is_stream:
            self._stream(response)
        else:
            self._send(response)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - names the base class looks for

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, response: Response) -> None:
        body = b"".join(response.chunks)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, response: Response) -> None:
        """Send chunks as they come, until the stream ends or the client goes away."""
        faults = self.server.faults
        cuts = faults.cuts  # counted before the client can know that the stream runs
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for chunk in response.chunks:
            faults.wait_while_frozen()
            if self.server.is_stopping or (not chunk and self._is_client_gone()):
                raise _DisconnectedError
            if faults.cuts != cuts:
                broken = (chunk or b'{"type":"BOOKMARK","object":{}}\n')[:-5]
                self._write_chunk(broken)
                raise _DisconnectedError
            if chunk:
                self._write_chunk(chunk)
        self.wfile.write(b"0\r\n\r\n")

    def _write_chunk(self, chunk: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.flush()

    def _is_client_gone(self) -> bool:
        """Nobody sends anything during a watch: what can be read is the end of the connection."""
        return bool(select.select([self.connection], [], [], 0)[0])
