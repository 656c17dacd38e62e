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
from toposcope.integrations.framework.pod_rules import (
    NO_RULES,
    HostPort,
    PodLabels,
    PodRules,
    PodTerm,
)
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
    is_ready: bool
    is_schedulable: bool
    """False: cordoned."""
    taints: tuple[Taint, ...]
    allocatable: Requests
    """CPU in thousandths of a core, memory in bytes, everything else in pieces."""
    conditions: Mapping[str, str]
    """Condition type to status."""
    matrix: str | None
    """The annotation `gpu.topology/matrix` as it stands; None where not loaded."""
    is_of_azure: bool = False
    """Whether `spec.providerID` says so: then a bare number as zone is a fault domain."""

    def label(self, key: str) -> str | None:
        """The value of a label, None if it has none."""
        place = self.places.get(key)
        if place is None:
            return None
        return self.values[place]

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return dict(zip(self.places, self.values, strict=True))

    def with_labels(self, labels: Mapping[str, str]) -> "NodeView":
        """The node with these labels besides or instead of its own."""
        all_labels = {**self.labels, **labels}
        places = {}
        for place, key in enumerate(all_labels):
            places[key] = place
        return msgspec.structs.replace(self, places=places, values=tuple(all_labels.values()))

    @property
    def is_usable(self) -> bool:
        """Whether it takes new pods: Ready and not cordoned. Taints depend on the pod."""
        return self.is_ready and self.is_schedulable

    @property
    def gpus(self) -> int:
        """The number of its GPUs, not of shares of them.

        Its agent has counted them; without an agent see `gpu_shares.gpus_of`.
        """
        return gpus_of(self.label, self.allocatable)

    @property
    def has_gpus(self) -> bool:
        """Whether an agent, a device plugin or NVIDIA's GPU operator reports GPUs.

        Labels that an agent has left behind count too.
        """
        if GPUS in self.places or not _LEFT_BY_AGENT.isdisjoint(self.places):
            return True
        if self.gpus > 0:
            return True
        return self.label(GPU_PRESENT) == "true"

    @property
    def is_without_agent(self) -> bool:
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
        if value not in _STATES:
            return State.UNKNOWN
        return State(value)


_LEFT_BY_AGENT: Final = frozenset({NVLINK_DOMAIN, STATE})
"""Labels of an agent that stay after its label with the number of GPUs was removed."""
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
    """The labels that say what the pod belongs to (see `toposcope.snapshot.decode`)."""
    annotations: Mapping[str, str]
    """The annotations that ask for a placement."""
    scheduler: str
    waiting: str
    """Why its scheduler has not placed it, in its words; empty if placed or not tried yet."""
    wants: Mapping[str, Any] = NOTHING
    """`nodeSelector`, `affinity`, `tolerations`, `topologySpreadConstraints` and `schedulingGroup`
    as they stand.

    Kept of pods that wait, of pods with GPUs and of members of a group.
    """
    priority: int = 0
    """As the API server resolved it from the priority class."""
    selectable: tuple[str, ...] = ()
    """All labels but those of `pod_rules.NOT_KEPT`: keys and values in turn, by key."""
    repels: tuple[PodTerm, ...] = ()
    """Its required pod anti-affinity."""
    ports: tuple[HostPort, ...] = ()
    """The ports of its node that it takes."""

    @property
    def pod_labels(self) -> PodLabels:
        """The labels that selectors of other pods match."""
        keys = self.selectable[::2]
        values = self.selectable[1::2]
        return PodLabels(self.namespace, tuple(zip(keys, values, strict=True)))

    @classmethod
    def running(
        cls,
        *,
        name: str,
        node: str,
        requests: Requests,
        rules: PodRules = NO_RULES,
    ) -> "PodView":
        """A pod without an owner that runs on a node."""
        namespace = ""
        selectable: list[str] = []
        if rules is not NO_RULES:
            namespace = rules.labels.namespace
            for pair in rules.labels.known:
                selectable += pair
        return cls(
            namespace=namespace,
            name=name,
            node=node,
            phase="Running",
            requests=requests,
            owner=None,
            labels={},
            annotations={},
            scheduler="",
            waiting="",
            selectable=tuple(selectable),
            repels=rules.anti_affinity,
            ports=rules.ports,
        )


@dataclass(frozen=True, slots=True)
class PublishedTopology:
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
        group, _, _ = self.api_version.partition("/")
        return f"{self.kind.lower()}.{group}/{self.name}"


class SummedPods(Sequence[PodView]):
    """Pods with known totals, so that they need not be read one by one."""

    requested: Mapping[str, Requests]
    """By node."""


