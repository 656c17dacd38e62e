"""One request to `telemetry.server`, over HTTP/1.1.

Loaded by the first request: HTTP's server side costs 3 ms, and an agent that starts has its node to label first.
"""

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.server import Pages


class Handler(BaseHTTPRequestHandler):
    """Answers from `pages`."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def __init__(self, pages: "Pages", request: socket.socket, address: Any, server: Any) -> None:
        self._pages = pages
        super().__init__(request, address, server)

    def do_GET(self) -> None:
        """Answer, or say what can be asked."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, *self._pages.metrics())
        elif path in self._pages.checks:
            problem = self._pages.checks[path]()
            status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
            self._answer(status, (problem or "ok").encode() + b"\n", "text/plain; charset=utf-8")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"try /metrics, /healthz or /readyz\n", "text/plain")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Scrapes are no news."""
