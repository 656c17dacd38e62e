"""HyperNodes: a topology as Volcano's scheduler reads it, one object for each domain of each level above the host.

Tiers are numbers that hold for the whole cluster, 1 for the narrowest; jobs name a tier, or its `tierName`, which is
the level's domain. Members are named one by one: a selector by labels makes the scheduler look at all nodes with every
change of one, and keeps nodes that have left. Source: Volcano 1.15 (pkg/scheduler/api/hyper_node_info.go).
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import Any, Final

from toposcope.api.cluster_topology import requirements
from toposcope.api.label_keys import HOSTNAME, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.api.requirement import Labelled
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.foreign_patterns import compiled
from toposcope.integrations.framework.published import PublishedKind
from toposcope.kube.confinement import NOBODY

_EXAMPLE: Final = {
    "tier": 1,
    "members": [{"type": "Node", "selector": {"exactMatch": {"name": NOBODY}}}],
}
HYPER_NODES: Final = PublishedKind(
    "topology.volcano.sh",
    "HyperNode",
    "hypernodes",
    ("v1alpha1",),
    "volcano",
    example=_EXAMPLE,
)
Names = frozenset[str]
_DIGITS: Final = 10
_LONGEST_PART: Final = 63
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One domain: the names of its nodes at the narrowest level, else of the HyperNodes below it; sorted."""

    tier: int
    domain: str
    of: str
    """`Node` or `HyperNode`."""
    members: tuple[str, ...]

    def spec(self, *, named: bool, kept: Iterable[str] = ()) -> dict[str, Any]:
        """The object's spec; `named`: with `tierName` (Volcano 1.14).

        `kept` are members beside its own.
        """
        members = [member(self.of, name) for name in sorted({*self.members, *kept})]
        return {
            "tier": self.tier,
            **({"tierName": self.domain} if named else {}),
            "members": members,
        }


def member(of: str, name: str) -> dict[str, Any]:
    """An entry of `spec.members`."""
    return {"type": of, "selector": {"exactMatch": {"name": name}}}


def members_of(document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The type of the members of one of ours, and their names."""
    fields = (Field(document) / "spec" / "members").items()
    members = [(member / "type", member / "selector" / "exactMatch" / "name") for member in fields]
    return next((of.text() or "" for of, _ in members), ""), [
        name.text() or "" for _, name in members
    ]


def tiered(levels: Iterable[Level], nodes: Table) -> list[Level]:
    """The levels that get HyperNodes: not hosts, which are Volcano's leaves, nor NVLink domains of one node each."""
    alone = {HOSTNAME, *([NVLINK_DOMAIN] if nodes.column(NVLINK_DOMAIN).unique else [])}
    return [level for level in levels if level.key not in alone]


def tiers_of(topologies: Iterable[Sequence[str]]) -> dict[str, int]:
    """The tier of each domain, one above all that stand below it in any topology; `topologies` from broad to narrow.

    Empty where one topology has two domains the other way round than another.
    """
    below: dict[str, set[str]] = {}
    for domains in topologies:
        below.update({domain: set() for domain in domains if domain not in below})
        for broad, narrow in pairwise(domains):
            below[broad].add(narrow)
    tiers: dict[str, int] = {}
    try:
        for domain in TopologicalSorter(below).static_order():
            tiers[domain] = 1 + max((tiers[lower] for lower in below[domain]), default=0)
    except CycleError:
        return {}
    return tiers


def draw(
    topology: str, levels: Sequence[Level], nodes: Table, tiers: Mapping[str, int]
) -> dict[str, HyperNode]:
    """The HyperNodes of one topology by name, the narrowest first.

    A node that lacks one of the levels is in none.
    """
    members: dict[tuple[str, ...], set[Any]] = {}
    for node, path in zip(
        nodes, zip(*[nodes.values(level.key) for level in levels], strict=True), strict=False
    ):
        if None not in path:
            members.setdefault(path, set()).add(node.name)
            for depth in range(1, len(path)):
                members.setdefault(path[:depth], set()).add(path[: depth + 1])
    names = {path: _name(topology, levels, path) for path in members}
    drawn = {}
    for path, inside in sorted(members.items(), key=lambda item: (-len(item[0]), item[0])):
        level, above = levels[len(path) - 1], len(levels) - len(path)
        of, named = (
            "HyperNode" if above else "Node",
            sorted(names.get(member, member) for member in inside),
        )
        drawn[names[path]] = HyperNode(
            tiers.get(level.domain, above + 1), level.domain, of, tuple(named)
        )
    return drawn


def _name(topology: str, levels: Sequence[Level], path: Sequence[str]) -> str:
    """A name that says which domain it is and, by a hash of the whole path, is no other domain's."""
    keys = [level.key for level in levels[: len(path)]]
    digest = hashlib.sha256("\0".join((topology, *keys, *path)).encode()).hexdigest()[:_DIGITS]
    domain = levels[len(path) - 1].domain
    said = (topology, *(() if path[-1].startswith(domain) else [domain]), path[-1])
    parts = (
        _NOT_IN_A_NAME.sub("-", part.lower()).strip("-")[:_LONGEST_PART].strip("-") for part in said
    )
    return "-".join((*filter(None, parts), digest))


@dataclass
class _Members:
    """What the members of one HyperNode name themselves."""

    nodes: set[str] = field(default_factory=set)
    children: list[str] = field(default_factory=list)
    known: bool = True
    """Whether all of them can be told."""


def nodes_inside(
    documents: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Labelled]
) -> dict[str, Names | None]:
    """The names of the nodes below each of any HyperNodes; members that are not there count for nothing.

    None: a member is a regular expression that is not applied here (see `foreign_patterns`).
    """
    direct = {
        name: _members(Field(document), documents, nodes) for name, document in documents.items()
    }
    try:
        order = list(
            TopologicalSorter(
                {name: members.children for name, members in direct.items()}
            ).static_order()
        )
    except CycleError:
        return {
            name: _union([direct[below] for below in _descendants(name, direct)]) for name in direct
        }
    inside: dict[str, Names | None] = {}
    for name in order:
        own = _union([direct[name]])
        below = [inside[child] for child in direct[name].children]
        inside[name] = None if own is None or None in below else own.union(*filter(None, below))
    return inside


