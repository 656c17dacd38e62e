"""The controller's loop: follow the cluster always, act on it while it is this process's turn."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from toposcope.api import cluster_topology
from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import GPU_PRESENT, GPUS
from toposcope.controller.config_file import ConfigFile
from toposcope.controller.fence import Fence, NoElection, NotLeaderError
from toposcope.controller.informer import Index
from toposcope.controller.metrics import ControllerMetrics
from toposcope.controller.node_cache import NodeIndex
from toposcope.controller.node_decoder import NodeDecoder
from toposcope.controller.options import Options
from toposcope.controller.publishers.cached_reader import Watched
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.requirements.informers import Requirements
from toposcope.controller.resource_discovery import Surroundings
from toposcope.kube.client import ApiClient
from toposcope.kube.errors import KubeError
from toposcope.kube.reflector import Backoff, Raw, Reflector, Restores
from toposcope.kube.requests import NODES
from toposcope.topology.catalogue import BUILT_IN
from toposcope.topology.live_table import LiveTable


class Wake:
    """Set by those who follow collections, from their threads; waited for and cleared by the loop.

    `monotonic` tells seconds. The time of the first change stays until the work on it is `done`, through failures.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._new: float | None = None
        self._taken: float | None = None

    def set(self) -> None:
        """Something has changed."""
        with self._lock:
            if self._new is None:
                self._new = self._monotonic()
            self._event.set()

    def wait(self, timeout: float) -> bool:
        """Wait so many seconds for a change; whether there is one."""
        return self._event.wait(timeout)

    def clear(self) -> None:
        """Take on all changes so far."""
        with self._lock:
            if self._taken is None:
                self._taken = self._new
            self._new = None
            self._event.clear()

    def done(self) -> float | None:
        """The changes taken on are dealt with; seconds since the first of them came, None when there was none."""
        taken, self._taken = self._taken, None
        return None if taken is None else self._monotonic() - taken


log = logging.getLogger("controller")

