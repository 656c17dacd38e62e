"""HyperNodes as levels of their own, as Volcano's scheduler reads them.

A hard constraint of tier N keeps pods inside one HyperNode of tier N or below, and a larger one has
room for whatever a smaller one inside it has. So the domains of tier N are the HyperNodes of tier N
or below that no other such HyperNode contains. Trees may have any shape: leaves at several tiers,
nodes beside HyperNodes, nodes outside of all. Source: Volcano 1.15 (hyperNodeGradientFn,
pkg/scheduler/api/hyper_node_info.go).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.volcano.api import TIER
from toposcope.integrations.volcano.hyper_nodes import HYPER_NODES, Names

ALL: Final = "HyperNodes"
"""The name of the topology that consists of all HyperNodes. No object can have it."""
NAMED: Final = "tierName "
"""Prefix of an alias that is a tier's name and not its number."""
Aliases = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """All HyperNodes of a cluster."""

    specs: Mapping[str, Field]
    """The spec of each, by name."""
    inside: Mapping[str, Names | None]
    """The nodes in each; None if unknown."""

    @staticmethod
    def of(
        documents: Mapping[str, Mapping[str, Any]], inside: Mapping[str, Names | None]
    ) -> "Forest":
        """The forest of the HyperNodes in these documents."""
        specs = {}
        for name, document in documents.items():
            specs[name] = Field(document) / "spec"
        return Forest(specs, inside)

    def tier(self, name: str) -> int:
        """The tier of a HyperNode."""
        return (self.specs[name] / "tier").number(0)

    def title(self, name: str) -> str:
        """The `tierName` of a HyperNode; empty if it has none."""
        spec = self.specs[name]
        return (spec / "tierName").text() or ""

    @property
    def tiers(self) -> list[int]:
        """All tiers, the lowest first."""
        return sorted({self.tier(name) for name in self.specs})

    @property
    def names_of_tiers(self) -> dict[str, int]:
        """The tier of each `tierName`; the highest if HyperNodes of several tiers share it."""
        tiers: dict[str, int] = {}
        for name in self.specs:
            title = self.title(name)
            if not title:
                continue
            tier = self.tier(name)
            known_tier = tiers.get(title, 0)
            tiers[title] = max(tier, known_tier)
        return tiers

    def defect(self) -> str:
        """Why Volcano schedules no jobs with a topology; empty if it does."""
        parents = Counter[str]()
        for spec in self.specs.values():
            children = set(_children(spec))
            parents.update(children)
        for name in sorted(parents):
            if parents[name] > 1:
                return (
                    f"HyperNode {name} has {parents[name]} parents, so Volcano schedules no jobs "
                    "with a topology: remove it from all but one"
                )
        return self._circle()

    def _circle(self) -> str:
        """The defect of HyperNodes that contain each other. Each must have at most one parent."""
        ends: set[str] = set()
        for start in sorted(self.specs):
            visited: dict[str, None] = {}
            pending = [start]
            while pending:
                name = pending.pop()
                if name in ends or name not in self.specs:
                    continue
                if name in visited:
                    return (
                        f"HyperNode {name} contains itself, so Volcano schedules no jobs with a "
                        "topology: remove it from the HyperNodes below it"
                    )
                visited[name] = None
                pending += _children(self.specs[name])
            ends.update(visited)
        return ""

    def doubt(self) -> str:
        """Why a domain may have more nodes than are known; empty if all are known."""
        for name in sorted(self.specs):
            if self.inside[name] is None:
                return f"it is unknown which nodes the regexMatch of HyperNode {name} selects"
        for tier in self.tiers:
            shared = _shared_node(self._outermost(tier))
            if shared:
                return shared
        return ""

    def _outermost(self, tier: int) -> dict[str, Names]:
        """The HyperNodes of this tier or below that none of the others contains, by name."""
        candidates: list[tuple[int, str, Names]] = []
        for name, nodes in self.inside.items():
            if nodes and self.tier(name) <= tier:
                candidates.append((-len(nodes), name, nodes))
        candidates.sort(key=_largest_first)

        outermost: dict[str, Names] = {}
        around: dict[str, list[Names]] = {}
        for _, name, nodes in candidates:
            first = min(nodes)
            larger = around.get(first, [])
            if any(nodes <= domain for domain in larger):
                continue
            outermost[name] = nodes
            for node in nodes:
                domains = around.setdefault(node, [])
                domains.append(nodes)
        return outermost

    def topology(self) -> TopologyLevels:
        """All tiers as levels, the highest first, and the domains of each node."""
        levels: list[Level] = []
        aliases: list[tuple[str, str]] = []
        places: dict[str, dict[str, str]] = {}
        titles = self._titles()
        for tier in reversed(self.tiers):
            key = TIER.format(tier)
            levels.append(Level(titles[tier], key))
            aliases.append((str(tier), key))
            for name, nodes in self._outermost(tier).items():
                for node in nodes:
                    domains = places.setdefault(node, {})
                    domains.setdefault(key, name)
        for title, tier in self.names_of_tiers.items():
            key = TIER.format(tier)
            aliases.append((NAMED + title, key))
        return TopologyLevels(
            ALL,
            tuple(levels),
            source=HYPER_NODES.kind,
            aliases=tuple(aliases),
            places=places,
            defect=self.defect(),
            doubt=self.doubt(),
        )

    def _titles(self) -> dict[int, str]:
        """The display name of each tier's domains: its `tierName`, if it has exactly one."""
        names: dict[int, set[str]] = {}
        for name in self.specs:
            tier = self.tier(name)
            of_tier = names.setdefault(tier, set())
            of_tier.add(self.title(name))
        tiers_of_title = Counter[str]()
        for of_tier in names.values():
            tiers_of_title.update(of_tier)

        titles: dict[int, str] = {}
        for tier, of_tier in names.items():
            titles[tier] = f"tier-{tier} {HYPER_NODES.kind}"
            title, *others = sorted(of_tier)
            is_unique = tiers_of_title[title] == 1
            if title and is_unique and not others:
                titles[tier] = title
        return titles


def _largest_first(candidate: tuple[int, str, Names]) -> tuple[int, str]:
    size, name, _ = candidate
    return size, name


def _children(spec: Field) -> Iterable[str]:
    """The HyperNodes that a spec names as members."""
    for entry in (spec / "members").items():
        if (entry / "type").text() != HYPER_NODES.kind:
            continue
        name = (entry / "selector" / "exactMatch" / "name").text()
        if name:
            yield name


def _shared_node(domains: Mapping[str, Names]) -> str:
    """A note on two domains of one tier that share a node; empty if there are none."""
    holder: dict[str, str] = {}
    for name in sorted(domains):
        for node in sorted(domains[name]):
            first = holder.setdefault(node, name)
            if first != name:
                return (
                    f"HyperNodes {first} and {name} both have node {node}, and either may be used"
                )
    return ""