def _union(members: Iterable[_Members]) -> Names | None:
    """The nodes that all of these name; None where some cannot be told."""
    nodes = set[str]()
    for each in members:
        if not each.known:
            return None
        nodes |= each.nodes
    return frozenset(nodes)


def _members(
    hyper_node: Field, documents: Collection[str], nodes: Mapping[str, Labelled]
) -> _Members:
    found = _Members()
    for member in (hyper_node / "spec" / "members").items():
        selector = member / "selector"
        exact, labels = (selector / "exactMatch" / "name").text(), selector / "labelMatch"
        if pattern := (selector / "regexMatch" / "pattern").text():
            matcher = compiled(pattern)
            found.known = found.known and matcher is not None
            found.nodes |= {node for node in nodes if matcher and matcher.search(node)}
        elif labels.value:
            wanted = requirements(labels.value)
            found.nodes |= {
                node for node, facts in nodes.items() if all(rule.holds(facts) for rule in wanted)
            }
        elif exact and (member / "type").text() == "HyperNode":
            found.children += [exact] if exact in documents else []
        elif exact and exact in nodes:
            found.nodes.add(exact)
    return found


def _descendants(name: str, direct: Mapping[str, _Members]) -> set[str]:
    """The HyperNode and those below it, also where they hold each other."""
    seen, left = {name}, [name]
    while left:
        children = set(direct[left.pop()].children) - seen
        seen |= children
        left += children
    return seen


def levels_of_tiers(
    levels: Sequence[Level],
    nodes: Table,
    specs: Mapping[str, Field],
    inside: Mapping[str, Names | None],
) -> dict[int, Level | None]:
    """The level of each tier whose HyperNodes have some of these `nodes`; None: they are the domains of none.

    A HyperNode whose nodes are not known may have some of them, and is the domain of no level.

    `levels` are those that get HyperNodes; `specs` and the nodes `inside` are those of each that there is.
    """
    mine = {node.name for node in nodes}
    tiers: dict[int, list[str]] = {}
    for name, spec in specs.items():
        members = inside[name]
        if members is None or not mine.isdisjoint(members):
            tiers.setdefault((spec / "tier").number(0), []).append(name)
    within: dict[str, list[str]] = {}
    domains: dict[str, set[Names]] = {level.domain: set() for level in levels}
    for name, drawn in draw("", levels, nodes, {}).items():
        within[name] = list(
            drawn.members if drawn.of == "Node" else chain(*map(within.__getitem__, drawn.members))
        )
        domains[drawn.domain].add(frozenset(within[name]))
    found: dict[int, Level | None] = {}
    last = len(levels)
    for tier, names in sorted(tiers.items()):
        alike = [
            level
            for level in levels
            if all(inside[name] in domains[level.domain] for name in names)
        ]
        called = (specs[names[0]] / "tierName").text()
        named = [level for level in alike if called in (level.domain, level.key)]
        # Where a block has one rack they are the same nodes: the higher tier is the block.
        broader = [level for level in alike if levels.index(level) < last]
        found[tier] = level = next(iter((*named, *reversed(broader), *alike)), None)
        last = levels.index(level) if level else last
    return found
