"""How Kueue assigns pod sets to topology domains.

Pod sets in order, each at once and finally. Kueue may miss a valid placement: it never moves a pod
set to make room for the next one. Source: Kueue 0.19 (pkg/cache/scheduler/tas_flavor_snapshot.go,
KEP 2724) with its default feature gates: best fit, and for pod sets without a level the domain with
the least free capacity (TASProfileMixed).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from sys import maxsize

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import NodeFilter
from toposcope.integrations.framework.packing import Path, add_pods, times_by_name


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """Pods in slices of `size`, each kept together at a level."""

    level: str
    size: int


@dataclass(frozen=True, slots=True)
class OrderedPods:
    """A pod set. Levels are label keys."""

    pods: Pods
    level: str | None
    """None if no level is requested."""
    is_required: bool = False
    slices: tuple[SliceLayer, ...] = ()
    """Broadest first."""
    group: str | None = None
    """Pod sets of one group share a domain: the one with the smaller count, a single pod, is the
    leader.
    """
    is_explicit: bool = True
    """Whether it requests anything about topology.

    If False it is placed anyway where each flavor has a topology.
    """
    least: int | None = None
    """The fewest pods that it may be admitted with."""

    @property
    def named_levels(self) -> list[str]:
        """Every level that it requests."""
        levels = [layer.level for layer in self.slices]
        if self.level:
            levels.append(self.level)
        return levels


@dataclass(frozen=True, slots=True)
class Leaf:
    """One node, or a domain where no level is the node."""

    path: Path
    """Its values of the topology's levels, broadest first."""
    free: dict[str, int]
    """What is left (`pods` included), reduced by assignments."""
    usable: Callable[[NodeFilter], bool]
    """Whether node selector, affinity and tolerations allow it."""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Unassigned:
    """The first pod set for which Kueue finds no room."""

    pod_set: str
    fits: int
    """How many of its pods (or slices) have room."""
    wanted: int
    unit: str
    """`pod` or `slice`."""


@dataclass(frozen=True, slots=True)
class LeafAssignment:
    """Pods of a pod set on one leaf."""

    pod_set: OrderedPods
    leaf: int
    """Its position."""
    count: int


@dataclass(slots=True, eq=False)
class _Domain:
    path: Path
    leaf: int
    """The position of its node, for a domain of the lowest level."""
    children: "list[_Domain]" = field(default_factory=list)
    pods: int = 0
    slices: int = 0
    leaders: int = 0
    """1 if the leader fits too."""
    pods_with_leader: int = 0
    slices_with_leader: int = 0


@dataclass(slots=True)
class _Demand:
    """How many slices or pods, with their leader, are still to be assigned."""

    count: int
    leaders: int
    is_in_slices: bool
    """Whether slices are counted instead of pods."""

    def room(self, domain: _Domain) -> int:
        """How many fit in the domain."""
        has_leader = self.leaders > 0
        if self.is_in_slices:
            return domain.slices_with_leader if has_leader else domain.slices
        return domain.pods_with_leader if has_leader else domain.pods

    def is_met_by(self, domain: _Domain) -> bool:
        """Whether the domain has room for all of it."""
        if domain.leaders < self.leaders:
            return False
        return self.room(domain) >= self.count

    def take(self, count: int, leaders: int = 0) -> None:
        """Count `count` as assigned."""
        self.count -= count
        self.leaders -= leaders

    def tightest(self, domains: Sequence[_Domain]) -> _Domain:
        """The first domain with the least sufficient room; the first of all if none has enough."""
        tightest = domains[0]
        least_room = maxsize
        for domain in domains:
            if domain.leaders < self.leaders:
                continue
            room = self.room(domain)
            if self.count <= room < least_room:
                tightest, least_room = domain, room
        return tightest

    def leader_first(self, domains: list[_Domain]) -> list[_Domain]:
        """The domains, with one first that can host the leader and leaves enough room in all."""
        if not self.leaders:
            return domains
        without_leader = _Demand(self.count, leaders=0, is_in_slices=self.is_in_slices)
        rooms = [without_leader.room(domain) for domain in domains]
        spare = sum(rooms) - self.count
        for position, domain in enumerate(domains):
            if domain.leaders < self.leaders:
                continue
            lost = rooms[position] - self.room(domain)
            if lost <= spare:
                before = domains[:position]
                after = domains[position + 1 :]
                return [domain, *before, *after]
        return domains


@dataclass(frozen=True, slots=True)
class _Together:
    """A pod set with its leader."""

    workers: OrderedPods
    leader: OrderedPods | None = None

    def assignments(self, domains: Iterable[_Domain]) -> Iterator[LeafAssignment]:
        """The assignments of these domains."""
        for domain in domains:
            if domain.pods:
                yield LeafAssignment(self.workers, domain.leaf, domain.pods)
            if self.leader and domain.leaders:
                yield LeafAssignment(self.leader, domain.leaf, domain.leaders)


