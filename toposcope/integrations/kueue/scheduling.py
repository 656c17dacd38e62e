"""How Kueue admits a workload.

It chooses a flavor for each resource by quota, then nodes of its topology, else the next flavor.
Source: Kueue 0.19 (pkg/scheduler/flavorassigner, podset_reducer.go, cluster_queue.go) with its
default feature gates, without victims to preempt. A workload without room in one flavor is tried in
the next one with quota.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import permutations
from typing import Final, TypeVar

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.constraints import Decision, OfferedNode
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.packing import PODS, Path
from toposcope.integrations.framework.system import Held
from toposcope.integrations.kueue.admitted import (
    AdmittedCopy,
    OnTopology,
    WithoutTopology,
    nodes_of,
    with_places,
)
from toposcope.integrations.kueue.api import VERSION
from toposcope.integrations.kueue.assignment import (
    Assigner,
    Leaf,
    OrderedPods,
    Unassigned,
)
from toposcope.integrations.kueue.quantities import quota_in_words, request_in_words
from toposcope.integrations.kueue.queues import Flavor, Queue, ResourceGroup
from toposcope.integrations.kueue.quota import FlavorResource
from toposcope.integrations.kueue.resource_rules import DEFAULT_RULES, ResourceRules
from toposcope.text import plural

_Key = TypeVar("_Key")

_MOST_EVALUATIONS: Final = 200_000
"""How many nodes may be tried for a pod set.

Further copies are left to the search for room, which handles identical pods.
"""

_MOST_ORDERED: Final = 4
"""The most pod sets that are tried in every order."""
_ORDER_UNKNOWN: Final = (
    f"{VERSION} places the pod sets of a pod group in the order of an unknown hash, and whether "
    "all of them fit depends on that order"
)
_CONFIGURATION: Final = (
    "Kueue's Configuration was not read (resources.transformations, excludeResourcePrefixes, "
    "quotaCheckStrategy): kubectl get configmap kueue-manager-config -n kueue-system -o yaml"
)


class _Mode(IntEnum):
    """How a request fits the quota of a flavor, best first."""

    FIT = 0
    BORROWS = 1
    BUSY = 2
    NEVER = 3


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a workload is not admitted."""

    text: str
    has_no_flavor: bool = False
    is_certain: bool = True
    """False if something unread may allow it."""


_Tried = list[dict[str, int]]
"""The index of the flavor that was assigned last, by pod set and resource; -1 after the last one.
"""


