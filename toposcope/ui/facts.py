"""What is currently known about the cluster.

A source fills the facts from its threads, and the `Broadcaster` reads them.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from toposcope.api.cluster_topology import Topology
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.kube.pod_resources import gpu_count
from toposcope.kube.runtime import REAL, Runtime
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.reach import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class StaleFact:
    """Something can no longer be read, so what is shown of it is old."""

    seconds: float
    """Seconds since everything could last be read."""
    why: Mapping[str, str]
    """The reason, by collection."""

    @property
    def sentences(self) -> list[str]:
        """A sentence for each collection."""
        return [f"{collection}: {why}" for collection, why in self.why.items()]


class Facts:
    """The nodes, pods and topologies of one cluster, behind one lock."""

    def __init__(
        self,
        source: str,
        expected: Iterable[str],
        changed: Callable[[], None],
        runtime: Runtime = REAL,
    ) -> None:
        """`expected` are the collections without which nothing is shown; see `mark_synced`.

        `changed` is called after each change.
        """
        self.source = source
        self._expected = frozenset(expected)
        self._changed = changed
        self._monotonic = runtime.monotonic
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, PodView] = {}
        self._topologies: dict[str, Topology] = {}
        self._uuids: dict[str, str] = {}
        self._has_pods = True
        self._failing: dict[str, tuple[str, float]] = {}
        self._synced: dict[str, float] = {}
        self._warnings: dict[str, str] = {}
        self.revision = 0
        """Grows with everything that a page could show."""
        self.catalogue = BUILT_IN
        """The catalogue: which label keys are which levels."""
        self.taken_at: datetime | None = None
        """When files were taken, where that is known."""

    def _change(self, is_shown: bool = True) -> None:
        with self._lock:
            self.revision += is_shown
        self._changed()

    # Called by a source

    def put_node(self, node: NodeView, uuids: str) -> None:
        """A node was added or changed; `uuids` are those of its GPUs, one per line."""
        with self._lock:
            self._uuids[node.name] = uuids
            if self._nodes.get(node.name) == node:
                return
            self._nodes[node.name] = node
        self._change()

    def delete_node(self, name: str) -> None:
        """A node was deleted."""
        with self._lock:
            self._uuids.pop(name, None)
            if self._nodes.pop(name, None) is None:
                return
        self._change()

    def replace_nodes(self, nodes: Mapping[str, tuple[NodeView, str]]) -> None:
        """All existing nodes, with their GPUs' UUIDs."""
        with self._lock:
            before = self._nodes
            self._nodes, self._uuids = {}, {}
            for name, (node, uuids) in nodes.items():
                self._nodes[name] = node
                self._uuids[name] = uuids
            if before == self._nodes:
                return
        self._change()

    def put_pod(self, key: str, pod: PodView | None) -> None:
        """A pod was added or changed; None: it has finished or was deleted."""
        with self._lock:
            before = self._pods.get(key)
            if before == pod:
                return
            if pod is None:
                del self._pods[key]
            else:
                self._pods[key] = pod
            is_shown = self._usage_of(before) != self._usage_of(pod)
        self._change(is_shown)

    def _usage_of(self, pod: PodView | None) -> tuple[str, int, int, int] | None:
        """What a pod takes of a node with GPUs: all that is shown of it. None: nothing."""
        if pod is None or not pod.node:
            return None
        node = self._nodes.get(pod.node)
        if node and not node.has_gpus:
            return None
        gpus = gpu_count(pod.requests)
        cpu = pod.requests.get(CPU, 0)
        memory = pod.requests.get(MEMORY, 0)
        if not (gpus or cpu or memory):
            return None
        return pod.node, gpus, cpu, memory

    def replace_pods(self, pods: Mapping[str, PodView | None] | None) -> None:
        """All existing pods; None: they are unknown."""
        has_pods = pods is not None
        running = {}
        for key, pod in (pods or {}).items():
            if pod is not None:
                running[key] = pod

        with self._lock:
            if has_pods == self._has_pods and running == self._pods:
                return
            self._has_pods = has_pods
            self._pods = running
        self._change()

    def put_topology(self, name: str, topology: Topology | None) -> None:
        """A ClusterTopology was added or changed; None: it was deleted."""
        topologies = dict(self._topologies)
        topologies.pop(name, None)
        if topology:
            topologies[name] = topology
        self.replace_topologies(topologies)

    def replace_topologies(self, topologies: Mapping[str, Topology]) -> None:
        """All existing ClusterTopologies.

        Like `put_topology`, this is for one thread only: the reflector's, or that of the files.
        """
        with self._lock:
            if self._topologies == topologies:
                return
            self._topologies = dict(topologies)
        self._change()

    def put_catalogue(self, catalogue: Catalogue) -> None:
        """From now on, use this catalogue of label keys."""
        if catalogue != self.catalogue:
            self.catalogue = catalogue
            self._change()

    def mark_synced(self, collection: str) -> None:
        """A collection (`nodes`, `pods`, ...) was read as it is now."""
        with self._lock:
            is_first = collection not in self._synced
            self._synced[collection] = self._monotonic()
            has_recovered = self._failing.pop(collection, None) is not None
        if has_recovered or is_first:
            self._change()

    def mark_failing(self, collection: str, why: str) -> None:
        """A collection cannot be read right now; what was known still stands."""
        with self._lock:
            failing = self._failing.get(collection)
            if failing:
                last_why, since = failing
            else:
                last_why, since = "", self._synced.get(collection, self._monotonic())
            self._failing[collection] = (why, since)
        if last_why != why:
            self._change()

    def warn(self, collection: str, warning: str) -> None:
        """A collection cannot be read at all; empty: it can."""
        with self._lock:
            is_new = self._warnings.get(collection, "") != warning
            self._warnings[collection] = warning
        if is_new:
            self._change()

    def mark_alive(self, collection: str) -> None:
        """The server sent an event or a bookmark: all that is known of the collection holds."""
        if collection in self._synced and collection not in self._failing:
            self._synced[collection] = self._monotonic()

    # Called by others

    @property
    def is_complete(self) -> bool:
        """Whether everything has been read once."""
        return self._expected <= self._synced.keys()

    @property
    def node_count(self) -> int:
        """How many nodes are known so far."""
        return len(self._nodes)

    def node(self, name: str) -> NodeView | None:
        """One node; None where it does not exist."""
        with self._lock:
            return self._nodes.get(name)

    def uuids(self) -> list[tuple[str, str]]:
        """Each node's name with the UUIDs of its GPUs, one per line; nodes are in no order."""
        with self._lock:
            return list(self._uuids.items())

    def snapshot(self) -> Snapshot:
        """Everything, as the other commands use it: nodes and ClusterTopologies by name."""
        with self._lock:
            nodes = list(self._nodes.values())
            topologies = list(self._topologies.values())
            pods = tuple(self._pods.values()) if self._has_pods else None

        nodes.sort(key=attrgetter("name"))
        topologies.sort(key=attrgetter("name"))
        return Snapshot(
            source=self.source,
            taken_at=self.taken_at,
            nodes=tuple(nodes),
            pods=pods,
            topologies=tuple(topologies),
            warnings=tuple(self.warnings()),
            catalogue=self.catalogue,
        )

    def stale(self) -> StaleFact | None:
        """Since when something cannot be read, and why; None: everything can."""
        with self._lock:
            if not self._failing:
                return None
            now = self._monotonic()
            seconds, reasons = 0.0, {}
            for collection, (why, since) in self._failing.items():
                seconds = max(seconds, now - since)
                reasons[collection] = why
            return StaleFact(seconds, reasons)

    def age_seconds(self) -> float:
        """Seconds since the server last sent something.

        While nothing fails, everything known was true at that time.
        """
        with self._lock:
            if not self._synced:
                return 0.0
            return self._monotonic() - max(self._synced.values())

    def warnings(self) -> list[str]:
        """A sentence for everything that cannot be read at all."""
        with self._lock:
            return [warning for warning in self._warnings.values() if warning]
