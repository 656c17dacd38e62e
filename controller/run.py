"""The controller's life: follow nodes and ClusterTopologies, reconcile when something changed."""

import contextlib
import logging
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from controller import spec
from controller.config_file import ConfigFile
from controller.index import Index
from controller.metrics import ControllerMetrics
from controller.options import Options
from controller.publishers.grove import GrovePublisher
from controller.publishers.kai import KaiPublisher
from controller.publishers.kueue import KueuePublisher
from controller.publishers.replace import DELAY_SECONDS
from controller.reconcile import Reconciler
from controller.requirements.sources import Requirements
from controller.spec import Topology
from kube.client import ApiClient
from kube.config import load
from kube.errors import ConfigError, KubeError
from kube.nodes import PATH as NODES
from kube.nodes import NodeDecoder
from kube.reflector import Raw, Reflector
from telemetry.logs import set_up
from telemetry.registry import new_registry
from telemetry.server import TelemetryServer
from topology.catalogue import BUILT_IN
from topology.keys import GPU_PRESENT, GPUS
from topology.node import NodeFacts

log = logging.getLogger("controller")

RESYNC_SECONDS: Final = 60.0
"""How often everything is looked at again though nothing changed: repairs what was edited by hand, finds new kinds."""
_RETRY_SECONDS: Final = 5.0
_SILENCE: Final = 3 * RESYNC_SECONDS + 60.0

_TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT}