class Assigner:
    """Assigns pod sets on a topology, each with what earlier ones left."""

    def __init__(self, levels: Sequence[str], leaves: Sequence[Leaf]) -> None:
        """`levels` are label keys; every leaf has a value of each."""
        self.levels = tuple(levels)
        self.leaves = leaves
        self._usable: dict[NodeFilter, list[bool]] = {}
        self.by_level: list[list[_Domain]] = [[] for _ in levels]
        domain_at: dict[Path, _Domain] = {}
        for position, leaf in enumerate(leaves):
            parent: _Domain | None = None
            for depth, domains in enumerate(self.by_level, 1):
                path = leaf.path[:depth]
                domain = domain_at.get(path)
                if domain is None:
                    domain = _Domain(path, leaf=position)
                    domain_at[path] = domain
                    domains.append(domain)
                    if parent:
                        parent.children.append(domain)
                parent = domain

    def usable(self, node_filter: NodeFilter) -> list[bool]:
        """For each leaf, whether the pods may use it."""
        usable = self._usable.get(node_filter)
        if usable is None:
            usable = [leaf.usable(node_filter) for leaf in self.leaves]
            self._usable[node_filter] = usable
        return usable

    def assign(self, pod_sets: Iterable[OrderedPods]) -> list[LeafAssignment] | Unassigned:
        """Assign all of them, or none: the first that finds no room ends it."""
        assigned: list[LeafAssignment] = []
        for together in _in_groups(pod_sets):
            domains = _Search(self, together).run()
            if isinstance(domains, Unassigned):
                self.give_back(assigned)
                return domains
            for assignment in together.assignments(domains):
                self._add(assignment, assignment.count)
                assigned.append(assignment)
        return assigned

    def give_back(self, assignments: Iterable[LeafAssignment]) -> None:
        """Free the leaves of what was assigned."""
        for assignment in assignments:
            self._add(assignment, -assignment.count)

    def _add(self, assignment: LeafAssignment, count: int) -> None:
        free = self.leaves[assignment.leaf].free
        add_pods(free, assignment.pod_set.pods.requests, -count)


def _in_groups(pod_sets: Iterable[OrderedPods]) -> list[_Together]:
    """Leader and workers of each group, in the order of their first pod sets.

    The workers are the pod set with more pods.
    """
    groups: dict[object, list[OrderedPods]] = {}
    for position, pod_set in enumerate(pod_sets):
        key: object = pod_set.group
        if pod_set.group is None:
            key = position
        members = groups.setdefault(key, [])
        members.append(pod_set)

    result = []
    for first, *others in groups.values():
        if not others:
            result.append(_Together(first))
        elif others[0].pods.count > first.pods.count:
            result.append(_Together(workers=others[0], leader=first))
        else:
            result.append(_Together(workers=first, leader=others[0]))
    return result


@dataclass(frozen=True, slots=True)
class _Fit:
    """Domains of one level that together have room."""

    level: int
    domains: list[_Domain]


