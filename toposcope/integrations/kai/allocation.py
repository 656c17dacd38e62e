"""How KAI places a gang.

It chooses a domain, fills nodes pod by pod, and takes back nothing but a whole domain. A placement
may exist that KAI does not find. Source: KAI 0.17.0 with its default plugins and bin packing
(pkg/scheduler/actions/common/allocate.go,
pkg/scheduler/plugins/{topology,nodeplacement,resourcetype,subgrouporder}). Groups stand in the
order of their sub-groups' names, as KAI takes them.
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

VERSION: Final = "KAI 0.17"
LOOKS: Final = 5_000_000
"""After so many looks at nodes the allocation gives up."""
_SCORES: Final = 10
_NO_ROOM: Final = 1000.0

Why = Literal["narrower", "largest", "order"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One node: its values of the topology's levels, broadest first.

    And what is free on it (`pods` included).
    """

    path: Path | None
    """None: it lacks a level, so it is none of the topology's."""
    free: Mapping[str, int]
    cpu_only: bool
    usable: Callable[[Pods], bool]
    """Whether node selector, affinity, tolerations and the node's state let pods onto it."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The group that finds no place."""

    group: Group
    why: Why
    """`narrower`: all nodes are in one domain below the required level, and KAI looks no higher.
    `largest`: KAI counts every pod as the largest. `order`: no room is left when its turn comes."""
    fits: int
    """How many of its pods found room (`largest`: would, by KAI's count)."""
    wanted: int
    domain: Path = ()
    """`narrower`: the domain that all nodes are in."""


Assignment = tuple[Group, Pods, int, int]
"""Group, pods, the position of their leaf, and how many of them go there."""


class TooLargeError(ToposcopeError):
    """The allocation takes too long to follow."""


@dataclass(slots=True)
class _Sums:
    """What one domain offers to the pods of a group."""

    free: list[int]
    pods: int = 0
    """How many pods it takes, each counted as the largest."""


@dataclass(slots=True)
class _Table:
    """What every domain offers to groups that are alike; up to date as pods are placed."""

    depths: range
    largest: Sequence[int]
    """The most that one of its pods takes, by column."""
    fixed: int
    """How many pods any node takes, if they request nothing."""
    sums: dict[Path, _Sums] = field(default_factory=dict)

    def add(self, path: Path, free: Sequence[int], sign: int) -> None:
        """Count a node in (1) or out (-1)."""
        pods = (self.fixed or times_if_not_overcommitted(free, self.largest)) * sign
        for depth in self.depths:
            offer = self.sums.setdefault(path[:depth], _Sums([0] * len(free)))
            offer.pods += pods
            for i, amount in enumerate(free):
                offer.free[i] += amount * sign


@dataclass(slots=True)
class _Offers:
    """What the domains within `common`, the narrowest one with all nodes in it.

    Offer to one copy of a group. KAI looks at no broader one: that counts as full, so a required
    level above it is met only by a preferred level.
    """

    common: Path
    sums: Mapping[Path, _Sums]
    wanted: Mapping[int, int]
    """By column, without `pods`."""
    count: int
    alike: bool
    """Whether pods are counted, rather than what they request."""

    def fits(self, domain: Path) -> bool:
        """Whether the domain seems to take the group."""
        if domain not in self.sums:
            return not self.wanted
        return self.sums[domain].pods >= self.count if self.alike else self.ratio(domain) <= 1

    def ratio(self, domain: Path) -> float:
        """The largest share of any resource that the group takes."""
        free = self.sums[domain].free
        return max(
            (amount / free[i] if free[i] > 0 else _NO_ROOM for i, amount in self.wanted.items()),
            default=0.0,
        )

    def at(self, depth: int) -> list[Path]:
        """The domains at a depth in KAI's order.

        Those with the least room first, on every level above as well.
        """
        if depth <= len(self.common):
            return [self.common[:depth]]
        ranks = {
            domain: (-self.ratio(domain), domain[-1])
            for domain in self.sums
            if len(self.common) < len(domain) <= depth
        }
        above = range(len(self.common) + 1, depth + 1)
        domains = (domain for domain in ranks if len(domain) == depth)
        return sorted(domains, key=lambda domain: [ranks[domain[:level]] for level in above])

    def short(self, group: Group, domain: Path) -> Unplaced:
        """Why a domain does not take the group."""
        if domain not in self.sums:
            return Unplaced(group, "narrower" if self.sums else "order", 0, self.count, self.common)
        unequal = (
            len({pods.requests for nested, _ in group.everything() for pods in nested.pods}) > 1
        )
        return Unplaced(
            group,
            "largest" if unequal and self.alike else "order",
            self.sums[domain].pods,
            self.count,
            domain,
        )


