"""What a request to `toposcope.telemetry.server` is answered: metrics in Prometheus' text format, and checks.

Loaded by the first request: HTTP's server side and prometheus_client cost milliseconds, and an agent that
starts has its node to label first.
"""

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from toposcope.telemetry.server import Page, Pages


class Handler(BaseHTTPRequestHandler):
    """Answers from `pages`."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def __init__(self, pages: Pages, request: socket.socket, address: Any, server: Any) -> None:
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


def new_registry() -> CollectorRegistry:
    """An empty registry without the `_created` series, which nobody reads and which double every counter's cost."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it untyped
    return CollectorRegistry()


def page(collector: Collector) -> Page:
    """What a scrape of a registry, or of one collector, answers."""
    return generate_latest(collector), CONTENT_TYPE_LATEST
