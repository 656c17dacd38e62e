"""HyperNodes: a topology as Volcano's scheduler reads it.

There is an object for each domain of each level above the host. Tiers are numbered for the whole
cluster, from 1 for the narrowest; jobs name a tier, or its `tierName`, which is the level's domain.
Members are listed by name: a label selector makes the scheduler match all nodes at each change of
one, and keeps nodes that have left. Source: Volcano 1.15 (pkg/scheduler/api/hyper_node_info.go).
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
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
_Path = tuple[str, ...]
_HASH_DIGITS: Final = 10
_MAX_PART_CHARACTERS: Final = 63
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class HyperNode:
    """One domain."""

    tier: int
    domain: str
    of: str
    """`Node` or `HyperNode`: what its members are."""
    members: tuple[str, ...]
    """Their names, sorted: nodes at the narrowest level, else the HyperNodes below it."""

    def spec(self, *, has_tier_name: bool, kept: Iterable[str] = ()) -> dict[str, Any]:
        """The object's spec; with `tierName` (Volcano 1.14) if `has_tier_name`.

        `kept` are additional members.
        """
        names = {*self.members, *kept}
        members: list[dict[str, Any]] = []
        for name in sorted(names):
            entry = member(self.of, name)
            members.append(entry)

        spec: dict[str, Any] = {"tier": self.tier}
        if has_tier_name:
            spec["tierName"] = self.domain
        spec["members"] = members
        return spec


def member(of: str, name: str) -> dict[str, Any]:
    """An entry of `spec.members`."""
    return {"type": of, "selector": {"exactMatch": {"name": name}}}


def members_of(document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The type and the names of the members of a HyperNode that Toposcope created."""
    members = Field(document) / "spec" / "members"
    types: list[str] = []
    names: list[str] = []
    for entry in members.items():
        exact = entry / "selector" / "exactMatch"
        name = (exact / "name").text()
        names.append(name or "")
        of = (entry / "type").text()
        types.append(of or "")
    if not types:
        return "", []
    return types[0], names


def tiered(levels: Iterable[Level], nodes: Table) -> list[Level]:
    """The levels that get HyperNodes.

    Hosts, which are Volcano's leaves, get none, nor do NVLink domains of one node each.
    """
    without = {HOSTNAME}
    nvlink_domains = nodes.column(NVLINK_DOMAIN)
    if nvlink_domains.is_unique:
        without.add(NVLINK_DOMAIN)
    return [level for level in levels if level.key not in without]


def tiers_of(topologies: Iterable[Sequence[str]]) -> dict[str, int]:
    """The tier of each domain, higher than those of all domains below it in any topology.

    `topologies` list domains from broad to narrow. Empty if two of them have two domains in
    opposite orders.
    """
    below: dict[str, set[str]] = {}
    for domains in topologies:
        for domain in domains:
            below.setdefault(domain, set())
        for broad, narrow in pairwise(domains):
            below[broad].add(narrow)
    tiers: dict[str, int] = {}
    try:
        for domain in TopologicalSorter(below).static_order():
            tiers_below = [tiers[lower] for lower in below[domain]]
            highest_below = max(tiers_below, default=0)
            tiers[domain] = highest_below + 1
    except CycleError:
        return {}
    return tiers


def draw(
    topology: str, levels: Sequence[Level], nodes: Table, tiers: Mapping[str, int]
) -> dict[str, HyperNode]:
    """The HyperNodes of one topology by name, narrowest first.

    A node without all levels is in none.
    """
    domains = _domains_by_path(levels, nodes)
    names: dict[_Path, str] = {}
    drawn: dict[str, HyperNode] = {}
    narrowest_first = sorted(domains, key=_narrowest_first)
    for path in narrowest_first:
        name = _name(topology, levels, path)
        names[path] = name
        domain = domains[path]
        depth = len(path)
        of = "Node"
        members = list(domain.nodes)
        if depth < len(levels):
            of = "HyperNode"
            members = [names[below] for below in domain.below]
        level = levels[depth - 1]
        tier_by_position = len(levels) - depth + 1
        drawn[name] = HyperNode(
            tier=tiers.get(level.domain, tier_by_position),
            domain=level.domain,
            of=of,
            members=tuple(sorted(members)),
        )
    return drawn