@dataclass(slots=True)
class Allocator:
    """Allocates gangs on one topology; what one takes is gone for those that follow."""

    levels: Sequence[Level]
    leaves: Sequence[Leaf]
    looks: int = LOOKS
    assignments: list[Assignment] = field(default_factory=list)
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
        for group in groups:
            for _ in range(group.copies):
                self._failures = [Unplaced(group, "order", 0, _count(group))]
                if not self._group(group, range(len(self.leaves)), {}):
                    return max(self._failures, key=_weight)
        return None

    def place_one_by_one(self, group: Group) -> tuple[Path | None, int]:
        """Place the group's pods one after the other.

        The first one decides the domain of the required level. The domain (None where no level is
        required, or where the first pod finds none), and how many are placed.
        """
        self._prepare((group,))
        first = replace(group.pods[0], count=1)
        where: Sequence[int] = range(len(self.leaves))
        if not self._group(replace(group, pods=(first,)), where, {}):
            return None, 0
        _, _, leaf, count = self.assignments.pop()
        self.assignments.append((group, group.pods[0], leaf, count))
        path, domain = self.leaves[leaf].path, None
        if group.required and path is not None:
            domain = path[: self._depth(group.required)]
            where = self._members[domain]
        elif group.preferred:
            where = self._members[()]
        placed = 1
        for pods, wanted in ((pods, pods.count - (pods is group.pods[0])) for pods in group.pods):
            count = self._fill(group, pods, wanted, where, {})
            placed += count
            if count < wanted:
                break
        return domain, placed

    def _prepare(self, groups: Iterable[Group]) -> None:
        self._resources = resources_of([pods.requests for pods in pods_in(groups)])
        self._free = [
            [leaf.free.get(resource, 0) for resource in self._resources] for leaf in self.leaves
        ]
        self._members, self._tables = {(): []}, {}
        for number, leaf in enumerate(self.leaves):
            if leaf.path is not None:
                for depth in range(len(leaf.path) + 1):
                    self._members.setdefault(leaf.path[:depth], []).append(number)

    def _depth(self, level: Level | None) -> int:
        return self.levels.index(level) + 1 if level else 0

    def _amounts(self, pods: Pods) -> Sequence[int]:
        return columns(pods.requests, self._resources)

    def _group(self, group: Group, nodes: Sequence[int], scores: Mapping[int, int]) -> bool:
        """One copy of a group onto some of the nodes, in the first domain that takes all of it."""
        if not _count(group):
            return True
        chosen = (
            self._domains(group, nodes) if group.required or group.preferred else (scores, [nodes])
        )
        for within in chosen[1]:
            before = len(self.assignments)
            if self._inside(group, within, chosen[0] or scores):
                return True
            self._take_back(before)
        return False

    def _inside(self, group: Group, nodes: Sequence[int], scores: Mapping[int, int]) -> bool:
        for pods in group.pods:
            placed = self._fill(group, pods, pods.count, nodes, scores)
            if placed < pods.count:
                self._failures.append(Unplaced(group, "order", placed, pods.count))
                return False
        return all(
            self._group(below, nodes, scores) for below in group.groups for _ in range(below.copies)
        )

    def _fill(
        self, group: Group, pods: Pods, count: int, nodes: Sequence[int], scores: Mapping[int, int]
    ) -> int:
        """Put pods onto the nodes, the fullest ones first; how many find room."""
        amounts = self._amounts(pods)
        if pods not in self._usable:
            self._usable[pods] = [leaf.usable(pods) for leaf in self.leaves]
        usable = self._usable[pods]
        wants_gpu = any(_is_gpu(resource) and amount for resource, amount in pods.requests)
        scarce = [
            i
            for i, resource in enumerate(self._resources)
            if (_is_gpu(resource) if wants_gpu else resource == "cpu")
        ]
        self._look(len(nodes))

        def order(number: int) -> tuple[int, bool, int]:
            free = sum(self._free[number][i] for i in scarce)
            return -scores.get(number, 0), not (wants_gpu or self.leaves[number].cpu_only), free

        left = count
        for number in sorted((number for number in nodes if usable[number]), key=order):
            put = min(left, times_if_not_overcommitted(self._free[number], amounts))
            if put:
                self._take(number, amounts, put)
                self.assignments.append((group, pods, number, put))
                left -= put
            if not left:
                break
        return count - left

    def _take(self, number: int, amounts: Sequence[int], count: int) -> None:
        free, path = self._free[number], self.leaves[number].path
        domains = [] if path is None else [path[:depth] for depth in range(len(path) + 1)]
        tables = [table for domain in domains for table in self._tables.get(domain, {}).values()]
        for table in tables:
            table.add(path or (), free, -1)
        for i, amount in enumerate(amounts):
            free[i] -= amount * count
        for table in tables:
            table.add(path or (), free, 1)

    def _take_back(self, before: int) -> None:
        while len(self.assignments) > before:
            _, pods, number, count = self.assignments.pop()
            self._take(number, self._amounts(pods), -count)

    def _domains(
        self, group: Group, nodes: Sequence[int]
    ) -> tuple[Mapping[int, int], list[list[int]]]:
        """The scores of nodes in preferred domains.

        And the nodes of each domain that seems to take the group.
        """
        required, preferred = self._depth(group.required), self._depth(group.preferred)
        valid = [number for number in nodes if self.leaves[number].path is not None]
        common = self._common(valid, preferred)
        offers = _Offers(
            common,
            self._sums(common, max(preferred or required, len(common)), group),
            *self._wanted(group),
        )
        if not offers.fits(common):
            self._failures.append(offers.short(group, common))
            return {}, []
        scores: dict[int, int] = {}
        ordered = offers.at(preferred) if preferred else []
        for position, domain in enumerate(ordered, 1):
            scores |= dict.fromkeys(self._members[domain], position * _SCORES // len(ordered))
        among, sets, failures = set(valid), [], [Unplaced(group, "order", 0, offers.count)]
        for depth in range(preferred or required, required - 1, -1):
            for domain in offers.at(depth):
                if offers.fits(domain):
                    sets.append([number for number in self._members[domain] if number in among])
                else:
                    failures.append(offers.short(group, domain))
        if not sets:
            self._failures.append(max(failures, key=_weight))
        return scores, sets

    def _common(self, valid: Sequence[int], preferred: int) -> Path:
        """The narrowest domain with all these nodes in it, but none below the preferred level."""
        paths = [self.leaves[number].path or () for number in valid]
        self._look(len(paths))
        common: list[str] = []
        for depth in range(preferred or len(self.levels)):
            values = {path[depth] for path in paths}
            if len(values) != 1 or "" in values:
                break
            common += values
        return tuple(common)

    def _wanted(self, group: Group) -> tuple[dict[int, int], int, bool]:
        """What one copy requests by column, and how many pods it has.

        And whether KAI counts these, not the requests. It counts pods when all of them request the
        same resources, whatever the amounts.
        """
        total = group.total()
        wanted = {
            i: total[name]
            for i, name in enumerate(self._resources)
            if name != PODS and total.get(name)
        }
        kinds = [pods for nested, _ in group.everything() for pods in nested.pods if pods.count]
        asked = [{name for name, amount in pods.requests if amount} for pods in kinds]
        looks = {
            (any(map(_is_gpu, names)), frozenset(name for name in names if _is_counted(name)))
            for names in asked
        }
        return wanted, total.get(PODS, 0), len(looks) == 1

    def _sums(self, common: Path, narrowest: int, group: Group) -> dict[Path, _Sums]:
        """What `common` offers, and each domain in it down to the depth `narrowest`."""
        kinds = [
            self._amounts(pods)
            for nested, _ in group.everything()
            for pods in nested.pods
            if pods.count
        ]
        largest = [max(column) for column in zip(*kinds, strict=True)]
        requests_nothing = not any(
            amount for i, amount in enumerate(largest) if self._resources[i] != PODS
        )
        fixed = _count(group) if requests_nothing else 0
        members = self._members.get(common, ())
        self._look(len(members))
        tables, key = self._tables.setdefault(common, {}), (narrowest, *largest, fixed)
        if key not in tables:
            tables[key] = table = _Table(range(len(common), narrowest + 1), largest, fixed)
            for number in members:
                table.add(self.leaves[number].path or (), self._free[number], 1)
        return tables[key].sums

    def _look(self, count: int) -> None:
        self.looks -= count
        if self.looks < 0:
            raise TooLargeError(
                f"KAI's allocation was not followed to its end: more than {LOOKS} looks at nodes"
            )


def in_name_order(count: int) -> Iterator[int]:
    """The indexes of `count` sub-groups that are called by a number, in the order of their names.

    0, 1, 10, 11, 2.
    """
    return iter(sorted(range(count), key=str))


def _weight(failure: Unplaced) -> tuple[bool, bool, int]:
    """The failure that says most.

    One of KAI's own limits before a lack of room, of these the closest.
    """
    return failure.why == "narrower", failure.why == "largest", failure.fits


def _count(group: Group) -> int:
    return group.total().get(PODS, 0)


def _is_gpu(resource: str) -> bool:
    """KAI takes every resource with such a name for GPUs."""
    return resource.endswith("gpu")


def _is_counted(resource: str) -> bool:
    return resource not in ("cpu", "memory") and not _is_gpu(resource)
