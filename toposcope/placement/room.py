"""What is free in each domain while a placement is tried, kept current with every pod put or taken; and bounds on it.

A bound is how much could fit at the very most: what it rules out is ruled out for good. Every part of a group is looked
at as if it were alone, so the true number may be smaller, never larger. For a group of equal pods without smaller
groups in it the bound is exact.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.constraints import Group, Pods
from toposcope.integrations.framework.node_affinity import Taint

PODS: Final = "pods"
"""Each pod takes one of these, whatever else it requests."""

Path = tuple[str, ...]
"""A domain: its values from the broadest level down. The empty one is the whole cluster."""


Obstacle = Literal["", "not Ready", "cordoned", "under pressure"]
_OBSTACLES: Final[Mapping[str, Taint]] = {
    "not Ready": Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),
    "cordoned": Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
}
"""kube-scheduler takes an obstacle for this taint, which a pod can tolerate."""


@dataclass(frozen=True, slots=True)
class Node:
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
    """Label values that say "unknown"."""
    strict: bool = False
    """Whether an obstacle keeps out even pods that tolerate everything: KAI asks the node itself, not its taints."""


def path_of(node: Node, levels: Sequence[Level]) -> tuple[Path, str]:
    """The node's domain, as narrow as its labels say, and the key that it lacks for the next level; empty: none."""
    values: list[str] = []
    for level in levels:
        value = node.labels.get(level.key)
        if value is None or value in node.placeholders:
            return tuple(values), level.key
        values.append(value)
    return tuple(values), ""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one pod takes: an amount for each resource of the room, and the nodes that it may use."""

    amounts: tuple[int, ...]
    number: int


class Room:
    """Free resources by domain for the pods of `groups`, and how many pods of each shape every domain could take alone.

    `emptied` looks at the nodes as if no pod ran on them, `opened` as if all were Ready and none cordoned.
    `partial`: a node that lacks a level serves whatever need not stay within it; schedulers that know topologies leave
    it out altogether.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        nodes: Iterable[Node],
        groups: Iterable[Group],
        *,
        emptied: bool = False,
        opened: bool = False,
        partial: bool,
    ) -> None:
        self.levels = tuple(levels)
        self._partial = partial
        self.depth = {level: number + 1 for number, level in enumerate(self.levels)}
        self.excluded: dict[str, list[str]] = {}
        """Nodes that no pod of these groups can use, by the reason."""
        nested = [group for top in groups for group, _ in top.everything()]
        kinds = dict.fromkeys(pods for group in nested for pods in group.pods)
        asked_for = {
            level for group in nested for level in (group.required, group.preferred) if level
        }
        self._deepest = max((self.depth[level] for level in asked_for), default=0)
        asked = (resource for pods in kinds for resource, amount in pods.requests if amount)
        self.resources = tuple(dict.fromkeys((PODS, *asked)))
        alike = dict.fromkeys((self._amounts(pods), pods.node_filter) for pods in kinds)
        numbers = {look: number for number, look in enumerate(alike)}
        self._looks = list(alike)
        self.shapes = {
            pods: Shape(self._amounts(pods), numbers[self._amounts(pods), pods.node_filter])
            for pods in kinds
        }
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
            self._take_in(
                node, node.total if emptied else node.free, "" if opened else node.obstacle
            )
        self._add_up()

    def _amounts(self, pods: Pods) -> tuple[int, ...]:
        asked = dict(pods.requests) | {PODS: 1}
        return tuple(asked.get(resource, 0) for resource in self.resources)

    def _take_in(self, node: Node, offered: Mapping[str, int], obstacle: Obstacle) -> None:
        path, lacks = path_of(node, self.levels)
        if lacks and not self._partial:
            self.excluded.setdefault(f"lacks label {lacks}", []).append(node.name)
            return
        taints = node.taints
        if obstacle:
            taint = None if node.strict or not self._partial else _OBSTACLES.get(obstacle)
            if not (taint and any(node_filter.tolerates(taint) for _, node_filter in self._looks)):
                self.excluded.setdefault(f"is {obstacle}", []).append(node.name)
                return
            taints = (*taints, taint)
        rejections = [
            node_filter.rejection(node.name, node.labels, taints) for _, node_filter in self._looks
        ]
        if rejections and all(rejections):
            self.excluded.setdefault(rejections[0], []).append(node.name)
            return
        path = path[: self._deepest]  # narrower domains are not asked for
        number = len(self.names)
        self.names.append(node.name)
        self.paths.append(path)
        self.free.append([max(offered.get(resource, 0), 0) for resource in self.resources])
        self.eligible.append(tuple(not rejection for rejection in rejections))
        self.slots.append(self._slots(number))
        for depth in range(len(path) + 1):
            domain = path[:depth]
            if domain not in self.members:
                self.members[domain] = []
                self.children.setdefault(domain[:-1], []).append(domain)
            self.members[domain].append(number)

    def _add_up(self) -> None:
        nothing = [0] * (len(self.resources) + len(self._looks))
        for domain, members in self.members.items():
            rows = (self.free[number] + self.slots[number] for number in members)
            self.sums[domain] = [sum(column) for column in zip(nothing, *rows, strict=True)]

    def _slots(self, number: int) -> list[int]:
        free = self.free[number]
        return [
            min(have // take for have, take in zip(free, amounts, strict=True) if take)
            if allowed
            else 0
            for (amounts, _), allowed in zip(self._looks, self.eligible[number], strict=True)
        ]

    def domains(self, inside: Path, level: Level | None) -> Sequence[Path]:
        """The domains of `level` within the domain `inside`: that one alone when it is no broader, or without level."""
        depth = self.depth[level] if level else 0
        domains: Sequence[Path] = (inside,)
        for _ in range(depth - len(inside)):
            domains = [child for domain in domains for child in self.children.get(domain, ())]
        return domains

    def name_of(self, domain: Path) -> str:
        """The name of a domain: its own value, with the values above it where another domain has the same one."""
        if not domain:
            return "the cluster"
        if self._names is None:
            self._names = Counter((len(path), path[-1]) for path in self.members if path)
        return domain[-1] if self._names[len(domain), domain[-1]] == 1 else "/".join(domain)

    def room_for(self, domain: Path, shape: Shape) -> int:
        """How many pods of a shape the domain could take, were they alone."""
        return self.sums[domain][len(self.resources) + shape.number]

    def free_in(self, domain: Path, resource: str) -> int:
        """The free amount of a resource in a domain, over the nodes that some pod may use."""
        return self.sums[domain][self.resources.index(resource)]

    def put(self, number: int, shape: Shape, count: int) -> None:
        """Put pods on a node; a negative count takes them away again."""
        free = self.free[number]
        for i, amount in enumerate(shape.amounts):
            free[i] -= amount * count
        before = self.slots[number]
        after = self.slots[number] = self._slots(number)
        change = [-amount * count for amount in shape.amounts]
        change += [new - old for new, old in zip(after, before, strict=True)]
        path = self.paths[number]
        for depth in range(len(path) + 1):
            sums = self.sums[path[:depth]]
            for i, difference in enumerate(change):
                sums[i] += difference


def most_copies(room: Room, group: Group, inside: Path = ()) -> int:
    """At most so many copies of `group`, which is simplified, fit into the domain `inside`."""
    copies = 0
    need = group.total()
    for domain in room.domains(inside, group.required):
        fit = most_within(room, group, domain, need)
        copies += min(fit, 1) if group.anti_affinity else fit
    return copies


def most_within(room: Room, group: Group, domain: Path, need: dict[str, int] | None = None) -> int:
    """At most so many copies fit when all of them stay in this one domain."""
    need = group.total() if need is None else need
    limits = [room.free_in(domain, resource) // amount for resource, amount in need.items()]
    limits += [room.room_for(domain, room.shapes[pods]) // pods.count for pods in group.pods]
    best = min(limits, default=1)
    for below in group.groups:
        if best <= 0:
            return 0
        best = min(best, most_copies(room, below, domain) // below.copies)
    return best


def is_exact(group: Group) -> bool:
    """Whether the bounds of this group are the truth: pods that are all alike, and nothing kept together inside."""
    return not group.groups and len({(pods.requests, pods.node_filter) for pods in group.pods}) <= 1
