"""How KAI places a gang.

It chooses a domain, fills nodes pod by pod, and undoes only a whole domain. A placement may exist
that KAI does not find. Source: KAI 0.17.0 with its default plugins and bin packing
(pkg/scheduler/actions/common/allocate.go,
pkg/scheduler/plugins/{topology,nodeplacement,resourcetype,subgrouporder}). Groups are in the order
of their sub-groups' names, as in KAI.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from toposcope.api.levels import Level
from toposcope.errors import ToposcopeError
from toposcope.integrations.framework.constraints import Group, Pods, pods_in
from toposcope.integrations.framework.packing import (
    PODS,
    Path,
    columns,
    resources_of,
    times_if_not_overcommitted,
)
from toposcope.integrations.framework.placement import PodsBeside

VERSION: Final = "KAI 0.17"
MAX_NODE_LOOKS: Final = 5_000_000
"""The allocation gives up after looking at this many nodes."""
_SCORES: Final = 10
_NO_ROOM: Final = 1000.0

Why = Literal["narrower", "largest", "order"]


@dataclass(frozen=True, slots=True)
class NodeLeaf:
    """One node: its domains in the topology, and what is free on it (`pods` included)."""

    path: Path | None
    """Its values of the levels, broadest first.

    None if it lacks one, and so is not in the topology.
    """
    free: Mapping[str, int]
    is_cpu_only: bool
    usable: Callable[[Pods], bool]
    """Whether node selector, affinity, tolerations and the node's state let pods onto it."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The group that cannot be placed."""

    group: Group
    why: Why
    """`narrower`: all nodes are in one domain below the required level, and KAI looks no higher.

    `largest`: KAI counts every pod as the largest. `order`: no room is left when its turn comes.
    """
    fits: int
    """How many of its pods found room (`largest`: would find room by KAI's count)."""
    wanted: int
    domain: Path = ()
    """`narrower`: the domain that all nodes are in."""


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """Some pods of a group on one node."""

    group: Group
    pods: Pods
    leaf: int
    """The position of their node among the leaves."""
    count: int


class AllocationTooLargeError(ToposcopeError):
    """The allocation is too long to compute."""


@dataclass(slots=True)
class _Sums:
    """What one domain offers to the pods of a group."""

    free: list[int]
    pods: int = 0
    """How many pods have room, each counted as the largest."""


@dataclass(slots=True)
class _Table:
    """What every domain offers to identical groups, updated as pods are placed."""

    depths: range
    largest: Sequence[int]
    """The largest request of its pods, by column."""
    fixed: int
    """How many pods any node accepts if they request nothing."""
    sums: dict[Path, _Sums] = field(default_factory=dict)

    def add(self, path: Path, free: Sequence[int], sign: int) -> None:
        """Count a node in (1) or out (-1)."""
        pods = self.fixed or times_if_not_overcommitted(free, self.largest)
        for depth in self.depths:
            domain = path[:depth]
            offer = self.sums.get(domain)
            if offer is None:
                offer = _Sums([0] * len(free))
                self.sums[domain] = offer
            offer.pods += pods * sign
            for i, amount in enumerate(free):
                offer.free[i] += amount * sign