RESYNC_SECONDS: Final = 60.0
"""How often everything is looked at again though nothing changed: repairs what was edited by hand, finds new kinds."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_UNSYNCED_SECONDS: Final = 5.0
_CATCH_UP_SECONDS: Final = 0.5
_SILENCE: Final = 3 * RESYNC_SECONDS + 60.0

_TRACKED: Final = BUILT_IN.tracked | {GPUS, GPU_PRESENT}


def decode_topology(raw: Raw) -> tuple[str, str, Topology]:
    """Name, resourceVersion and topology of one ClusterTopology object.

    Raises msgspec.ValidationError for an object that the CRD would have refused.
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
    """Followed collections and the loop that acts on them.

    A `Reconciler` is made for each term of leadership and forgotten with it: since when levels are gone, what has been
    wanted for how long and what was written last are true of one uninterrupted term only. What was followed stays, so
    that a new leader knows the cluster. Every write must pass `fence`, which this loop enters before each pass.
    """

    def __init__(
        self,
        client: ApiClient,
        new_reconciler: Callable[[], Reconciler],
        metrics: ControllerMetrics,
        options: Options,
        stop: threading.Event,
        fence: Fence | None = None,
        dice: random.Random | None = None,
        published: Watched | None = None,
        restores: Restores | None = None,
    ) -> None:
        self._client = client
        self._new_reconciler = new_reconciler
        self._metrics = metrics
        self._options = options
        self._stop = stop
        self._fence = fence or Fence(NoElection())
        self._term = 0
        self._reconciler: Reconciler | None = None
        self._caught_up = False
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, dice)
        self._wake = Wake(time.monotonic)
        self._turned = time.monotonic()
        # The echo of a status that we wrote must not make us look again; one that others wrote waits for the resync.
        self.topologies: Index[Topology] = Index(self._wake.set, _same_spec)
        self.nodes = NodeIndex(self._wake.set)
        self._decoder = NodeDecoder(_TRACKED)
        watches, restores = metrics.watches, restores or Restores()
        self._follow_topologies = Reflector(
            client, cluster_topology.PATH, decode_topology, self.topologies, stop, observer=watches, restores=restores
        )
        self._follow_nodes = Reflector(
            client, NODES, self._decoder, self.nodes, stop, observer=watches, restores=restores
        )
        self.workloads = Requirements(client, self._wake.set, stop, observer=watches, restores=restores)
        self._config = ConfigFile(Path(options.config)) if options.config else None
        self._surroundings = Surroundings(
            client, self.workloads, published, self._wake.set, stop, time.monotonic, watches, restores
        )
        self._configured = -math.inf

    def once(self) -> None:
        """List everything, reconcile once. Raises KubeError."""
        self._follow_topologies.sync()
        self._track()
        self._follow_nodes.sync()
        self.workloads.sync()
        self._fence.enter()
        self._pass(self._with_catalogue(self._new_reconciler()), self._known_nodes())

    def run(self) -> None:
        """Follow and reconcile until `stop` is set."""
        self._thread("topologies", self._follow_topologies.run)
        while not (self.topologies.synced or self._stop.is_set()):
            self._wake.wait(1.0)
            self._wake.clear()
            self._turned = time.monotonic()
        self._track()
        self._thread("nodes", self._follow_nodes.run)
        self._surroundings.start()
        wait = 0.0
        while not self._stop.is_set():
            changed = self._wake.wait(wait)
            # Changes alone are no reason to press a server that has just failed.
            if changed and self._stop.wait(max(self._options.debounce, self._backoff.pause)):
                return
            self._wake.clear()
            self._turned = time.monotonic()
            wait = self._look()

    def wake(self) -> None:
        """Have the loop look again: this process began or ceased to lead, for one."""
        self._wake.set()

    def _look(self) -> float:
        """Take in what has changed and act on it; seconds until the next look though nothing changes."""
        if self._track():
            self.nodes.outdated()
            self._follow_nodes.relist()
        return self._turn()

    def _turn(self) -> float:
        """Reconcile if the nodes are known and it is our turn; seconds until the next turn though nothing changes."""
        look = self._surroundings.look()
        nodes = self._known_nodes() if self.nodes.synced else None
        if nodes is None and not self.nodes.error:
            return min(look, _UNSYNCED_SECONDS)
        reconciler = self._of_this_term()
        if reconciler is None:
            return min(look, RESYNC_SECONDS)
        try:
            wait = self._act(reconciler, nodes)
        except NotLeaderError as error:
            log.info("a pass was abandoned: %s", error)
            self._metrics.reconciles.labels("abandoned").inc()
            return min(look, RESYNC_SECONDS)  # whoever tells that we lead again wakes us
        except KubeError as error:  # logged where it came from
            self._metrics.reconciles.labels("failed").inc()
            return self._backoff.failed(error)
        self._backoff.reset()
        if self.nodes.settle():
            self._wake.set()
        return min(look, wait)

    def _act(self, reconciler: Reconciler, nodes: LiveTable | None) -> float:
        """Reconcile, or say why not; seconds until the next look though nothing changes. Raises KubeError."""
        began = time.monotonic()
        if not self._sees_what_was_written():
            return _CATCH_UP_SECONDS
        if nodes is None:
            if self.nodes.error:
                reconciler.wait_for_nodes(self.topologies.items(), self.nodes.error)
            return _UNSYNCED_SECONDS
        self._pass(self._with_catalogue(reconciler), nodes)
        self._metrics.reconciles.labels("ok").inc()
        self._metrics.reconcile_seconds.observe(time.monotonic() - began)
        self._metrics.last_sync.set(time.time())
        waited = self._wake.done()
        if waited is not None:
            self._metrics.reaction_seconds.observe(waited)
        deadline = reconciler.next_deadline(self.topologies.items())
        # A moment later than the deadline, so that the grace period is over by then.
        return RESYNC_SECONDS if deadline is None else min(RESYNC_SECONDS, deadline + 0.01)

    def _of_this_term(self) -> Reconciler | None:
        """The reconciler of the term that we are in; None while another process leads."""
        term = self._fence.enter()
        if term != self._term:
            self._term = term
            self._reconciler = self._new_reconciler() if term else None
            self._caught_up = False
            self._backoff.reset()
            self._metrics.show({})
        return self._reconciler

    def _sees_what_was_written(self) -> bool:
        """Whether the watch has shown what the leader before us wrote last; looked at until it has. Raises KubeError.

        It may lag: the verdicts that stand in a status must not be taken back because an older one was seen.
        """
        if not self._caught_up:
            now: Index[Topology] = Index(lambda: None)
            try:
                Reflector(self._client, cluster_topology.PATH, decode_topology, now, self._stop).sync()
            except KubeError as error:
                log.warning("cannot list ClusterTopologies: %s", error)
                raise
            seen, there = ({each.uid: each for each in index.items()} for index in (self.topologies, now))
            self._caught_up = seen == there
        return self._caught_up

    def _with_catalogue(self, reconciler: Reconciler) -> Reconciler:
        """Have the levels of the configuration file known from this pass on."""
        if self._config is not None:
            reconciler.catalogue = self._config.catalogue
        return reconciler

    def _pass(self, reconciler: Reconciler, nodes: LiveTable) -> None:
        try:
            reconciler.reconcile(self.topologies.items(), nodes, self.workloads)
        finally:
            self._metrics.show(reconciler.reports)

    def _known_nodes(self) -> LiveTable:
        nodes = self.nodes.table((self._config.catalogue if self._config else BUILT_IN).placeholders)
        self._metrics.nodes.set(len(nodes))
        return nodes

    def _track(self) -> bool:
        """Keep every label that a spec or the configuration names; whether nodes have to be read again for that."""
        self._configure()
        specs = (key for topology in self.topologies.items() for key in topology.label_keys())
        configured = self._config.catalogue.tracked if self._config is not None else ()
        return self._decoder.track((*configured, *specs))

    def _configure(self) -> None:
        """Look once a minute whether the configuration file has changed."""
        now = time.monotonic()
        if self._config is not None and now - self._configured >= RESYNC_SECONDS:
            self._configured = now
            self._config.look()
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
        """Let the loop end after the pass in hand."""
        self._stop.set()
        self._wake.set()
        for following in (self._follow_topologies, self._follow_nodes):
            following.relist()  # nothing else ends a stream that is silent
        self._surroundings.close()
