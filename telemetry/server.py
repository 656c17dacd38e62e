"""`/metrics`, `/healthz` and `/readyz` over plain HTTP.

A probe handler only reads what the program has already found out: it must answer while the work itself hangs.
"""

import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

Page = tuple[bytes, str]
"""A text, and its content type."""

Check = Callable[[], str]
"""Returns what is wrong, in one sentence; the empty string when nothing is."""


class _Server(ThreadingTCPServer):
    """Listens on IPv6 and IPv4, or on IPv4 alone where the kernel has no IPv6.

    Not http.server's own: that one looks up the host's name, which waits for DNS.
    """

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True
    daemon_threads = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Scrapers that give up or are restarted are no news either; anything else is a defect and is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class TelemetryServer:
    """Serves one program's metrics and checks on all addresses, from a thread of its own.

    Port 0 takes a free one (see `port`). Raises OSError when the port is taken.
    """

    def __init__(self, port: int, metrics: Callable[[], Page], healthy: Check, ready: Check) -> None:
        checks = {"/healthz": healthy, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    self._answer(HTTPStatus.OK, *metrics())
                elif path in checks:
                    problem = checks[path]()
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

        self._server = _Server(("", port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
