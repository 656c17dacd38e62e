"""Free resources in each domain while a placement is tried, and upper bounds on what fits.

They are updated with every pod that is placed or taken back. A bound treats every part of a group
as if it were alone, so the true number may be smaller, never larger. For a group of equal pods
without smaller groups in it the bound is exact.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.constraints import Group, Pods, levels_asked_for, pods_in
from toposcope.integrations.framework.node_affinity import (
    Exclusion,
    ExclusionKind,
    NodeFilter,
    Taint,
)
from toposcope.integrations.framework.packing import Path, columns, resources_of, times

Obstacle = Literal["", "not Ready", "cordoned", "under pressure"]
_OBSTACLES: Final[Mapping[str, Taint]] = {
    "not Ready": Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
    "cordoned": Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
}
"""The taint that the scheduler sees for an obstacle; a pod can tolerate it."""


@dataclass(frozen=True, slots=True)
class RoomNode:
    """A node as placement sees it.

    `free` and `total` are amounts by resource; one that is not there is 0.
    """

    name: str
    labels: Mapping[str, str]
    free: Mapping[str, int]
    total: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    obstacle: Obstacle = ""
    """Why no new pod may go there."""
    placeholders: frozenset[str] = BUILT_IN.placeholders
    """Label values that mean "unknown"."""
    is_strict: bool = False
    """Whether an obstacle keeps out even pods that tolerate everything.

    It does if the scheduler checks the node's state and not its taints.
    """


def path_of(node: RoomNode, levels: Sequence[Level]) -> tuple[Path, str]:
    """The narrowest domain that the node's labels name, and the key missing for the next level.

    The key is empty if none is missing.
    """
    values: list[str] = []
    for level in levels:
        value = node.labels.get(level.key)
        if value is None or value in node.placeholders:
            return tuple(values), level.key
        values.append(value)
    return tuple(values), ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod takes: an amount for each resource of the room, and which nodes it may use."""

    amounts: tuple[int, ...]
    number: int


_Look = tuple[tuple[int, ...], NodeFilter]
"""What pods of one shape take, and which nodes they may use."""