class _Search:
    """The search for a placement of one pod set, with its leader if it has one."""

    def __init__(self, assigner: Assigner, together: _Together) -> None:
        workers = together.workers
        self._assigner = assigner
        self._by_level = assigner.by_level
        self._workers = workers
        self._leader = together.leader
        self._lowest = len(self._by_level) - 1
        self._unconstrained = workers.level is None
        self._slice_level, self._slice_size = self._lowest, 1
        if workers.slices:
            self._slice_level = assigner.levels.index(workers.slices[0].level)
            self._slice_size = workers.slices[0].size
        self._inner = self._inner_sizes()

        # Kueue asks the workers' selector and tolerations of the leader, too.
        self._usable = assigner.usable(workers.pods.node_filter)
        for domain in self._by_level[0]:
            self._fill(domain, 0)

    def _inner_sizes(self) -> dict[int, int]:
        """The slice size at each level, for layers below the first."""
        sizes: dict[int, int] = {}
        above = self._slice_level
        for layer in self._workers.slices[1:]:
            lowest = self._assigner.levels.index(layer.level)
            for level in range(above + 1, lowest + 1):
                sizes[level] = layer.size
            above = lowest
        return sizes

    def run(self) -> list[_Domain] | Unassigned:
        """The leaves with the pods (and leaders) that they get."""
        fit = self._fitting(self._first_level())
        if isinstance(fit, Unassigned):
            return fit

        level = fit.level
        domains = self._minimal(fit.domains, self._demand(), self._slice_size)
        while level < self._slice_level:
            below: list[_Domain] = []
            for domain in domains:
                below += domain.children
            domains = self._minimal(self._sorted(below), self._demand(), self._slice_size)
            level += 1
        while level < self._lowest:
            level += 1
            domains = self._parted(domains, self._inner.get(level, 1))
        return domains

    def _first_level(self) -> int:
        """The level at which the search starts; without a level, or in slices, any."""
        level = self._workers.level
        if level:
            return self._assigner.levels.index(level)
        return 0 if self._workers.slices else self._lowest

    def _demand(self) -> _Demand:
        """The whole pod set."""
        slices = self._workers.pods.count // self._slice_size
        return _Demand(count=slices, leaders=1 if self._leader else 0, is_in_slices=True)

    def _parted(self, domains: Iterable[_Domain], size: int) -> list[_Domain]:
        """The domains one level lower that share what these got, in slices of `size`."""
        lower: list[_Domain] = []
        for domain in domains:
            children = self._sorted(domain.children)
            if size > 1:  # slices of an inner layer were not counted yet
                for child in children:
                    child.slices = child.pods // size
                    child.slices_with_leader = child.pods_with_leader // size
            share = _Demand(
                count=domain.pods // size,
                leaders=domain.leaders,
                is_in_slices=size > 1,
            )
            lower += self._minimal(children, share, size)
        return lower

    def _fill(self, domain: _Domain, level: int) -> None:
        """Count what fits in each domain, from the leaves up."""
        domain.pods = 0
        domain.slices = 0
        domain.leaders = 0
        domain.pods_with_leader = 0
        domain.slices_with_leader = 0
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
        requests = self._workers.pods.requests
        domain.pods = times_by_name(free, requests)
        domain.pods_with_leader = domain.pods
        if self._leader and times_by_name(free, self._leader.pods.requests):
            domain.leaders = 1
            remaining = dict(free)
            add_pods(remaining, self._leader.pods.requests, -1)
            domain.pods_with_leader = times_by_name(remaining, requests)

    def _sum(self, domain: _Domain, size: int) -> None:
        """Count what fits in the children, in slices of `size`, with the leader in one of them."""
        lost_pods: list[int] = []
        lost_slices: list[int] = []
        for child in domain.children:
            pods = child.pods // size * size
            domain.pods += pods
            domain.slices += child.slices
            domain.leaders = max(domain.leaders, child.leaders)
            if self._leader and not child.leaders:
                continue
            pods_with_leader = child.pods_with_leader // size * size
            lost_pods.append(pods - pods_with_leader)
            lost_slices.append(child.slices - child.slices_with_leader)

        if lost_pods:
            domain.pods_with_leader = domain.pods - min(lost_pods)
            domain.slices_with_leader = domain.slices - min(lost_slices)

    def _fitting(self, level: int) -> _Fit | Unassigned:
        """The domains that together have room: at this level, or if it is preferred, above it."""
        demand = self._demand()
        domains = self._sorted_with_leader(self._by_level[level])
        if not domains:  # no node has all levels
            return self._unassigned(0)
        single = self._single(domains, demand)
        if single:
            return _Fit(level, [single])
        if self._workers.is_required:
            return self._unassigned(domains[0].slices)
        if level > 0 and not self._unconstrained:
            return self._fitting(level - 1)
        return self._spread(level, domains, demand)

    def _single(self, domains: Sequence[_Domain], demand: _Demand) -> _Domain | None:
        """The single domain with room for all: the tightest, or without a level the first."""
        if not self._unconstrained:
            return demand.tightest(domains) if demand.is_met_by(domains[0]) else None
        for domain in domains:
            if demand.is_met_by(domain):
                return domain
        return None

    def _spread(self, level: int, domains: list[_Domain], demand: _Demand) -> _Fit | Unassigned:
        """Several domains, the largest first (without a level the smallest).

        The domain of the leader comes before the others.
        """
        wanted = demand.count
        best_fit = not self._unconstrained
        result: list[_Domain] = []
        domains = demand.leader_first(domains)
        if demand.leaders:
            domain = domains[0]
            if not domain.leaders:
                return self._unassigned(0)
            if best_fit and demand.is_met_by(domain):
                domain = demand.tightest(domains)
            result.append(domain)
            demand.take(domain.slices_with_leader, leaders=domain.leaders)
            domains = domains[1:]

        remaining_domains = self._sorted(domains)
        for position, candidate in enumerate(remaining_domains):
            if demand.count <= 0:
                break
            domain = candidate
            if best_fit and domain.slices >= demand.count:
                domain = demand.tightest(remaining_domains[position:])
            result.append(domain)
            demand.take(domain.slices)
        if demand.count > 0:
            return self._unassigned(wanted - demand.count)
        return _Fit(level, result)

    def _unassigned(self, fits: int) -> Unassigned:
        return Unassigned(
            pod_set=self._workers.pods.name,
            fits=max(fits, 0),
            wanted=self._workers.pods.count // self._slice_size,
            unit="slice" if self._slice_size > 1 else "pod",
        )

    def _minimal(self, domains: list[_Domain], demand: _Demand, size: int) -> list[_Domain]:
        """The fewest domains that meet the demand, with the share of each, in slices of `size`."""
        domains = demand.leader_first(domains)
        result: list[_Domain] = []
        for position, candidate in enumerate(domains):
            domain = candidate
            if not self._unconstrained and demand.is_met_by(domain):
                domain = demand.tightest(domains[position:])
            is_last = demand.is_met_by(domain)
            share = min(demand.room(domain), demand.count)
            domain.leaders = min(domain.leaders, demand.leaders)
            domain.pods = share * size
            if demand.is_in_slices:
                domain.slices = share
            result.append(domain)

            if is_last:
                break
            demand.take(share, domain.leaders)
        return result

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