@dataclass(slots=True)
class _Offers:
    """What `common`, the narrowest domain with all nodes in it, offers to one copy of a group.

    The domains inside it offer theirs. KAI looks at no broader one: that counts as full, so a
    required level above it is met only by a preferred level.
    """

    common: Path
    sums: Mapping[Path, _Sums]
    wanted: Mapping[int, int]
    """By column, without `pods`."""
    count: int
    counts_pods: bool
    """Whether pods are counted, rather than what they request."""

    def fits(self, domain: Path) -> bool:
        """Whether the domain seems to have room for the group."""
        if domain not in self.sums:
            return not self.wanted
        if self.counts_pods:
            return self.sums[domain].pods >= self.count
        return self.ratio(domain) <= 1

    def ratio(self, domain: Path) -> float:
        """The largest share of any resource that the group uses."""
        free = self.sums[domain].free
        largest = 0.0
        for i, amount in self.wanted.items():
            share = _NO_ROOM
            if free[i] > 0:
                share = amount / free[i]
            largest = max(largest, share)
        return largest

    def at(self, depth: int) -> list[Path]:
        """The domains at a depth in KAI's order: the least room first, on each level above too."""
        narrower = range(len(self.common) + 1, depth + 1)
        if not narrower:
            return [self.common[:depth]]

        domains: list[Path] = []
        ranks: dict[Path, tuple[float, str]] = {}
        for domain in self.sums:
            if len(domain) not in narrower:
                continue
            ranks[domain] = -self.ratio(domain), domain[-1]
            if len(domain) == depth:
                domains.append(domain)

        def ranks_from_above(domain: Path) -> list[tuple[float, str]]:
            return [ranks[domain[:level]] for level in narrower]

        return sorted(domains, key=ranks_from_above)

    def shortage(self, group: Group, domain: Path) -> Unplaced:
        """Why a domain has no room for the group."""
        why: Why = "order"
        if domain not in self.sums:
            if self.sums:
                why = "narrower"
            return Unplaced(group, why, fits=0, wanted=self.count, domain=self.common)

        if self.counts_pods and _requests_differ(group):
            why = "largest"
        fits = self.sums[domain].pods
        return Unplaced(group, why, fits, wanted=self.count, domain=domain)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Where a copy of a group may go."""

    node_sets: Sequence[Sequence[int]]
    """The nodes of each domain that seems to take it, in KAI's order."""
    scores: Mapping[int, int]
    """The scores of nodes in preferred domains."""


