"""How KAI's own procedure changes a verdict.

It does not try every placement, does not treat a Job as a gang, and its queues have limits and
quotas.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.amounts import amount, unit_of
from toposcope.integrations.framework.constraints import (
    GpuShare,
    Group,
    OfferedNode,
    PodGroupMember,
    PodGroupName,
    Pods,
    Workload,
    pods_in,
)
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.packing import Path
from toposcope.integrations.framework.placement import (
    ClusterView,
    KnownLevels,
    OfferedShares,
    Placement,
    PlacementQuestion,
    ViewedPod,
    ViewedResource,
    kind_of_pod,
)
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.topologies import aliases_of
from toposcope.integrations.framework.verdict import Kind, Placed, Verdict
from toposcope.integrations.kai.allocation import (
    VERSION,
    AllocationTooLargeError,
    Allocator,
    NodeLeaf,
    Unplaced,
)
from toposcope.integrations.kai.api import GROUP_OF, QUEUES, SUB_GROUP_OF
from toposcope.integrations.kai.gpu_shares import (
    gpus_of_share,
    in_whole_gpus,
    offered_shares,
)
from toposcope.integrations.kai.pod_shares import with_share
from toposcope.integrations.kai.queues import NamedQueue, excess, missing, not_a_leaf
from toposcope.text import plural, shell

_TOO_LARGE: Final = f"{VERSION}'s allocation with the rules between pods takes too long to compute"
_OTHER_ORDER: Final = (
    f"{VERSION} places pods one by one: in one order the rules between them leave no node for the "
    "last pods, and it is unknown whether it uses another order"
)
_NO_SPREAD: Final = Finding(
    rule="kai/spread",
    severity="warning",
    field="",
    message=f"{VERSION} ignores topologySpreadConstraints",
    fix="use podAntiAffinity to keep pods apart",
)


def _is_spread(groups: Iterable[Group]) -> bool:
    return any(pods.rules.spread for pods in pods_in(groups))


class _Placement(Placement):
    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """Add the existing pods of each PodGroup to the facts."""
        counts: dict[PodGroupName, Counter[PodGroupMember]] = {}
        for pod in pods:
            name = pod.annotations.get(GROUP_OF)
            if name:
                subgroup = pod.labels.get(SUB_GROUP_OF, "")
                kind = with_share(kind_of_pod(pod), pod.annotations)
                member = PodGroupMember(subgroup, kind)
                members = counts.setdefault((pod.namespace, name), Counter())
                members[member] += 1

        pod_groups = dict(cluster.pod_groups)
        for group, members in counts.items():
            counted = [_times(member, count) for member, count in members.items()]
            pod_groups[group] = tuple(counted)
        return replace(cluster, pod_groups=pod_groups)

    def topologies(
        self, resources: Sequence[ViewedResource], known: KnownLevels
    ) -> dict[str, TopologyLevels]:
        """KAI's Topologies, with the aliases of their levels."""
        topologies = {}
        for resource in reversed(resources):
            aliases = aliases_of(resource.document)
            topologies[resource.name] = replace(known.named(resource), aliases=aliases)
        return topologies

    def shares(
        self, node: OfferedNode, share: GpuShare, pods: Sequence[ViewedPod]
    ) -> OfferedShares:
        return offered_shares(node, share, pods)

    def asks_nodes(self, workload: Workload) -> bool:
        """KAI 0.17 uses the state of nodes (scheduler_util.CheckNodeConditionPredicate)."""
        return workload.gang is not None

    def ignores_spread(self, workload: Workload) -> bool:
        """KAI 0.17 has no such predicate (k8s_internal/predicates)."""
        return workload.gang is not None

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """The finding that its queue does not exist or accepts no pods."""
        del view
        if workload.queue_group in ("", QUEUES.group):
            queue = NamedQueue(workload.queue, workload.queue_field)
            finding = missing(cluster, queue) or not_a_leaf(cluster, queue)
            if finding:
                yield finding
        if workload.gang is not None and _is_spread(workload.groups):
            yield _NO_SPREAD

    def decide(self, verdict: Verdict, question: PlacementQuestion) -> Verdict:
        """The verdict by KAI's own allocation, then by its queues."""
        if question.workload.gang is None:
            return verdict
        verdict = allocated(verdict, question)
        if verdict.fits and _shares_in_several_ways(question.workload):
            verdict = _surely(verdict, question)
        return in_queue(verdict, question)


def _times(member: PodGroupMember, count: int) -> PodGroupMember:
    pods = replace(member.pods, count=count)
    return replace(member, pods=pods)


