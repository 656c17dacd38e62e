"""The hierarchy with counts: every domain, its nodes, GPUs, what is free and what is wrong.

Equal nodes are counted together, because 100,000 nodes come in a few thousand variants.

In the outline for people domains of equal shape share a line, unhealthy ones have their own. Shapes
are equal if they have as many nodes and GPUs and children of equal shapes. Nothing is lost: a
shared line says how many domains there are, what is in them and what they are called.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple

from toposcope.api.label_keys import GPU_PRESENT
from toposcope.api.levels import Level
from toposcope.hierarchy.platforms import KEYS
from toposcope.kube.gpu_shares import LABELS as SHARE_LABELS
from toposcope.kube.gpu_shares import GpuUnit, Shares
from toposcope.snapshot.filters import Mark, marks
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot
from toposcope.snapshot.reach import TAKES_NO_PODS, Blocker, Reach
from toposcope.snapshot.scope import Scope

_COUNTED_LABELS: Final = (GPU_PRESENT, *SHARE_LABELS)
"""Labels from which GPUs and marks follow."""
_UNMARKED: Final[Mapping[Mark, int]] = {}
_UNBLOCKED: Final[Mapping[Blocker, int]] = {}


class _Fact(NamedTuple):
    """The facts about a node that are counted; equal nodes share one object."""

    gpus: int
    free: int | None
    marks: tuple[Mark, ...]
    blocked: tuple[Blocker, int] | None = None
    """Idle GPUs that a pod of typical shape cannot get, and why; None: there are none."""


@dataclass(slots=True)
class TreeDomain:
    """One domain with everything below it, identified by the path of values that leads to it."""

    depth: int
    """0: the whole topology; n: a domain of the n-th level from the broadest."""
    value: str
    nodes: int = 0
    gpus: int = 0
    free: int | None = 0
    """Whole GPUs that pods can still get, shares of GPUs aside; None: not known."""
    marks: Mapping[Mark, int] = field(default_factory=Counter)
    """Nodes per mark."""
    blocked: Mapping[Blocker, int] = field(default_factory=dict)
    """Idle GPUs that a pod of typical shape cannot get, by what keeps it from them."""
    children: dict[str, "TreeDomain"] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Nodes that lack the next level: they are in no domain below, and schedulers ignore them."""
    left_gpus: int = 0
    """GPUs on these nodes; they are part of `gpus`."""
    left_free: int = 0
    names: Sequence[str] = ()
    """The nodes of a domain of the narrowest level."""

    @property
    def hosts(self) -> Iterator[str]:
        """Names of the nodes in it that have every level."""
        if not self.children:
            yield from self.names
        for child in self.children.values():
            yield from child.hosts

    def leave_out(self, names: Sequence[str], fact: _Fact) -> None:
        """Add the names of equal nodes that lack the next level; they are counted already."""
        count = len(names)
        self.left_out += names
        self.left_gpus += fact.gpus * count
        if fact.free:
            self.left_free += fact.free * count

    def add(self, nodes: int, fact: _Fact) -> None:
        """Count equal nodes."""
        gpus, free, marks, blocked = fact
        self.nodes += nodes
        self.gpus += gpus * nodes
        if free:
            free_before = self.free or 0
            self.free = free_before + free * nodes
        if marks:
            added = Counter(dict.fromkeys(marks, nodes))
            self.marks = Counter(self.marks) + added
        if blocked:
            why, idle = blocked
            before = self.blocked.get(why, 0)
            self.blocked = {**self.blocked, why: before + idle * nodes}

    @property
    def blocked_of_free(self) -> int:
        """How many of its free GPUs a pod of typical shape cannot get."""
        return _blocked_of_free(self.blocked)


def _blocked_of_free(blocked: Mapping[Blocker, int]) -> int:
    """GPUs on nodes that take no pods are idle, and not free."""
    count = 0
    for why, gpus in blocked.items():
        if why not in TAKES_NO_PODS:
            count += gpus
    return count