@dataclass(frozen=True, slots=True, eq=False)
class KueueAdmission:
    """How one workload is admitted in one queue."""

    pod_sets: tuple[OrderedPods, ...]
    queue: Queue
    topologies: Mapping[str, Sequence[str]]
    """The levels of each Topology, as label keys."""
    held: Held
    """What admitted workloads hold; a node's `free` is already without what they hold there."""
    own: frozenset[tuple[str, str]] = frozenset()
    """The admitted Workloads of this document: what they hold is free for it."""
    copies: int = 1
    """How many identical workloads are admitted one after the other."""
    rules: ResourceRules = DEFAULT_RULES
    """The requests that count against quota."""
    is_order_known: bool = True
    """Whether Kueue uses this order of pod sets."""

    def decide(self, nodes: Sequence[OfferedNode], *, emptied: bool = False) -> Decision:
        """Kueue's decision on all copies, for every possible order of the pod sets."""
        if self.is_order_known:
            return self._decide_in_order(nodes, emptied=emptied)
        if len(self.pod_sets) > _MOST_ORDERED:
            return Decision(doubt=_ORDER_UNKNOWN, notes=self.queue.notes)
        decisions = []
        for pod_sets in permutations(self.pod_sets):
            ordered = replace(self, pod_sets=pod_sets, is_order_known=True)
            decisions.append(ordered.decide(nodes, emptied=emptied))
        refused = [decision for decision in decisions if decision.refusal]
        if refused and len(refused) < len(decisions):
            return Decision(doubt=_ORDER_UNKNOWN, notes=self.queue.notes)
        return decisions[0]

    def _decide_in_order(self, nodes: Sequence[OfferedNode], *, emptied: bool) -> Decision:
        trial = _Trial(self, nodes, emptied=emptied)
        notes = self.queue.notes
        copies = self._copies_to_try(len(nodes))
        admitted: list[AdmittedCopy] = []

        for copy in range(copies):
            result = trial.admit()
            if isinstance(result, _Refusal):
                return self._refused(result, copy)
            admitted.append(result)

        refusal = trial.lacks_quota(self.copies - copies)
        if refusal:
            return Decision(refusal, has_no_flavor=True, notes=notes)
        if self.queue.blocked_by and not emptied:
            return Decision(self.queue.blocked_by, has_no_flavor=True, notes=notes)
        decision = Decision(
            notes=(*notes, *dict.fromkeys(trial.notes)),
            has_fewer_pods=bool(trial.notes),
            is_incomplete=copies < self.copies,
        )
        if emptied:
            return decision
        return with_places(decision, admitted, nodes)

    def _refused(self, refusal: _Refusal, copy: int) -> Decision:
        """The decision if a copy is not admitted, after `copy` that were."""
        text = refusal.text
        if copy:
            text = f"after {copy} of {self.copies} copies: {text}"
        if not refusal.is_certain:
            return Decision(doubt=f"{text}, and {_CONFIGURATION}", notes=self.queue.notes)
        return Decision(text, has_no_flavor=refusal.has_no_flavor, notes=self.queue.notes)

    def _copies_to_try(self, nodes: int) -> int:
        """At least one, and no more than there is time for."""
        evaluations = nodes * len(self.pod_sets)
        affordable = _MOST_EVALUATIONS // max(1, evaluations)
        return min(self.copies, max(1, affordable))


@dataclass(slots=True)
class _Cycle:
    """One scheduling cycle: the flavors that the pod sets get."""

    counts: Sequence[int]
    """How many pods of each pod set."""
    tried: _Tried
    """Where the last cycle stopped."""
    next_tried: _Tried
    """Where this one stopped."""
    flavors: list[dict[str, Flavor]]
    """By pod set and resource."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    busy: _Refusal | None = None
    """What is missing now and may be available later."""
    result: "AdmittedCopy | _Refusal" = _Refusal("")

    def use(self, member: int, flavor: Flavor, resource: str, amount: int) -> None:
        """Charge an amount of a resource to a flavor for a pod set."""
        self.flavors[member][resource] = flavor
        _add(self.usage, {(flavor.name, resource): amount})


@dataclass(frozen=True, slots=True)
class _FlavorQuota:
    """Whether a flavor has quota for a request."""

    flavor: Flavor
    mode: _Mode = _Mode.FIT
    lacks: str = ""
    """What is missing, if the quota is in use or too small."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A flavor for all resources of a group."""

    flavor: Flavor
    number: int
    """The index of the last flavor that was tried; -1 after the last one."""
    busy: _Refusal | None = None


@dataclass(frozen=True, slots=True)
class _GroupRequest:
    """What pod sets request of one resource group."""

    members: Sequence[int]
    group: ResourceGroup
    amounts: Mapping[str, int]
    """By resource."""
    first: int
    """The index of the first flavor to try."""