SAVE: Final = "kubectl get nodes,pods,clustertopologies.gpu.topology -A -o json > cluster.json"
"""The command that saves everything a snapshot is made of."""
_NO_PODS: Final = f"there are no Pods in the files, so free GPUs are unknown; save them too: {SAVE}"


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
    published: tuple[PublishedTopology, ...] = ()
    warnings: tuple[str, ...] = ()
    """A sentence, with the fix, about each thing that could not be read."""
    lacks_pods: bool = False
    """Whether it comes from files without Pods, which is fine for commands that need none."""
    catalogue: Catalogue = BUILT_IN
    """Which label carries which level: the built-in one, or an admin's."""
    served: Mapping[str, bool] = field(default_factory=dict)
    """By a kind's name: whether the cluster serves it, and `published` or `objects` has all of it.

    Of kinds that are missing here, more objects may exist.
    """
    objects: tuple[Mapping[str, Any], ...] = ()
    """Other objects that decide what is admitted: queues, quota, workloads, LimitRanges."""
    has_changed_nodes: bool = False
    """Whether this is how the cluster would be: no status of a controller tells of these nodes."""
    knows_pod_rules: bool = True
    """False: an older file, in which pods have neither all labels, nor anti-affinity and ports."""
    scheduler_profiles: SchedulerProfiles | None = None
    """The profiles of schedulers by an operator's configuration; None: not known."""
    unready_agents: Mapping[str, str] = field(default_factory=dict)
    """By node: why the pod of its agent is not Ready, where pods are known and it is not."""

    @cached_property
    def inventory(self) -> Inventory:
        """The devices of ResourceSlices, and the claims that hold them."""
        return inventory(self.objects)

    @property
    def warnings_about_pods_too(self) -> tuple[str, ...]:
        """The warnings for a command that needs pods."""
        if self.lacks_pods:
            return (*self.warnings, _NO_PODS)
        return self.warnings

    @cached_property
    def compute_domains(self) -> tuple[ComputeDomain, ...]:
        """The ComputeDomains that have nodes."""
        return compute_domains(self.objects)

    @cached_property
    def requested(self) -> Mapping[str, Requests]:
        """The sum of the requests of each node's pods, and the GPUs that claims hold there.

        Nodes with neither are missing.
        """
        gpus_taken = self.inventory.gpus_taken
        if not gpus_taken:
            return self.by_pods

        requested: dict[str, Requests] = dict(self.by_pods)
        for node, gpus in gpus_taken.items():
            by_pods = requested.get(node, NOTHING)
            requested[node] = {**by_pods, **gpus}
        return requested

    @cached_property
    def by_pods(self) -> Mapping[str, Requests]:
        """The sum of the requests of each node's pods."""
        if isinstance(self.pods, SummedPods):
            return self.pods.requested
        return _requested(self.pods or ())

    @cached_property
    def by_name(self) -> Mapping[str, NodeView]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    def free(self, node: NodeView) -> Requests | None:
        """The resources of a node that pods can still get: allocatable less requested.

        None: not known. Whether the node takes pods at all is `node.usable`.
        """
        if self.pods is None:
            return None
        requested = self.requested.get(node.name)
        if not requested:
            return node.allocatable

        free = {}
        for name, count in node.allocatable.items():
            unrequested = count - requested.get(name, 0)
            free[name] = max(0, unrequested)
        return free

    def free_gpus(self, node: NodeView) -> int | None:
        """Whole GPUs that a pod can get on a node: 0 if it takes no pods; None: not known.

        Neither shares of GPUs (see `shares`) count, nor a GPU that is offered although the agent
        no longer finds it.
        """
        if self.pods is None:
            return None
        return self.idle_gpus(node) if node.is_usable else 0

    def idle_gpus(self, node: NodeView) -> int:
        """Whole GPUs of a node that no pod holds, whether or not it takes pods; see `free_gpus`."""
        # Not by `free`, because the page asks for the GPUs of every node.
        requested = self.requested.get(node.name, NOTHING)
        shared: Collection[str] = ()
        if self.shares:
            shared = {share.resource for share in self.shares.get(node.name, ())}
        offered = 0
        free = 0
        for name, count in node.allocatable.items():
            if count and is_gpu(name) and name not in shared:
                offered += count
                unrequested = count - requested.get(name, 0)
                free += max(0, unrequested)

        lost = max(0, offered - node.gpus)
        return max(0, free - lost)

    @cached_property
    def shares(self) -> Mapping[str, tuple[Shares, ...]]:
        """The resources of each node that are shares of its GPUs; nodes without any are missing."""
        shares_by_node: dict[str, tuple[Shares, ...]] = {}
        of_each = _of_each(self.nodes, shares_of)
        for node, shares in zip(self.nodes, of_each, strict=True):
            if shares:
                shares_by_node[node.name] = shares
        return shares_by_node

    def free_shares(self, node: NodeView, shares: Shares) -> int | None:
        """How many of a node's shares a pod can get: 0 if it takes no pods; None: not known."""
        if self.pods is None:
            return None
        if not node.is_usable:
            return 0

        requested = self.requested.get(node.name, NOTHING)
        requested_shares = requested.get(shares.resource, 0)
        return max(0, shares.total - requested_shares)

    @cached_property
    def in_whole_gpus(self) -> "Snapshot":
        """The snapshot for counting in GPUs: no node or pod has shares named as GPUs are."""
        without_gpus: set[str] = set()
        nodes: list[NodeView] = []
        is_changed = False
        of_each = _of_each(self.nodes, whole_gpus)
        for node, allocatable in zip(self.nodes, of_each, strict=True):
            if allocatable is node.allocatable:
                nodes.append(node)
                continue
            is_changed = True
            if ALLOCATABLE_GPUS not in allocatable:
                without_gpus.add(node.name)
            nodes.append(msgspec.structs.replace(node, allocatable=allocatable))

        if not is_changed:
            return self
        pods = self.pods
        if pods is not None and without_gpus:
            pods = _on_shares(pods, without_gpus)
        return replace(self, nodes=tuple(nodes), pods=pods)


