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
from toposcope.kube.gpu_shares import Shares, Unit
from toposcope.snapshot.filters import Mark, marks
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot
from toposcope.snapshot.scope import Scope

_COUNTED_LABELS: Final = (GPU_PRESENT, *SHARE_LABELS)
"""Labels from which GPUs and marks follow."""
_UNMARKED: Final[Mapping[Mark, int]] = {}


class _Fact(NamedTuple):
    """What is counted of a node; equal nodes share one."""

    gpus: int
    free: int | None
    marks: tuple[Mark, ...]


@dataclass(slots=True)
class Domain:
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
    children: dict[str, "Domain"] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Nodes that lack the next level: they are in no domain below, and schedulers ignore them."""
    left_gpus: int = 0
    """GPUs on these nodes; as theirs, it is part of `gpus`."""
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
        """Note equal nodes, already counted, that lack the next level."""
        self.left_out += names
        self.left_gpus += fact.gpus * len(names)
        self.left_free += (fact.free or 0) * len(names)

    def add(self, nodes: int, fact: _Fact) -> None:
        """Count equal nodes."""
        gpus, free, marks = fact
        self.nodes += nodes
        self.gpus += gpus * nodes
        if free:
            self.free = (self.free or 0) + free * nodes

        if marks:
            self.marks = Counter(self.marks) + Counter(dict.fromkeys(marks, nodes))


def tree(snapshot: Snapshot, scope: Scope) -> Domain:
    """The domains of a scope, each level's sorted by value."""
    root = Domain(0, scope.name, free=0 if snapshot.pods is not None else None)
    node_facts = _facts(snapshot, scope.nodes)
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
"""Equal nodes: their path down to the level above the narrowest, and what is counted of each."""
_Members = list[tuple[str | None, str]]
"""Their values at the narrowest level, and their names."""


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


def _facts(snapshot: Snapshot, nodes: Sequence[NodeView]) -> Iterator[_Fact]:
    """What is counted of each node."""
    getters: dict[int, Callable[[Sequence[str]], Any]] = {}
    known: dict[tuple[Any, ...], _Fact] = {}
    shared: dict[_Fact, _Fact] = {}
    requested = snapshot.requested

    for node in nodes:
        getter = getters.get(id(node.places))
        if getter is None:
            getter = getters[id(node.places)] = _counted_values(node)

        taken = requested.get(node.name, NOTHING)
        # The snapshot keeps these mappings alive, so ids are unique.
        state = node.ready, node.schedulable, id(node.taints)
        key = (id(node.places), getter(node.values), state, id(node.allocatable), id(taken))
        fact = known.get(key)
        if fact is None:
            fact = _Fact(
                node.gpus,
                snapshot.free_gpus(node),
                marks(node),
            )

            fact = known[key] = shared.setdefault(fact, fact)

        yield fact


def _counted_values(node: NodeView) -> Callable[[Sequence[str]], Any]:
    """Gets the values that are counted by of nodes with the same label keys."""
    places = []
    for key in _COUNTED_LABELS:
        if key in node.places:
            places.append(node.places[key])

    return itemgetter(*places) if places else _nothing


def _nothing(_values: Sequence[str]) -> None:
    """The labels of a node that has none of these."""


def _descend(
    root: Domain, path: Sequence[str | None], fact: _Fact, members: _Members
) -> Domain | None:
    """Count nodes on their path; the domain above the narrowest level, None where they lack one."""
    here = root
    for value in path:
        here.add(len(members), fact)
        if value is None:
            here.leave_out([name for _, name in members], fact)
            return None

        child = here.children.get(value)
        if child is None:
            child = here.children[value] = Domain(
                here.depth + 1, value, free=None if root.free is None else 0
            )

        here = child

    here.add(len(members), fact)
    return here


def _end(inside: Domain, fact: _Fact, members: _Members) -> None:
    """Put equal nodes into their domains of the narrowest level."""
    gpus, free, marks = fact
    marked = dict.fromkeys(marks, 1) if marks else _UNMARKED
    depth, children = inside.depth + 1, inside.children

    for value, name in members:
        if value is None:
            inside.leave_out([name], fact)
        elif value in children:
            children[value].add(1, fact)
            children[value].names = [*children[value].names, name]
        else:
            children[value] = Domain(
                depth, value, 1, gpus, free, marked, _CHILDLESS, _NOBODY, names=(name,)
            )