@dataclass(slots=True)
class Allocator:
    """Allocates gangs on one topology, each with what earlier ones left."""

    levels: Sequence[Level]
    leaves: Sequence[NodeLeaf]
    looks: int = MAX_NODE_LOOKS
    beside: PodsBeside | None = None
    """The rules between its pods; None if they have none."""
    assignments: list[NodeAssignment] = field(default_factory=list)
    _failures: list[Unplaced] = field(default_factory=list)
    _resources: Sequence[str] = ()
    _free: list[list[int]] = field(default_factory=list)
    _members: dict[Path, list[int]] = field(default_factory=dict)
    _usable: dict[Pods, list[bool]] = field(default_factory=dict)
    _tables: dict[Path, dict[tuple[object, ...], _Table]] = field(default_factory=dict)
    """By the domain whose nodes are in it."""

    def place(self, groups: Iterable[Group]) -> Unplaced | None:
        """Place all copies of the groups, each of which is a PodGroup. Raises TooLargeError."""
        groups = list(groups)
        self._prepare(groups)
        all_nodes = range(len(self.leaves))
        for group in groups:
            for _ in range(group.copies):
                self._failures = [Unplaced(group, "order", fits=0, wanted=_count(group))]
                if not self._place_copy(group, all_nodes, {}):
                    return max(self._failures, key=_weight)
        return None

    def place_one_by_one(self, group: Group) -> tuple[Path | None, int]:
        """Place the group's pods one after the other; the first decides the required domain.

        Returns that domain and how many are placed. The domain is None where no level is required,
        or where the first pod finds no node.
        """
        self._prepare((group,))
        kind = group.pods[0]
        all_nodes = range(len(self.leaves))
        first_pod = replace(kind, count=1)
        first = replace(group, pods=(first_pod,))
        if not self._place_copy(first, all_nodes, {}):
            return None, 0

        leaf = self.assignments.pop().leaf
        assignment = NodeAssignment(group, kind, leaf, count=1)
        self.assignments.append(assignment)
        domain = self._required_domain(group, leaf)
        nodes: Sequence[int] = all_nodes
        if domain is not None:
            nodes = self._members[domain]
        elif group.preferred:
            nodes = self._members[()]

        placed = 1
        for pods in group.pods:
            wanted = pods.count
            if pods is kind:
                wanted -= 1
            count = self._fill(group, pods, wanted, nodes, {})
            placed += count
            if count < wanted:
                break
        return domain, placed

    def _required_domain(self, group: Group, leaf: int) -> Path | None:
        """The domain of the group's required level that the leaf is in."""
        path = self.leaves[leaf].path
        if group.required is None or path is None:
            return None
        return path[: self._depth(group.required)]

    def _prepare(self, groups: Iterable[Group]) -> None:
        self._resources = resources_of([pods.requests for pods in pods_in(groups)])
        self._free = []
        for leaf in self.leaves:
            free = leaf.free
            self._free.append([free.get(resource, 0) for resource in self._resources])

        self._tables = {}
        self._members = {(): []}
        for number, leaf in enumerate(self.leaves):
            if leaf.path is None:
                continue
            for depth in range(len(leaf.path) + 1):
                domain = leaf.path[:depth]
                members = self._members.setdefault(domain, [])
                members.append(number)

    def _depth(self, level: Level | None) -> int:
        if level is None:
            return 0
        return self.levels.index(level) + 1

    def _amounts(self, pods: Pods) -> Sequence[int]:
        return columns(pods.requests, self._resources)

    def _place_copy(self, group: Group, nodes: Sequence[int], scores: Mapping[int, int]) -> bool:
        """Place one copy of a group on some nodes, in the first domain with room for all of it."""
        if not _count(group):
            return True

        candidates = _Candidates([nodes], scores)
        if group.required or group.preferred:
            candidates = self._candidates(group, nodes)
        for inside in candidates.node_sets:
            before = len(self.assignments)
            if self._place_inside(group, inside, candidates.scores or scores):
                return True
            self._take_back(before)
        return False

    def _place_inside(self, group: Group, nodes: Sequence[int], scores: Mapping[int, int]) -> bool:
        """Place the group's own pods, then the groups below it."""
        for pods in group.pods:
            placed = self._fill(group, pods, pods.count, nodes, scores)
            if placed < pods.count:
                failure = Unplaced(group, "order", placed, pods.count)
                self._failures.append(failure)
                return False

        for below in group.groups:
            for _ in range(below.copies):
                if not self._place_copy(below, nodes, scores):
                    return False
        return True

    def _fill(
        self, group: Group, pods: Pods, count: int, nodes: Sequence[int], scores: Mapping[int, int]
    ) -> int:
        """Put pods onto the nodes, the fullest first. Returns how many found room."""
        amounts = self._amounts(pods)
        usable = self._usable_by(pods)
        self._count_looks(len(nodes))
        candidates = [number for number in nodes if usable[number]]
        candidates.sort(key=self._order(pods, scores))

        unplaced = count
        if self.beside:
            return self._fill_by_rules(group, pods, count, candidates)
        for number in candidates:
            room = times_if_not_overcommitted(self._free[number], amounts)
            placed = min(unplaced, room)
            if placed:
                self._take(number, amounts, placed)
                assignment = NodeAssignment(group, pods, number, placed)
                self.assignments.append(assignment)
                unplaced -= placed
            if not unplaced:
                break
        return count - unplaced

    def _fill_by_rules(
        self, group: Group, pods: Pods, count: int, candidates: Sequence[int]
    ) -> int:
        """The same pod by pod, each onto the first node that the rules between pods allow."""
        placed = 0
        while placed < count:
            number = self._first_allowed(pods, candidates)
            if number is None:
                break
            self._take(number, self._amounts(pods), 1)
            self._note(pods, number, 1)
            self.assignments.append(NodeAssignment(group, pods, number, 1))
            placed += 1
        return placed

    def _first_allowed(self, pods: Pods, candidates: Sequence[int]) -> int | None:
        amounts = self._amounts(pods)
        self._count_looks(len(candidates))
        for number in candidates:
            if times_if_not_overcommitted(self._free[number], amounts) < 1:
                continue
            if self.beside is None or self.beside.allows(pods, number):
                return number
        return None

    def _note(self, pods: Pods, number: int, count: int) -> None:
        """Record pods on a node in the rules between pods."""
        if self.beside:
            self.beside.put(pods, number, count)

    def _usable_by(self, pods: Pods) -> list[bool]:
        """Whether each leaf may run these pods, computed once for each kind of pods."""
        usable = self._usable.get(pods)
        if usable is None:
            usable = [leaf.usable(pods) for leaf in self.leaves]
            self._usable[pods] = usable
        return usable

    def _order(
        self, pods: Pods, scores: Mapping[int, int]
    ) -> Callable[[int], tuple[int, bool, int]]:
        """The key that sorts nodes as KAI tries them.

        Preferred domains first, nodes without GPUs first for pods without, then the fullest.
        """
        wants_gpu = _wants_gpu(pods)
        scarce: list[int] = []
        for i, resource in enumerate(self._resources):
            is_scarce = resource == "cpu"
            if wants_gpu:
                is_scarce = _is_gpu(resource)
            if is_scarce:
                scarce.append(i)

        def key(number: int) -> tuple[int, bool, int]:
            free = 0
            for i in scarce:
                free += self._free[number][i]
            is_last = not (wants_gpu or self.leaves[number].is_cpu_only)
            return -scores.get(number, 0), is_last, free

        return key

    def _take(self, number: int, amounts: Sequence[int], count: int) -> None:
        """Subtract what `count` pods request from a node, and from the tables that count it."""
        free = self._free[number]
        path = self.leaves[number].path
        tables: list[_Table] = []
        if path is not None:
            for depth in range(len(path) + 1):
                domain = path[:depth]
                of_domain = self._tables.get(domain, {})
                tables += of_domain.values()

        for table in tables:
            table.add(path or (), free, -1)
        for i, amount in enumerate(amounts):
            free[i] -= amount * count
        for table in tables:
            table.add(path or (), free, 1)

    def _take_back(self, before: int) -> None:
        """Undo all assignments but the first `before`."""
        while len(self.assignments) > before:
            undone = self.assignments.pop()
            amounts = self._amounts(undone.pods)
            self._take(undone.leaf, amounts, -undone.count)
            self._note(undone.pods, undone.leaf, -undone.count)

    def _candidates(self, group: Group, nodes: Sequence[int]) -> _Candidates:
        """The domains that seem to have room for a group with a level.

        Records why if there are none.
        """
        valid = [number for number in nodes if self.leaves[number].path is not None]
        required = self._depth(group.required)
        preferred = self._depth(group.preferred)
        narrowest = preferred or required
        common = self._common(valid, preferred)
        offers = self._offers(group, common, narrowest=narrowest)
        if not offers.fits(common):
            shortage = offers.shortage(group, common)
            self._failures.append(shortage)
            return _Candidates([], {})

        scores: dict[int, int] = {}
        if preferred:
            preferred_domains = offers.at(preferred)
            scores = self._scores(preferred_domains)
        depths = range(narrowest, required - 1, -1)
        node_sets = self._node_sets(group, offers, depths, set(valid))
        return _Candidates(node_sets, scores)

    def _scores(self, domains: Sequence[Path]) -> dict[int, int]:
        """The scores of the nodes in these domains, the last of which score best."""
        scores: dict[int, int] = {}
        count = len(domains)
        for position, domain in enumerate(domains, 1):
            score = position * _SCORES // count
            members = self._members[domain]
            scores.update(dict.fromkeys(members, score))
        return scores

    def _node_sets(
        self, group: Group, offers: _Offers, depths: range, valid: set[int]
    ) -> list[list[int]]:
        """The valid nodes of each domain that seems to have room for the group."""
        node_sets: list[list[int]] = []
        failures = [Unplaced(group, "order", fits=0, wanted=offers.count)]
        for depth in depths:
            for domain in offers.at(depth):
                if offers.fits(domain):
                    members = self._members[domain]
                    nodes = [number for number in members if number in valid]
                    node_sets.append(nodes)
                else:
                    shortage = offers.shortage(group, domain)
                    failures.append(shortage)
        if not node_sets:
            most_telling = max(failures, key=_weight)
            self._failures.append(most_telling)
        return node_sets

    def _common(self, valid: Sequence[int], preferred: int) -> Path:
        """The narrowest domain with all these nodes in it, but none below the preferred level."""
        paths = [self.leaves[number].path or () for number in valid]
        self._count_looks(len(paths))
        lowest = preferred or len(self.levels)
        common: list[str] = []
        for depth in range(lowest):
            values = {path[depth] for path in paths}
            if len(values) != 1:
                break
            value = values.pop()
            if not value:
                break
            common.append(value)
        return tuple(common)

    def _offers(self, group: Group, common: Path, *, narrowest: int) -> _Offers:
        """What the domains from `common` down to the depth `narrowest` offer to one copy."""
        table = self._table(group, common, narrowest=max(narrowest, len(common)))
        total = group.total()
        wanted: dict[int, int] = {}
        for i, name in enumerate(self._resources):
            if name != PODS and total.get(name):
                wanted[i] = total[name]
        return _Offers(
            common=common,
            sums=table.sums,
            wanted=wanted,
            count=total.get(PODS, 0),
            counts_pods=_requests_alike(group),
        )

    def _table(self, group: Group, common: Path, *, narrowest: int) -> _Table:
        """The table of the domains in `common` for the pods of a group, created if missing."""
        largest = self._largest(group)
        fixed = 0
        if not self._requests_something(largest):
            fixed = _count(group)
        members = self._members.get(common, ())
        self._count_looks(len(members))

        tables = self._tables.setdefault(common, {})
        key = (narrowest, *largest, fixed)
        table = tables.get(key)
        if table is None:
            depths = range(len(common), narrowest + 1)
            table = _Table(depths, largest, fixed)
            for number in members:
                path = self.leaves[number].path
                table.add(path or (), self._free[number], 1)
            tables[key] = table
        return table

    def _largest(self, group: Group) -> list[int]:
        """The largest request of any pod of the group, by column."""
        largest = [0] * len(self._resources)
        for pods in pods_in([group]):
            if not pods.count:
                continue
            for i, amount in enumerate(self._amounts(pods)):
                largest[i] = max(largest[i], amount)
        return largest

    def _requests_something(self, amounts: Sequence[int]) -> bool:
        """Whether a pod requests any resource."""
        for resource, amount in zip(self._resources, amounts, strict=True):
            if amount and resource != PODS:
                return True
        return False

    def _count_looks(self, count: int) -> None:
        self.looks -= count
        if self.looks < 0:
            raise AllocationTooLargeError(
                f"KAI's allocation was not computed to its end: more than "
                f"{MAX_NODE_LOOKS} looks at nodes"
            )


