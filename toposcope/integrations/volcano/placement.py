"""HyperNodes as levels: which tier is which level of a ClusterTopology."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

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
        documents = {resource.name: resource.document for resource in resources}
        inside = nodes_inside(documents, known.view.by_name)
        specs = {name: Field(document) / "spec" for name, document in documents.items()}
        found = {}
        for name, topology in known.own.items():
            table = known.table(name)
            levels = tuple(tiered(topology.levels, table))
            tiers = levels_of_tiers(levels, table, specs, inside)
            if not tiers:
                continue
            aliases = []
            for tier, level in tiers.items():
                aliases.append((str(tier), level.key if level else ""))
            found[name] = TopologyLevels(name, levels, HYPER_NODES.kind, tuple(aliases))
        return found

    def stand_ins(self, known: KnownLevels) -> Mapping[str, TopologyLevels]:
        """The topologies with the tiers that their HyperNodes would have."""
        if HYPER_NODES.name in known.view.served:
            return {}
        found = {}
        for name, topology in known.suggested.items():
            levels = tiered(topology.levels, known.table(name))
            found[name] = replace(topology, levels=tuple(levels))
        tiers = tiers_of([topology.domains for topology in found.values()])
        for name, topology in found.items():
            found[name] = replace(topology, aliases=_aliases(topology, tiers))
        return found


def _aliases(topology: TopologyLevels, tiers: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    """Tier and label key of each level; where the tier is not known, the narrowest has 1."""
    aliases = []
    for number, level in enumerate(topology.levels):
        from_below = len(topology.levels) - number
        aliases.append((str(tiers.get(level.domain, from_below)), level.key))
    return tuple(aliases)


PLACEMENT: Final = _Placement()