def tree(snapshot: Snapshot, scope: Scope, reach: Reach | None = None) -> TreeDomain:
    """The domains of a scope, sorted by value within each level.

    `reach` says which idle GPUs are blocked; without it that is not counted.
    """
    free = None if snapshot.pods is None else 0
    root = TreeDomain(0, scope.name, free=free)
    # Where there are no agents at all, that is no fault of a node.
    hidden_marks = frozenset({Mark.NO_AGENT}) if scope.is_before_agents else frozenset[Mark]()
    node_facts = _facts(snapshot, scope.nodes, hidden_marks, reach)
    if not scope.levels:
        for node, fact in zip(scope.nodes, node_facts, strict=True):
            root.add(1, fact)
            root.names = [*root.names, node.name]
        return root

    for (path, fact), members in _groups(scope, node_facts).items():
        inside = _descend(root, path, fact, members)
        if inside is not None:
            _end(inside, fact, members)

    _sort(root)
    return root


_Kind = tuple[tuple[str | None, ...], _Fact]
"""Equal nodes: their path down to the level above the narrowest, and the facts about each."""
_Members = list[tuple[str | None, str]]
"""The values of equal nodes at the narrowest level, and their names."""


def _groups(scope: Scope, node_facts: Iterable[_Fact]) -> dict[_Kind, _Members]:
    # dense: a loop over all nodes
    table = scope.table()
    *broad, narrow = [table.values(level.key) for level in scope.levels]
    paths: Iterable[tuple[str | None, ...]] = zip(*broad, strict=True)
    if not broad:
        paths = repeat((), len(scope.nodes))

    groups: dict[_Kind, _Members] = {}
    for path, fact, value, node in zip(paths, node_facts, narrow, scope.nodes, strict=True):
        key = path, fact
        group = groups.get(key)
        if group is None:
            group = groups[key] = []
        group.append((value, node.name))
    return groups


def _facts(
    snapshot: Snapshot,
    nodes: Sequence[NodeView],
    hidden_marks: frozenset[Mark],
    reach: Reach | None,
) -> Iterator[_Fact]:
    """The facts about each node, computed once for equal nodes; without `hidden_marks`."""
    getters: dict[int, Callable[[Sequence[str]], Any]] = {}
    fact_by_key: dict[tuple[Any, ...], _Fact] = {}
    distinct: dict[_Fact, _Fact] = {}
    requested = snapshot.requested
    lacking = reach.lacking if reach else ()
    for node in nodes:
        # The snapshot keeps these mappings alive, so ids are unique.
        keys_id = id(node.places)
        getter = getters.get(keys_id)
        if getter is None:
            getter = getters[keys_id] = _counted_values(node)

        requested_there = requested.get(node.name, NOTHING)
        state = node.is_ready, node.is_schedulable, id(node.taints)
        is_lacking = node.name in lacking
        amounts = id(node.allocatable), id(requested_there)
        key = keys_id, getter(node.values), state, amounts, is_lacking
        fact = fact_by_key.get(key)
        if fact is None:
            shown_marks = tuple(mark for mark in marks(node) if mark not in hidden_marks)
            fact = _fact(snapshot, node, shown_marks, reach)
            fact = fact_by_key[key] = distinct.setdefault(fact, fact)
        yield fact


def _fact(
    snapshot: Snapshot, node: NodeView, shown_marks: tuple[Mark, ...], reach: Reach | None
) -> _Fact:
    """What is counted of a node with these marks."""
    if snapshot.pods is None:
        return _Fact(node.gpus, None, shown_marks)
    idle = snapshot.idle_gpus(node)
    free = idle if node.is_usable else 0
    blocked = reach.blocked_of(node, idle) if reach else None
    if blocked is None:
        return _Fact(node.gpus, free, shown_marks)
    return _Fact(node.gpus, free, shown_marks, (blocked.why, blocked.gpus))


