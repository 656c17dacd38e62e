"""How Kueue admits a workload.

A flavor for each resource by quota, then nodes of its topology, and the next flavor. Source: Kueue
0.19 (pkg/scheduler/flavorassigner, podset_reducer.go, cluster_queue.go) with its default feature
gates, without victims to preempt. A workload that finds no room in one flavor is tried in the next
one that has quota.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from toposcope.api.label_keys import HOSTNAME
from toposcope.integrations.framework.constraints import Decision, OfferedNode, Pods
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.system import Held
from toposcope.integrations.kueue.assignment import (
    Assigner,
    Assignment,
    Leaf,
    OrderedPods,
    Unassigned,
)
from toposcope.integrations.kueue.queues import Flavor, Queue, ResourceGroup
from toposcope.integrations.kueue.quota import FlavorResource
from toposcope.text import plural

VERSION: Final = "Kueue 0.19"
_MOST_EVALUATIONS: Final = 200_000
"""Of a node for a pod set: copies beyond it are left to the search for room, which knows equal
pods.
"""

_COARSE: Final = (
    f"ends above the nodes: {VERSION} takes each of its lowest domains for one node, "
    "whatever taints and labels the "
    "nodes have, and may admit pods that no node has room for"
)

_Mode = Literal["fit", "borrows", "busy", "never"]
_MODES: Final[tuple[_Mode, ...]] = ("fit", "borrows", "busy", "never")


@dataclass(frozen=True, slots=True)
class _Refusal:
    text: str
    no_flavor: bool = False


_Tried = list[dict[str, int]]
"""By pod set and resource: the number of the flavor that was assigned last; -1 after the last one.
"""


@dataclass(frozen=True, slots=True, eq=False)
class KueueAdmission:
    """One workload in one queue."""

    pod_sets: tuple[OrderedPods, ...]
    queue: Queue
    topologies: Mapping[str, Sequence[str]]
    """The levels of each Topology, as label keys."""
    held: Held
    """What admitted workloads hold; a node's `free` is already without what they hold there."""
    own: frozenset[tuple[str, str]] = frozenset()
    """The Workloads that are this one, already admitted: what they hold is free."""
    copies: int = 1
    """How many workloads of this kind are admitted one after the other."""

    def decide(self, nodes: Sequence[OfferedNode], *, emptied: bool = False) -> Decision:
        """What Kueue does with all copies."""
        trial = _Trial(self, nodes, emptied=emptied)
        placed: list[tuple[Pods, str, int]] = []
        topology, notes = None, self.queue.notes
        tried = min(
            self.copies, max(1, _MOST_EVALUATIONS // max(1, len(nodes) * len(self.pod_sets)))
        )
        for copy in range(tried):
            assigned = trial.admit()
            if isinstance(assigned, _Refusal):
                some = f"after {copy} of {self.copies} copies: " if copy else ""
                return Decision(some + assigned.text, no_flavor=assigned.no_flavor, notes=notes)
            for assigner, assignments in assigned:
                topology = topology or trial.topology_of(assigner)
                placed += [
                    (pod_set.pods, assigner.leaves[leaf].node, count)
                    for pod_set, leaf, count in assignments
                ]
        if refusal := trial.lacks_quota(self.copies - tried):
            return Decision(refusal, no_flavor=True, notes=notes)
        notes = (*notes, *dict.fromkeys(trial.notes))
        if not all(node for _, node, _ in placed):
            notes = (*notes, f"Topology {topology} {_COARSE}")
        return Decision(
            placed=tuple(placed), topology=topology, notes=notes, partly=tried < self.copies
        )


class _Trial:
    """The state while copies of a workload are admitted."""

    def __init__(
        self, admission: KueueAdmission, nodes: Sequence[OfferedNode], *, emptied: bool
    ) -> None:
        self._admission = admission
        self._queue = admission.queue
        self._emptied = emptied
        self._nodes = [node for node in nodes if emptied or not node.obstacle]
        self._free: dict[str, dict[str, int]] = {}
        self._assigners: dict[str, Assigner] = {}
        self._used: dict[FlavorResource, int] = {}
        self._last: dict[FlavorResource, int] = {}
        """What the last copy used."""
        self.notes: list[str] = []

    def topology_of(self, assigner: Assigner) -> str | None:
        """The name of the topology that an assigner is of."""
        names = {flavor.name: flavor.topology for flavor in self._queue.flavors}
        return next(names[name] for name, other in self._assigners.items() if other is assigner)

    def admit(self) -> list[tuple[Assigner, list[Assignment]]] | _Refusal:
        """One copy, flavor after flavor as long as one is left to try."""
        pod_sets = self._admission.pod_sets
        counts = [pod_set.pods.count for pod_set in pod_sets]
        tried: _Tried = [{} for _ in pod_sets]
        refusals: list[_Refusal] = []
        for _ in range(sum(len(group.flavors) for group in self._queue.groups) + 1):
            result, next_tried = self._attempt(counts, tried)
            if isinstance(result, _Refusal):
                result = self._reduced(counts, tried) or result
            if not isinstance(result, _Refusal):
                return result
            refusals.append(result)
            tried = next_tried
            if all(number == -1 for numbers in tried for number in numbers.values()):
                break
        # Room is worth more words than a flavor that was none from the start.
        return next((refusal for refusal in refusals if not refusal.no_flavor), refusals[-1])

    def _reduced(
        self, counts: list[int], tried: _Tried
    ) -> list[tuple[Assigner, list[Assignment]]] | _Refusal | None:
        """With fewer pods, where the workload allows.

        As many as fit, found by bisection as Kueue does.
        """
        least = [pod_set.least for pod_set in self._admission.pod_sets]
        spare = [
            count - (count if low is None else low)
            for count, low in zip(counts, least, strict=True)
        ]
        total = sum(spare)
        low, high, best = 0, total + 1, None
        while total and low < high:
            middle = (low + high) // 2
            fewer = [
                count - part * middle // total for count, part in zip(counts, spare, strict=True)
            ]
            used = dict(self._used)
            result, _ = self._attempt(fewer, tried)
            if isinstance(result, _Refusal):
                low = middle + 1
                continue
            high, best = middle, fewer
            self._used = used
            for assigner, assignments in result:
                assigner.take(assignments, -1)
        if best is None:
            return None
        for pod_set, count in zip(self._admission.pod_sets, best, strict=True):
            if pod_set.slices and count < pod_set.slices[0][1]:
                return _Refusal(
                    f"{VERSION} would admit pod set {pod_set.pods.name} with {count} pods, "
                    "which is less than a slice, "
                    "and its own API refuses that: raise job-min-parallelism to the slice size",
                    no_flavor=True,
                )
        result, _ = self._attempt(best, tried)
        pods = f"{sum(best)} of {sum(counts)} pods"
        self.notes.append(f"admitted with {pods}: the workload allows fewer (job-min-parallelism)")
        return None if isinstance(result, _Refusal) else result

    def _attempt(
        self, counts: Sequence[int], tried: _Tried
    ) -> tuple[list[tuple[Assigner, list[Assignment]]] | _Refusal, _Tried]:
        """One scheduling cycle."""
        usage: dict[FlavorResource, int] = {}
        flavors: list[dict[str, Flavor]] = [{} for _ in counts]
        next_tried: _Tried = [{} for _ in counts]
        busy: _Refusal | None = None
        for members in self._groups():
            requests: dict[str, int] = {}
            for member in members:
                for resource, amount in self._requests(member, counts[member]).items():
                    requests[resource] = requests.get(resource, 0) + amount
            found, numbers, refusal = self._flavors_for(members, requests, tried, usage)
            if found is None:
                return refusal or _Refusal("no flavor", no_flavor=True), next_tried
            busy = busy or refusal
            for member in members:
                own = self._requests(member, counts[member])
                alone = not own and self._admission.pod_sets[member].group is not None
                flavors[member] = {
                    res: flavor
                    for res, flavor in found.items()
                    if res in own or (alone and flavor.topology)
                }
                next_tried[member] = {res: numbers[res] for res in flavors[member]}
                for resource, flavor in flavors[member].items():
                    one = flavor.name, resource
                    usage[one] = usage.get(one, 0) + own.get(resource, 0)
        if busy:
            return busy, next_tried
        result = self._on_topologies(counts, flavors)
        if not isinstance(result, _Refusal):
            self._last = usage
            for pair, amount in usage.items():
                self._used[pair] = self._used.get(pair, 0) + amount
        return result, next_tried

    def lacks_quota(self, copies: int) -> str:
        """What more copies like the last one lack in its flavor, where the queue has no other.

        Empty: nothing.
        """
        for (flavor, resource), amount in (
            self._last.items() if len(self._queue.flavors) == 1 else ()
        ):
            wanted = self._used[flavor, resource] + amount * copies
            quota = self._queue.capacity if self._emptied else self._queue.available
            if copies and wanted > quota.get((flavor, resource), 0):
                return self._lacks(
                    flavor, resource, quota.get((flavor, resource), 0), wanted, " left"
                )
        return ""

    def _groups(self) -> Iterator[list[int]]:
        groups: dict[object, list[int]] = {}
        for number, pod_set in enumerate(self._admission.pod_sets):
            groups.setdefault(number if pod_set.group is None else pod_set.group, []).append(number)
        yield from groups.values()

    def _requests(self, member: int, count: int) -> dict[str, int]:
        requests = {
            resource: amount * count
            for resource, amount in self._admission.pod_sets[member].pods.requests
        }
        if any(PODS in group.resources for group in self._queue.groups):
            requests[PODS] = count
        return requests

    def _flavors_for(
        self,
        members: Sequence[int],
        requests: Mapping[str, int],
        tried: _Tried,
        usage: Mapping[FlavorResource, int],
    ) -> tuple[dict[str, Flavor] | None, dict[str, int], _Refusal | None]:
        """A flavor for each resource, and its number for the next cycle.

        None where one finds none.
        """
        found: dict[str, Flavor] = {}
        numbers: dict[str, int] = {}
        busy: _Refusal | None = None
        for resource in sorted(requests):
            if resource in found or not requests[resource]:
                continue
            group = next(
                (group for group in self._queue.groups if resource in group.resources), None
            )
            if group is None:
                text = f"ClusterQueue {self._queue.name} has no quota of {resource}"
                return None, numbers, _Refusal(text, no_flavor=True)
            first = tried[members[0]].get(resource, -1) + 1
            within = {
                resource: amount
                for resource, amount in requests.items()
                if resource in group.resources
            }
            flavor, number, refusal = self._flavor_of(group, members, within, first, usage)
            if flavor is None:
                return None, numbers, refusal
            busy = busy or refusal
            found |= dict.fromkeys(within, flavor)
            numbers |= dict.fromkeys(within, -1 if number == len(group.flavors) - 1 else number)
        return found, numbers, busy

    def _flavor_of(
        self,
        group: ResourceGroup,
        members: Sequence[int],
        requests: Mapping[str, int],
        first: int,
        usage: Mapping[FlavorResource, int],
    ) -> tuple[Flavor | None, int, _Refusal | None]:
        """The first flavor with quota, or the best of those that may have it later.

        And the last that was looked at.
        """
        best: tuple[_Mode, Flavor | None, _Refusal | None] = "never", None, None
        reasons: list[_Refusal] = []
        number = first
        for number in range(first, len(group.flavors)):
            flavor = group.flavors[number]
            if text := self._mismatch(flavor, group, members):
                reasons.append(_Refusal(text, no_flavor=True))
                continue
            mode, refusal = self._mode(flavor, requests, usage)
            reasons += [refusal] if refusal else []
            if _MODES.index(mode) < _MODES.index(best[0]):
                best = mode, flavor, refusal
            if mode == "fit" or (mode == "borrows" and not self._queue.prefers_own_quota):
                break
        if best[1] is None:
            texts = (
                ", ".join(dict.fromkeys(reason.text for reason in reasons))
                or "no flavor is left to try"
            )
            return None, number, _Refusal(texts, no_flavor=True)
        return best[1], number, best[2] if best[0] == "busy" else None

    def _mode(
        self, flavor: Flavor, requests: Mapping[str, int], usage: Mapping[FlavorResource, int]
    ) -> tuple[_Mode, _Refusal | None]:
        """Whether the flavor has quota for all of these resources, and what lacks."""
        worst: _Mode = "fit"
        refusal: _Refusal | None = None
        queue = self._queue
        for resource, amount in requests.items():
            one = flavor.name, resource
            wanted = amount + usage.get(one, 0) + self._used.get(one, 0)
            capacity = queue.capacity.get(one, 0)
            available = capacity if self._emptied else queue.available.get(one, 0)
            mode: _Mode = "never" if wanted > capacity else "busy" if wanted > available else "fit"
            if mode == "fit" and wanted > queue.nominal.get(one, 0) and not self._emptied:
                mode = "borrows"
            if _MODES.index(mode) > _MODES.index(worst):
                worst = mode
                has, left = (capacity, "") if mode == "never" else (available, " left")
                refusal = _Refusal(
                    self._lacks(flavor.name, resource, has, wanted, left), no_flavor=True
                )
        return worst, refusal if worst in ("busy", "never") else None

    def _lacks(self, flavor: str, resource: str, has: int, wanted: int, left: str) -> str:
        quota = f"{'' if left else 'at most '}{_quantity(resource, has)}{left}"
        asked = _quantity(resource, wanted)
        return (
            f"ClusterQueue {self._queue.name} has a quota of {quota} in flavor {flavor}, "
            f"{asked} requested"
        )

    def _mismatch(self, flavor: Flavor, group: ResourceGroup, members: Sequence[int]) -> str:
        """Why Kueue passes the flavor over for these pod sets, in its words where it has some.

        Empty: it does not.
        """
        for pod_set in (self._admission.pod_sets[member] for member in members):
            if text := self._topology_mismatch(flavor, group, pod_set):
                return text
            filter_ = pod_set.pods.node_filter
            tolerations = (*filter_.tolerations, *flavor.nodes.tolerations)
            for taint in flavor.taints:
                if not any(toleration.covers(taint) for toleration in tolerations):
                    value = f"={taint.value}" if taint.value else ""
                    return (
                        f"flavor {flavor.name} has taint {taint.key}{value}:{taint.effect}, "
                        "which pods do not tolerate"
                    )
            labels = dict(flavor.nodes.selector)
            if _about(filter_, labels).rejection("", labels, ()):
                return f"flavor {flavor.name} doesn't match node affinity"
        return ""

    def _topology_mismatch(self, flavor: Flavor, group: ResourceGroup, pod_set: OrderedPods) -> str:
        if not pod_set.explicit:
            by_itself = flavor.topology is None or self._queue.only_topologies
            return (
                "" if by_itself else f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
            )
        if flavor.topology is None:
            asked = {resource for resource, _ in pod_set.pods.requests}
            covered = asked & set(group.resources)
            return (
                f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
                if covered
                else ""
            )
        levels = self._admission.topologies.get(flavor.topology, ())
        named = [level for level, _ in pod_set.slices] + ([pod_set.level] if pod_set.level else [])
        lacks = any(level not in levels for level in named)
        return f'Flavor "{flavor.name}" does not contain the requested level' if lacks else ""

    def _on_topologies(
        self, counts: Sequence[int], flavors: Sequence[Mapping[str, Flavor]]
    ) -> list[tuple[Assigner, list[Assignment]]] | _Refusal:
        """Nodes for the pod sets, flavor by flavor in the order of their names; all or none."""
        by_flavor: dict[str, list[OrderedPods]] = {}
        chosen: dict[str, Flavor] = {}
        for pod_set, count, own in zip(self._admission.pod_sets, counts, flavors, strict=True):
            if not count or not (pod_set.explicit or self._queue.only_topologies):
                continue
            named = {flavor.name: flavor for flavor in own.values() if flavor.topology}
            if len(named) != 1:
                several = (
                    f"several flavors with a topology ({', '.join(sorted(named))})"
                    if named
                    else "no flavor"
                )
                return _Refusal(
                    f"pod set {pod_set.pods.name} gets {several}, because of what it requests",
                    no_flavor=True,
                )
            ((name, flavor),) = named.items()
            chosen[name] = flavor
            filter_ = pod_set.pods.node_filter
            filter_ = replace(
                filter_, tolerations=(*filter_.tolerations, *flavor.nodes.tolerations)
            )
            pods = replace(pod_set.pods, count=count, node_filter=filter_)
            by_flavor.setdefault(name, []).append(replace(pod_set, pods=pods))
        done: list[tuple[Assigner, list[Assignment]]] = []
        for name in sorted(by_flavor):
            assigner = self._assigner(chosen[name])
            result = assigner.assign(by_flavor[name])
            if isinstance(result, Unassigned):
                for other, assignments in done:
                    other.take(assignments, -1)
                return _Refusal(_no_room(result, self._admission.pod_sets))
            done.append((assigner, result))
        return done

    def _assigner(self, flavor: Flavor) -> Assigner:
        """The topology of a flavor: its nodes that carry each level.

        Flavors share what is free on a node.
        """
        if flavor.name in self._assigners:
            return self._assigners[flavor.name]
        levels = self._admission.topologies.get(flavor.topology or "", ())
        labels = flavor.nodes.selector
        nodes = [
            node
            for node in self._nodes
            if all(node.labels.get(key) == value for key, value in labels)
            and all(level in node.labels for level in levels)
        ]
        whole: dict[tuple[str, ...], dict[str, int]] = {}
        leaves = []
        for node in nodes:
            path = tuple(node.labels[level] for level in levels)
            offered = node.total if self._emptied else node.free
            if levels and levels[-1] == HOSTNAME:
                free = self._free.setdefault(node.name, dict(offered))
                leaves.append(Leaf(path, free, _usable(node), node.name))
                continue
            free = whole.setdefault(path, {})
            for resource, amount in offered.items():
                free[resource] = free.get(resource, 0) + amount
        for path, free in whole.items():  # as a whole, whatever taints and labels its nodes have
            for key, domains in self._admission.held.items():
                if key not in self._admission.own and not self._emptied:
                    for resource, amount in domains.get(path, {}).items():
                        free[resource] = free.get(resource, 0) - amount
            leaves.append(Leaf(path, free, lambda _: True))
        assigner = self._assigners[flavor.name] = Assigner(levels, leaves)
        return assigner


def _usable(node: OfferedNode) -> Callable[[NodeFilter], bool]:
    return lambda node_filter: not node_filter.rejection(node.name, node.labels, node.taints)


def _about(node_filter: NodeFilter, labels: Mapping[str, str]) -> NodeFilter:
    """Only what a filter says about these labels.

    A term that says nothing of them makes all of the terms match.
    """
    terms = [
        tuple(rule for rule in term if not rule.field and rule.key in labels)
        for term in node_filter.terms
    ]
    selector = tuple((key, value) for key, value in node_filter.selector if key in labels)
    return NodeFilter(selector, tuple(terms) if all(terms) else ())


def _no_room(result: Unassigned, pod_sets: Sequence[OrderedPods]) -> str:
    room = (
        f"there is room for {result.fits} of {result.wanted} {plural(result.wanted, result.unit)}"
    )
    if len(pod_sets) == 1:
        least = pod_sets[0].least
        needed = f", and at least {least} have to start (job-min-parallelism)" if least else ""
        return f"{VERSION} finds no nodes for pod set {result.pod_set}: {room}{needed}"
    room = "no domain has room for it with its leader" if result.fits >= result.wanted else room
    return (
        f"{VERSION} assigns pod sets one after the other and takes none back: "
        "when it comes to pod set "
        f"{result.pod_set} {room}"
    )


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount / 1000:g} cpu"
    return f"{amount / (1 << 30):g}Gi memory" if resource == "memory" else f"{amount} {resource}"