def _narrowest_first(path: _Path) -> tuple[int, _Path]:
    return -len(path), path


@dataclass(slots=True)
class _Domain:
    """The members of a domain: nodes at the narrowest level, else the domains below it."""

    nodes: set[str] = field(default_factory=set)
    below: set[_Path] = field(default_factory=set)


def _domains_by_path(levels: Sequence[Level], nodes: Table) -> dict[_Path, _Domain]:
    """The domains of the nodes that have all levels."""
    columns = [nodes.values(level.key) for level in levels]
    paths = zip(*columns, strict=True)
    domains: dict[_Path, _Domain] = {}
    for node, path in zip(nodes, paths, strict=False):
        if None in path:
            continue
        domain = domains.get(path)
        if domain is None:
            domain = _Domain()
            domains[path] = domain
        domain.nodes.add(node.name)

    for path in list(domains):
        for depth in range(1, len(path)):
            outer = path[:depth]
            inner = path[: depth + 1]
            if outer not in domains:
                domains[outer] = _Domain()
            domains[outer].below.add(inner)
    return domains


def _name(topology: str, levels: Sequence[Level], path: Sequence[str]) -> str:
    """A name that contains the domain's value and, to be unique, a hash of its path."""
    depth = len(path)
    value = path[-1]
    domain = levels[depth - 1].domain
    texts = [topology, value]
    if not value.startswith(domain):
        texts.insert(1, domain)
    parts: list[str] = []
    for text in texts:
        legal = _legal(text)
        if legal:
            parts.append(legal)

    keys = [level.key for level in levels[:depth]]
    identity = "\0".join((topology, *keys, *path))
    digest = hashlib.sha256(identity.encode()).hexdigest()
    parts.append(digest[:_HASH_DIGITS])
    return "-".join(parts)


def _legal(text: str) -> str:
    """The characters of a text that are allowed in a name."""
    lower_case = text.lower()
    legal = _NOT_IN_A_NAME.sub("-", lower_case).strip("-")
    return legal[:_MAX_PART_CHARACTERS].strip("-")


@dataclass
class _Members:
    """The direct members of one HyperNode."""

    nodes: set[str] = field(default_factory=set)
    children: list[str] = field(default_factory=list)
    is_complete: bool = True
    """Whether all of them are known."""

    @property
    def names(self) -> Names | None:
        """The nodes among its direct members; None if some are unknown."""
        if not self.is_complete:
            return None
        return frozenset(self.nodes)


def nodes_inside(
    documents: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, Labelled]
) -> dict[str, Names | None]:
    """The names of the nodes below each HyperNode.

    Members that do not exist are ignored. None if a member is a regular expression that is not
    applied here (see `foreign_patterns`).
    """
    direct: dict[str, _Members] = {}
    children: dict[str, list[str]] = {}
    for name, document in documents.items():
        members = _members(Field(document), documents, nodes)
        direct[name] = members
        children[name] = members.children
    try:
        order = list(TopologicalSorter(children).static_order())
    except CycleError:
        return _nodes_of_descendants(direct)

    inside: dict[str, Names | None] = {}
    for name in order:
        parts = [direct[name].names]
        for child in children[name]:
            parts.append(inside[child])
        inside[name] = _joined(parts)
    return inside


def _nodes_of_descendants(direct: Mapping[str, _Members]) -> dict[str, Names | None]:
    """The nodes below each HyperNode if some of them contain each other."""
    inside: dict[str, Names | None] = {}
    for name in direct:
        parts: list[Names | None] = []
        for below in _descendants(name, direct):
            members = direct[below]
            parts.append(members.names)
        inside[name] = _joined(parts)
    return inside


def _joined(parts: Iterable[Names | None]) -> Names | None:
    """All of these nodes; None if some are unknown."""
    nodes: set[str] = set()
    for part in parts:
        if part is None:
            return None
        nodes |= part
    return frozenset(nodes)


def _members(
    hyper_node: Field, documents: Collection[str], nodes: Mapping[str, Labelled]
) -> _Members:
    members = _Members()
    entries = hyper_node / "spec" / "members"
    for entry in entries.items():
        selector = entry / "selector"
        labels = (selector / "labelMatch").value
        pattern = (selector / "regexMatch" / "pattern").text()
        exact = (selector / "exactMatch" / "name").text()
        if pattern:
            _add_matching(members, pattern, nodes)
        elif labels:
            members.nodes.update(_labelled(nodes, labels))
        elif exact and (entry / "type").text() == "HyperNode":
            if exact in documents:
                members.children.append(exact)
        elif exact and exact in nodes:
            members.nodes.add(exact)
    return members