def allocated(verdict: Verdict, question: PlacementQuestion) -> Verdict:
    """The verdict of KAI's own allocation.

    The verdict stays unchanged if the allocation is too large to compute.
    """
    workload = question.workload
    place = _as_gang if workload.gang else _one_by_one
    groups = workload.pod_groups or workload.groups
    topology = _Topology(question, groups)
    try:
        followed = place(verdict, groups, topology)
    except AllocationTooLargeError:
        followed = verdict
        if topology.has_rules and verdict.fits:
            return verdict.limited("unclear", _TOO_LARGE)
    if topology.has_rules and verdict.fits and followed.refuses:
        # Which of several equal nodes it takes first is not known.
        return verdict.limited("unclear", _OTHER_ORDER)
    return followed


def _shares_in_several_ways(workload: Workload) -> bool:
    """Whether its pods compete for GPUs by unequal fractions of them."""
    shares = set()
    has_gpus = False
    for pods in pods_in(workload.groups):
        if pods.share:
            shares.add(pods.share)
        if dict(pods.requests).get(ALLOCATABLE_GPUS):
            has_gpus = True
    return len(shares) > 1 or bool(shares and has_gpus)


def _surely(verdict: Verdict, question: PlacementQuestion) -> Verdict:
    """The verdict if pods that share GPUs fit without sharing any; otherwise it is unknown."""
    workload = question.workload
    groups = in_whole_gpus(workload.pod_groups or workload.groups)
    topology = _Topology(question, groups)
    try:
        if topology.allocator().place(groups) is None:
            return verdict
    except AllocationTooLargeError:
        pass
    limitation = (
        "it is unknown which GPUs its pods share: they request different fractions of GPUs, and "
        "there is no room for each on its own GPU"
    )
    return Verdict("unclear", limitation=limitation)


class _Topology:
    """The nodes of the cluster as KAI sees them."""

    def __init__(self, question: PlacementQuestion, groups: Sequence[Group]) -> None:
        self.levels = question.levels
        self.nodes = question.nodes
        self._question = question
        self._groups = groups
        self.has_rules = False
        """Whether its pods, or running pods, have rules about each other: see `allocator`."""

    def allocator(self, *, emptied: bool = False) -> Allocator:
        """An allocator for the nodes as they are, or for an empty cluster."""
        leaves = [leaf_of(node, self.levels, emptied=emptied) for node in self.nodes]
        beside = self._question.beside(self._groups, emptied=emptied)
        self.has_rules = beside is not None
        return Allocator(self.levels, leaves, beside=beside)


def leaf_of(node: OfferedNode, levels: Sequence[Level], *, emptied: bool) -> NodeLeaf:
    """A node as KAI sees it; `emptied`: as if no pod ran on it, Ready and not cordoned."""
    free = node.free
    is_closed = bool(node.obstacle)
    if emptied:
        free = node.total
        is_closed = False
    return NodeLeaf(
        path=_path_of(node, levels),
        free=free,
        is_cpu_only=not node.total.get(ALLOCATABLE_GPUS),
        usable=_usable(node, closed=is_closed, emptied=emptied),
    )


def _path_of(node: OfferedNode, levels: Sequence[Level]) -> Path | None:
    values = []
    for level in levels:
        if level.key not in node.labels:
            return None
        values.append(node.labels[level.key])
    return tuple(values)


def _usable(node: OfferedNode, *, closed: bool, emptied: bool) -> Callable[[Pods], bool]:
    """Whether pods may use the node."""

    def usable(pods: Pods) -> bool:
        if closed:
            return False
        node_filter = pods.node_filter
        if emptied:
            node_filter = node_filter.if_emptied
        rejection = node_filter.rejection(node.name, node.labels, node.taints)
        return not rejection

    return usable


def _as_gang(verdict: Verdict, groups: Sequence[Group], topology: _Topology) -> Verdict:
    """The verdict if all pods of a copy start, or none."""
    allocator = topology.allocator()
    failure = allocator.place(groups)
    if failure is None:
        return _fits(verdict, allocator, topology)

    kind: Kind = "full"
    emptied = topology.allocator(emptied=True)
    if emptied.place(groups) is not None:
        kind = "never"
    if verdict.kind == kind:
        return verdict  # there is no room for it, whoever places it
    limitation = _limitation(failure, topology.levels)
    return verdict.limited(kind, limitation)


def _one_by_one(verdict: Verdict, groups: Sequence[Group], topology: _Topology) -> Verdict:
    """The verdict if pods start one after the other, and the first decides the domain."""
    (group,) = groups
    allocator = topology.allocator()
    domain, bound = allocator.place_one_by_one(group)
    wanted = sum(pods.count for pods in group.pods)
    if bound == wanted:
        return _fits(verdict, allocator, topology)
    if not bound:
        return verdict if verdict.refuses else _as_gang(verdict, groups, topology)
    if verdict.refuses and domain is None:
        return verdict

    limitation = _partly_bound(group, domain, bound, wanted)
    as_gang = topology.allocator()
    if as_gang.place(groups) is None:
        limitation += "; as a gang all of them fit now"
    kind: Kind = "full"
    if verdict.kind == "never":
        kind = "never"
    return verdict.limited(kind, limitation)


