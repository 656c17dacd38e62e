"""Which pods kube-scheduler would evict for a workload of higher priority that does not fit now.

Source: Kubernetes 1.36 (plugin DefaultPreemption). It goes pod by pod. On each node as many pods of
lower priority stay as possible, the most important ones first; it chooses the node whose victims
matter least. It avoids victims that a PodDisruptionBudget protects, and evicts them if there are no
others; this module does not read budgets.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.pod_rules import NO_RULES
from toposcope.integrations.framework.verdict import Remedy, Verdict
from toposcope.integrations.readings import READERS_OF_PLAIN_PODS, READS
from toposcope.placement.cluster import Question
from toposcope.placement.creation import DEFAULT_SCHEDULERS
from toposcope.placement.room import RoomNode
from toposcope.snapshot.model import PodView


def preemption(question: Question, verdict: Verdict) -> Verdict:
    """The verdict with the pods that would be evicted, if that makes room for the workload."""
    if verdict.kind != "full" or not _is_placed_pod_by_pod(question):
        return verdict
    kinds: list[Pods] = []
    for group in question.workload.groups:
        kinds += group.all_pods()
    plan = _Plan()
    for pods in kinds:
        if not _evict_for(pods, question, plan):
            return verdict
    if not plan.victims:
        return verdict
    names = [f"{pod.namespace}/{pod.name}" for pod in plan.victims]
    nodes = dict.fromkeys(pod.node for pod in plan.victims)
    remedy = Remedy("preempt", tuple(nodes), pods=tuple(names))
    return replace(verdict, remedies=(*verdict.remedies, remedy))


def _is_placed_pod_by_pod(question: Question) -> bool:
    """Whether kube-scheduler places these pods, each by its requests alone."""
    workload = question.workload
    if workload.system not in READERS_OF_PLAIN_PODS or workload.system in READS:
        return False
    for group in workload.groups:
        for pods in group.all_pods():
            is_simple = pods.rules == NO_RULES and not pods.claims
            if pods.creation.scheduler not in DEFAULT_SCHEDULERS or not is_simple:
                return False
    return True


@dataclass(slots=True)
class _Space:
    """A node while pods are placed there and others evicted."""

    node: RoomNode
    free: dict[str, int]
    lower: list[PodView]
    """Pods that may be evicted for one of the workload's, the most important first."""

    def takes(self, need: Mapping[str, int]) -> bool:
        """Whether it has room for a pod."""
        return _is_enough(self.free, need)

    def victims_for(self, need: Mapping[str, int]) -> list[PodView] | None:
        """The pods to evict for one pod; None if evicting all of them is not enough."""
        free = dict(self.free)
        for pod in self.lower:
            _add(free, pod)
        if not _is_enough(free, need):
            return None
        victims = []
        for pod in self.lower:
            _add(free, pod, -1)
            if not _is_enough(free, need):
                _add(free, pod)
                victims.append(pod)
        return victims

    def put(self, need: Mapping[str, int], victims: Sequence[PodView]) -> None:
        """Place a pod instead of these."""
        for pod in victims:
            _add(self.free, pod)
            self.lower.remove(pod)
        for resource, amount in need.items():
            self.free[resource] = self.free.get(resource, 0) - amount


@dataclass(slots=True)
class _Plan:
    """The placements and evictions so far."""

    spaces: dict[str, _Space] = field(default_factory=dict)
    """The nodes examined so far, by name."""
    victims: list[PodView] = field(default_factory=list)

    def space(self, node: RoomNode, question: Question, priority: int) -> _Space:
        """The node as it is now, with the pods of lower priority than this."""
        space = self.spaces.get(node.name)
        if space is None:
            lower = _lower(question.on.pods_on.get(node.name, ()), priority)
            space = self.spaces[node.name] = _Space(node, dict(node.free), lower)
        return space


def _lower(pods: Iterable[PodView], priority: int) -> list[PodView]:
    lower = [pod for pod in pods if pod.priority < priority]
    return sorted(lower, key=lambda pod: -pod.priority)


def _evict_for(pods: Pods, question: Question, plan: _Plan) -> bool:
    """Place these pods, evicting others if needed; False if one of them finds no node."""
    priority = pods.creation.priority
    if priority.value is None or not priority.can_preempt:
        return False
    need = {**dict(pods.requests), PODS: 1}
    spaces = []
    for node in question.nodes:
        if _may_use(pods, node):
            spaces.append(plan.space(node, question, priority.value))

    unplaced = pods.count
    for space in spaces:
        while unplaced and space.takes(need):
            space.put(need, ())
            unplaced -= 1
    return _evict(spaces, need, unplaced, plan)


def _evict(spaces: Sequence[_Space], need: Mapping[str, int], unplaced: int, plan: _Plan) -> bool:
    """Place `unplaced` pods one by one by evicting others; False if not all find a node."""
    heap: list[_Candidate] = []
    for number, space in enumerate(spaces):
        heap += _candidate(number, space, need)
    heapq.heapify(heap)
    while unplaced and heap:
        best = heapq.heappop(heap)
        space = spaces[best.number]
        space.put(need, best.victims)
        plan.victims += best.victims
        unplaced -= 1
        for candidate in _candidate(best.number, space, need):
            heapq.heappush(heap, candidate)
    return unplaced == 0


@dataclass(frozen=True, slots=True, order=True)
class _Candidate:
    """A node that could take a pod; the smallest one is chosen."""

    highest_priority: int
    sum_of_priorities: int
    count: int
    number: int
    victims: tuple[PodView, ...] = field(compare=False)


def _candidate(number: int, space: _Space, need: Mapping[str, int]) -> Iterator[_Candidate]:
    victims = space.victims_for(need)
    if victims is None:
        return
    priorities = [pod.priority for pod in victims]
    yield _Candidate(
        highest_priority=max(priorities, default=-(1 << 31)),
        sum_of_priorities=sum(priorities),
        count=len(victims),
        number=number,
        victims=tuple(victims),
    )


def _may_use(pods: Pods, node: RoomNode) -> bool:
    if node.obstacle:
        return False
    return pods.node_filter.rejection(node.name, node.labels, node.taints) is None


def _is_enough(free: Mapping[str, int], need: Mapping[str, int]) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in need.items())


def _add(free: dict[str, int], pod: PodView, sign: int = 1) -> None:
    for resource, amount in pod.requests.items():
        free[resource] = free.get(resource, 0) + sign * amount
    free[PODS] = free.get(PODS, 0) + sign
