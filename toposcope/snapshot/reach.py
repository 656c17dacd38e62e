"""Which idle GPUs a pod of typical shape can get, and what keeps it from the others.

A GPU that no pod holds is of no use where nothing is left of the node's CPU or memory, where a
taint keeps pods away, or where the node takes no pods. The shape is that of the median pod with
GPUs, or that of a given workload.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.hierarchy.coverage import lacking_any
from toposcope.integrations.framework.amounts import amounts
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import ANY_NODE, NodeFilter, Toleration
from toposcope.integrations.framework.node_terms import node_filter_of
from toposcope.kube.pod_resources import Requests, gpu_count
from toposcope.snapshot.filters import repelling
from toposcope.snapshot.model import NOTHING, NodeView, PodView, Snapshot
from toposcope.snapshot.scope import Scope
from toposcope.text import enumerated, first_few, plural

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
MAX_PODS: Final = 110
"""The kubelet's default, where a node does not say."""
_PLENTY: Final = 1 << 62


class Blocker(StrEnum):
    """What keeps a pod from an idle GPU."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    """The node runs as many pods as it may."""
    TAINT = "taint"
    LEVEL = "level"
    """The node lacks the label of a level: schedulers that know topologies leave it out."""
    CORDONED = "cordoned"
    NOT_READY = "notReady"


TAKES_NO_PODS: Final = frozenset({Blocker.CORDONED, Blocker.NOT_READY})
"""GPUs blocked by these are not counted as free."""
_OF_RESOURCES: Final = {CPU: Blocker.CPU, MEMORY: Blocker.MEMORY, PODS: Blocker.PODS}


_SCARCE: Final = {
    Blocker.CPU: "too little CPU is left",
    Blocker.MEMORY: "too little memory is left",
    Blocker.PODS: "no more pods may run",
}
_FEW: Final = 3
"""Pods that a sentence names."""


class Basis(StrEnum):
    """Where a shape comes from."""

    MEDIAN = "median"
    """The median of the pods with GPUs, resource by resource."""
    LIKE = "like"
    """A workload that the user gave."""
    SHARE = "share"
    """No pod has GPUs: half of what a node has of CPU and memory for each of its GPUs."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """What a pod with GPUs requests."""

    gpus: int
    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""
    basis: Basis
    node_filter: NodeFilter = ANY_NODE
    """The taints that it tolerates, and the nodes that it selects."""

    def requests(self, gpus: int) -> tuple[tuple[str, int], ...]:
        """What a pod with this many GPUs requests, in proportion."""
        requests = [(ALLOCATABLE_GPUS, gpus)]
        for resource, amount in ((CPU, self.cpu), (MEMORY, self.memory)):
            share = -(-amount * gpus // self.gpus)
            if share:
                requests.append((resource, share))
        return tuple(requests)

    def tolerating(self, tolerations: Iterable[Toleration]) -> "PodShape":
        """The same pod with more tolerations."""
        own = self.node_filter.tolerations
        different = dict.fromkeys((*own, *tolerations))
        wider = replace(self.node_filter, tolerations=tuple(different))
        return replace(self, node_filter=wider)

    @property
    def words(self) -> str:
        """`4 GPUs, 100 CPU cores and 400 GiB of memory`."""
        return amounts(self.requests(self.gpus))


def typical_shape(snapshot: Snapshot, tolerations: Iterable[Toleration] = ()) -> PodShape:
    """The shape of the median pod with GPUs, running or waiting; without any, a node's share.

    It tolerates what most of these pods tolerate, and `tolerations`.
    """
    counted = snapshot.in_whole_gpus if snapshot.shares else snapshot
    kinds = _kinds(counted.pods or ())
    if not kinds:
        return _share(counted.nodes).tolerating(tolerations)

    gpus = Counter[int]()
    cpu = Counter[int]()
    memory = Counter[int]()
    for kind in kinds:
        gpus[kind.gpus] += kind.pods
        cpu_per_gpu = kind.requests.get(CPU, 0) // kind.gpus
        cpu[cpu_per_gpu] += kind.pods
        memory_per_gpu = kind.requests.get(MEMORY, 0) // kind.gpus
        memory[memory_per_gpu] += kind.pods

    each = _median(gpus)
    median = PodShape(
        gpus=each,
        cpu=_median(cpu) * each,
        memory=_median(memory) * each,
        basis=Basis.MEDIAN,
    )
    return median.tolerating([*_usual_tolerations(kinds), *tolerations])


@dataclass(slots=True)
class _Kind:
    """Pods with equal requests and wishes."""

    requests: Requests
    wants: Mapping[str, Any]
    gpus: int
    pods: int = 0


def _kinds(pods: Iterable[PodView]) -> list[_Kind]:
    """The kinds of pods with GPUs; equal pods share their requests and wishes."""
    kinds: dict[tuple[int, int], _Kind] = {}
    for pod in pods:
        key = id(pod.requests), id(pod.wants)
        kind = kinds.get(key)
        if kind is None:
            gpus = gpu_count(pod.requests)
            kind = kinds[key] = _Kind(pod.requests, pod.wants, gpus)
        kind.pods += 1
    return [kind for kind in kinds.values() if kind.gpus]


def _usual_tolerations(kinds: Iterable[_Kind]) -> list[Toleration]:
    """The tolerations that most of the pods carry."""
    counts: dict[int, int] = {}
    wants_by_id: dict[int, Mapping[str, Any]] = {}
    for kind in kinds:
        wants_id = id(kind.wants)
        wants_by_id[wants_id] = kind.wants
        counts[wants_id] = counts.get(wants_id, 0) + kind.pods

    pods = Counter[Toleration]()
    for wants_id, wants in wants_by_id.items():
        wanted = node_filter_of(Field(wants))
        for toleration in dict.fromkeys(wanted.tolerations):
            pods[toleration] += counts[wants_id]

    total = sum(counts.values())
    usual = []
    for toleration, count in pods.items():
        if 2 * count > total:
            usual.append(toleration)
    return usual


def _median(counts: Mapping[int, int]) -> int:
    """The lower median of values, each with its number of occurrences."""
    middle = (sum(counts.values()) + 1) // 2
    counted = 0
    for value in sorted(counts):
        counted += counts[value]
        if counted >= middle:
            return value
    return 0


def _share(nodes: Iterable[NodeView]) -> PodShape:
    """Half of the least that a node has for each of its GPUs: what else runs needs some, too."""
    cpu = set()
    memory = set()
    for node in nodes:
        gpus = node.allocatable.get(ALLOCATABLE_GPUS, 0)
        if gpus > 0:
            cpu.add(node.allocatable.get(CPU, 0) // gpus)
            memory.add(node.allocatable.get(MEMORY, 0) // gpus)
    return PodShape(
        gpus=1,
        cpu=min(cpu, default=0) // 2,
        memory=min(memory, default=0) // 2,
        basis=Basis.SHARE,
    )


@dataclass(frozen=True, slots=True)
class Blocked:
    """Idle GPUs of a node that the pod cannot get."""

    gpus: int
    why: Blocker
    detail: str = ""
    """The taint."""

    @property
    def words(self) -> str:
        """Why, in a few words: `too little CPU is left`."""
        match self.why:
            case Blocker.TAINT:
                return f"the node has the taint {self.detail}"
            case Blocker.LEVEL:
                return "the node lacks a level"
            case Blocker.CORDONED:
                return "the node is cordoned"
            case Blocker.NOT_READY:
                return "the node is not Ready"
        return _SCARCE[self.why]


@dataclass(slots=True)
class BlockedGpus:
    """All idle GPUs of a scope that the pod cannot get for one reason."""

    why: Blocker
    detail: str
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)
    holders: tuple[str, ...] = ()
    """The pods that hold most of what is scarce there, as `NAMESPACE/NAME`; none for taints."""

    def sentence(self, *, is_wide: bool = False) -> str:
        """`12 GPUs on 3 nodes (a, b, c), where too little CPU is left: u/one holds it`.

        `is_wide`: with the name of every node and pod.
        """
        where = self._where(is_wide=is_wide)
        count = len(self.nodes)
        if self.why in _SCARCE:
            scarce = _SCARCE[self.why]
            held = self._held(is_wide=is_wide)
            return f"{where}, where {scarce}: {held}"
        match self.why:
            case Blocker.TAINT:
                have = plural(count, "has", "have")
                return f"{where} that {have} the taint {self.detail}"
            case Blocker.LEVEL:
                lack = plural(count, "lacks", "lack")
                return f"{where} that {lack} a level: toposcope nodes --state left-out"
            case Blocker.CORDONED:
                return f"{where}, cordoned: not in FREE"
        return f"{where}, not Ready: not in FREE"

    def _where(self, *, is_wide: bool) -> str:
        """`12 GPUs on 3 nodes (a, b, c)`."""
        names = first_few(self.nodes)
        if is_wide:
            names = ", ".join(self.nodes)
        count = len(self.nodes)
        gpus = plural(self.gpus, "GPU")
        nodes = plural(count, "node")
        return f"{self.gpus:,} {gpus} on {count:,} {nodes} ({names})"

    def _held(self, *, is_wide: bool) -> str:
        """Which pods without GPUs hold what is scarce; those with GPUs do where none does."""
        holders = self.holders
        if not holders:
            return "pods with GPUs hold it"

        count = len(holders)
        if is_wide or count <= _FEW:
            names = enumerated(holders)
            hold = plural(count, "holds", "hold")
            return f"{names} {hold} it"

        few = ", ".join(holders[:_FEW])
        more = count - _FEW
        return f"{few} and {more:,} more pods hold it"


class Reach:
    """For each node of a scope the idle GPUs that a pod of this shape cannot get."""

    def __init__(self, snapshot: Snapshot, scope: Scope | None, shape: PodShape) -> None:
        """The snapshot's pods are known. Without a scope, all nodes count, whatever they lack."""
        self.shape = shape
        self._snapshot = snapshot
        self._nodes = scope.nodes if scope else snapshot.nodes
        self._blocked_by_look: dict[tuple[object, ...], Blocked | None] = {}
        """What pods cannot get of nodes on which equally much is free."""
        self.lacking = _lacking(scope) if scope else frozenset[str]()
        """Names of the nodes that lack a level."""

    def blocks(self, nodes: Iterable[NodeView] | None = None) -> list[BlockedGpus]:
        """What blocks idle GPUs of these nodes, the most GPUs first; default: of the scope's."""
        blocks: dict[tuple[Blocker, str], BlockedGpus] = {}
        for node in self._nodes if nodes is None else nodes:
            blocked = self.blocked(node)
            if blocked is None:
                continue
            key = blocked.why, blocked.detail
            block = blocks.setdefault(key, BlockedGpus(blocked.why, blocked.detail))
            block.gpus += blocked.gpus
            block.nodes.append(node.name)

        for block in blocks.values():
            block.holders = _holders(self._snapshot, block)
        return sorted(blocks.values(), key=lambda block: (-block.gpus, block.why))

    def blocked(self, node: NodeView) -> Blocked | None:
        """What of the node's idle GPUs the pod cannot get; None: it can get all of them."""
        return self.blocked_of(node, self._snapshot.idle_gpus(node))

    def blocked_of(self, node: NodeView, idle: int) -> Blocked | None:
        """The same where it is known how many of its GPUs are idle."""
        if not idle:
            return None
        if not node.is_ready:
            return Blocked(idle, Blocker.NOT_READY)
        if not node.is_schedulable:
            return Blocked(idle, Blocker.CORDONED)
        if node.name in self.lacking:
            return Blocked(idle, Blocker.LEVEL)
        if node.taints:
            for taint in repelling(node):
                if not self.shape.node_filter.tolerates(taint):
                    return Blocked(idle, Blocker.TAINT, str(taint))
        return self._by_resources(node, idle)

    def _by_resources(self, node: NodeView, idle: int) -> Blocked | None:
        """What pods of the shape cannot get for want of CPU, memory or pods.

        They have fewer GPUs where fewer are idle, and what is left over goes to a smaller pod. A
        node that does not say what it offers has plenty.
        """
        # The page asks for every node: no mapping is made where the answer is known.
        requested = self._snapshot.requested.get(node.name, NOTHING)
        offered = node.allocatable
        cpu = offered.get(CPU, _PLENTY) - requested.get(CPU, 0)
        memory = offered.get(MEMORY, _PLENTY) - requested.get(MEMORY, 0)
        pods = offered.get(PODS, MAX_PODS) - requested.get(PODS, 0)
        look = idle, cpu, memory, pods
        if look not in self._blocked_by_look:
            free = {CPU: cpu, MEMORY: memory, PODS: pods}
            self._blocked_by_look[look] = self._blocked_of(idle, free)
        return self._blocked_by_look[look]

    def _blocked_of(self, idle: int, free: Mapping[str, int]) -> Blocked | None:
        each = min(self.shape.gpus, idle)
        wanted, remainder = divmod(idle, each)
        fitting, scarcest = _times(free, self.shape.requests(each), wanted)
        reachable = fitting * each
        if fitting == wanted and remainder:
            remaining = dict(free)
            for resource, amount in _with_pod(self.shape.requests(each)):
                if resource in remaining:
                    remaining[resource] -= amount * fitting
            fits, scarcest = _times(remaining, self.shape.requests(remainder), 1)
            reachable += fits * remainder
        if reachable == idle or scarcest is None:
            return None
        return Blocked(idle - reachable, scarcest)


