"""A snapshot of a cluster: nodes, pods, topologies. Small enough for 100,000 nodes in one process.

Repeated strings, label keys, resource lists and conditions are shared between objects: change
nothing in place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import ALLOCATABLE_GPUS, GPU_PRESENT, GPUS, NVLINK_DOMAIN, STATE
from toposcope.api.levels import Level
from toposcope.hardware.topology import State
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.dra.compute_domains import ComputeDomain, compute_domains
from toposcope.integrations.dra.devices import Inventory, inventory
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.integrations.framework.system import SchedulerProfiles
from toposcope.kube.gpu_shares import LABELS as SHARE_LABELS
from toposcope.kube.gpu_shares import Label, Shares, gpus_of, on_shares, shares_of, whole_gpus
from toposcope.kube.pod_resources import Requests, is_gpu

NOTHING: Final[Requests] = MappingProxyType({})


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """One node.

    `places` maps each label key to its position in `values`; nodes with equal keys share it.
    """

    name: str
    uid: str
    places: Mapping[str, int]
    values: tuple[str, ...]
    ready: bool
    schedulable: bool
    """False: cordoned."""
    taints: tuple[Taint, ...]
    allocatable: Requests
    """CPU in thousandths of a core, memory in bytes, everything else in pieces."""
    conditions: Mapping[str, str]
    """Condition type to status."""
    matrix: str | None
    """The annotation `gpu.topology/matrix` as it stands; None where not loaded."""

    def label(self, key: str) -> str | None:
        """The value of a label, None if it has none."""
        place = self.places.get(key)
        return None if place is None else self.values[place]

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return dict(zip(self.places, self.values, strict=True))

    @property
    def usable(self) -> bool:
        """Whether it takes new pods: Ready and not cordoned. Taints depend on the pod."""
        return self.ready and self.schedulable

    @property
    def gpus(self) -> int:
        """GPUs, not shares of them.

        As its agent counted them, else by what others say (see `gpu_shares.gpus_of`).
        """
        return gpus_of(self.label, self.allocatable)

    @property
    def has_gpus(self) -> bool:
        """Whether somebody reports GPUs.

        An agent, also one of former times, a device plugin or NVIDIA's GPU operator.
        """
        if GPUS in self.places or not _OLD.isdisjoint(self.places):
            return True

        return self.gpus > 0 or self.label(GPU_PRESENT) == "true"

    @property
    def without_agent(self) -> bool:
        """Whether it has GPUs, and no agent has counted them.

        The default selector leaves such a node out.
        """
        return GPUS not in self.places and self.has_gpus

    @property
    def state(self) -> State | None:
        """The state of the hardware by the node's agent; None without an agent."""
        value = self.label(STATE)
        if value is None:
            return None

        return State(value) if value in _STATES else State.UNKNOWN


