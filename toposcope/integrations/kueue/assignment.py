"""How Kueue assigns pod sets to topology domains.

Pod sets in their order, each at once and for good. A placement may exist that Kueue does not find:
it never takes a pod set back to make room for the next one. Source: Kueue 0.19
(pkg/cache/scheduler/tas_flavor_snapshot.go, KEP 2724) with its default feature gates: best fit, and
for pod sets without a level the domain with the least free capacity (TASProfileMixed).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.packing import Path, add_pods, times_by_name


@dataclass(frozen=True, slots=True)
class OrderedPods:
    """A pod set. Levels are label keys."""

    pods: Pods
    level: str | None
    """None: none is asked for."""
    required: bool = False
    slices: tuple[tuple[str, int], ...] = ()
    """Level and size of each slice layer, the broadest first."""
    group: str | None = None
    """Pod sets of one group share a domain: the one with the smaller count, a single pod, leads the
    others.
    """
    explicit: bool = True
    """Whether it says anything of topology; False: it is placed all the same where each flavor has
    a topology.
    """
    least: int | None = None
    """So many pods would do."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One node, or a domain where no level is the node.

    Its values of the topology's levels, broadest first.
    """

    path: Path
    free: dict[str, int]
    """What is left (`pods` included); assigning takes from it."""
    usable: Callable[[NodeFilter], bool]
    """Whether node selector, affinity and tolerations let pods onto it."""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Unassigned:
    """The first pod set for which Kueue finds no room.

    And how many of its pods (or slices) it finds room for.
    """

    pod_set: str
    fits: int
    wanted: int
    unit: str
    """`pod` or `slice`."""


Assignment = tuple[OrderedPods, int, int]
"""Pods of a pod set, the position of their leaf, and how many of them go there."""


@dataclass(slots=True, eq=False)
class _Domain:
    path: Path
    leaf: int
    """Of a domain of the lowest level: the position of its node."""
    children: "list[_Domain]" = field(default_factory=list)
    pods: int = 0
    slices: int = 0
    leaders: int = 0
    """1 where the leader fits, too."""
    pods_with_leader: int = 0
    slices_with_leader: int = 0


class Assigner:
    """Assigns pod sets on a topology; what one takes is gone for those that follow."""

    def __init__(self, levels: Sequence[str], leaves: Sequence[Leaf]) -> None:
        """`levels` are label keys; every leaf has a value of each."""
        self.levels = tuple(levels)
        self.leaves = leaves
        self._usable: dict[NodeFilter, list[bool]] = {}
        self.by_level: list[list[_Domain]] = [[] for _ in levels]
        top: list[_Domain] = []
        known: dict[Path, _Domain] = {}
        for position, leaf in enumerate(leaves):
            siblings = top
            for depth, domains in enumerate(self.by_level, 1):
                path = leaf.path[:depth]
                if path not in known:
                    known[path] = _Domain(path, leaf=position)
                    siblings.append(known[path])
                    domains.append(known[path])
                siblings = known[path].children

    def usable(self, node_filter: NodeFilter) -> list[bool]:
        """By leaf: whether the pods may use it."""
        if node_filter not in self._usable:
            self._usable[node_filter] = [leaf.usable(node_filter) for leaf in self.leaves]
        return self._usable[node_filter]

    def take(self, assignments: Iterable[Assignment], sign: int = 1) -> None:
        """Take what was assigned from the leaves, or with the sign -1 give it back."""
        for pod_set, leaf, count in assignments:
            add_pods(self.leaves[leaf].free, pod_set.pods.requests, -sign * count)

    def assign(self, pod_sets: Iterable[OrderedPods]) -> list[Assignment] | Unassigned:
        """Assign all of them, or none: the first that finds no room ends it."""
        assignments: list[Assignment] = []
        for leader, workers in _in_groups(pod_sets):
            result = _Search(self, workers, leader).run()
            if isinstance(result, Unassigned):
                self.take(assignments, -1)
                return result
            for domain in result:
                for members, count in ((workers, domain.pods), (leader, domain.leaders)):
                    if members and count:
                        assignments.append((members, domain.leaf, count))
                        self.take(assignments[-1:])
        return assignments


def _in_groups(pod_sets: Iterable[OrderedPods]) -> list[tuple[OrderedPods | None, OrderedPods]]:
    """Leader and workers of each group in the order of their first pod sets.

    The one with more pods are the workers.
    """
    groups: dict[object, list[OrderedPods]] = {}
    for position, pod_set in enumerate(pod_sets):
        groups.setdefault(position if pod_set.group is None else pod_set.group, []).append(pod_set)
    result: list[tuple[OrderedPods | None, OrderedPods]] = []
    for first, *others in groups.values():
        if others and others[0].pods.count > first.pods.count:
            result.append((first, others[0]))
        else:
            result.append((others[0] if others else None, first))
    return result


class _Search:
    """Where one pod set goes, with its leader where it has one."""

    def __init__(
        self, assigner: Assigner, workers: OrderedPods, leader: OrderedPods | None
    ) -> None:
        self._assigner = assigner
        self._by_level = assigner.by_level
        self._workers = workers
        self._leader = leader
        self._leaders = 1 if leader else 0
        self._lowest = len(self._by_level) - 1
        self._unconstrained = workers.level is None
        self._slices = [(assigner.levels.index(level), size) for level, size in workers.slices]
        self._slice_level, self._slice_size = self._slices[0] if self._slices else (self._lowest, 1)
        self._inner = self._inner_sizes()
        # Kueue asks the workers' selector and tolerations of the leader, too.
        self._usable = assigner.usable(workers.pods.node_filter)
        for domain in self._by_level[0]:
            self._fill(domain, 0)

    def _inner_sizes(self) -> dict[int, int]:
        """By level: the slice size that pods are grouped by there, for layers below the first."""
        sizes: dict[int, int] = {}
        above = self._slice_level
        for level, size in self._slices[1:]:
            sizes.update(dict.fromkeys(range(above + 1, level + 1), size))
            above = level
        return sizes

    def run(self) -> "list[_Domain] | Unassigned":
        """The leaves with the pods (and leaders) that they get."""
        asked = self._workers.level
        # Without a level: anywhere, or in slices anywhere.
        start = self._assigner.levels.index(asked) if asked else 0 if self._slices else self._lowest
        found = self._fitting(start)
        if isinstance(found, Unassigned):
            return found
        level, domains = found
        count = self._workers.pods.count
        domains = self._minimal(domains, count, self._leaders, self._slice_size, slices=True)
        while level < min(self._lowest, self._slice_level):
            below = self._sorted(child for domain in domains for child in domain.children)
            domains = self._minimal(below, count, self._leaders, self._slice_size, slices=True)
            level += 1
        while level < self._lowest:
            size = self._inner.get(level + 1, 1) if level >= self._slice_level else self._slice_size
            lower: list[_Domain] = []
            for domain in domains:
                children = self._sorted(domain.children)
                if size > 1:  # slices of an inner layer were not counted yet
                    for child in children:
                        child.slices = child.pods // size
                        child.slices_with_leader = child.pods_with_leader // size
                lower += self._minimal(children, domain.pods, domain.leaders, size, slices=size > 1)
            domains = lower
            level += 1
        return domains

    def _fill(self, domain: _Domain, level: int) -> None:
        """Count what each domain has room for, from the leaves up."""
        domain.pods = domain.slices = domain.leaders = domain.pods_with_leader = (
            domain.slices_with_leader
        ) = 0
        if not domain.children:
            self._fill_leaf(domain)
        else:
            for child in domain.children:
                self._fill(child, level + 1)
            self._sum(domain, self._inner.get(level + 1, 1))
        if level == self._slice_level:
            domain.slices = domain.pods // self._slice_size
            domain.slices_with_leader = domain.pods_with_leader // self._slice_size

    def _fill_leaf(self, domain: _Domain) -> None:
        if not self._usable[domain.leaf]:
            return
        free = self._assigner.leaves[domain.leaf].free
        domain.pods = domain.pods_with_leader = times_by_name(free, self._workers.pods.requests)
        if self._leader and times_by_name(free, self._leader.pods.requests):
            domain.leaders = 1
            rest = dict(free)
            add_pods(rest, self._leader.pods.requests, -1)
            domain.pods_with_leader = times_by_name(rest, self._workers.pods.requests)

    def _sum(self, domain: _Domain, size: int) -> None:
        pods = [child.pods // size * size for child in domain.children]
        beside = [child.pods_with_leader // size * size for child in domain.children]
        domain.pods = sum(pods)
        domain.slices = sum(child.slices for child in domain.children)
        domain.leaders = max(child.leaders for child in domain.children)
        able = [
            (pods[position] - beside[position], child.slices - child.slices_with_leader)
            for position, child in enumerate(domain.children)
            if not self._leader or child.leaders
        ]
        if able:
            domain.pods_with_leader = domain.pods - min(lost for lost, _ in able)
            domain.slices_with_leader = domain.slices - min(lost for _, lost in able)

    def _fitting(self, level: int) -> "tuple[int, list[_Domain]] | Unassigned":
        """The domains that together have room, at the level asked for or, where that is preferred.

        At one above.
        """
        wanted = self._workers.pods.count // self._slice_size
        domains = self._sorted_with_leader(self._by_level[level])
        if not domains:  # no node has all levels
            return self._unassigned(0, wanted)
        best = domains[0]
        if self._unconstrained:
            for domain in domains:
                enough = (domain.slices_with_leader if self._leaders else domain.slices) >= wanted
                if enough and domain.leaders >= self._leaders:
                    return level, [domain]
        elif best.slices_with_leader >= wanted and best.leaders >= self._leaders:
            best = self._tightest(domains, wanted, self._leaders, slices=True)
        if best.slices_with_leader >= wanted and best.leaders >= self._leaders:
            return level, [best]
        if self._workers.required:
            return self._unassigned(best.slices, wanted)
        if level > 0 and not self._unconstrained:
            return self._fitting(level - 1)
        return self._spread(level, domains, wanted)

    def _spread(
        self, level: int, domains: list[_Domain], wanted: int
    ) -> "tuple[int, list[_Domain]] | Unassigned":
        """Several domains, the largest first (without a level the smallest).

        Leaders first, then the rest.
        """
        domains = self._leader_first(
            domains, self._workers.pods.count, self._leaders, self._slice_size, slices=True
        )
        best_fit = not self._unconstrained
        result: list[_Domain] = []
        remaining, leaders, position = wanted, self._leaders, 0
        while leaders > 0 and position < len(domains) and domains[position].leaders:
            domain = domains[position]
            if best_fit and domain.slices_with_leader >= remaining:
                domain = self._tightest(domains[position:], remaining, leaders, slices=True)
            result.append(domain)
            leaders -= domain.leaders
            remaining -= domain.slices_with_leader
            position += 1
        if leaders > 0:
            return self._unassigned(0, wanted)
        rest = self._sorted(domains[position:])
        for position, candidate in enumerate(rest):
            if remaining <= 0:
                break
            domain = candidate
            if best_fit and domain.slices >= remaining:
                domain = self._tightest(rest[position:], remaining, 0, slices=True)
            result.append(domain)
            remaining -= domain.slices
        return self._unassigned(wanted - remaining, wanted) if remaining > 0 else (level, result)

    def _unassigned(self, fits: int, wanted: int) -> Unassigned:
        unit = "slice" if self._slice_size > 1 else "pod"
        return Unassigned(self._workers.pods.name, max(fits, 0), wanted, unit)

    def _minimal(
        self, domains: list[_Domain], count: int, leaders: int, size: int, *, slices: bool
    ) -> list[_Domain]:
        """As few of the domains as hold the count; each gets its share."""
        domains = self._leader_first(domains, count, leaders, size, slices=slices)
        remaining = count // size if slices else count
        result: list[_Domain] = []
        for position, candidate in enumerate(domains):
            domain = candidate
            room = _room(domain, slices=slices, leader=leaders > 0)
            last = room >= remaining and domain.leaders >= leaders
            if last and not self._unconstrained:
                domain = self._tightest(domains[position:], remaining, leaders, slices=slices)
                room = _room(domain, slices=slices, leader=leaders > 0)
                last = room >= remaining and domain.leaders >= leaders
            share = min(room, remaining)
            domain.leaders = min(domain.leaders, leaders)
            domain.pods = share * (size if slices else 1)
            if slices:
                domain.slices = share
            result.append(domain)
            if last:
                return result
            leaders -= domain.leaders
            remaining -= share
        return result

    def _tightest(
        self, domains: list[_Domain], wanted: int, leaders: int, *, slices: bool
    ) -> _Domain:
        """The first of the domains with the least room that is enough.

        The first of all where none has enough.
        """
        able = [domain for domain in domains if domain.leaders >= leaders]
        enough = [
            domain for domain in able if _room(domain, slices=slices, leader=leaders > 0) >= wanted
        ]
        return min(
            enough,
            key=lambda domain: _room(domain, slices=slices, leader=leaders > 0),
            default=domains[0],
        )

    def _leader_first(
        self, domains: list[_Domain], count: int, leaders: int, size: int, *, slices: bool
    ) -> list[_Domain]:
        """With the first domain in front whose leader leaves enough room in all of them."""
        if not leaders:
            return domains
        needed = count // size if slices else count
        available = sum(_room(domain, slices=slices, leader=False) for domain in domains)
        for position, domain in enumerate(domains):
            lost = _room(domain, slices=slices, leader=False) - _room(
                domain, slices=slices, leader=True
            )
            if domain.leaders >= leaders and available - lost >= needed:
                return [domain, *domains[:position], *domains[position + 1 :]]
        return domains

    def _sorted(self, domains: Iterable[_Domain]) -> list[_Domain]:
        sign = 1 if self._unconstrained else -1
        return sorted(domains, key=lambda domain: (sign * domain.slices, domain.pods, domain.path))

    def _sorted_with_leader(self, domains: Iterable[_Domain]) -> list[_Domain]:
        sign = 1 if self._unconstrained else -1
        return sorted(
            domains,
            key=lambda domain: (
                -domain.leaders,
                sign * domain.slices_with_leader,
                domain.pods_with_leader,
                domain.path,
            ),
        )


def _room(domain: _Domain, *, slices: bool, leader: bool) -> int:
    if slices:
        return domain.slices_with_leader if leader else domain.slices
    return domain.pods_with_leader if leader else domain.pods
