"""What is known of the cluster just now: filled by a source from its threads, read by the `Broadcaster`.

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
from toposcope.topology.catalogue import BUILT_IN

Pods = Mapping[str, PodView]


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed since somebody asked last."""

    before: Mapping[str, NodeView | None]
    """Nodes that came, went or changed, each as it was before (None: it was not there)."""
    nodes: Mapping[str, NodeView]
    """All nodes as they are now, when any of them or a topology changed; else empty."""
    pods: frozenset[str]
    """Nodes on which pods came or went."""
    topologies: bool
    health: bool
    """Whether something can be read again, or no longer."""

    def __bool__(self) -> bool:
        return bool(self.before or self.pods or self.topologies or self.health)


class Facts:
    """The nodes, pods and topologies of one cluster, behind one lock. `changed` is called after each change.

    `monotonic` tells seconds.
    """

    def __init__(
        self,
        source: str,
        expected: Iterable[str],
        changed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expected` are the collections without which nothing is shown; see `looked`."""
        self.source = source
        self._expected = frozenset(expected)
        self._changed = changed
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[str, PodView] = {}
        self._by_node: dict[str, dict[str, PodView]] = {}
        self._topologies: dict[str, Topology] = {}
        self._uuids: dict[str, str] = {}
        self._pods_known = True
        self._was: dict[str, NodeView | None] = {}
        self._touched: set[str] = set()
        self._topologies_moved = False
        self._health_moved = False
        self._failing: dict[str, tuple[str, float]] = {}
        self._looked: dict[str, float] = {}
        self._warnings: dict[str, str] = {}
        self.catalogue = BUILT_IN
        """Which label is which level."""
        self.taken_at: datetime | None = None
        """When files were taken, where that is known."""

    # Told by a source

    def put_node(self, node: NodeView, uuids: str) -> None:
        """A node came or changed; `uuids` are those of its GPUs, a line each."""
        with self._lock:
            before = self._nodes.get(node.name)
            self._uuids[node.name] = uuids
            same = before == node
            if not same:
                self._nodes[node.name] = node
                self._was.setdefault(node.name, before)
        if not same:
            self._changed()

    def node_gone(self, name: str) -> None:
        """A node was deleted."""
        with self._lock:
            before = self._nodes.pop(name, None)
            self._uuids.pop(name, None)
            if before is not None:
                self._was.setdefault(name, before)
        if before is not None:
            self._changed()

    def replace_nodes(self, nodes: Mapping[str, tuple[NodeView, str]]) -> None:
        """All nodes there are, with their GPUs' UUIDs."""
        with self._lock:
            before = self._nodes
            self._nodes = {name: each for name, (each, _) in nodes.items()}
            self._uuids = {name: uuids for name, (_, uuids) in nodes.items()}
            for name in before.keys() - self._nodes.keys():
                self._was.setdefault(name, before[name])
            for name, node in self._nodes.items():
                old = before.get(name)
                if old != node:
                    self._was.setdefault(name, old)
        self._changed()

    def put_pod(self, key: str, pod: PodView | None) -> None:
        """A pod came or changed; None: it has finished or is gone."""
        with self._lock:
            before = self._pods.get(key)
            same = before == pod
            if not same:
                self._place(key, before, pod)
        if not same:
            self._changed()

    def replace_pods(self, pods: Mapping[str, PodView | None] | None) -> None:
        """All pods there are; None: nobody knows."""
        with self._lock:
            known = pods is not None
            self._topologies_moved |= known != self._pods_known
            self._pods_known = known
            pods = pods or {}
            for key in [key for key in self._pods if pods.get(key) is None]:
                self._place(key, self._pods[key], None)
            for key, pod in pods.items():
                before = self._pods.get(key)
                if pod != before:
                    self._place(key, before, pod)
        self._changed()

    def _place(self, key: str, before: PodView | None, after: PodView | None) -> None:
        """Put a pod where it is now. The lock is held."""
        if before is not None:
            self._touched.add(before.node)
            there = self._by_node.get(before.node, {})
            there.pop(key, None)
            if not there:
                self._by_node.pop(before.node, None)
        if after is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = after
            self._by_node.setdefault(after.node, {})[key] = after
            self._touched.add(after.node)

    def put_topology(self, topology: Topology) -> None:
        """A ClusterTopology came or changed."""
        with self._lock:
            same = self._topologies.get(topology.name) == topology
            self._topologies[topology.name] = topology
            self._topologies_moved |= not same
        if not same:
            self._changed()

    def topology_gone(self, name: str) -> None:
        """A ClusterTopology was deleted."""
        with self._lock:
            self._topologies_moved |= self._topologies.pop(name, None) is not None
        self._changed()

    def replace_topologies(self, topologies: Mapping[str, Topology]) -> None:
        """All ClusterTopologies there are."""
        with self._lock:
            self._topologies_moved |= self._topologies != topologies
            self._topologies = dict(topologies)
        self._changed()

    def looked(self, what: str) -> None:
        """A collection (`nodes`, `pods`, ...) is known as it is now, and can be read."""
        with self._lock:
            new = what not in self._looked
            self._looked[what] = self._monotonic()
            healed = self._failing.pop(what, None) is not None
            self._health_moved |= healed
        if healed or new:
            self._changed()

    def failing(self, what: str, why: str) -> None:
        """A collection cannot be read just now; what was known still stands."""
        with self._lock:
            _, since = self._failing.get(what, ("", self._looked.get(what, self._monotonic())))
            moved = self._failing.get(what, ("",))[0] != why
            self._failing[what] = (why, since)
            self._health_moved |= moved
        if moved:
            self._changed()

    def warn(self, what: str, warning: str) -> None:
        """Something cannot be seen at all; empty: it can."""
        with self._lock:
            moved = self._warnings.get(what, "") != warning
            self._warnings[what] = warning
            self._health_moved |= moved
        if moved:
            self._changed()

    def heard(self, what: str) -> None:
        """The server spoke of a collection: all that is known of it holds."""
        if what in self._looked and what not in self._failing:
            self._looked[what] = self._monotonic()

    # Asked by others

    @property
    def complete(self) -> bool:
        """Whether everything has been read once."""
        return self._expected <= self._looked.keys()

    @property
    def seen(self) -> int:
        """How many nodes are known so far."""
        return len(self._nodes)

    def take_changes(self) -> Changes:
        """What has changed since the last call."""
        with self._lock:
            self._touched.discard("")
            moved = self._was or self._topologies_moved
            now = dict(self._nodes) if moved else {}
            found = Changes(self._was, now, frozenset(self._touched), self._topologies_moved, self._health_moved)
            self._was, self._touched = {}, set()
            self._topologies_moved = self._health_moved = False
        return found

    def node(self, name: str) -> NodeView | None:
        """One node; None where it is not there."""
        with self._lock:
            return self._nodes.get(name)

    def nodes(self) -> tuple[NodeView, ...]:
        """All nodes by name."""
        with self._lock:
            found = list(self._nodes.values())
        return tuple(sorted(found, key=attrgetter("name")))

    def names(self) -> list[str]:
        """The names of all nodes, in no order."""
        with self._lock:
            return list(self._nodes)

    def topologies(self) -> tuple[Topology, ...]:
        """All ClusterTopologies by name."""
        with self._lock:
            return tuple(sorted(self._topologies.values(), key=attrgetter("name")))

    def uuids(self) -> list[tuple[str, str]]:
        """Each node's name with the UUIDs of its GPUs, a line each."""
        with self._lock:
            return list(self._uuids.items())

    @property
    def pods_known(self) -> bool:
        """Whether anything is known to be free."""
        return self._pods_known

    def free_gpus(self, node: NodeView) -> int | None:
        """Whole GPUs that a pod could get on a node, as `Snapshot.free_gpus`; None: not known."""
        if not self._pods_known:
            return None
        if not node.usable:
            return 0
        with self._lock:
            pods = list(self._by_node.get(node.name, {}).values())
        return gpu_count(left(node, pods)) if pods else gpu_count(node.allocatable)

    def pods_on(self, name: str) -> list[PodView]:
        """The pods of a node."""
        with self._lock:
            return list(self._by_node.get(name, {}).values())

    def snapshot(self) -> Snapshot:
        """Everything, as the other commands look at it."""
        with self._lock:
            pods = tuple(self._pods.values()) if self._pods_known else None
            warnings = tuple(filter(None, self._warnings.values()))
        return Snapshot(self.source, self.taken_at, self.nodes(), pods, self.topologies(), (), warnings, self.catalogue)

    def stale(self) -> tuple[float, list[str]] | None:
        """Seconds since everything could be read, and why it cannot be; None: it can."""
        with self._lock:
            if not self._failing:
                return None
            since = min(since for _, since in self._failing.values())
            return self._monotonic() - since, [f"{what}: {why}" for what, (why, _) in self._failing.items()]

    def age(self) -> float:
        """Seconds since the server last spoke: as long as nothing fails, all that is known holds until then."""
        with self._lock:
            return min((self._monotonic() - each for each in self._looked.values()), default=0.0)

    def warnings(self) -> list[str]:
        """What cannot be seen at all."""
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