_OLD: Final = frozenset({NVLINK_DOMAIN, STATE})
"""Labels of an agent that also stand where somebody removed that of the number of GPUs."""
_STATES: Final = frozenset(State)


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that controls a pod."""

    api_version: str
    kind: str
    name: str


class PodView(msgspec.Struct, frozen=True, gc=False):
    """One pod that has not finished."""

    namespace: str
    name: str
    node: str
    """Empty while it is pending."""
    phase: str
    requests: Requests
    owner: Owner | None
    labels: Mapping[str, str]
    """Those that say what the pod belongs to (see `toposcope.snapshot.decode`)."""
    annotations: Mapping[str, str]
    """Those that ask for a placement."""
    scheduler: str
    waiting: str
    """Why its scheduler has not placed it, in its words; empty if placed or not tried yet."""
    wants: Mapping[str, Any] = NOTHING
    """Of a member of a group, or of a pod with GPUs.

    `nodeSelector`, `affinity`, `tolerations` and `schedulingGroup`.
    """
    priority: int = 0
    """As the API server resolved it from the priority class."""

    @classmethod
    def running(cls, *, name: str, node: str, requests: Requests) -> "PodView":
        """A pod of nobody that runs on a node."""
        return cls(
            namespace="",
            name=name,
            node=node,
            phase="Running",
            requests=requests,
            owner=None,
            labels={},
            annotations={},
            scheduler="",
            waiting="",
        )


@dataclass(frozen=True, slots=True)
class Published:
    """A topology resource that some scheduler reads."""

    api_version: str
    kind: str
    name: str
    levels: tuple[Level, ...]
    """Broadest first; `domain` is empty where the resource names label keys only."""
    document: Mapping[str, Any]
    """The object as it was read."""

    @property
    def key(self) -> tuple[str, str]:
        """Group and kind."""
        return self.api_version.rpartition("/")[0], self.kind

    @property
    def handle(self) -> str:
        """Kind, group and name, as kubectl names it."""
        return f"{self.kind.lower()}.{self.api_version.partition('/')[0]}/{self.name}"


class SummedPods(Sequence[PodView]):
    """Pods with known totals, so that they need not be read one by one."""

    requested: Mapping[str, Requests]
    """By node."""


SAVE: Final = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json"
"""The command that saves everything a snapshot is made of."""
NO_PODS: Final = f"there are no Pods in the files, so free GPUs are unknown; save them too: {SAVE}"
"""A warning of files that commands leave out which need no pods."""


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment. Nodes are in the order of their names."""

    source: str
    """For people: the server's URL or file names."""
    taken_at: datetime | None
    """None: files do not say."""
    nodes: tuple[NodeView, ...]
    pods: Sequence[PodView] | None
    """Pods that have not finished; None: not known, so free GPUs are unknown."""
    topologies: tuple[Topology, ...] = ()
    published: tuple[Published, ...] = ()
    warnings: tuple[str, ...] = ()
    """What could not be read, one sentence each with the fix."""
    catalogue: Catalogue = BUILT_IN
    """Which label carries which level: the built-in one, or an admin's."""
    served: Mapping[str, bool] = field(default_factory=dict)
    """Whether the cluster serves each kind of which `published` or `objects` has all, by its name.

    Of the kinds that are not here more may exist.
    """
    objects: tuple[Mapping[str, Any], ...] = ()
    """What else decides what schedulers admit: queues, quota, admitted workloads, LimitRanges."""
    has_changed_nodes: bool = False
    """Whether this is how the cluster would be: no status of a controller tells of these nodes."""
    scheduler_profiles: SchedulerProfiles | None = None
    """What the configuration of an operator says of schedulers; None: not known."""

    @cached_property
    def inventory(self) -> Inventory:
        """The devices of ResourceSlices, and the claims that hold them."""
        return inventory(self.objects)

    @cached_property
    def compute_domains(self) -> tuple[ComputeDomain, ...]:
        """The ComputeDomains that have nodes."""
        return compute_domains(self.objects)

    @cached_property
    def requested(self) -> Mapping[str, Requests]:
        """By node: the sum of its pods' requests, and the GPUs that claims hold.

        Nodes with neither are missing.
        """
        if not self.inventory.gpus_taken:
            return self.by_pods

        taken: dict[str, Requests] = dict(self.by_pods)
        for node, gpus in self.inventory.gpus_taken.items():
            taken[node] = {**taken.get(node, NOTHING), **gpus}

        return taken

    @cached_property
    def by_pods(self) -> Mapping[str, Requests]:
        """By node: the sum of its pods' requests."""
        if isinstance(self.pods, SummedPods):
            return self.pods.requested

        return _requested(self.pods or ())

    @cached_property
    def by_name(self) -> Mapping[str, NodeView]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    def free(self, node: NodeView) -> Requests | None:
        """What pods can still get of a node: allocatable less requested, never below zero.

        None: not known. Whether the node takes pods at all is `node.usable`.
        """
        if self.pods is None:
            return None

        taken = self.requested.get(node.name)
        if not taken:
            return node.allocatable

        left = {}
        for name, count in node.allocatable.items():
            left[name] = max(0, count - taken.get(name, 0))

        return left

    def free_gpus(self, node: NodeView) -> int | None:
        """Whole GPUs that a pod can get on a node: 0 if it takes no pods; None: not known.

        Shares of GPUs are not among them (see `shares`), nor a GPU that is offered and that the
        agent no longer finds.
        """
        if self.pods is None:
            return None
        if not node.usable:
            return 0

        # not by `free`: the page asks for GPUs of every node
        taken = self.requested.get(node.name, NOTHING)
        shared = {share.resource for share in self.shares.get(node.name, ())}
        offered = free = 0

        for name, count in node.allocatable.items():
            if count and is_gpu(name) and name not in shared:
                offered += count
                free += max(0, count - taken.get(name, 0))

        lost = max(0, offered - node.gpus)
        return max(0, free - lost)

    @cached_property
    def shares(self) -> Mapping[str, tuple[Shares, ...]]:
        """By node: the resources that are shares of its GPUs. Nodes without any are missing."""
        found: dict[str, tuple[Shares, ...]] = {}
        for node, shares in zip(self.nodes, _of_each(self.nodes, shares_of), strict=True):
            if shares:
                found[node.name] = shares

        return found

    def free_shares(self, node: NodeView, shares: Shares) -> int | None:
        """How many of a node's shares a pod can get: 0 if it takes no pods; None: not known."""
        if self.pods is None:
            return None

        taken = self.requested.get(node.name, NOTHING).get(shares.resource, 0)
        return max(0, shares.total - taken) if node.usable else 0

    @cached_property
    def in_whole_gpus(self) -> "Snapshot":
        """The same for those who count in GPUs.

        No share goes by the name of a GPU, of nodes as of their pods.
        """
        renamed: set[str] = set()
        nodes: list[NodeView] = []
        changed = False

        for node, whole in zip(self.nodes, _of_each(self.nodes, whole_gpus), strict=True):
            if whole is node.allocatable:
                nodes.append(node)
                continue

            changed = True
            if ALLOCATABLE_GPUS not in whole:
                renamed.add(node.name)

            nodes.append(msgspec.structs.replace(node, allocatable=whole))

        if not changed:
            return self

        pods = _on_shares(self.pods, renamed) if self.pods is not None and renamed else self.pods
        return replace(self, nodes=tuple(nodes), pods=pods)