def _counted_values(node: NodeView) -> Callable[[Sequence[str]], Any]:
    """Gets the values of `_COUNTED_LABELS` from nodes with the same label keys as this one."""
    places = []
    for key in _COUNTED_LABELS:
        if key in node.places:
            places.append(node.places[key])

    if not places:
        return _nothing
    return itemgetter(*places)


def _nothing(_values: Sequence[str]) -> None:
    """The labels of a node that has none of these."""


def _descend(
    root: TreeDomain, path: Sequence[str | None], fact: _Fact, members: _Members
) -> TreeDomain | None:
    """Count nodes on their path.

    Returns the domain above the narrowest level; None where the nodes lack a level before.
    """
    free = None if root.free is None else 0
    count = len(members)
    here = root
    for value in path:
        here.add(count, fact)
        if value is None:
            names = [name for _, name in members]
            here.leave_out(names, fact)
            return None

        child = here.children.get(value)
        if child is None:
            child = TreeDomain(here.depth + 1, value, free=free)
            here.children[value] = child
        here = child

    here.add(count, fact)
    return here


def _end(inside: TreeDomain, fact: _Fact, members: _Members) -> None:
    """Put equal nodes into their domains of the narrowest level."""
    gpus, free, marks, blocked = fact
    why_blocked = dict([blocked]) if blocked else _UNBLOCKED
    marked = dict.fromkeys(marks, 1) if marks else _UNMARKED
    depth = inside.depth + 1
    children = inside.children

    for value, name in members:
        if value is None:
            inside.leave_out([name], fact)
        elif value in children:
            namesake = children[value]
            namesake.add(1, fact)
            namesake.names = [*namesake.names, name]
        else:
            children[value] = TreeDomain(
                depth,
                value,
                1,
                gpus,
                free,
                marked,
                why_blocked,
                _CHILDLESS,
                _NOBODY,
                names=(name,),
            )


_CHILDLESS: Final[dict[str, TreeDomain]] = {}
_NOBODY: Final[list[str]] = []
"""Shared by all domains of the narrowest level, and never added to."""


def _sort(domain: TreeDomain) -> None:
    if len(domain.children) > 1:
        domain.children = dict(sorted(domain.children.items()))
    for child in domain.children.values():
        if child.children:
            _sort(child)


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """GPUs that nodes offer in shares of one kind; none counts as a free GPU of a domain."""

    resource: str
    unit: GpuUnit
    profile: str
    """The MIG profile; empty where there is none, or it is unknown."""
    nodes: tuple[str, ...]
    gpus: int
    """The number of GPUs on these nodes; not all of them need be shared."""
    total: int
    """The number of shares."""
    free: int | None
    """The number of free shares; none is free on nodes that take no pods. None: not known."""

    @property
    def described(self) -> str:
        """The kind in words: `time slices`, `1g.5gb MIG devices`."""
        shares = Shares(self.resource, self.unit, self.total, self.profile)
        return shares.described


def shared_gpus(snapshot: Snapshot, scope: Scope) -> tuple[SharedGpus, ...]:
    """The shares that the nodes of a scope offer, summed up by resource and kind."""
    if not snapshot.shares:
        return ()

    offers_by_kind: dict[tuple[str, GpuUnit, str], list[_Offer]] = {}
    for node in scope.nodes:
        for shares in snapshot.shares.get(node.name, ()):
            kind = shares.resource, shares.unit, shares.profile
            offers = offers_by_kind.setdefault(kind, [])
            offers.append(_Offer(node, shares))

    sums = []
    for _, offers in sorted(offers_by_kind.items(), key=itemgetter(0)):
        sums.append(_together(snapshot, offers))
    return tuple(sums)


class _Offer(NamedTuple):
    node: NodeView
    shares: Shares