def _fits(verdict: Verdict, allocator: Allocator, topology: _Topology) -> Verdict:
    """The verdict that it fits, by the search or by KAI's allocation."""
    if verdict.fits and not topology.has_rules:
        return verdict
    return Verdict(
        kind="fits",
        placed=_placed(allocator, topology.nodes),
        steps=verdict.steps,
        excluded=verdict.excluded,
    )


def _placed(allocator: Allocator, nodes: Sequence[OfferedNode]) -> tuple[Placed, ...]:
    groups: dict[int, Group] = {}
    counts: dict[int, Counter[str]] = {}
    for assignment in allocator.assignments:
        identity = id(assignment.group)
        groups[identity] = assignment.group
        by_node = counts.setdefault(identity, Counter())
        node = nodes[assignment.leaf]
        by_node[node.name] += assignment.count

    placed = []
    for identity, group in groups.items():
        by_node = counts[identity]
        placed.append(Placed(group, (), tuple(by_node.items())))
    return tuple(placed)


def _partly_bound(group: Group, domain: Path | None, bound: int, wanted: int) -> str:
    where = "now"
    if group.required and domain:
        level = group.required.domain
        where = f"in {level} {domain[-1]}, where the first pod goes"
    unbound = wanted - bound
    waits = plural(unbound, "waits", "wait")
    return (
        f"{VERSION} starts the pods of {group.name} one by one: it binds {bound} of {wanted} "
        f"{where}, and the other {unbound} {waits}"
    )


def _limitation(failure: Unplaced, levels: Sequence[Level]) -> str:
    """Why KAI cannot place a gang."""
    name = failure.group.name
    required = failure.group.required
    if failure.why == "narrower" and required:
        depth = len(failure.domain)
        narrow = levels[depth - 1].domain
        return (
            f"{VERSION} finds no {required.domain} for {name}: all nodes that it considers are in "
            f"one {narrow} ({failure.domain[-1]}), and without a preferred level it looks no "
            f"higher; also prefer {required.key}"
        )
    if failure.why == "largest":
        where = "the whole topology"
        if required:
            where = f"the best {required.domain}"
        return (
            f"{VERSION} counts every pod of {name} as its largest, so {where} has room for "
            f"{failure.fits} of {failure.wanted} pods; request the same for every pod"
        )
    return (
        f"{VERSION} places sub-groups by name and pods by age, and moves none to make room: "
        f"{name} has room for {failure.fits} of {failure.wanted} pods"
    )


def in_queue(verdict: Verdict, question: PlacementQuestion) -> Verdict:
    """The verdict if a limit or quota of its queue, or of one above, makes it wait."""
    workload = question.workload
    wanted = _wanted(workload.pod_groups or workload.groups, question.nodes)
    over = excess(
        question.cluster,
        workload.queue,
        wanted,
        question.own,
        preemptible=workload.is_preemptible,
    )
    if over is None or verdict.kind == "never":
        return verdict
    most = _shown(over.resource, over.most)
    used = _shown(over.resource, over.used)
    requested = _shown(over.resource, over.wanted)
    limitation = (
        f"KAI's queue {over.queue} has a {over.what} of {most}, "
        f"{used} of it allocated, and this requests {requested}"
    )
    if over.what == "quota":
        limitation += "; preemptible workloads may go beyond it"
    kind: Kind = "full"
    if over.wanted > over.most:
        kind = "never"
    look = shell("kubectl describe {} {}", QUEUES.name, over.queue)
    return verdict.limited(kind, limitation, look)


def _shown(resource: str, number: float) -> str:
    """An amount of a queue with its unit, which may be a fraction of a GPU."""
    if number == int(number):
        return amount(resource, int(number))
    return f"{number:g} {unit_of(resource, 2)}"


def _wanted(groups: Iterable[Group], nodes: Sequence[OfferedNode]) -> Mapping[str, float]:
    """What all copies request, by resource; a queue counts fractions of GPUs as GPUs."""
    wanted: dict[str, float] = {}
    for group in groups:
        for resource, requested in group.total().items():
            wanted[resource] = wanted.get(resource, 0) + requested * group.copies
        for pods in group.all_pods():
            if pods.share:
                gpus = gpus_of_share(pods.share, nodes) * pods.count
                wanted[ALLOCATABLE_GPUS] = wanted.get(ALLOCATABLE_GPUS, 0) + gpus
    return wanted


PLACEMENT: Final = _Placement()