def decode_topology(raw: Raw) -> tuple[str, str, Topology]:
    """Name, resourceVersion and topology of one ClusterTopology object.

    Raises msgspec.ValidationError for an object that the CRD would have refused.
    """
    document = msgspec.json.decode(raw, type=dict)
    try:
        topology = spec.read(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error
    return topology.name, document["metadata"].get("resourceVersion", ""), topology


def _same_spec(one: Topology, other: Topology) -> bool:
    return (one.uid, one.generation) == (other.uid, other.generation)


class Controller:
    """Two followed collections and the loop that acts on them."""

    def __init__(
        self,
        client: ApiClient,
        reconciler: Reconciler,
        metrics: ControllerMetrics,
        options: Options,
        stop: threading.Event,
    ) -> None:
        self._reconciler = reconciler
        self._metrics = metrics
        self._options = options
        self._stop = stop
        self._wake = threading.Event()
        self._turned = time.monotonic()
        # The echo of a status that we wrote must not make us look again; one that others wrote waits for the resync.
        self.topologies: Index[Topology] = Index(self._wake.set, _same_spec)
        self.nodes: Index[NodeFacts] = Index(self._wake.set)
        self._decoder = NodeDecoder(_TRACKED)
        self._follow_topologies = Reflector(client, spec.PATH, decode_topology, self.topologies, stop)
        self._follow_nodes = Reflector(client, NODES, self._decoder, self.nodes, stop)
        self.workloads = Requirements(client, self._wake.set, stop)
        self._config = ConfigFile(Path(options.config)) if options.config else None
        self._refreshed = self._configured = -math.inf

    def once(self) -> None:
        """List everything, reconcile once. Raises KubeError."""
        self._follow_topologies.sync()
        self._track()
        self._follow_nodes.sync()
        self.workloads.sync()
        self._pass()

    def run(self) -> None:
        """Follow and reconcile until `stop` is set."""
        self._thread("topologies", self._follow_topologies.run)
        while not (self.topologies.synced or self._stop.is_set()):
            self._wake.wait(1.0)
        self._track()
        self._thread("nodes", self._follow_nodes.run)
        wait = 0.0
        while not self._stop.is_set():
            changed = self._wake.wait(wait)
            if changed and self._stop.wait(self._options.debounce):
                return
            self._wake.clear()
            self._turned = time.monotonic()
            if self._track():
                self._follow_nodes.relist()
                continue
            wait = self._turn()

    def _turn(self) -> float:
        """Reconcile if the nodes are known; seconds until the next turn is due though nothing changes."""
        self._find_workloads()
        began = time.monotonic()
        try:
            if not self.nodes.synced:
                if self.nodes.error:
                    self._reconciler.wait_for_nodes(self.topologies.items(), self.nodes.error)
                return _RETRY_SECONDS
            self._pass()
        except KubeError:
            self._metrics.reconciles.labels("failed").inc()
            return _RETRY_SECONDS
        self._metrics.reconciles.labels("ok").inc()
        self._metrics.reconcile_seconds.observe(time.monotonic() - began)
        self._metrics.last_sync.set(time.time())
        deadline = self._reconciler.next_deadline(self.topologies.items())
        # A moment later than the deadline, so that the grace period is over by then.
        return RESYNC_SECONDS if deadline is None else min(RESYNC_SECONDS, deadline + 0.01)

    def _pass(self) -> None:
        nodes = self.nodes.items()
        self._metrics.nodes.set(len(nodes))
        self._metrics.show(self._reconciler.reconcile(self.topologies.items(), nodes, self.workloads))

    def _find_workloads(self) -> None:
        """Look once a minute, and when one of them has gone, which kinds of workloads the cluster serves."""
        now = time.monotonic()
        if self.workloads.outdated or now - self._refreshed >= RESYNC_SECONDS:
            self._refreshed = now
            self.workloads.refresh()

    def _track(self) -> bool:
        """Keep every label that a spec or the configuration names; whether nodes have to be read again for that."""
        self._configure()
        specs = (key for topology in self.topologies.items() for key in topology.label_keys())
        return self._decoder.track((*self._reconciler.catalogue.tracked, *specs))

    def _configure(self) -> None:
        """Look once a minute whether the configuration file has changed."""
        now = time.monotonic()
        if self._config is not None and now - self._configured >= RESYNC_SECONDS:
            self._configured = now
            self._config.look()
            self._reconciler.catalogue = self._config.catalogue
            self._metrics.config_problems.set(len(self._config.problems))

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def healthy(self) -> str:
        """What is wrong when only a restart would help: the loop no longer turns."""
        silent = time.monotonic() - self._turned
        return f"the reconcile loop has not turned for {silent:.0f} s" if silent > _SILENCE else ""

    def ready(self) -> str:
        """What is missing until the controller has seen the whole cluster."""
        for name, index in (("ClusterTopologies", self.topologies), ("nodes", self.nodes)):
            if not index.synced:
                return f"{name} have not been listed yet" + (f": {index.error}" if index.error else "")
        return ""

    def end(self) -> None:
        """Let the loop end."""
        self._stop.set()
        self._wake.set()
        self.workloads.close()


def run(options: Options) -> int:
    """Run a controller until it is told to end (or once); the program's exit code."""
    set_up(options.log_format)
    try:
        client = ApiClient(load(options.kubeconfig), "toposcope-controller")
    except ConfigError as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all, a traceback would hide it
        return 1
    registry = new_registry()
    instance = f"{socket.gethostname()}-{os.getpid()}"
    # A single pass has no later one to wait for.
    delay = 0.0 if options.once else DELAY_SECONDS
    publishers = (
        GrovePublisher(client),
        KaiPublisher(client, time.monotonic, delay),
        KueuePublisher(client, time.monotonic, delay),
    )
    reconciler = Reconciler(client, publishers, time.monotonic, instance=instance)
    controller = Controller(client, reconciler, ControllerMetrics(registry), options, threading.Event())
    with contextlib.ExitStack() as stack:
        stack.callback(client.close)
        if options.metrics_port is not None:
            try:
                server = TelemetryServer(options.metrics_port, registry, controller.healthy, controller.ready)
            except OSError as error:
                log.error("--metrics-port %d: %s", options.metrics_port, error.strerror)  # noqa: TRY400 - as above
                return 1
            stack.callback(server.close)
        if options.once:
            try:
                controller.once()
            except KubeError as error:
                log.error("%s", error)  # noqa: TRY400 - as above
                return 1
            return 0
        _end_on_signals(controller)
        controller.run()
    return 0


def _end_on_signals(controller: Controller) -> None:
    def handle(_number: int, _frame: FrameType | None) -> None:
        controller.end()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
