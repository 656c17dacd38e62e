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
from typing import Any, Final

Page = tuple[bytes, str]
"""A body and its content type."""
Check = Callable[[], str]
"""Returns what is wrong, in one sentence; the empty string when nothing is."""

_LINE: Final = 1 << 16
_LINES: Final = 100
_REQUEST_LINE: Final = 3
_TEXT: Final = "text/plain; charset=utf-8"


class Handler(StreamRequestHandler):
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
        """Answer one request after the other, until the client or a request that we do not understand ends it."""
        try:
            while self._request():
                pass
        except TimeoutError:
            return

    def _request(self) -> bool:
        """Read one request and answer it; whether another may follow."""
        words = self.rfile.readline(_LINE).split()
        if not words:
            return False
        headers = {}
        for _ in range(_LINES):
            line = self.rfile.readline(_LINE)
            if not line.strip():
                break
            name, _, value = line.partition(b":")
            headers[name.strip().lower()] = value.strip().lower()
        else:
            return self._answer(HTTPStatus.BAD_REQUEST, b"too many headers\n", _TEXT, last=True)
        if (
            len(words) != _REQUEST_LINE
            or not words[2].startswith(b"HTTP/1.")
            or not line.endswith(b"\n")
        ):
            return self._answer(
                HTTPStatus.BAD_REQUEST, b"not an HTTP/1.1 request\n", _TEXT, last=True
            )
        if words[0] != b"GET":
            return self._answer(
                HTTPStatus.NOT_IMPLEMENTED, b"only GET is answered\n", _TEXT, last=True
            )
        # A body is not read, so what follows it would be taken for a request.
        last = words[2] == b"HTTP/1.0" or headers.get(b"connection") == b"close"
        last = last or b"content-length" in headers or b"transfer-encoding" in headers
        return self._get(words[1].decode("latin-1").partition("?")[0], last=last)

    def _get(self, path: str, *, last: bool) -> bool:
        """Answer, or say which paths there are."""
        if path == "/metrics":
            return self._answer(HTTPStatus.OK, *self._metrics(), last=last)
        if path in self._checks:
            problem = self._checks[path]()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            return self._answer(status, (problem or "ok").encode() + b"\n", _TEXT, last=last)
        return self._answer(
            HTTPStatus.NOT_FOUND, b"try /metrics, /healthz or /readyz\n", "text/plain", last=last
        )

    def _answer(self, status: HTTPStatus, body: bytes, kind: str, *, last: bool) -> bool:
        head = (
            f"HTTP/1.1 {status} {status.phrase}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            *["Connection: close"] * last,
        )
        self.wfile.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return not last
