"""The hierarchy with counts: every domain, its nodes and GPUs, what is free, what is wrong, which nodes lack a level.

Equal nodes are counted together, because 100,000 nodes come in a few thousand variants.

In the outline for people domains of equal shape share a line, unhealthy ones have their own. Shapes are equal if they
have as many nodes and GPUs and children of equal shapes. Nothing is lost: a shared line says how many domains there
are, what is in them and what they are called.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

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

_Fact = tuple[int, int | None, tuple[Mark, ...]]
"""GPUs, free GPUs and marks of a node; equal nodes share one."""


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
        gpus, free, _ = fact
        self.left_out += names
        self.left_gpus += gpus * len(names)
        self.left_free += (free or 0) * len(names)

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
    depths = len(scope.levels)
    if not depths:
        for node, fact in zip(scope.nodes, _facts(snapshot, scope.nodes), strict=True):
            root.add(1, fact)
            root.names = [*root.names, node.name]
        return root
    places = scope.table()
    *broad, narrow = [places.values(level.key) for level in scope.levels]
    paths = zip(*broad, strict=True) if broad else ((),) * len(scope.nodes)
    groups: dict[tuple[tuple[str | None, ...], _Fact], list[tuple[str | None, str]]] = {}
    for path, fact, value, node in zip(
        paths, _facts(snapshot, scope.nodes), narrow, scope.nodes, strict=True
    ):
        key = path, fact
        group = groups.get(key)
        if group is None:
            group = groups[key] = []
        group.append((value, node.name))
    for (path, fact), members in groups.items():
        inside = _descend(root, path, fact, members)
        if inside is not None:
            _end(inside, fact, members)
    _sort(root)
    return root


def _facts(snapshot: Snapshot, nodes: Sequence[NodeView]) -> Iterator[_Fact]:
    """What is counted of each node."""
    getters: dict[int, Any] = {}
    known: dict[Any, _Fact] = {}
    shared: dict[_Fact, _Fact] = {}
    requested = snapshot.requested
    for node in nodes:
        getter = getters.get(id(node.places))
        if getter is None:
            carried = [node.places[key] for key in _COUNTED_LABELS if key in node.places]
            getter = getters[id(node.places)] = itemgetter(*carried) if carried else _nothing
        taken = requested.get(node.name, NOTHING)
        # The snapshot keeps these mappings alive, so ids are unique.
        state = node.ready, node.schedulable, id(node.taints)
        key = (id(node.places), getter(node.values), state, id(node.allocatable), id(taken))
        fact = known.get(key)
        if fact is None:
            fact = node.gpus, snapshot.free_gpus(node), marks(node)
            fact = known[key] = shared.setdefault(fact, fact)
        yield fact


def _nothing(_values: Sequence[str]) -> None:
    """The labels of a node that has none of these."""


def _descend(
    root: Domain, path: Sequence[str | None], fact: _Fact, members: Sequence[tuple[str | None, str]]
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


def _end(inside: Domain, fact: _Fact, members: Sequence[tuple[str | None, str]]) -> None:
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
    """GPUs that nodes offer in shares of one kind: none of them is among the free GPUs of a domain."""

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
    kinds: dict[tuple[str, Unit, str], list[tuple[NodeView, Shares]]] = {}
    for node in scope.nodes if snapshot.shares else ():
        for shares in snapshot.shares.get(node.name, ()):
            kinds.setdefault((shares.resource, shares.unit, shares.profile), []).append(
                (node, shares)
            )
    return tuple(_together(snapshot, kinds[kind]) for kind in sorted(kinds))


def _together(snapshot: Snapshot, offers: Sequence[tuple[NodeView, Shares]]) -> SharedGpus:
    """What nodes offer in shares of the same kind."""
    _, first = offers[0]
    free = None
    if snapshot.pods is not None:
        free = sum(snapshot.free_shares(node, shares) or 0 for node, shares in offers)
    return SharedGpus(
        resource=first.resource,
        unit=first.unit,
        profile=first.profile,
        nodes=tuple(node.name for node, _ in offers),
        gpus=sum(node.gpus for node, _ in offers),
        total=sum(shares.total for _, shares in offers),
        free=free,
    )


def left_out(domain: Domain) -> tuple[int, int]:
    """How many nodes of a domain lack a level, and the GPUs on them."""
    below = [left_out(child) for child in domain.children.values()]
    return (
        len(domain.left_out) + sum(nodes for nodes, _ in below),
        domain.left_gpus + sum(gpus for _, gpus in below),
    )


HOST: Final = tuple(KEYS)[-1]
"""The domain of the narrowest level there can be."""
_FEWEST: Final = 3
"""So many domains of equal shape share a line; two are as short with their names."""
_MOST_UNHEALTHY: Final = 10
"""So many unhealthy domains under one parent have their own lines; the others share one."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the outline with those below it."""

    level: str
    """`rack`; `nvlink-domain = host` where each is both; empty for the whole topology."""
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


def outline(
    root: Domain, levels: Sequence[Level], depth: int | None = None, *, everything: bool = False
) -> Line:
    """The tree under `root` as lines, down to the `depth`-th level; `everything` gives each domain its own line."""
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
        free = [domain.free for domain in domains if domain.free is not None]
        marks: Counter[Mark] = Counter()
        for domain in domains:
            marks.update(domain.marks)
        left_out = (
            tuple(sorted(name for domain in domains for name in domain.left_out)) if alike else ()
        )
        below = self._ends(first)
        return Line(
            level=self._level(first, below),
            names=tuple(domain.value for domain in domains),
            nodes=sum(domain.nodes for domain in domains),
            gpus=sum(domain.gpus for domain in domains),
            free=sum(free) if free else None,
            marks=marks,
            alike=alike,
            left_out=left_out,
            left_gpus=sum(domain.left_gpus for domain in domains),
            left_free=sum(domain.left_free for domain in domains) if free else None,
            lacking=self.levels[first.depth] if left_out else None,
            below=tuple(self._below(first)) if alike and below > first.depth else (),
        )

    def _ends(self, domain: Domain) -> int:
        """The depth at which the line of a domain ends: its own, or the host's where the domain is one host."""
        if (
            domain.depth == len(self.levels) - 1
            and self.depth == len(self.levels)
            and list(domain.children) == [domain.value]
        ):
            return -1
        return self.depth

    def _level(self, domain: Domain, ends: int) -> str:
        if not domain.depth:
            return ""
        name = self.levels[domain.depth - 1].domain
        return f"{name} = {self.levels[domain.depth].domain}" if ends < 0 else name

    def _below(self, domain: Domain) -> Iterator[Line]:
        children = list(domain.children.values())
        if self.everything:
            yield from (self.line([child]) for child in children)
            return
        # Shapes are numbered from 0; an unhealthy domain has none, and a group of its own in its
        # place.
        groups: dict[int, list[Domain]] = {}
        for number, child in enumerate(children, 1):
            shape = self._shape(child)
            groups.setdefault(-number if shape is None else shape, []).append(child)
        unhealthy = 0
        others: list[Domain] = []
        for key, group in groups.items():
            unhealthy += key < 0
            if key < 0 and unhealthy > _MOST_UNHEALTHY:
                others += group
            elif len(group) >= (2 if group[0].depth == len(self.levels) else _FEWEST):
                yield self.line(group)
            else:
                yield from (self.line([domain]) for domain in group)
        if len(others) == 1:
            yield self.line(others)
        elif others:
            yield self.line(others, alike=False)

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