def _together(snapshot: Snapshot, offers: Sequence[_Offer]) -> SharedGpus:
    """The sum of what nodes offer in shares of the same kind."""
    names = []
    gpus = 0
    total = 0
    free = 0
    for node, shares in offers:
        names.append(node.name)
        gpus += node.gpus
        total += shares.total
        free += snapshot.free_shares(node, shares) or 0

    kind = offers[0].shares
    return SharedGpus(
        resource=kind.resource,
        unit=kind.unit,
        profile=kind.profile,
        nodes=tuple(names),
        gpus=gpus,
        total=total,
        free=None if snapshot.pods is None else free,
    )


class LeftOut(NamedTuple):
    """Nodes that lack a level."""

    nodes: int
    gpus: int
    """On these nodes."""


def left_out(domain: TreeDomain) -> LeftOut:
    """The nodes of a domain, and of all domains below it, that lack a level."""
    nodes = len(domain.left_out)
    gpus = domain.left_gpus
    for child in domain.children.values():
        below = left_out(child)
        nodes += below.nodes
        gpus += below.gpus
    return LeftOut(nodes, gpus)


HOST: Final = tuple(KEYS)[-1]
"""The domain of the narrowest level there can be."""
_MIN_ON_SHARED_LINE: Final = 3
"""The least number of domains of equal shape that share a line; two lines are as short."""
_MIN_HOSTS_ON_SHARED_LINE: Final = 2
_MAX_UNHEALTHY_LINES: Final = 10
"""Unhealthy domains under one parent that have lines of their own; the others share one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the outline with those below it."""

    levels: tuple[str, ...]
    """The kind of the domains: `rack`; `nvlink-domain`, `host` where each is both."""
    names: tuple[str, ...]
    """The domains on the line."""
    nodes: int
    """The sum over all the domains, as are `gpus`, `free` and `marks`."""
    gpus: int
    free: int | None
    marks: Mapping[Mark, int]
    are_equal: bool
    """Whether the domains have the same shape."""
    left_out: tuple[str, ...] = ()
    """Nodes that lack the next level."""
    left_gpus: int = 0
    left_free: int | None = None
    lacking: Level | None = None
    """The level that they lack."""
    below: tuple["Line", ...] = ()
    """The lines below one of the domains."""
    blocked_of_free: int = 0
    """How many of the free GPUs a pod of typical shape cannot get."""

    @property
    def level(self) -> str:
        """`rack`; `nvlink-domain = host` where each is both; empty for the whole topology."""
        return " = ".join(self.levels)

    @property
    def are_hosts(self) -> bool:
        """Whether each of the domains is one host."""
        return HOST in self.levels[-1:]


def outline(
    root: TreeDomain, levels: Sequence[Level], depth: int | None = None, *, everything: bool = False
) -> Line:
    """The tree under `root` as lines, down to the `depth`-th level.

    `everything` gives each domain its own line.
    """
    deepest = len(levels)
    if depth is not None:
        deepest = min(depth, deepest)
    return _Outliner(levels, deepest, everything=everything).line([root])


