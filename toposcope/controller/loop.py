"""The controller's loop: watches the cluster at all times, and reconciles it while this process is the leader."""

import gc
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from toposcope.api import cluster_topology
from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import GPU_PRESENT, GPU_PRODUCT, GPUS
from toposcope.controller.config_file import ConfigFile
from toposcope.controller.fence import Fence, NoElection, NotLeaderError
from toposcope.controller.informer import Cache, InformerFactory
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.options import Options
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.requirements import Requirements
from toposcope.controller.resource_discovery import ResourceDiscovery
from toposcope.controller.status_schema import StatusSchema
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Raw, Reflector
from toposcope.kube.requests import NODES
from toposcope.kube.runtime import REAL, Event, Runtime

log = logging.getLogger("controller")

RESYNC_SECONDS: Final = 60.0
"""How often everything is reconciled without a change: repairs manual edits, finds new kinds."""
_RETRIES: Final = Schedule(first=1.0, longest=60.0)
_UNSYNCED_SECONDS: Final = 5.0
_CATCH_UP_SECONDS: Final = 0.5
_STUCK_SECONDS: Final = 3 * RESYNC_SECONDS + 60.0

_YOUNG_OBJECTS: Final = 20_000
"""Allocations between two collections of the youngest generation. Python's default of 700 is a
small part of one pass over the nodes, whose lists would be traversed again and again: a fifth of
its time.
"""
_OLDER_GENERATIONS: Final = 10

_TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT, GPU_PRODUCT}


def collect_rarely() -> None:
    """Have Python's garbage collector run rarely in this process: a pass leaves few cycles behind."""
    gc.set_threshold(_YOUNG_OBJECTS, _OLDER_GENERATIONS, _OLDER_GENERATIONS)