def with_devices(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the GPUs of ResourceSlices where no device plugin offers any."""
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
        allocatable = shared.get(key)
        if allocatable is None:
            allocatable = shared[key] = {**node.allocatable, **offered}
        nodes.append(msgspec.structs.replace(node, allocatable=allocatable))

    return replace(snapshot, nodes=tuple(nodes))


def _offers_others(node: NodeView, gpus: Requests) -> bool:
    """Whether a device plugin offers GPUs of the node by a name other than these."""
    for name, count in node.allocatable.items():
        if count and is_gpu(name) and name not in gpus:
            return True
    return False


_Fact = TypeVar("_Fact")


def _of_each(
    nodes: Iterable[NodeView], rule: Callable[[Label, Requests], _Fact]
) -> Iterator[_Fact]:
    """A rule's result for the labels and resources of each node, computed once for equal nodes.

    Nodes with equal label keys share one mapping of them, which they keep alive; so do nodes with
    equal resources. Therefore their ids distinguish them.
    """
    places_of_keys: dict[int, tuple[int, ...]] = {}
    facts: dict[tuple[object, ...], _Fact] = {}
    for node in nodes:
        keys_id = id(node.places)
        places = places_of_keys.get(keys_id)
        if places is None:
            places = places_of_keys[keys_id] = _places_of_shares(node)

        node_values = node.values
        values = tuple([node_values[place] for place in places])
        key = keys_id, id(node.allocatable), values
        fact = facts.get(key, _MISSING)
        if fact is _MISSING:
            fact = facts[key] = rule(node.label, node.allocatable)
        yield cast(_Fact, fact)


def _places_of_shares(node: NodeView) -> tuple[int, ...]:
    """The positions of the labels that say how GPUs are shared."""
    places = []
    for key in SHARE_LABELS:
        if key in node.places:
            places.append(node.places[key])
    return tuple(places)


_MISSING: Final[Any] = object()


def _on_shares(pods: Iterable[PodView], nodes: Collection[str]) -> tuple[PodView, ...]:
    """All of the pods, with shares instead of GPUs where they are on these nodes.

    Pods that do not change are the same objects.
    """
    requests_on_shares: dict[int, Requests] = {}
    all_pods: list[PodView] = []
    for pod in pods:
        if pod.node not in nodes or not pod.requests.get(ALLOCATABLE_GPUS):
            all_pods.append(pod)
            continue
        requests = requests_on_shares.get(id(pod.requests))
        if requests is None:
            requests = on_shares(pod.requests)
            requests_on_shares[id(pod.requests)] = requests
        all_pods.append(msgspec.structs.replace(pod, requests=requests))

    return tuple(all_pods)


class Collector(Protocol):
    """Gets whole objects from files that are read for a snapshot."""

    def wants(self, group: str, kind: str) -> bool:
        """Whether to get objects of this API group (empty: the core group) and kind."""

    def put(self, document: Mapping[str, Any]) -> None:
        """Take one of them; an object may come twice."""


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