@dataclass(slots=True)
class _Outliner:
    levels: Sequence[Level]
    depth: int
    everything: bool
    shapes: dict[object, int] = field(default_factory=dict)
    shape_of: dict[int, int] = field(default_factory=dict)

    def line(self, domains: Sequence[TreeDomain], *, are_equal: bool = True) -> Line:
        """The line that stands for these siblings."""
        first = domains[0]
        ends = self._ends(first)
        total = _sum_of(domains)
        left_out: list[str] = []
        lacking = None
        if are_equal and total.left_out:
            left_out = sorted(total.left_out)
            lacking = self.levels[first.depth]
        below: list[Line] = []
        if are_equal and ends > first.depth:
            below += self._below(first)

        return Line(
            levels=self._levels(first, ends),
            names=tuple(domain.value for domain in domains),
            nodes=total.nodes,
            gpus=total.gpus,
            free=total.free,
            marks=total.marks,
            are_equal=are_equal,
            left_out=tuple(left_out),
            left_gpus=total.left_gpus,
            left_free=None if total.free is None else total.left_free,
            lacking=lacking,
            below=tuple(below),
            blocked_of_free=total.blocked_of_free,
        )

    def _ends(self, domain: TreeDomain) -> int:
        """The depth at which the line of a domain ends: -1 where the domain is one host."""
        depth = len(self.levels)
        is_above_hosts = domain.depth == depth - 1 and self.depth == depth
        if is_above_hosts and list(domain.children) == [domain.value]:
            return -1
        return self.depth

    def _levels(self, domain: TreeDomain, ends: int) -> tuple[str, ...]:
        if not domain.depth:
            return ()
        name = self.levels[domain.depth - 1].domain
        if ends >= 0:
            return (name,)
        host = self.levels[domain.depth]
        return name, host.domain

    def _below(self, domain: TreeDomain) -> Iterator[Line]:
        children = list(domain.children.values())
        if self.everything:
            for child in children:
                yield self.line([child])
            return

        unhealthy = 0
        summed_up: list[TreeDomain] = []
        for shape, group in self._by_shape(children).items():
            if shape < 0:
                unhealthy += 1
                if unhealthy > _MAX_UNHEALTHY_LINES:
                    summed_up += group
                    continue

            if self._share_a_line(group):
                yield self.line(group)
            else:
                for child in group:
                    yield self.line([child])

        if summed_up:
            yield self.line(summed_up, are_equal=len(summed_up) == 1)

    def _by_shape(self, children: Sequence[TreeDomain]) -> dict[int, list[TreeDomain]]:
        """The children by their shapes.

        Shapes are numbered from 0. An unhealthy domain has no shape, and gets a negative number of
        its own.
        """
        groups: dict[int, list[TreeDomain]] = {}
        for number, child in enumerate(children, 1):
            shape = self._shape(child)
            if shape is None:
                shape = -number
            group = groups.setdefault(shape, [])
            group.append(child)
        return groups

    def _share_a_line(self, group: Sequence[TreeDomain]) -> bool:
        are_hosts = group[0].depth == len(self.levels)
        least = _MIN_HOSTS_ON_SHARED_LINE if are_hosts else _MIN_ON_SHARED_LINE
        return len(group) >= least

    def _shape(self, domain: TreeDomain) -> int | None:
        """The same number for all equal domains; None if it is unhealthy and needs its own line.

        A taint is part of the shape: mostly all nodes of a kind have it, and a line for each
        would say less.
        """
        tainted = domain.marks.get(Mark.TAINTED, 0)
        healthy_marks = 1 if tainted else 0
        if len(domain.marks) > healthy_marks or domain.left_out:
            return None

        is_host = not domain.children
        if is_host:
            return self._number((domain.nodes, domain.gpus, tainted))
        if id(domain) in self.shape_of:
            return self.shape_of[id(domain)]

        inside: Counter[int | None] = Counter()
        if domain.depth < self.depth:
            for child in domain.children.values():
                child_shape = self._shape(child)
                inside[child_shape] += 1

        is_one_host = self._ends(domain) < 0
        content = frozenset(inside.items())
        shape = self._number((domain.nodes, domain.gpus, tainted, is_one_host, content))
        self.shape_of[id(domain)] = shape
        return shape

    def _number(self, shape: object) -> int:
        """The number of a shape; a new one where it was not seen yet."""
        return self.shapes.setdefault(shape, len(self.shapes))


def _sum_of(domains: Sequence[TreeDomain]) -> TreeDomain:
    """The nodes of these siblings as if they were one domain."""
    first = domains[0]
    marks: Counter[Mark] = Counter()
    blocked: Counter[Blocker] = Counter()
    total = TreeDomain(first.depth, first.value, marks=marks, blocked=blocked)
    free = 0
    for domain in domains:
        marks.update(domain.marks)
        free += domain.free or 0
        blocked.update(domain.blocked)
        total.nodes += domain.nodes
        total.gpus += domain.gpus
        total.left_out += domain.left_out
        total.left_gpus += domain.left_gpus
        total.left_free += domain.left_free

    total.free = None if first.free is None else free
    return total