def in_name_order(count: int) -> Iterator[int]:
    """The indexes of `count` sub-groups in the order of their names: 0, 1, 10, 11, 2."""
    return iter(sorted(range(count), key=str))


def _weight(failure: Unplaced) -> tuple[bool, bool, int]:
    """How much a failure says: a limit of KAI's own more than a lack of room, then the closest."""
    return failure.why == "narrower", failure.why == "largest", failure.fits


def _count(group: Group) -> int:
    return group.total().get(PODS, 0)


def _requests_differ(group: Group) -> bool:
    """Whether some of its pods request more than others."""
    requests = {pods.requests for pods in pods_in([group])}
    return len(requests) > 1


def _requests_alike(group: Group) -> bool:
    """Whether all pods of a group request the same resources, whatever the amounts.

    Then KAI counts pods, otherwise their requests.
    """
    kinds: set[tuple[bool, frozenset[str]]] = set()
    for pods in pods_in([group]):
        if not pods.count:
            continue
        others: set[str] = set()
        for resource in _requested(pods):
            if _is_counted(resource):
                others.add(resource)
        kind = _wants_gpu(pods), frozenset(others)
        kinds.add(kind)
    return len(kinds) == 1


def _requested(pods: Pods) -> list[str]:
    return [resource for resource, amount in pods.requests if amount]


def _wants_gpu(pods: Pods) -> bool:
    for resource in _requested(pods):
        if _is_gpu(resource):
            return True
    return False


def _is_gpu(resource: str) -> bool:
    """Whether KAI counts the resource as GPUs, by its name."""
    return resource.endswith("gpu")


def _is_counted(resource: str) -> bool:
    return resource not in ("cpu", "memory") and not _is_gpu(resource)
