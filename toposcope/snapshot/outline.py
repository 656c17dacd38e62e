"""The tree for people: domains of equal shape share a line, unhealthy ones have their own.

Domains have equal shapes if they have as many nodes and GPUs and children of equal shapes. Nothing is lost: a shared
line says how many domains there are, what is in them and what they are called.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.snapshot.filters import Mark
from toposcope.snapshot.tree import Domain
from toposcope.topology.levels import Level
from toposcope.topology.platforms import KEYS

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


def outline(root: Domain, levels: Sequence[Level], depth: int | None = None, *, everything: bool = False) -> Line:
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
        left_out = tuple(sorted(name for domain in domains for name in domain.left_out)) if alike else ()
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
        # Shapes are numbered from 0; an unhealthy domain has none, and a group of its own in its place.
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
        tainted = domain.marks.get(Mark.TAINTED, 0)  # usually with its whole kind: then each on its own line says less
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
        whole = (domain.nodes, domain.gpus, tainted, self._ends(domain) < 0, frozenset(inside.items()))
        shape = self.shapes.setdefault(whole, len(self.shapes))
        self.shape_of[id(domain)] = shape
        return shape