def _times(
    free: Mapping[str, int], requests: Iterable[tuple[str, int]], wanted: int
) -> tuple[int, Blocker | None]:
    """How many pods of `wanted` ones fit, and what keeps out the others."""
    fitting = wanted
    scarcest = None
    for resource, amount in _with_pod(requests):
        if resource not in free:
            continue
        fits = max(0, free[resource] // amount)
        if fits < fitting:
            fitting = fits
            scarcest = _OF_RESOURCES[resource]
    return fitting, scarcest


def _with_pod(requests: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    """What a pod takes of a node: its requests, and one of the pods that may run there."""
    return (*requests, (PODS, 1))


def _lacking(scope: Scope) -> frozenset[str]:
    """The names of the nodes that lack a level."""
    table = scope.table()
    lacking = lacking_any(scope.levels, table)
    if not lacking:
        return frozenset()
    names = table.names(lacking)
    return frozenset(names)


def _holders(snapshot: Snapshot, block: BlockedGpus) -> tuple[str, ...]:
    """The pods that hold what is scarce on the nodes of a block, those that hold most first."""
    if block.why not in _OF_RESOURCES.values():
        return ()
    nodes = set(block.nodes)
    held = []
    for pod in snapshot.pods or ():
        if pod.node not in nodes or gpu_count(pod.requests):
            continue
        amount = 1 if block.why is Blocker.PODS else pod.requests.get(block.why.value, 0)
        if amount:
            held.append((-amount, f"{pod.namespace}/{pod.name}"))
    held.sort()
    return tuple(name for _, name in held)
