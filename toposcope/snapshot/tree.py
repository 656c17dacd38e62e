"""The hierarchy with counts: every domain, what is in it, what is free, what is wrong, who fell out and where.

Nodes are counted by what they have in common: 100,000 of them are some thousand kinds, and only at the narrowest level
is each by itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from toposcope.api.label_keys import GPU_PRESENT, GPUS, STATE
from toposcope.snapshot.filters import Mark, marks
from toposcope.snapshot.model import NOTHING, NodeView, Snapshot
from toposcope.snapshot.scope import Scope

_TELLING: Final = (GPUS, GPU_PRESENT, STATE)
"""Labels that GPUs and marks are told from."""
_UNMARKED: Final[Mapping[Mark, int]] = {}

_Fact = tuple[int, int | None, tuple[Mark, ...]]
"""GPUs, free GPUs and marks of a node; nodes that are alike share one."""


@dataclass(slots=True)
class Domain:
    """One domain with everything below it. Its identity is the path of values that leads to it, not its own value."""

    depth: int
    """0: the whole topology; n: a domain of the n-th level from the broadest."""
    value: str
    nodes: int = 0
    gpus: int = 0
    free: int | None = 0
    """Whole GPUs that pods could still get; None: not known."""
    marks: Mapping[Mark, int] = field(default_factory=Counter)
    """How many of its nodes carry each mark."""
    children: dict[str, "Domain"] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Nodes that lack the next level: they belong here and to nothing below, and schedulers leave them out."""
    names: Sequence[str] = ()
    """Nodes that end here: those of a domain of the narrowest level."""

    @property
    def hosts(self) -> Iterator[str]:
        """Names of the nodes in it that carry every level."""
        if not self.children:
            yield from self.names
        for child in self.children.values():
            yield from child.hosts

    def add(self, nodes: int, fact: _Fact) -> None:
        """Count nodes that are alike."""
        gpus, free, found = fact
        self.nodes += nodes
        self.gpus += gpus * nodes
        if free:
            self.free = (self.free or 0) + free * nodes
        if found:
            self.marks = Counter(self.marks) + Counter(dict.fromkeys(found, nodes))


def tree(snapshot: Snapshot, scope: Scope) -> Domain:
    """The domains of a scope from the whole down, each level's in the order of their values."""
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
    for path, fact, value, node in zip(paths, _facts(snapshot, scope.nodes), narrow, scope.nodes, strict=True):
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
    telling: dict[int, Any] = {}
    known: dict[Any, _Fact] = {}
    shared: dict[_Fact, _Fact] = {}
    requested = snapshot.requested
    for node in nodes:
        tell = telling.get(id(node.places))
        if tell is None:
            carried = [node.places[key] for key in _TELLING if key in node.places]
            tell = telling[id(node.places)] = itemgetter(*carried) if carried else _nothing
        taken = requested.get(node.name, NOTHING)
        # Whatever a mapping stands for here lives as long as the snapshot, so its identity is its own.
        key = (id(node.places), tell(node.values), node.ready, node.schedulable, id(node.allocatable), id(taken))
        fact = known.get(key)
        if fact is None:
            fact = node.gpus, snapshot.free_gpus(node), marks(node)
            fact = known[key] = shared.setdefault(fact, fact)
        yield fact


def _nothing(_values: Sequence[str]) -> None:
    """The labels of a node that carries none of those that tell."""


def _descend(
    root: Domain, path: Sequence[str | None], fact: _Fact, members: Sequence[tuple[str | None, str]]
) -> Domain | None:
    """Count nodes of one path from the whole down; the domain above the narrowest level, None where they miss one."""
    here = root
    for value in path:
        here.add(len(members), fact)
        if value is None:
            here.left_out += [name for _, name in members]
            return None
        child = here.children.get(value)
        if child is None:
            child = here.children[value] = Domain(here.depth + 1, value, free=None if root.free is None else 0)
        here = child
    here.add(len(members), fact)
    return here


def _end(inside: Domain, fact: _Fact, members: Sequence[tuple[str | None, str]]) -> None:
    """Put nodes that are alike into their domains of the narrowest level."""
    gpus, free, found = fact
    marked = dict.fromkeys(found, 1) if found else _UNMARKED
    depth, children = inside.depth + 1, inside.children
    for value, name in members:
        if value is None:
            inside.left_out.append(name)
        elif value in children:
            children[value].add(1, fact)
            children[value].names = [*children[value].names, name]
        else:
            children[value] = Domain(depth, value, 1, gpus, free, marked, _CHILDLESS, _NOBODY, (name,))


_CHILDLESS: Final[dict[str, Domain]] = {}
_NOBODY: Final[list[str]] = []
"""Shared by all domains of the narrowest level, and never added to."""


def _sort(domain: Domain) -> None:
    if len(domain.children) > 1:
        domain.children = dict(sorted(domain.children.items()))
    for child in domain.children.values():
        if child.children:
            _sort(child)


def left_out(domain: Domain) -> int:
    """How many nodes of a domain lack a level."""
    return len(domain.left_out) + sum(left_out(child) for child in domain.children.values())