_CHILDLESS: Final[dict[str, Domain]] = {}
_NOBODY: Final[list[str]] = []
"""Shared by all domains of the narrowest level, and never added to."""


def _sort(domain: Domain) -> None:
    if len(domain.children) > 1:
        domain.children = dict(sorted(domain.children.items()))

    for child in domain.children.values():
        if child.children:
            _sort(child)


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """GPUs that nodes offer in shares of one kind: none of them is a free GPU of a domain."""

    resource: str
    unit: Unit
    profile: str
    """The MIG profile; empty where there is none, or it is unknown."""
    nodes: tuple[str, ...]
    gpus: int
    """Of these nodes; not all of them need be shared."""
    total: int
    """Shares, as are `free`; of nodes that take no pods none is free."""
    free: int | None
    """None: not known."""

    @property
    def described(self) -> str:
        """`time slices`, `1g.5gb MIG devices`."""
        return Shares(self.resource, self.unit, self.total, self.profile).described


def shared_gpus(snapshot: Snapshot, scope: Scope) -> tuple[SharedGpus, ...]:
    """What the nodes of a scope offer in shares, by resource and kind."""
    if not snapshot.shares:
        return ()

    offers: dict[tuple[str, Unit, str], list[_Offer]] = {}
    for node in scope.nodes:
        for shares in snapshot.shares.get(node.name, ()):
            kind = (shares.resource, shares.unit, shares.profile)
            offers.setdefault(kind, []).append(_Offer(node, shares))

    return tuple(_together(snapshot, offers[kind]) for kind in sorted(offers))


class _Offer(NamedTuple):
    node: NodeView
    shares: Shares


def _together(snapshot: Snapshot, offers: Sequence[_Offer]) -> SharedGpus:
    """What nodes offer in shares of the same kind."""
    gpus = total = free = 0
    for node, shares in offers:
        gpus += node.gpus
        total += shares.total
        free += snapshot.free_shares(node, shares) or 0

    kind = offers[0].shares
    return SharedGpus(
        resource=kind.resource,
        unit=kind.unit,
        profile=kind.profile,
        nodes=tuple(offer.node.name for offer in offers),
        gpus=gpus,
        total=total,
        free=free if snapshot.pods is not None else None,
    )


class LeftOut(NamedTuple):
    """Nodes that lack a level."""

    nodes: int
    gpus: int
    """On these nodes."""


def left_out(domain: Domain) -> LeftOut:
    """The nodes of a domain, and of all below it, that lack a level."""
    nodes, gpus = len(domain.left_out), domain.left_gpus
    for child in domain.children.values():
        below = left_out(child)
        nodes += below.nodes
        gpus += below.gpus

    return LeftOut(nodes, gpus)


HOST: Final = tuple(KEYS)[-1]
"""The domain of the narrowest level there can be."""
_FEWEST: Final = 3
"""So many domains of equal shape share a line; two are as short with their names."""
_FEWEST_HOSTS: Final = 2
_MOST_UNHEALTHY: Final = 10
"""So many unhealthy domains under one parent have their own lines; the others share one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the outline with those below it."""

    levels: tuple[str, ...]
    """What the domains are: `rack`; `nvlink-domain`, `host` where each is both; or the topology."""
    names: tuple[str, ...]
    """The domains on the line."""
    nodes: int
    """Of all of them together, as are `gpus`, `free` and `marks`."""
    gpus: int
    free: int | None
    marks: Mapping[Mark, int]
    alike: bool
    """Whether the domains are equal."""
    left_out: tuple[str, ...] = ()
    """Nodes that lack the next level."""
    left_gpus: int = 0
    left_free: int | None = None
    lacking: Level | None = None
    """The level that they lack."""
    below: tuple["Line", ...] = ()
    """Of one of them, if the line has several."""

    @property
    def level(self) -> str:
        """`rack`; `nvlink-domain = host` where each is both; empty for the whole topology."""
        return " = ".join(self.levels)

    @property
    def are_hosts(self) -> bool:
        """Whether each of the domains is one host."""
        return HOST in self.levels[-1:]


def outline(
    root: Domain, levels: Sequence[Level], depth: int | None = None, *, everything: bool = False
) -> Line:
    """The tree under `root` as lines, down to the `depth`-th level.

    `everything` gives each domain its own line.
    """
    most = len(levels) if depth is None else min(depth, len(levels))
    return _Outliner(levels, most, everything=everything).line([root])