class Trigger:
    """Wakes the reconcile loop, and remembers when there was first something to do.

    Informers `set` it from their threads; the loop waits for it and clears it. The time of the
    first change stays until the work on it is `done`, through failures.
    """

    def __init__(self, runtime: Runtime = REAL) -> None:
        self._monotonic = runtime.monotonic
        self._event = runtime.event()
        self._lock = runtime.lock()
        self._changed_at: float | None = None
        self._taken: float | None = None

    def set(self) -> None:
        """Something has changed."""
        with self._lock:
            if self._changed_at is None:
                self._changed_at = self._monotonic()
            self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for a change; whether there is one."""
        return self._event.wait(timeout)

    def is_set(self) -> bool:
        """Whether there is a change that nobody has taken on."""
        return self._event.is_set()

    def clear(self) -> None:
        """Take on all changes so far."""
        with self._lock:
            if self._taken is None:
                self._taken = self._changed_at
            self._changed_at = None
            self._event.clear()

    def done(self) -> float | None:
        """The changes taken on are handled; seconds since the first of them, None if there was none."""
        taken, self._taken = self._taken, None
        return None if taken is None else self._monotonic() - taken


def decode_topology(raw: Raw) -> tuple[str, str, Topology]:
    """Name, resourceVersion and topology.

    Raises msgspec.ValidationError for what the CRD would have refused.
    """
    document = msgspec.json.decode(raw, type=dict)
    try:
        topology = cluster_topology.read(document)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise msgspec.ValidationError(f"{type(error).__name__}: {error}") from error
    return topology.name, document["metadata"].get("resourceVersion", ""), topology


def _same_spec(one: Topology, other: Topology) -> bool:
    return (one.uid, one.generation) == (other.uid, other.generation)


class Controller:
    """CachedReader collections and the loop that reconciles them.

    Each term of leadership gets a `Reconciler` of its own, dropped when the term ends: since when
    levels are gone, how long something has been wanted and what was written last hold for one
    uninterrupted term only. The caches stay, so that a new leader knows the cluster. The loop
    enters `fence` before each pass; every write must pass it.
    """

    def __init__(
        self,
        client: ApiClient,
        new_reconciler: Callable[[], Reconciler],
        metrics: ControllerMetrics,
        options: Options,
        stop: Event,
        fence: Fence | None = None,
        published: CachedReader | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._new_reconciler = new_reconciler
        self._metrics = metrics
        self._options = options
        self._stop = stop
        self._fence = fence or Fence(NoElection())
        self._term = 0
        self._reconciler: Reconciler | None = None
        self._caught_up = False
        self._backoff = Backoff(_RETRIES, runtime.rng())
        self._trigger = Trigger(runtime)
        self._urgent = published.urgent if published else runtime.event()
        self._last_pass = self._runtime.monotonic()
        # The echo of our own status write must not trigger a pass; a status that others write waits
        # for the resync.
        self.topologies: Cache[Topology] = Cache(self._trigger.set, _same_spec)
        self.nodes: Cache[NodeFacts] = Cache(self._trigger.set)
        self._table = Table(())
        self._table_version = -1
        self._gc_frozen = False
        self._decoder = NodeDecoder(_TRACKED)
        informers = InformerFactory(client, stop, metrics.watches, runtime)
        self._topology_reflector = informers.reflector(
            cluster_topology.PATH, decode_topology, self.topologies
        )
        self._node_reflector = informers.reflector(NODES, self._decoder, self.nodes)
        self.workloads = Requirements(informers, self._trigger.set)
        self._config = ConfigFile(Path(options.config)) if options.config else None
        self._discovery = ResourceDiscovery(
            informers, self.workloads, published, self._trigger.set, runtime.monotonic
        )
        self._config_read_at = -math.inf
        self._schema = StatusSchema(client, runtime.monotonic)

    def once(self) -> None:
        """List everything and reconcile once. Raises KubeError."""
        self._topology_reflector.sync()
        self._track_labels()
        self._node_reflector.sync()
        self.workloads.sync()
        self._fence.enter()
        self._pass(self._new_reconciler(), self._node_table(), None)

    def run(self) -> None:
        """Watch and reconcile until `stop` is set."""
        self._runtime.thread("topologies", self._topology_reflector.run)
        while not (self.topologies.synced or self._stop.is_set()):
            self._trigger.wait(1.0)
            self._trigger.clear()
            self._last_pass = self._runtime.monotonic()
        self._track_labels()
        self._runtime.thread("nodes", self._node_reflector.run)
        self._discovery.start()
        wait = 0.0
        while not self._stop.is_set():
            if self._trigger.wait(wait):
                # Changes alone are no reason to press a server that has just failed.
                pause = max(self._options.debounce, self._backoff.pause)
                (self._stop if self._backoff.pause else self._urgent).wait(pause)
            self._urgent.clear()
            self._trigger.clear()
            if self._stop.is_set():
                return
            self._last_pass = self._runtime.monotonic()
            wait = self._look()

    def wake(self) -> None:
        """Have the loop run a pass, for example because this process began or ceased to lead."""
        self._trigger.set()

    def _look(self) -> float:
        """Take in what has changed and reconcile; seconds until the next pass if nothing changes."""
        self._schema.look()
        if self._track_labels():
            self.nodes.mark_unsynced()
            self._node_reflector.relist()
        return self._turn()

    def _turn(self) -> float:
        """Reconcile if the nodes are known and we lead; seconds until the next pass if nothing changes."""
        look = self._discovery.look()
        nodes = self._node_table() if self.nodes.synced else None
        if nodes is None and not self.nodes.error:
            return min(look, _UNSYNCED_SECONDS)
        reconciler = self._reconciler_of_term()
        if reconciler is None:
            return min(look, RESYNC_SECONDS)
        try:
            wait = self._reconcile(reconciler, nodes)
        except NotLeaderError as error:
            log.info("a pass was abandoned: %s", error)
            self._metrics.reconciles.labels("abandoned").inc()
            return min(look, RESYNC_SECONDS)  # the elector wakes us when we lead again
        except KubeError as error:  # logged where it came from
            self._metrics.reconciles.labels("failed").inc()
            return self._backoff.failed(error)
        self._backoff.reset()
        return min(look, wait)

    def _reconcile(self, reconciler: Reconciler, nodes: Table | None) -> float:
        """Reconcile, or say why not; seconds until the next pass if nothing changes.

        Raises KubeError.
        """
        began = self._runtime.monotonic()
        if not self._sees_last_writes():
            return _CATCH_UP_SECONDS
        if nodes is None:
            if self.nodes.error:
                reconciler.wait_for_nodes(self.topologies.items(), self.nodes.error)
            return _UNSYNCED_SECONDS
        if not self._pass(reconciler, nodes, self._trigger.is_set):
            self._metrics.reconciles.labels("interrupted").inc()
            return 0.0
        self._metrics.reconciles.labels("ok").inc()
        self._metrics.reconcile_seconds.observe(self._runtime.monotonic() - began)
        self._metrics.last_sync.set(self._runtime.now().timestamp())
        waited = self._trigger.done()
        if waited is not None:
            self._metrics.reaction_seconds.observe(waited)
        if not self._gc_frozen:
            # What lives as long as the nodes would otherwise make the collector's pauses grow with
            # the cluster.
            self._gc_frozen = True
            self._runtime.freeze()
        deadline = reconciler.next_deadline(self.topologies.items())
        # A moment later than the deadline, so that the grace period is over by then.
        return RESYNC_SECONDS if deadline is None else min(RESYNC_SECONDS, deadline + 0.01)

    def _reconciler_of_term(self) -> Reconciler | None:
        """The reconciler of the current term; None while another process leads."""
        term = self._fence.enter()
        if term != self._term:
            self._term = term
            self._reconciler = self._new_reconciler() if term else None
            self._caught_up = False
            self._backoff.reset()
            self._metrics.show({})
        return self._reconciler

    def _sees_last_writes(self) -> bool:
        """Whether the watch, which may lag, shows the previous leader's last writes.

        Raises KubeError.
        """
        if not self._caught_up:
            now: Cache[Topology] = Cache(lambda: None)
            try:
                Reflector(
                    self._client,
                    cluster_topology.PATH,
                    decode_topology,
                    now,
                    self._stop,
                    runtime=self._runtime,
                ).sync()
            except KubeError as error:
                log.warning("cannot list ClusterTopologies: %s", error)
                raise
            seen, there = (
                {topology.uid: topology for topology in cache.items()}
                for cache in (self.topologies, now)
            )
            self._caught_up = seen == there
        return self._caught_up

    def _pass(
        self, reconciler: Reconciler, nodes: Table, changed: Callable[[], bool] | None
    ) -> bool:
        """As `Reconciler.reconcile`."""
        reconciler.catalogue = self._catalogue
        reconciler.schema = self._schema
        try:
            return reconciler.reconcile(self.topologies.items(), nodes, self.workloads, changed)
        finally:
            self._metrics.show(reconciler.reports)
            self._metrics.left_out.set(reconciler.left_out)

    @property
    def _catalogue(self) -> Catalogue:
        """The built-in catalogue, with the additions of the configuration file."""
        return self._config.catalogue if self._config else BUILT_IN

    def _node_table(self) -> Table:
        """All nodes; the table of the last pass if no node has changed since."""
        version, placeholders = self.nodes.version, self._catalogue.placeholders
        if version != self._table_version or placeholders != self._table.placeholders:
            self._table, self._table_version = Table(self.nodes.by_name(), placeholders), version
        self._metrics.nodes.set(len(self._table))
        return self._table

    def _track_labels(self) -> bool:
        """Keep every label that a spec or the configuration names; whether nodes must be listed again for that."""
        self._read_config()
        specs = (key for topology in self.topologies.items() for key in topology.label_keys())
        return self._decoder.track((*self._catalogue.tracked, *specs))

    def _read_config(self) -> None:
        """Check once a minute whether the configuration file has changed."""
        now = self._runtime.monotonic()
        if self._config is not None and now - self._config_read_at >= RESYNC_SECONDS:
            self._config_read_at = now
            self._config.look()
            self._metrics.config_problems.set(len(self._config.problems))

    def healthy(self) -> str:
        """What is wrong if only a restart helps: the loop is stuck."""
        silent = self._runtime.monotonic() - self._last_pass
        return (
            f"the reconcile loop has been stuck for {silent:.0f} s"
            if silent > _STUCK_SECONDS
            else ""
        )

    def ready(self) -> str:
        """What is missing until the controller has seen the whole cluster and can say what it saw."""
        for name, cache in (("ClusterTopologies", self.topologies), ("nodes", self.nodes)):
            if not cache.synced:
                return f"{name} have not been listed yet" + (
                    f": {cache.error}" if cache.error else ""
                )
        if self._schema.problem:
            return self._schema.problem
        for name, why in [*self._reconciler.refused.items()] if self._reconciler else ():
            return f"the API server refuses the status of ClusterTopology {name}: {why}"
        return ""

    def end(self) -> None:
        """Let the loop end after the current pass."""
        self._stop.set()
        self._trigger.set()
        self._urgent.set()
        for reflector in (self._topology_reflector, self._node_reflector):
            reflector.relist()  # nothing else ends a silent stream
        self._discovery.close()
