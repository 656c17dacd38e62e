"""`/metrics`, `/healthz` and `/readyz` over plain HTTP.

A check only reads what the program already knows: it must answer while the work itself hangs.
"""

import contextlib
import functools
import socket
import sys
from collections.abc import Callable
from socketserver import BaseRequestHandler, BaseServer, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from toposcope.kube.runtime import REAL, Runtime

if TYPE_CHECKING:
    from toposcope.telemetry.handler import Check, Page


_LOOK_SECONDS = 5.0
"""How often the idle server looks whether it is to end where the end does not wake it. Each
wake-up costs CPU on every GPU node: by default there would be two a second."""


class _Server(ThreadingTCPServer):
    """Listens on IPv6 and IPv4, or on IPv4 alone where there is no IPv6.

    It isn't http.server's, because that waits for DNS for the host's name.
    """

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    allow_reuse_address = True
    daemon_threads = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong, unless a scraper gave up or was restarted."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            super().handle_error(request, client_address)


class TelemetryServer:
    """Serves metrics and checks on all addresses, from its own thread; port 0 picks a free one.

    Raises OSError.
    """

    def __init__(
        self,
        port: int,
        metrics: "Callable[[], Page]",
        healthy: "Check",
        ready: "Check",
        runtime: Runtime = REAL,
    ) -> None:
        def handle(request: Any, address: Any, server: BaseServer) -> BaseRequestHandler:
            from toposcope.telemetry.handler import TelemetryHandler  # noqa: PLC0415 - see there

            checks = {"/healthz": healthy, "/readyz": ready}
            return TelemetryHandler(metrics, checks, request, address, server)

        self._server = _Server(("", port), handle)
        self.port = self._server.server_address[1]
        serve = functools.partial(self._server.serve_forever, _LOOK_SECONDS)
        self._thread = runtime.thread("telemetry", serve)

    def close(self) -> None:
        """Stop serving and free the port."""
        with contextlib.suppress(OSError):  # on Linux it ends the wait for connections
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
