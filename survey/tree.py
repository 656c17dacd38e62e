"""The hierarchy with counts: every domain, what is in it, what is free, what is wrong, who fell out and where."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from survey.health import Mark, marks
from survey.scope import Scope
from survey.snapshot import Snapshot


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
    marks: Counter[Mark] = field(default_factory=Counter)
    """How many of its nodes carry each mark."""
    children: dict[str, "Domain"] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """Nodes that lack the next level: they belong here and to nothing below, and schedulers leave them out."""

    @property
    def hosts(self) -> Iterator[str]:
        """Names of the nodes in it that carry every level."""
        if not self.children:
            yield from self.names
        for child in self.children.values():
            yield from child.hosts

    names: list[str] = field(default_factory=list)
    """Nodes that end here: those of a domain of the narrowest level."""


def tree(snapshot: Snapshot, scope: Scope) -> Domain:
    """The domains of a scope from the whole down, each level's in the order of their values."""
    known = snapshot.pods is not None
    root = Domain(0, scope.name, free=0 if known else None)
    places = scope.table()
    columns = [places.values(level.key) for level in scope.levels]
    rows = zip(*columns, strict=True) if columns else (() for _ in scope.nodes)
    depths = len(scope.levels)
    for node, row in zip(scope.nodes, rows, strict=True):
        gpus = node.gpus
        free = snapshot.free_gpus(node)
        found = marks(node)
        here = root
        for depth in range(depths + 1):
            here.nodes += 1
            here.gpus += gpus
            if free:
                here.free = (here.free or 0) + free
            if found:
                here.marks.update(found)
            if depth == depths:
                here.names.append(node.name)
                break
            value = row[depth]
            if value is None:
                here.left_out.append(node.name)
                break
            child = here.children.get(value)
            if child is None:
                child = here.children[value] = Domain(depth + 1, value, free=0 if known else None)
            here = child
    _sort(root)
    return root


def _sort(domain: Domain) -> None:
    if len(domain.children) > 1:
        domain.children = dict(sorted(domain.children.items()))
    for child in domain.children.values():
        _sort(child)


def left_out(domain: Domain) -> int:
    """How many nodes of a domain lack a level."""
    return len(domain.left_out) + sum(left_out(child) for child in domain.children.values())