@dataclass(slots=True)
class _Outliner:
    levels: Sequence[Level]
    depth: int
    everything: bool
    shapes: dict[object, int] = field(default_factory=dict)
    shape_of: dict[int, int] = field(default_factory=dict)

    def line(self, domains: Sequence[Domain], *, alike: bool = True) -> Line:
        """The line that stands for these siblings."""
        first = domains[0]
        ends = self._ends(first)
        marks: Counter[Mark] = Counter()
        names: list[str] = []
        nodes = gpus = free = left_gpus = left_free = 0

        for domain in domains:
            marks.update(domain.marks)
            names += domain.left_out
            nodes += domain.nodes
            gpus += domain.gpus
            free += domain.free or 0
            left_gpus += domain.left_gpus
            left_free += domain.left_free

        is_free_known = first.free is not None
        left_out = tuple(sorted(names)) if alike else ()
        has_lines_below = alike and ends > first.depth

        return Line(
            levels=self._levels(first, ends),
            names=tuple(domain.value for domain in domains),
            nodes=nodes,
            gpus=gpus,
            free=free if is_free_known else None,
            marks=marks,
            alike=alike,
            left_out=left_out,
            left_gpus=left_gpus,
            left_free=left_free if is_free_known else None,
            lacking=self.levels[first.depth] if left_out else None,
            below=tuple(self._below(first)) if has_lines_below else (),
        )

    def _ends(self, domain: Domain) -> int:
        """The depth at which the line of a domain ends: -1 where the domain is one host."""
        depth = len(self.levels)
        is_above_hosts = domain.depth == depth - 1 and self.depth == depth
        if is_above_hosts and list(domain.children) == [domain.value]:
            return -1

        return self.depth

    def _levels(self, domain: Domain, ends: int) -> tuple[str, ...]:
        if not domain.depth:
            return ()

        name = self.levels[domain.depth - 1].domain
        return (name, self.levels[domain.depth].domain) if ends < 0 else (name,)

    def _below(self, domain: Domain) -> Iterator[Line]:
        children = list(domain.children.values())
        if self.everything:
            for child in children:
                yield self.line([child])

            return

        unhealthy = 0
        summed_up: list[Domain] = []
        for shape, group in self._alike(children).items():
            unhealthy += shape < 0
            if shape < 0 and unhealthy > _MOST_UNHEALTHY:
                summed_up += group
            elif self._share_a_line(group):
                yield self.line(group)
            else:
                for child in group:
                    yield self.line([child])

        if summed_up:
            yield self.line(summed_up, alike=len(summed_up) == 1)

    def _alike(self, children: Sequence[Domain]) -> dict[int, list[Domain]]:
        """The children by their shapes.

        Shapes are numbered from 0; an unhealthy domain has none, and a negative number of its own.
        """
        groups: dict[int, list[Domain]] = {}
        for number, child in enumerate(children, 1):
            shape = self._shape(child)
            key = -number if shape is None else shape
            groups.setdefault(key, []).append(child)

        return groups

    def _share_a_line(self, group: Sequence[Domain]) -> bool:
        are_hosts = group[0].depth == len(self.levels)
        return len(group) >= (_FEWEST_HOSTS if are_hosts else _FEWEST)

    def _shape(self, domain: Domain) -> int | None:
        """The same number for all equal domains; None if it is unhealthy and needs its own line."""
        # usually with its whole kind: then each on its own line says less
        tainted = domain.marks.get(Mark.TAINTED, 0)
        if len(domain.marks) > bool(tainted) or domain.left_out:
            return None
        if not domain.children:  # a host
            return self.shapes.setdefault((domain.nodes, domain.gpus, tainted), len(self.shapes))
        if id(domain) in self.shape_of:
            return self.shape_of[id(domain)]

        inside: Counter[int | None] = Counter()
        if domain.depth < self.depth:
            for child in domain.children.values():
                inside[self._shape(child)] += 1

        whole = (
            domain.nodes,
            domain.gpus,
            tainted,
            self._ends(domain) < 0,
            frozenset(inside.items()),
        )

        shape = self.shapes.setdefault(whole, len(self.shapes))
        self.shape_of[id(domain)] = shape
        return shape
