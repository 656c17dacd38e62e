"""The controller's loop.

Watches the cluster at all times, and reconciles it while this process is the leader.
"""

import gc
import logging
from collections.abc import Callable
from typing import Final

from toposcope.controller.fence import Fence, NoElection, NotLeaderError
from toposcope.controller.informer import InformerFactory
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.options import ControllerOptions
from toposcope.controller.publishing.cached_reader import CachedReader
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.status_schema import StatusSchema
from toposcope.controller.trigger import Trigger
from toposcope.controller.watches import Watches
from toposcope.hierarchy.table import Table
from toposcope.kube.backoff import Backoff, Schedule
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import KubeError
from toposcope.kube.runtime import REAL, Event, Runtime

log = logging.getLogger("controller")

RESYNC_SECONDS: Final = 60.0
"""How often everything is reconciled without a change: repairs manual edits, finds new kinds."""
_RETRIES: Final = Schedule(first_seconds=1.0, longest_seconds=60.0)
_UNSYNCED_SECONDS: Final = 5.0
_CATCH_UP_SECONDS: Final = 0.5
_BEHIND_SECONDS: Final = 30.0
"""How long the watch of ClusterTopologies may lag behind a list before they are listed anew.

Behind a restored etcd a watch may never catch up."""
_STUCK_SECONDS: Final = 3 * RESYNC_SECONDS + 60.0

_COLLECT_AFTER_OBJECTS: Final = 20_000
"""Allocations between two collections of the youngest generation. Python's default of 700 is a
small part of one pass over the nodes, whose lists would be traversed again and again: a fifth of
its time.
"""
_COLLECT_OLDER_AFTER_COLLECTIONS: Final = 10


def collect_rarely() -> None:
    """Have Python's garbage collector run rarely in this process.

    A pass leaves few cycles behind.
    """
    gc.set_threshold(
        _COLLECT_AFTER_OBJECTS, _COLLECT_OLDER_AFTER_COLLECTIONS, _COLLECT_OLDER_AFTER_COLLECTIONS
    )


