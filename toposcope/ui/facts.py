"""What is known of the cluster right now: filled by a source from its threads, read by the `Broadcaster`.

Pods are kept by node, so that what is free on one node is a sum over its own pods.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from toposcope.api.cluster_topology import Topology
from toposcope.kube.pod_resources import gpu_count
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.topology.catalogue import BUILT_IN, Catalogue


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed since the last call of `Facts.take_changes`."""

    before: Mapping[str, NodeView | None]
    """Nodes that were added, deleted or changed, each as it was before (None: it did not exist)."""
    nodes: Mapping[str, NodeView]
    """All nodes as they are now, when any of them or a topology changed; else empty."""
    pods: frozenset[str]
    """Nodes on which pods were added, changed or deleted."""
    topologies: bool
    health: bool
    """Whether something can be read again, or no longer."""

    def __bool__(self) -> bool:
        return bool(self.before or self.pods or self.topologies or self.health)


class Facts:
    """The nodes, pods and topologies of one cluster, behind one lock. `changed` is called after each change.

    `monotonic` returns seconds.
    """

    def __init__(
        self,
        source: str,
        expected: Iterable[str],
        changed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expected` are the collections without which nothing is shown; see `mark_synced`."""
        self.source = source
        self._expected = frozenset(expected)
        self._changed = changed
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, PodView] = {}
        self._pods_by_node: dict[str, dict[str, PodView]] = {}
        self._topologies: dict[str, Topology] = {}
        self._uuids: dict[str, str] = {}
        self._pods_known = True
        self._before: dict[str, NodeView | None] = {}
        self._nodes_with_new_pods: set[str] = set()
        self._topologies_changed = False
        self._health_changed = False
        self._failing: dict[str, tuple[str, float]] = {}
        self._synced: dict[str, float] = {}
        self._warnings: dict[str, str] = {}
        self.catalogue = BUILT_IN
        """Which label is which level."""
        self.taken_at: datetime | None = None
        """When files were taken, where that is known."""

    # Called by a source

    def put_node(self, node: NodeView, uuids: str) -> None:
        """A node was added or changed; `uuids` are those of its GPUs, one per line."""
        with self._lock:
            self._uuids[node.name] = uuids
            before = self._nodes.get(node.name)
            if before == node:
                return
            self._nodes[node.name] = node
            self._before.setdefault(node.name, before)
        self._changed()

    def delete_node(self, name: str) -> None:
        """A node was deleted."""
        with self._lock:
            self._uuids.pop(name, None)
            before = self._nodes.pop(name, None)
            if before is None:
                return
            self._before.setdefault(name, before)
        self._changed()

    def replace_nodes(self, nodes: Mapping[str, tuple[NodeView, str]]) -> None:
        """All existing nodes, with their GPUs' UUIDs."""
        with self._lock:
            before = self._nodes
            self._nodes = {name: node for name, (node, _) in nodes.items()}
            self._uuids = {name: uuids for name, (_, uuids) in nodes.items()}
            for name in before.keys() | self._nodes.keys():
                if before.get(name) != self._nodes.get(name):
                    self._before.setdefault(name, before.get(name))
        self._changed()

    def put_pod(self, key: str, pod: PodView | None) -> None:
        """A pod was added or changed; None: it has finished or was deleted."""
        with self._lock:
            if self._pods.get(key) == pod:
                return
            self._place(key, pod)
        self._changed()

    def replace_pods(self, pods: Mapping[str, PodView | None] | None) -> None:
        """All existing pods; None: they are unknown."""
        with self._lock:
            known = pods is not None
            self._topologies_changed |= known != self._pods_known
            self._pods_known = known
            pods = pods or {}
            for key in (*self._pods, *pods):
                if pods.get(key) != self._pods.get(key):
                    self._place(key, pods.get(key))
        self._changed()

    def _place(self, key: str, pod: PodView | None) -> None:
        """Move a pod to where it is now. The lock is held."""
        before = self._pods.get(key)
        if before is not None:
            self._nodes_with_new_pods.add(before.node)
            others = self._pods_by_node.get(before.node, {})
            others.pop(key, None)
            if not others:
                self._pods_by_node.pop(before.node, None)
        if pod is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = pod
            self._pods_by_node.setdefault(pod.node, {})[key] = pod
            self._nodes_with_new_pods.add(pod.node)

    def put_topology(self, topology: Topology) -> None:
        """A ClusterTopology was added or changed."""
        self._set_topologies({**self._topologies, topology.name: topology})

    def delete_topology(self, name: str) -> None:
        """A ClusterTopology was deleted."""
        self._set_topologies({other: topology for other, topology in self._topologies.items() if other != name})

    def replace_topologies(self, topologies: Mapping[str, Topology]) -> None:
        """All existing ClusterTopologies."""
        self._set_topologies(dict(topologies))

    def _set_topologies(self, topologies: dict[str, Topology]) -> None:
        """Called from one thread only: that of the topologies' reflector, or of the files."""
        with self._lock:
            if self._topologies == topologies:
                return
            self._topologies_changed = True
            self._topologies = topologies
        self._changed()

    def put_catalogue(self, catalogue: Catalogue) -> None:
        """Which label is which level, from now on."""
        if catalogue != self.catalogue:
            self.catalogue = catalogue
            self._changed()

    def mark_synced(self, collection: str) -> None:
        """A collection (`nodes`, `pods`, ...) was read as it is now."""
        with self._lock:
            first = collection not in self._synced
            self._synced[collection] = self._monotonic()
            recovered = self._failing.pop(collection, None) is not None
            self._health_changed |= recovered
        if recovered or first:
            self._changed()

    def mark_failing(self, collection: str, why: str) -> None:
        """A collection cannot be read right now; what was known still stands."""
        with self._lock:
            last_why, since = self._failing.get(collection, ("", self._synced.get(collection, self._monotonic())))
            self._failing[collection] = (why, since)
            self._health_changed |= last_why != why
        if last_why != why:
            self._changed()

    def warn(self, collection: str, warning: str) -> None:
        """A collection cannot be read at all; empty: it can."""
        with self._lock:
            new = self._warnings.get(collection, "") != warning
            self._warnings[collection] = warning
            self._health_changed |= new
        if new:
            self._changed()

    def mark_alive(self, collection: str) -> None:
        """The server sent an event or a bookmark for a collection: all that is known of it holds."""
        if collection in self._synced and collection not in self._failing:
            self._synced[collection] = self._monotonic()

    # Called by others

    @property
    def complete(self) -> bool:
        """Whether everything has been read once."""
        return self._expected <= self._synced.keys()

    @property
    def node_count(self) -> int:
        """How many nodes are known so far."""
        return len(self._nodes)

    def take_changes(self) -> Changes:
        """What has changed since the last call."""
        with self._lock:
            self._nodes_with_new_pods.discard("")
            now = dict(self._nodes) if self._before or self._topologies_changed else {}
            pods = frozenset(self._nodes_with_new_pods)
            changes = Changes(self._before, now, pods, self._topologies_changed, self._health_changed)
            self._before, self._nodes_with_new_pods = {}, set()
            self._topologies_changed = self._health_changed = False
        return changes

    def node(self, name: str) -> NodeView | None:
        """One node; None where it does not exist."""
        with self._lock:
            return self._nodes.get(name)

    def nodes(self) -> tuple[NodeView, ...]:
        """All nodes by name."""
        with self._lock:
            nodes = list(self._nodes.values())
        return tuple(sorted(nodes, key=attrgetter("name")))

    def topologies(self) -> tuple[Topology, ...]:
        """All ClusterTopologies by name."""
        with self._lock:
            return tuple(sorted(self._topologies.values(), key=attrgetter("name")))

    def uuids(self) -> list[tuple[str, str]]:
        """Each node's name with the UUIDs of its GPUs, one per line; the nodes in no order."""
        with self._lock:
            return list(self._uuids.items())

    @property
    def pods_known(self) -> bool:
        """Whether pods are known, and with them what is free."""
        return self._pods_known

    def free_gpus(self, node: NodeView) -> int | None:
        """Whole GPUs that a pod could get on a node, as `Snapshot.free_gpus`; None: unknown."""
        if not self._pods_known:
            return None
        if not node.usable:
            return 0
        pods = self.pods_on(node.name)
        return gpu_count(left(node, pods) if pods else node.allocatable)

    def pods_on(self, name: str) -> list[PodView]:
        """The pods of a node."""
        with self._lock:
            return list(self._pods_by_node.get(name, {}).values())

    def snapshot(self) -> Snapshot:
        """Everything, as the other commands use it."""
        with self._lock:
            pods = tuple(self._pods.values()) if self._pods_known else None
        warnings = tuple(self.warnings())
        return Snapshot(self.source, self.taken_at, self.nodes(), pods, self.topologies(), (), warnings, self.catalogue)

    def stale(self) -> tuple[float, list[str]] | None:
        """Seconds since everything could be read, and why it cannot be; None: it can."""
        with self._lock:
            if not self._failing:
                return None
            since = min(since for _, since in self._failing.values())
            return self._monotonic() - since, [f"{what}: {why}" for what, (why, _) in self._failing.items()]

    def age(self) -> float:
        """Seconds since the server last sent something: as long as nothing fails, everything known holds until then."""
        with self._lock:
            return min((self._monotonic() - synced for synced in self._synced.values()), default=0.0)

    def warnings(self) -> list[str]:
        """What cannot be read at all."""
        with self._lock:
            return [warning for warning in self._warnings.values() if warning]


def left(node: NodeView, pods: Iterable[PodView]) -> dict[str, int]:
    """What pods leave of a node, never below zero."""
    free = dict(node.allocatable)
    for pod in pods:
        for resource, count in pod.requests.items():
            if resource in free:
                free[resource] = max(0, free[resource] - count)
    return free