def _add_matching(members: _Members, pattern: str, nodes: Iterable[str]) -> None:
    """Add the nodes whose names match. They are unknown if the pattern is not applied."""
    matcher = compiled(pattern)
    if matcher is None:
        members.is_complete = False
        return
    matching = [node for node in nodes if matcher.search(node)]
    members.nodes.update(matching)


def _labelled(nodes: Mapping[str, Labelled], selector: Any) -> Iterator[str]:
    """The nodes that a label selector matches."""
    rules = requirements(selector)
    for node, facts in nodes.items():
        matches = all(rule.holds(facts) for rule in rules)
        if matches:
            yield node


def _descendants(name: str, direct: Mapping[str, _Members]) -> set[str]:
    """The HyperNode and those below it, even if they contain each other."""
    visited = {name}
    pending = [name]
    while pending:
        hyper_node = pending.pop()
        children = set(direct[hyper_node].children)
        fresh = children - visited
        visited |= fresh
        pending += fresh
    return visited


def levels_of_tiers(
    levels: Sequence[Level],
    nodes: Table,
    specs: Mapping[str, Field],
    inside: Mapping[str, Names | None],
) -> dict[int, Level | None]:
    """The level of each tier whose HyperNodes have some of these `nodes`; None if it is no level.

    A HyperNode whose nodes are unknown may have some of them, and is the domain of no level.
    `levels` are those that get HyperNodes; `specs` and `inside` say the spec and the nodes of each
    HyperNode that exists.
    """
    drawn = _drawn_domains(levels, nodes)
    names_by_tier = _names_by_tier(nodes, specs, inside)
    levels_by_tier: dict[int, Level | None] = {}
    above: Sequence[Level] = levels
    for tier in sorted(names_by_tier):
        names = names_by_tier[tier]
        parts = {inside[name] for name in names}
        candidates: list[Level] = []
        broader: list[Level] = []
        for level in levels:
            if parts == drawn[level.domain]:
                candidates.append(level)
                # A block of one rack has the same nodes as the rack: the higher tier is the block.
                if level in above:
                    broader.append(level)

        tier_name = (specs[names[0]] / "tierName").text()
        best = _best(candidates, broader, tier_name)
        levels_by_tier[tier] = best
        if best is not None:
            above = levels[: levels.index(best)]
    return levels_by_tier


def _best(candidates: Sequence[Level], broader: Sequence[Level], name: str | None) -> Level | None:
    """The level of this name, else the narrowest broader one, else any; None if there is none."""
    for level in candidates:
        if name in (level.domain, level.key):
            return level
    if broader:
        return broader[-1]
    if candidates:
        return candidates[0]
    return None


def _names_by_tier(
    nodes: Table, specs: Mapping[str, Field], inside: Mapping[str, Names | None]
) -> dict[int, list[str]]:
    """The HyperNodes of each tier that have, or may have, some of the nodes."""
    node_names = {node.name for node in nodes}
    tiers: dict[int, list[str]] = {}
    for name, spec in specs.items():
        members = inside[name]
        if members is not None and node_names.isdisjoint(members):
            continue
        tier = (spec / "tier").number(0)
        names = tiers.setdefault(tier, [])
        names.append(name)
    return tiers


def _drawn_domains(levels: Sequence[Level], nodes: Table) -> dict[str, set[Names | None]]:
    """The nodes of each domain that would become a HyperNode, by the domain name of its level."""
    domains: dict[str, set[Names | None]] = {}
    for level in levels:
        domains[level.domain] = set()
    nodes_of: dict[str, list[str]] = {}
    hyper_nodes = draw("", levels, nodes, {})
    for name, drawn in hyper_nodes.items():
        members = list(drawn.members)
        if drawn.of == "HyperNode":
            members = []
            for below in drawn.members:
                members += nodes_of[below]
        nodes_of[name] = members
        domains[drawn.domain].add(frozenset(members))
    return domains