def with_devices(snapshot: Snapshot) -> Snapshot:
    """The same with the GPUs of ResourceSlices, by driver.

    Of nodes where no device plugin offers any.
    """
    gpus = snapshot.inventory.gpus
    if not gpus:
        return snapshot

    shared: dict[tuple[int, tuple[tuple[str, int], ...]], Requests] = {}
    nodes = []
    for node in snapshot.nodes:
        offered: Requests | None = gpus.get(node.name)
        if offered is None or _offers_others(node, offered):
            nodes.append(node)
            continue

        key = id(node.allocatable), tuple(offered.items())
        both = shared.setdefault(key, {**node.allocatable, **offered})
        nodes.append(msgspec.structs.replace(node, allocatable=both))

    return replace(snapshot, nodes=tuple(nodes))


def _offers_others(node: NodeView, gpus: Requests) -> bool:
    """Whether a device plugin offers GPUs of the node by another name than these."""
    for name, count in node.allocatable.items():
        if count and is_gpu(name) and name not in gpus:
            return True

    return False


_Fact = TypeVar("_Fact")


def _of_each(
    nodes: Iterable[NodeView], rule: Callable[[Label, Requests], _Fact]
) -> Iterator[_Fact]:
    """What a rule makes of each node's labels and resources: equal nodes are asked about once."""
    places: dict[int, tuple[int, ...]] = {}
    known: dict[tuple[object, ...], _Fact] = {}
    for node in nodes:
        # Nodes with equal label keys share one mapping, which they keep alive; the same goes for
        # `allocatable`.
        picked = places.get(id(node.places))
        if picked is None:
            carried = [key for key in SHARE_LABELS if key in node.places]
            picked = places[id(node.places)] = tuple([node.places[key] for key in carried])

        key = id(node.places), id(node.allocatable), tuple([node.values[place] for place in picked])
        fact = known.get(key, _MISSING)
        if fact is _MISSING:
            fact = known[key] = rule(node.label, node.allocatable)

        yield cast(_Fact, fact)


_MISSING: Final[Any] = object()


def _on_shares(pods: Iterable[PodView], nodes: Collection[str]) -> tuple[PodView, ...]:
    """Pods, of which those on these nodes hold shares and no GPUs.

    Pods that stay as they are, are the same objects.
    """
    named: dict[int, Requests] = {}
    found: list[PodView] = []
    for pod in pods:
        if pod.node not in nodes or not pod.requests.get(ALLOCATABLE_GPUS):
            found.append(pod)
            continue

        requests = named.get(id(pod.requests))
        if requests is None:
            requests = named[id(pod.requests)] = on_shares(pod.requests)

        found.append(msgspec.structs.replace(pod, requests=requests))

    return tuple(found)


class Collector(Protocol):
    """Gets whole objects from files that are read for a snapshot."""

    def wants(self, group: str, kind: str) -> bool:
        """Whether to get objects of this API group (empty: the core group) and kind."""

    def put(self, document: Mapping[str, Any]) -> None:
        """One of them; an object may come twice."""


def _requested(pods: Iterable[PodView]) -> dict[str, Requests]:
    totals: dict[str, dict[str, int]] = {}
    for pod in pods:
        if not pod.node:
            continue

        total = totals.get(pod.node)
        if total is None:
            total = totals[pod.node] = {"pods": 0}

        total["pods"] += 1
        for resource, count in pod.requests.items():
            total[resource] = total.get(resource, 0) + count

    return dict(totals)
