"""Answers scrapes and probes: metrics in Prometheus' text format, and health checks.

`toposcope.telemetry.server` imports this at the first request: http.server and prometheus_client cost milliseconds,
and an agent that starts has its node to label first.
"""

import socket
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

Page = tuple[bytes, str]
"""A body and its content type."""
Check = Callable[[], str]
"""Returns what is wrong, in one sentence; the empty string when nothing is."""


class Handler(BaseHTTPRequestHandler):
    """Serves `/metrics`, and one path for each of the `checks`."""

    protocol_version = "HTTP/1.1"
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

    def do_GET(self) -> None:
        """Answer, or say which paths there are."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(HTTPStatus.OK, *self._metrics())
        elif path in self._checks:
            problem = self._checks[path]()
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
        """Scrapes are not logged."""


def new_registry() -> CollectorRegistry:
    """An empty registry without the `_created` series, which nobody reads and which double every counter's cost."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it untyped
    return CollectorRegistry()


Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the number."""
Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> GaugeMetricFamily:
    """A gauge with its samples; `labels` are the labels' names."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> CounterMetricFamily:
    """A counter with its samples; `labels` are the labels' names."""
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: Family, samples: Samples) -> Family:
    for values, value in samples:
        family.add_metric(values, value)
    return family


def page(collector: Collector) -> Page:
    """The answer to a scrape of a registry, or of one collector."""
    return generate_latest(collector), CONTENT_TYPE_LATEST
