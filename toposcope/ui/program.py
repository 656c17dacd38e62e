"""Connects a source, a broadcaster and a server and runs them: what `toposcope ui` runs."""

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Sequence

from toposcope.kube.config import load
from toposcope.telemetry.server import TelemetryServer
from toposcope.ui import live, saved
from toposcope.ui.broadcaster import Broadcaster
from toposcope.ui.bundle import Bundle
from toposcope.ui.computing import Computing
from toposcope.ui.facts import Facts
from toposcope.ui.guard import LOCAL
from toposcope.ui.metrics import PlanningMetrics
from toposcope.ui.routes import Routes
from toposcope.ui.server import Server, application
from toposcope.ui.source import FactsSource
from toposcope.ui.stream import StreamServer


class UiProgram:
    """One server for one cluster, not yet running."""

    def __init__(
        self,
        source: FactsSource,
        facts: Facts,
        wake: threading.Event,
        bundle: Bundle | None = None,
        computing: Computing | None = None,
    ) -> None:
        self.facts = facts
        self.bundle = bundle or Bundle()
        self._source = source
        self._wake = wake
        self._stop = threading.Event()
        self._telemetry: TelemetryServer | None = None
        epoch = secrets.token_hex(4)
        self._broadcaster = Broadcaster(facts, source.kind, epoch)
        self._computing = computing or Computing(facts.snapshot, source.published, source.required)

    def serve_metrics(self, port: int, worst: int) -> None:
        """Serve metrics of planning too; they name the `worst` gangs. Raises OSError."""
        metrics = PlanningMetrics(
            self._computing, worst, lambda: self._broadcaster.state is not None
        )
        self._telemetry = TelemetryServer(
            port,
            metrics.page,
            str,
            lambda: "" if self._broadcaster.state else "the cluster has not been read yet",
        )

    def serve(
        self,
        listener: socket.socket,
        names: Iterable[str] = (),
        started: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve until a signal. Raises InputError where files cannot be read.

        `names` are those under which browsers may open the page, besides localhost.
        """
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._source.start()
        threading.Thread(
            target=self._broadcaster.run,
            args=(self._stop, self._wake),
            name="broadcaster",
            daemon=True,
        ).start()
        stream = StreamServer(self._broadcaster)
        routes = Routes(self._broadcaster, self._source, self.bundle, stream, self._computing)
        app = application(routes, (*LOCAL, *names))
        try:
            Server(app, stream, started, self._computing.close).run(sockets=[listener])
        finally:
            self._stop.set()
            self._computing.close()
            self._source.close()
            if self._telemetry:
                self._telemetry.close()


def of_cluster(kubeconfig: str | None, context: str | None = None) -> UiProgram:
    """The program for a running cluster. Raises KubeError for an invalid kubeconfig."""
    cluster = load(kubeconfig, context=context)
    wake = threading.Event()
    facts = Facts(cluster.server, live.EXPECTED, wake.set)
    source = live.LiveSource(cluster, facts)
    return UiProgram(source, facts, wake)


def of_files(names: Sequence[str], limit: int) -> UiProgram:
    """The program for saved files; `limit` is that of `load_files`."""
    wake = threading.Event()
    all_names = ", ".join(names)
    facts = Facts(all_names, saved.EXPECTED, wake.set)
    source = saved.SavedSource(names, facts, limit=limit)
    return UiProgram(source, facts, wake)


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one, and `::` includes IPv4. Raises OSError."""
    if host == "::" and not socket.has_dualstack_ipv6():  # a kernel without IPv6
        host = "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server(
        (host, port),
        family=family,
        backlog=128,
        dualstack_ipv6=host == "::",
    )


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket for a browser on this machine."""
    host, port, *_ = listener.getsockname()
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}/"
