"""HyperNodes as levels: which tier is which level of a ClusterTopology."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import (
    KnownLevels,
    Placement,
    ViewedResource,
)
from toposcope.integrations.volcano.hyper_nodes import (
    HYPER_NODES,
    levels_of_tiers,
    nodes_inside,
    tiered,
    tiers_of,
)


class _Placement(Placement):
    def topologies(
        self, resources: Sequence[ViewedResource], known: KnownLevels
    ) -> dict[str, TopologyLevels]:
        """The ClusterTopologies whose nodes HyperNodes have, with the levels that these are."""
        documents: dict[str, Mapping[str, Any]] = {}
        specs: dict[str, Field] = {}
        for resource in resources:
            root = Field(resource.document)
            documents[resource.name] = resource.document
            specs[resource.name] = root / "spec"
        inside = nodes_inside(documents, known.view.by_name)

        topologies: dict[str, TopologyLevels] = {}
        for name, topology in known.own.items():
            table = known.table(name)
            levels = tiered(topology.levels, table)
            tiers = levels_of_tiers(levels, table, specs, inside)
            if tiers:
                topologies[name] = TopologyLevels(
                    name,
                    tuple(levels),
                    source=HYPER_NODES.kind,
                    aliases=_keys_by_tier(tiers),
                )
        return topologies

    def stand_ins(self, known: KnownLevels) -> Mapping[str, TopologyLevels]:
        """The topologies with the tiers that their HyperNodes would have."""
        if HYPER_NODES.name in known.view.served:
            return {}
        topologies: dict[str, TopologyLevels] = {}
        orders: list[Sequence[str]] = []
        for name, topology in known.suggested.items():
            table = known.table(name)
            levels = tiered(topology.levels, table)
            with_tiers = replace(topology, levels=tuple(levels))
            topologies[name] = with_tiers
            orders.append(with_tiers.domains)

        tiers = tiers_of(orders)
        for name, topology in topologies.items():
            aliases = _aliases(topology, tiers)
            topologies[name] = replace(topology, aliases=aliases)
        return topologies


def _keys_by_tier(tiers: Mapping[int, Level | None]) -> tuple[tuple[str, str], ...]:
    """Tier and label key of its level; no key where it is the tier of no level."""
    aliases = []
    for tier, level in tiers.items():
        key = ""
        if level:
            key = level.key
        aliases.append((str(tier), key))
    return tuple(aliases)


def _aliases(topology: TopologyLevels, tiers: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    """Tier and label key of each level; where the tier is not known, the narrowest has 1."""
    aliases = []
    tier_by_position = len(topology.levels)
    for level in topology.levels:
        tier = tiers.get(level.domain, tier_by_position)
        aliases.append((str(tier), level.key))
        tier_by_position -= 1
    return tuple(aliases)


PLACEMENT: Final = _Placement()
