"""Answers scrapes and probes: metrics in Prometheus' text format, and health checks.

`toposcope.telemetry.server` imports this at the first request: an agent that starts has its node to
label first. It is not built on http.server, which brings a table of HTML's entities, MIME types and
three decompressors: 2 MB.
"""

import socket
from collections.abc import Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from socketserver import StreamRequestHandler
from typing import Any, Final, NamedTuple

Page = tuple[bytes, str]
"""A body and its content type."""
Check = Callable[[], str]
"""Returns what is wrong, in one sentence; the empty string when nothing is."""

_MOST_LINE_BYTES: Final = 1 << 16
_MOST_HEADER_LINES: Final = 100
_REQUEST_LINE_WORDS: Final = 3
_TEXT: Final = "text/plain; charset=utf-8"
_NO_REQUEST: Final = "not an HTTP/1.1 request"


class _Headers(NamedTuple):
    """The headers of a request, in lower case."""

    values: Mapping[bytes, bytes]
    is_complete: bool
    """Whether the blank line that ends them arrived."""

    @property
    def is_last_request(self) -> bool:
        """Whether no other request may follow."""
        # A body is not read, so what follows it would be taken for a request.
        if b"content-length" in self.values or b"transfer-encoding" in self.values:
            return True
        return self.values.get(b"connection") == b"close"


class TelemetryHandler(StreamRequestHandler):
    """Serves `/metrics`, and one path for each of the `checks`."""

    timeout = 10

    def __init__(
        self,
        metrics: Callable[[], Page],
        checks: Mapping[str, Check],
        request: socket.socket,
        address: Any,
        server: Any,
    ) -> None:
        self._metrics = metrics
        self._checks = checks
        super().__init__(request, address, server)

    def handle(self) -> None:
        """Answer requests until the client closes the connection or sends a malformed one."""
        try:
            while self._request():
                pass
        except TimeoutError:
            return

    def _request(self) -> bool:
        """Read one request and answer it; whether another may follow."""
        line = self.rfile.readline(_MOST_LINE_BYTES)
        words = line.split()
        if not words:
            return False

        headers = self._headers()
        if headers is None:
            return self._refuse(HTTPStatus.BAD_REQUEST, "too many headers")
        if len(words) != _REQUEST_LINE_WORDS or not headers.is_complete:
            return self._refuse(HTTPStatus.BAD_REQUEST, _NO_REQUEST)
        method, target, version = words
        if not version.startswith(b"HTTP/1."):
            return self._refuse(HTTPStatus.BAD_REQUEST, _NO_REQUEST)
        if method != b"GET":
            return self._refuse(HTTPStatus.NOT_IMPLEMENTED, "only GET is answered")

        is_last = version == b"HTTP/1.0" or headers.is_last_request
        url = target.decode("latin-1")
        path, _, _ = url.partition("?")
        return self._get(path, is_last=is_last)

    def _headers(self) -> _Headers | None:
        """Read the headers; None for too many of them."""
        values: dict[bytes, bytes] = {}
        for _ in range(_MOST_HEADER_LINES):
            line = self.rfile.readline(_MOST_LINE_BYTES)
            if not line.strip():
                return _Headers(values, is_complete=line.endswith(b"\n"))
            name, _, value = line.lower().partition(b":")
            key = name.strip()
            values[key] = value.strip()
        return None

    def _refuse(self, status: HTTPStatus, why: str) -> bool:
        body = f"{why}\n".encode()
        return self._answer(status, body, _TEXT, is_last=True)

    def _get(self, path: str, *, is_last: bool) -> bool:
        """Answer, or say which paths there are."""
        if path == "/metrics":
            body, kind = self._metrics()
            return self._answer(HTTPStatus.OK, body, kind, is_last=is_last)

        check = self._checks.get(path)
        if check is None:
            body = b"try /metrics, /healthz or /readyz\n"
            return self._answer(HTTPStatus.NOT_FOUND, body, "text/plain", is_last=is_last)

        status = HTTPStatus.OK
        problem = check()
        if problem:
            status = HTTPStatus.SERVICE_UNAVAILABLE
        text = problem or "ok"
        body = f"{text}\n".encode()
        return self._answer(status, body, _TEXT, is_last=is_last)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, *, is_last: bool) -> bool:
        head = [
            f"HTTP/1.1 {status} {status.phrase}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
        ]
        if is_last:
            head.append("Connection: close")
        lines = "\r\n".join(head)
        self.wfile.write(f"{lines}\r\n\r\n".encode() + body)
        return not is_last