class _Trial:
    """The state while copies of a workload are admitted."""

    def __init__(
        self, admission: KueueAdmission, nodes: Sequence[OfferedNode], *, emptied: bool
    ) -> None:
        self._admission = admission
        self._queue = admission.queue
        self._emptied = emptied
        self._nodes = nodes
        if not emptied:
            self._nodes = [node for node in nodes if not node.obstacle]
        self._free: dict[str, dict[str, int]] = {}
        """What is left on each node."""
        self._assigners: dict[str, Assigner] = {}
        """By flavor."""
        self._used: dict[FlavorResource, int] = {}
        self._last: dict[FlavorResource, int] = {}
        """What the last copy used."""
        self.notes: list[str] = []
        """Notes on copies that are admitted with fewer pods."""

    def admit(self) -> AdmittedCopy | _Refusal:
        """Admit one copy, trying flavors as long as one is left."""
        pod_sets = self._admission.pod_sets
        counts = [pod_set.pods.count for pod_set in pod_sets]
        flavors = sum(len(group.flavors) for group in self._queue.groups)
        tried: _Tried = [{} for _ in pod_sets]
        refusals: list[_Refusal] = []
        for _ in range(flavors + 1):
            cycle = self._attempt(counts, tried)
            result = cycle.result
            if isinstance(result, _Refusal):
                reduced = self._reduced(counts, tried)
                if reduced is not None:
                    result = reduced
            if not isinstance(result, _Refusal):
                return result
            refusals.append(result)
            tried = cycle.next_tried
            if _is_exhausted(tried):
                break
        return _most_telling(refusals)

    def _reduced(self, counts: Sequence[int], tried: _Tried) -> AdmittedCopy | _Refusal | None:
        """Admit it with as many pods as fit, if it allows fewer; None if that does not help."""
        fewer = self._most_that_fit(counts, tried)
        if fewer is None:
            return None
        for pod_set, count in zip(self._admission.pod_sets, fewer, strict=True):
            if pod_set.slices and count < pod_set.slices[0].size:
                return _less_than_a_slice(pod_set, count)

        result = self._attempt(fewer, tried).result
        if isinstance(result, _Refusal):
            return None
        pods = f"{sum(fewer)} of {sum(counts)} pods"
        self.notes.append(f"admitted with {pods}: the workload allows fewer (job-min-parallelism)")
        return result

    def _most_that_fit(self, counts: Sequence[int], tried: _Tried) -> list[int] | None:
        """The pods of each pod set, found by bisection as in Kueue; None if none fit."""
        spare = self._spare(counts)
        total = sum(spare)
        if not total:
            return None

        low, high = 0, total + 1
        most: list[int] | None = None
        while low < high:
            middle = (low + high) // 2
            fewer = []
            for count, part in zip(counts, spare, strict=True):
                fewer.append(count - part * middle // total)
            if self._would_fit(fewer, tried):
                high, most = middle, fewer
            else:
                low = middle + 1
        return most

    def _spare(self, counts: Sequence[int]) -> list[int]:
        """How many pods of each pod set may be missing."""
        spare = []
        for pod_set, count in zip(self._admission.pod_sets, counts, strict=True):
            least = pod_set.least
            if least is None:
                least = count
            spare.append(count - least)
        return spare

    def _would_fit(self, counts: Sequence[int], tried: _Tried) -> bool:
        """Whether these pods would be admitted. Nothing stays assigned."""
        used = dict(self._used)
        result = self._attempt(counts, tried).result
        if isinstance(result, _Refusal):
            return False
        self._used = used
        for part in result.on_topologies:
            part.give_back()
        return True

    def _attempt(self, counts: Sequence[int], tried: _Tried) -> _Cycle:
        """One scheduling cycle."""
        cycle = _Cycle(
            counts=counts,
            tried=tried,
            next_tried=[{} for _ in counts],
            flavors=[{} for _ in counts],
        )
        cycle.result = self._run(cycle)
        return cycle

    def _run(self, cycle: _Cycle) -> AdmittedCopy | _Refusal:
        for members in self._groups():
            refusal = self._choose_flavors(cycle, members)
            if refusal:
                return refusal
        if cycle.busy:
            return cycle.busy
        result = self._on_topologies(cycle)
        if isinstance(result, _Refusal):
            return result
        self._last = cycle.usage
        _add(self._used, cycle.usage)
        return AdmittedCopy(result, list(self._without_topology(cycle)))

    def _without_topology(self, cycle: _Cycle) -> Iterator[WithoutTopology]:
        """The pod sets that get no nodes, with the flavor of what they request."""
        pod_sets = self._admission.pod_sets
        for pod_set, count, flavors in zip(pod_sets, cycle.counts, cycle.flavors, strict=True):
            if not count or self._gets_nodes(pod_set):
                continue
            for flavor in flavors.values():
                yield WithoutTopology(flavor, _in_flavor(pod_set, count, flavor).pods)
                break

    def _gets_nodes(self, pod_set: OrderedPods) -> bool:
        return pod_set.is_explicit or self._queue.has_only_topologies

    def lacks_quota(self, copies: int) -> str:
        """What further identical copies lack in the queue's only flavor."""
        if not copies or len(self._queue.flavors) != 1:
            return ""
        quotas = self._queue.available
        if self._emptied:
            quotas = self._queue.capacity
        for pair, amount in self._last.items():
            wanted = self._used[pair] + amount * copies
            quota = quotas.get(pair, 0)
            if wanted > quota:
                remaining = quota_in_words(pair[1], quota)
                return self._lacks(pair, wanted, f"{remaining} left")
        return ""

    def _groups(self) -> Iterable[list[int]]:
        """The numbers of pod sets that get the same flavors."""
        groups: dict[object, list[int]] = {}
        for number, pod_set in enumerate(self._admission.pod_sets):
            key: object = pod_set.group
            if pod_set.group is None:
                key = number
            members = groups.setdefault(key, [])
            members.append(number)
        return groups.values()

    def _requests(self, member: int, count: int) -> dict[str, int]:
        requests = {}
        pods = self._admission.pod_sets[member].pods
        for resource, amount in self._admission.rules.counted(pods.requests).items():
            requests[resource] = amount * count
        if self._group_of(PODS):
            requests[PODS] = count
        return requests

    def _group_of(self, resource: str) -> ResourceGroup | None:
        for group in self._queue.groups:
            if resource in group.resources:
                return group
        return None

    def _choose_flavors(self, cycle: _Cycle, members: Sequence[int]) -> _Refusal | None:
        """Assign these pod sets the same flavors. Returns the refusal if there are none."""
        total: dict[str, int] = {}
        for member in members:
            requests = self._requests(member, cycle.counts[member])
            _add(total, requests)
        choices = self._choices_for(cycle, members, total)
        if isinstance(choices, _Refusal):
            return choices
        for member in members:
            self._give(cycle, member, choices)
        return None

    def _give(self, cycle: _Cycle, member: int, choices: Mapping[str, _Choice]) -> None:
        """Assign a pod set the flavors of its requests.

        A member of a group without requests gets those with a topology.
        """
        requests = self._requests(member, cycle.counts[member])
        next_tried = cycle.next_tried[member]
        is_grouped = self._admission.pod_sets[member].group is not None
        only_follows = is_grouped and not requests
        for resource, choice in choices.items():
            flavor = choice.flavor
            if only_follows and not flavor.topology:
                continue
            if not only_follows and resource not in requests:
                continue
            cycle.use(member, flavor, resource, requests.get(resource, 0))
            next_tried[resource] = choice.number

    def _choices_for(
        self, cycle: _Cycle, members: Sequence[int], requests: Mapping[str, int]
    ) -> dict[str, _Choice] | _Refusal:
        """A flavor for each resource."""
        choices: dict[str, _Choice] = {}
        for resource in sorted(requests):
            if resource in choices or not requests[resource]:
                continue
            group = self._group_of(resource)
            if group is None:
                rules = self._admission.rules
                if rules.ignores_undeclared:
                    continue
                text = f"ClusterQueue {self._queue.name} has no quota of {resource}"
                return _Refusal(text, has_no_flavor=True, is_certain=rules.is_known)
            group_request = _GroupRequest(
                members=members,
                group=group,
                amounts=_only(requests, group.resources),
                first=cycle.tried[members[0]].get(resource, -1) + 1,
            )
            choice = self._choice(group_request, cycle.usage)
            if isinstance(choice, _Refusal):
                return choice
            cycle.busy = cycle.busy or choice.busy
            choices |= dict.fromkeys(group_request.amounts, choice)
        return choices

    def _choice(
        self, group_request: _GroupRequest, usage: Mapping[FlavorResource, int]
    ) -> _Choice | _Refusal:
        """The first flavor with quota, or the best of those that may have it later."""
        flavors = group_request.group.flavors
        best: _FlavorQuota | None = None
        best_mode = _Mode.NEVER
        reasons: list[str] = []
        number = group_request.first
        for number in range(group_request.first, len(flavors)):
            mismatch = self._mismatch(flavors[number], group_request)
            if mismatch:
                reasons.append(mismatch)
                continue
            quota = self._quota(flavors[number], group_request.amounts, usage)
            if quota.lacks:
                reasons.append(quota.lacks)
            if quota.mode < best_mode:
                best, best_mode = quota, quota.mode
            if self._is_final(quota.mode):
                break

        if best is None:
            different = dict.fromkeys(reasons)
            text = ", ".join(different) or "no flavor is left to try"
            return _Refusal(text, has_no_flavor=True)

        if number == len(flavors) - 1:
            number = -1
        busy = None
        if best.lacks:
            busy = _Refusal(best.lacks, has_no_flavor=True)
        return _Choice(best.flavor, number, busy)

    def _is_final(self, mode: _Mode) -> bool:
        """Whether no other flavor is tried."""
        if mode is _Mode.BORROWS:
            return not self._queue.prefers_own_quota
        return mode is _Mode.FIT

    def _quota(
        self, flavor: Flavor, requests: Mapping[str, int], usage: Mapping[FlavorResource, int]
    ) -> _FlavorQuota:
        """Whether the flavor has quota for all of these resources."""
        worst = _FlavorQuota(flavor)
        for resource, amount in requests.items():
            pair = flavor.name, resource
            used = self._used.get(pair, 0) + usage.get(pair, 0)
            wanted = used + amount
            mode = self._mode(pair, wanted)
            if mode > worst.mode:
                lacks = self._what_lacks(pair, wanted, mode)
                worst = _FlavorQuota(flavor, mode, lacks)
        return worst

    def _mode(self, pair: FlavorResource, wanted: int) -> _Mode:
        if wanted > self._queue.capacity.get(pair, 0):
            return _Mode.NEVER
        if self._emptied:
            return _Mode.FIT
        if wanted > self._queue.available.get(pair, 0):
            return _Mode.BUSY
        if wanted > self._queue.nominal.get(pair, 0):
            return _Mode.BORROWS
        return _Mode.FIT

    def _what_lacks(self, pair: FlavorResource, wanted: int, mode: _Mode) -> str:
        resource = pair[1]
        if mode is _Mode.NEVER:
            capacity = self._queue.capacity.get(pair, 0)
            quantity = quota_in_words(resource, capacity)
            return self._lacks(pair, wanted, f"at most {quantity}")

        if mode is _Mode.BUSY:
            available = self._queue.available.get(pair, 0)
            quantity = quota_in_words(resource, available)
            return self._lacks(pair, wanted, f"{quantity} left")

        return ""

    def _lacks(self, pair: FlavorResource, wanted: int, quota: str) -> str:
        flavor, resource = pair
        requested = request_in_words(resource, wanted)
        return (
            f"ClusterQueue {self._queue.name} has a quota of {quota} in flavor {flavor}, "
            f"{requested} requested"
        )

    def _mismatch(self, flavor: Flavor, group_request: _GroupRequest) -> str:
        """Why Kueue skips the flavor for these pod sets, in its words if it has some."""
        for member in group_request.members:
            pod_set = self._admission.pod_sets[member]
            mismatch = self._topology_mismatch(flavor, group_request.group, pod_set)
            mismatch = mismatch or _node_mismatch(flavor, pod_set)
            if mismatch:
                return mismatch
        return ""

    def _topology_mismatch(self, flavor: Flavor, group: ResourceGroup, pod_set: OrderedPods) -> str:
        if not pod_set.is_explicit:
            if flavor.topology is None or self._queue.has_only_topologies:
                return ""
            return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
        if flavor.topology is None:
            for resource, _ in pod_set.pods.requests:
                if resource in group.resources:
                    return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
            return ""
        levels = self._admission.topologies.get(flavor.topology, ())
        for level in pod_set.named_levels:
            if level not in levels:
                return f'Flavor "{flavor.name}" does not contain the requested level'
        return ""

    def _on_topologies(self, cycle: _Cycle) -> list[OnTopology] | _Refusal:
        """Nodes for the pod sets, flavor by flavor in the order of their names; all or none."""
        by_flavor = self._by_flavor(cycle)
        if isinstance(by_flavor, _Refusal):
            return by_flavor

        done: list[OnTopology] = []
        for flavor in sorted(by_flavor, key=_name):
            assigner = self._assigner(flavor)
            assignments = assigner.assign(by_flavor[flavor])
            if isinstance(assignments, Unassigned):
                for part in done:
                    part.give_back()
                text = _no_room(assignments, self._admission.pod_sets)
                return _Refusal(text)
            part = OnTopology(flavor, assigner, assignments)
            done.append(part)
        return done

    def _by_flavor(self, cycle: _Cycle) -> dict[Flavor, list[OrderedPods]] | _Refusal:
        """The pod sets that get nodes, by the one flavor with a topology that each has."""
        by_flavor: dict[Flavor, list[OrderedPods]] = {}
        pod_sets = self._admission.pod_sets
        for pod_set, count, flavors in zip(pod_sets, cycle.counts, cycle.flavors, strict=True):
            if not count or not self._gets_nodes(pod_set):
                continue
            with_topology = _with_topology(flavors.values())
            if len(with_topology) != 1:
                return _not_one_flavor(pod_set, with_topology)
            flavor = with_topology.pop()
            in_flavor = by_flavor.setdefault(flavor, [])
            in_flavor.append(_in_flavor(pod_set, count, flavor))
        return by_flavor

    def _assigner(self, flavor: Flavor) -> Assigner:
        """The topology of a flavor: its nodes that carry each level.

        Flavors share what is free on a node.
        """
        assigner = self._assigners.get(flavor.name)
        if assigner is None:
            topology = flavor.topology or ""
            levels = self._admission.topologies.get(topology, ())
            nodes = nodes_of(self._nodes, flavor, levels)
            if levels and levels[-1] == HOSTNAME:
                leaves = self._leaf_per_node(nodes, levels)
            else:
                leaves = self._leaf_per_domain(nodes, levels)
            assigner = Assigner(levels, leaves)
            self._assigners[flavor.name] = assigner
        return assigner

    def _leaf_per_node(self, nodes: Iterable[OfferedNode], levels: Sequence[str]) -> list[Leaf]:
        leaves = []
        for node in nodes:
            labels = node.labels
            path = tuple([labels[level] for level in levels])
            offered = node.free
            if self._emptied:
                offered = node.total
            free = self._free.setdefault(node.name, dict(offered))
            leaf = Leaf(
                path=path,
                free=free,
                usable=_usable(node),
                node=node.name,
            )
            leaves.append(leaf)
        return leaves

    def _leaf_per_domain(self, nodes: Iterable[OfferedNode], levels: Sequence[str]) -> list[Leaf]:
        """The lowest domains as single leaves, ignoring taints and labels of their nodes."""
        free_in: dict[Path, dict[str, int]] = {}
        for node in nodes:
            labels = node.labels
            path = tuple([labels[level] for level in levels])
            offered = node.free
            if self._emptied:
                offered = node.total
            free = free_in.setdefault(path, {})
            for resource, amount in offered.items():
                free[resource] = free.get(resource, 0) + amount

        if not self._emptied:
            self._take_held(free_in)
        return [Leaf(path, free, _any_pods) for path, free in free_in.items()]

    def _take_held(self, free_in: Mapping[Path, dict[str, int]]) -> None:
        """Subtract what other admitted workloads hold in the domains."""
        for workload, held_in in self._admission.held.items():
            if workload in self._admission.own:
                continue
            for path, amounts in held_in.items():
                free = free_in.get(path)
                if free is None:
                    continue
                for resource, amount in amounts.items():
                    free[resource] = free.get(resource, 0) - amount


def _add(total: MutableMapping[_Key, int], amounts: Mapping[_Key, int]) -> None:
    for key, amount in amounts.items():
        total[key] = total.get(key, 0) + amount


def _only(requests: Mapping[str, int], resources: Iterable[str]) -> dict[str, int]:
    """The requests of these resources."""
    only = {}
    for resource, amount in requests.items():
        if resource in resources:
            only[resource] = amount
    return only


def _name(flavor: Flavor) -> str:
    return flavor.name


def _is_exhausted(tried: _Tried) -> bool:
    """Whether no flavor is left to try."""
    for numbers in tried:
        for number in numbers.values():
            if number != -1:
                return False
    return True


def _most_telling(refusals: Sequence[_Refusal]) -> _Refusal:
    """The most informative refusal: a lack of room before an unsuitable flavor."""
    for refusal in refusals:
        if not refusal.has_no_flavor:
            return refusal
    return refusals[-1]


def _less_than_a_slice(pod_set: OrderedPods, count: int) -> _Refusal:
    return _Refusal(
        f"{VERSION} would admit pod set {pod_set.pods.name} with {count} pods, "
        "which is less than a slice, so its own API rejects it: raise job-min-parallelism to the "
        "slice size",
        has_no_flavor=True,
    )


def _not_one_flavor(pod_set: OrderedPods, flavors: Iterable[Flavor]) -> _Refusal:
    names = [flavor.name for flavor in flavors]
    which = "no flavor"
    if names:
        which = f"several flavors with a topology ({', '.join(sorted(names))})"
    text = f"pod set {pod_set.pods.name} gets {which}, because of what it requests"
    return _Refusal(text, has_no_flavor=True)


def _with_topology(flavors: Iterable[Flavor]) -> set[Flavor]:
    with_topology = set()
    for flavor in flavors:
        if flavor.topology:
            with_topology.add(flavor)
    return with_topology


def _in_flavor(pod_set: OrderedPods, count: int, flavor: Flavor) -> OrderedPods:
    """`count` of the pods, with the tolerations that the flavor adds to them."""
    own = pod_set.pods.node_filter
    tolerations = (*own.tolerations, *flavor.nodes.tolerations)
    node_filter = replace(own, tolerations=tolerations)
    pods = replace(pod_set.pods, count=count, node_filter=node_filter)
    return replace(pod_set, pods=pods)


def _node_mismatch(flavor: Flavor, pod_set: OrderedPods) -> str:
    """The mismatch of the flavor's taints and labels with the pods; empty if none."""
    own = pod_set.pods.node_filter
    tolerations = (*own.tolerations, *flavor.nodes.tolerations)
    for taint in flavor.taints:
        if any(toleration.covers(taint) for toleration in tolerations):
            continue
        value = f"={taint.value}" if taint.value else ""
        return (
            f"flavor {flavor.name} has taint {taint.key}{value}:{taint.effect}, "
            "which pods do not tolerate"
        )

    labels = dict(flavor.nodes.selector)
    if _about(own, labels).rejection("", labels, ()):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _usable(node: OfferedNode) -> Callable[[NodeFilter], bool]:
    return lambda node_filter: not node_filter.rejection(node.name, node.labels, node.taints)


def _any_pods(_: NodeFilter) -> bool:
    return True


def _about(node_filter: NodeFilter, labels: Mapping[str, str]) -> NodeFilter:
    """The part of a filter about these labels. A term without them makes all of the terms match."""
    selector = []
    for key, value in node_filter.selector:
        if key in labels:
            selector.append((key, value))
    terms = []
    for term in node_filter.terms:
        rules = [rule for rule in term if not rule.is_field and rule.key in labels]
        if not rules:
            return NodeFilter(tuple(selector), ())
        terms.append(tuple(rules))
    return NodeFilter(tuple(selector), tuple(terms))


def _no_room(result: Unassigned, pod_sets: Sequence[OrderedPods]) -> str:
    units = plural(result.wanted, result.unit)
    room = f"there is room for {result.fits} of {result.wanted} {units}"
    if len(pod_sets) == 1:
        text = f"{VERSION} finds no nodes for pod set {result.pod_set}: {room}"
        least = pod_sets[0].least
        if least:
            text += f", and at least {least} must start (job-min-parallelism)"
        return text
    if result.fits >= result.wanted:
        room = "no domain has room for it with its leader"
    return (
        f"{VERSION} assigns pod sets one after the other without backtracking: at pod set "
        f"{result.pod_set} {room}"
    )