class Room:
    """Free resources by domain, and how many pods of each shape of `groups` would fit alone.

    `emptied` treats the nodes as if no pod ran on them, `opened` as if all were Ready and none
    cordoned. `can_lack_levels`: a node that lacks a level can be used by pods that need not stay
    within that level; schedulers with topologies exclude such a node altogether.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        nodes: Iterable[RoomNode],
        groups: Sequence[Group],
        *,
        emptied: bool = False,
        opened: bool = False,
        can_lack_levels: bool,
    ) -> None:
        self.levels = tuple(levels)
        self._can_lack_levels = can_lack_levels
        self._emptied = emptied
        self.depth = {level: depth for depth, level in enumerate(self.levels, 1)}
        self._deepest = self._deepest_asked_for(groups)

        kinds = tuple(dict.fromkeys(pods_in(groups)))
        self.resources = resources_of(pods.requests for pods in kinds)
        self.shapes: dict[Pods, Shape] = {}
        self._looks: list[_Look] = []
        """By number of the shape."""
        self._read_shapes(kinds)

        self.excluded: dict[Exclusion, list[str]] = {}
        """Nodes that no pod of these groups can use, by the reason."""
        self.barred: list[Counter[Exclusion]] = [Counter() for _ in self._looks]
        """By shape: why nodes exclude its pods, and how many do so."""
        self._names: Counter[tuple[int, str]] | None = None
        self.names: list[str] = []
        self.paths: list[Path] = []
        self.free: list[list[int]] = []
        self.eligible: list[tuple[bool, ...]] = []
        self.slots: list[list[int]] = []
        """By node: how many pods of each shape fit beside what is there."""
        self.members: dict[Path, list[int]] = {(): []}
        self.children: dict[Path, list[Path]] = {}
        self.sums: dict[Path, list[int]] = {}
        """By domain: free amounts, then slots by shape."""

        for node in nodes:
            offered = node.total if emptied else node.free
            obstacle = "" if opened else node.obstacle
            self._take_in(node, offered, obstacle)
        self._add_up()

    def _deepest_asked_for(self, groups: Iterable[Group]) -> int:
        """The depth of the narrowest level that a group asks for."""
        deepest = 0
        for level in levels_asked_for(groups):
            deepest = max(deepest, self.depth[level])
        return deepest

    def _read_shapes(self, kinds: Iterable[Pods]) -> None:
        """Give pods with equal amounts and equal node filters one shape."""
        numbers: dict[_Look, int] = {}
        for pods in kinds:
            amounts = columns(pods.requests, self.resources)
            node_filter = pods.node_filter
            if self._emptied:
                node_filter = node_filter.if_emptied
            look = amounts, node_filter
            next_number = len(numbers)
            number = numbers.setdefault(look, next_number)
            self.shapes[pods] = Shape(amounts, number)
        self._looks = list(numbers)

    def _take_in(self, node: RoomNode, offered: Mapping[str, int], obstacle: Obstacle) -> None:
        path, lacking = path_of(node, self.levels)
        if lacking and not self._can_lack_levels:
            lacks_level = Exclusion(ExclusionKind.LEVEL, lacking)
            self._leave_out(node, lacks_level)
            return

        taints = node.taints
        if obstacle:
            taint = self._taint_instead_of(obstacle, node)
            if taint is None:
                has_obstacle = Exclusion(ExclusionKind.OBSTACLE, obstacle)
                self._leave_out(node, has_obstacle)
                return
            taints = (*taints, taint)

        first: Exclusion | None = None
        eligible = []
        for (_, node_filter), barred in zip(self._looks, self.barred, strict=True):
            exclusion = node_filter.rejection(node.name, node.labels, taints)
            if exclusion is not None:
                barred[exclusion] += 1
            first = first or exclusion
            eligible.append(exclusion is None)
        if first and not any(eligible):
            self._leave_out(node, first)
            return
        self._add(node.name, path, offered, tuple(eligible))

    def _leave_out(self, node: RoomNode, exclusion: Exclusion) -> None:
        names = self.excluded.setdefault(exclusion, [])
        names.append(node.name)

    def _taint_instead_of(self, obstacle: Obstacle, node: RoomNode) -> Taint | None:
        """The taint that the scheduler sees for the obstacle; None if it keeps out all pods."""
        if node.is_strict or not self._can_lack_levels:
            return None
        taint = _OBSTACLES.get(obstacle)
        if taint is None:
            return None
        for _, node_filter in self._looks:
            if node_filter.tolerates(taint):
                return taint
        return None

    def _add(
        self, name: str, path: Path, offered: Mapping[str, int], eligible: tuple[bool, ...]
    ) -> None:
        number = len(self.names)
        path = path[: self._deepest]  # narrower domains are not asked for
        free = []
        for resource in self.resources:
            amount = offered.get(resource, 0)
            free.append(max(amount, 0))

        self.names.append(name)
        self.paths.append(path)
        self.free.append(free)
        self.eligible.append(eligible)
        self.slots.append(self._slots(number))

        members = self.members
        for depth in range(len(path) + 1):
            domain = path[:depth]
            if domain not in members:
                members[domain] = []
                around = domain[:-1]
                beside = self.children.setdefault(around, [])
                beside.append(domain)
            members[domain].append(number)

    def _add_up(self) -> None:
        width = len(self.resources) + len(self._looks)
        nothing = [0] * width
        for domain, members in self.members.items():
            rows = [nothing]
            for number in members:
                free = self.free[number]
                slots = self.slots[number]
                rows.append(free + slots)
            columns_of_rows = zip(*rows, strict=True)
            self.sums[domain] = [sum(column) for column in columns_of_rows]

    def _slots(self, number: int) -> list[int]:
        free = self.free[number]
        eligible = self.eligible[number]
        slots = []
        for shape, (amounts, _) in enumerate(self._looks):
            fits = 0
            if eligible[shape]:
                fits = times(free, amounts)
            slots.append(fits)
        return slots

    def domains(self, inside: Path, level: Level | None) -> Sequence[Path]:
        """The domains of `level` within the domain `inside`.

        Only `inside` itself if the level is None or no narrower.
        """
        depth = 0
        if level:
            depth = self.depth[level]
        domains: Sequence[Path] = (inside,)
        for _ in range(depth - len(inside)):
            narrower: list[Path] = []
            for domain in domains:
                narrower += self.children.get(domain, ())
            domains = narrower
        return domains

    def name_of(self, domain: Path) -> str:
        """The name of a domain: its own value.

        If another domain of the level has the same value, those above it precede it: `a/r1`.
        """
        if not domain:
            return "the cluster"
        if self._names is None:
            self._names = Counter()
            for path in self.members:
                if path:
                    self._names[len(path), path[-1]] += 1
        own = domain[-1]
        namesakes = self._names[len(domain), own]
        if namesakes > 1:
            return "/".join(domain)
        return own

    def kept_apart_by(self, group: Group, domain: Path) -> str | None:
        """The value that groups with the same anti-affinity must not share; None without any.

        It is the value of the level's label, whatever the broader values.
        """
        if not group.anti_affinity or not group.required:
            return None
        return domain[self.depth[group.required] - 1]

    def room_for(self, domain: Path, shape: Shape) -> int:
        """How many pods of a shape would fit into the domain alone."""
        column = len(self.resources) + shape.number
        return self.sums[domain][column]

    def free_in(self, domain: Path, resource: str) -> int:
        """The free amount of a resource in a domain, on the nodes that some pod may use."""
        column = self.resources.index(resource)
        return self.sums[domain][column]

    def put(self, number: int, shape: Shape, count: int) -> None:
        """Place pods on a node; a negative count takes them back."""
        free = self.free[number]
        change = []
        for column, amount in enumerate(shape.amounts):
            difference = -amount * count
            free[column] += difference
            change.append(difference)

        before = self.slots[number]
        after = self._slots(number)
        self.slots[number] = after
        for new, old in zip(after, before, strict=True):
            change.append(new - old)

        path = self.paths[number]
        for depth in range(len(path) + 1):
            domain = path[:depth]
            sums = self.sums[domain]
            for column, difference in enumerate(change):
                sums[column] += difference


def most_copies(room: Room, group: Group, inside: Path = ()) -> int:
    """Upper bound on the copies of `group`, which is simplified, in the domain `inside`."""
    copies = 0
    need = group.total()
    for domain in room.domains(inside, group.required):
        fit = most_within(room, group, domain, need)
        if group.anti_affinity:
            fit = min(fit, 1)
        copies += fit
    return copies


def most_within(room: Room, group: Group, domain: Path, need: dict[str, int] | None = None) -> int:
    """Upper bound on the copies that fit if all of them stay in this one domain.

    `need` is `group.total()`.
    """
    if need is None:
        need = group.total()
    limits = []
    for resource, amount in need.items():
        free = room.free_in(domain, resource)
        limits.append(free // amount)
    for pods in group.pods:
        shape = room.shapes[pods]
        slots = room.room_for(domain, shape)
        limits.append(slots // pods.count)

    best = min(limits, default=1)
    for below in group.groups:
        if best <= 0:
            return 0
        copies = most_copies(room, below, domain)
        best = min(best, copies // below.copies)
    return best


def domains_with_room(room: Room, group: Group) -> list[Path]:
    """The domains of the group's required level that seem to have room for a copy of it."""
    domains = []
    for domain in room.domains((), group.required):
        if most_within(room, group, domain) > 0:
            domains.append(domain)
    return domains


def is_exact(group: Group) -> bool:
    """Whether the bounds of this group are exact.

    They are if all pods are equal and no smaller group has to stay together.
    """
    if group.groups:
        return False
    kinds = set()
    for pods in group.pods:
        kind = pods.requests, pods.node_filter
        kinds.add(kind)
    return len(kinds) <= 1