class Controller:
    """Watches nodes, topologies and workloads, and reconciles while this process leads.

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
        *,
        options: ControllerOptions,
        stop: Event,
        fence: Fence | None = None,
        published: CachedReader | None = None,
        runtime: Runtime = REAL,
    ) -> None:
        self._runtime = runtime
        self._new_reconciler = new_reconciler
        self._metrics = metrics
        self._options = options
        self._stop = stop
        self._fence = fence or Fence(NoElection())
        self._term = 0
        self._reconciler: Reconciler | None = None
        self._has_caught_up = False
        self._behind_since: float | None = None
        """Since when the watch of ClusterTopologies lags, in monotonic seconds."""
        self._backoff = Backoff(_RETRIES, runtime.rng())
        self._trigger = Trigger(runtime)
        self._urgent = published.urgent if published else runtime.event()
        self._last_pass = runtime.monotonic()
        self._has_frozen_gc = False
        self._schema = StatusSchema(client, runtime)
        informers = InformerFactory(client, stop, metrics.watches, runtime)
        self.watches = Watches(informers, self._trigger.set, options, metrics, published)

    def once(self) -> None:
        """List everything and reconcile once. Raises KubeError."""
        self.watches.list_once()
        self._fence.enter()
        self._pass(self._new_reconciler(), self.watches.node_table(), None)

    def run(self) -> None:
        """Watch and reconcile until `stop` is set."""
        self.watches.start_topologies()
        while not (self.watches.topologies.is_synced or self._stop.is_set()):
            self._trigger.wait(1.0)
            self._trigger.clear()
            self._last_pass = self._runtime.monotonic()
        self.watches.start_others()
        wait = 0.0
        while not self._stop.is_set():
            if self._trigger.wait(wait):
                self._gather_changes()
            self._urgent.clear()
            self._trigger.clear()
            if self._stop.is_set():
                return
            self._last_pass = self._runtime.monotonic()
            wait = self._look()

    def wake(self) -> None:
        """Have the loop run a pass, for example because this process began or ceased to lead."""
        self._trigger.set()

    def _gather_changes(self) -> None:
        """Wait a moment for more changes, but not for long where something urgent happens."""
        if self._backoff.pause:
            # Changes alone are no reason to press a server that has just failed.
            self._stop.wait(max(self._options.debounce, self._backoff.pause))
        else:
            self._urgent.wait(self._options.debounce)

    def _look(self) -> float:
        """Take in what has changed and reconcile.

        Seconds until the next pass if nothing changes.
        """
        self._schema.look()
        if self.watches.track_labels():
            self.watches.list_nodes_again()
        return self._turn()

    def _turn(self) -> float:
        """Reconcile if the nodes are known and we lead.

        Seconds until the next pass if nothing changes.
        """
        discovery_due = self.watches.discovery.look()
        cache = self.watches.nodes
        nodes = self.watches.node_table() if cache.is_synced else None
        if nodes is None and not cache.error:
            return min(discovery_due, _UNSYNCED_SECONDS)
        reconciler = self._reconciler_of_term()
        if reconciler is None:
            return min(discovery_due, RESYNC_SECONDS)
        try:
            wait = self._reconcile(reconciler, nodes)
        except NotLeaderError as error:
            log.info("a pass was abandoned: %s", error)
            self._metrics.reconciles.labels("abandoned").inc()
            # The elector wakes us when we lead again.
            return min(discovery_due, RESYNC_SECONDS)
        except KubeError as error:  # logged where it came from
            self._metrics.reconciles.labels("failed").inc()
            return self._backoff.failed(error)
        self._backoff.reset()
        return min(discovery_due, wait)

    def _reconciler_of_term(self) -> Reconciler | None:
        """The reconciler of the current term; None while another process leads."""
        term = self._fence.enter()
        if term != self._term:
            self._term = term
            self._reconciler = self._new_reconciler() if term else None
            self._has_caught_up = False
            self._backoff.reset()
            self._metrics.show({})
        return self._reconciler

    def _reconcile(self, reconciler: Reconciler, nodes: Table | None) -> float:
        """Reconcile, or say why not; seconds until the next pass if nothing changes.

        Raises KubeError.
        """
        began = self._runtime.monotonic()
        if not self._sees_last_writes():
            return _CATCH_UP_SECONDS
        if nodes is None:
            error = self.watches.nodes.error
            if error:
                reconciler.wait_for_nodes(self.watches.topologies.items(), error)
            return _UNSYNCED_SECONDS
        if not self._pass(reconciler, nodes, self._trigger.is_set):
            self._metrics.reconciles.labels("interrupted").inc()
            return 0.0
        self._count(began)
        if not self._has_frozen_gc:
            # What lives as long as the nodes would otherwise make the collector's pauses grow with
            # the cluster.
            self._has_frozen_gc = True
            self._runtime.freeze()
        deadline = reconciler.next_deadline(self.watches.topologies.items())
        if deadline is None:
            return RESYNC_SECONDS
        # A moment later than the deadline, so that the grace period is over by then.
        return min(RESYNC_SECONDS, deadline + 0.01)

    def _sees_last_writes(self) -> bool:
        """Whether the watch, which may lag, shows the previous leader's last writes.

        Raises KubeError.
        """
        if not self._has_caught_up:
            try:
                self._has_caught_up = self.watches.has_current_topologies()
            except KubeError as error:
                log.warning("cannot list ClusterTopologies: %s", error)
                raise
            self._note_lag()
        return self._has_caught_up

    def _note_lag(self) -> None:
        """List ClusterTopologies anew where their watch has lagged for too long."""
        now = self._runtime.monotonic()
        if self._has_caught_up:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = now
        elif now - self._behind_since > _BEHIND_SECONDS:
            self._behind_since = None
            log.warning("the watch of ClusterTopologies lags behind; they are listed again")
            self.watches.topology_reflector.relist()

    def _pass(
        self, reconciler: Reconciler, nodes: Table, changed: Callable[[], bool] | None
    ) -> bool:
        """Make a pass, as `Reconciler.reconcile` does."""
        reconciler.use(self.watches.catalogue, self._schema, self.watches.agents)
        topologies = self.watches.topologies.items()
        try:
            return reconciler.reconcile(topologies, nodes, self.watches.workloads, changed)
        finally:
            self._metrics.show(reconciler.reports)
            self._metrics.left_out.set(reconciler.left_out)

    def _count(self, began: float) -> None:
        """Count a whole pass."""
        self._metrics.reconciles.labels("ok").inc()
        seconds = self._runtime.monotonic() - began
        self._metrics.reconcile_seconds.observe(seconds)
        now = self._runtime.now()
        self._metrics.last_sync.set(now.timestamp())
        waited = self._trigger.done()
        if waited is not None:
            self._metrics.reaction_seconds.observe(waited)

    def healthy(self) -> str:
        """What is wrong if only a restart helps: the loop is stuck."""
        silent = self._runtime.monotonic() - self._last_pass
        if silent > _STUCK_SECONDS:
            return f"the reconcile loop has been stuck for {silent:.0f} s"
        return ""

    def ready(self) -> str:
        """What is missing until the controller has seen the whole cluster and can tell."""
        problem = self.watches.missing() or self._schema.problem
        if problem:
            return problem
        reconciler = self._reconciler
        # A copy, because another thread reconciles.
        refused = list(reconciler.refused.items()) if reconciler else []
        if refused:
            name, why = refused[0]
            return f"the API server refuses the status of ClusterTopology {name}: {why}"
        return ""

    def end(self) -> None:
        """Let the loop end after the current pass."""
        self._stop.set()
        self._trigger.set()
        self._urgent.set()
        self.watches.close()
