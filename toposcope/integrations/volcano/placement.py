"""Maps tiers of HyperNodes to the levels of ClusterTopologies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.levels import Level
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.placement import (
    KnownLevels,
    Placement,
    PlacementQuestion,
    ViewedResource,
)
from toposcope.integrations.framework.verdict import Verdict
from toposcope.integrations.volcano.api import QUEUES
from toposcope.integrations.volcano.hyper_nodes import (
    HYPER_NODES,
    levels_of_tiers,
    nodes_inside,
    tiered,
    tiers_of,
)
from toposcope.integrations.volcano.queues import excess, kept
from toposcope.integrations.volcano.tiers import NAMED, Aliases, Forest
from toposcope.integrations.volcano.workload import NAME
from toposcope.text import shell


class _Placement(Placement):
    def topologies(
        self, resources: Sequence[ViewedResource], known: KnownLevels
    ) -> dict[str, TopologyLevels]:
        """The ClusterTopologies that HyperNodes cover, with the level of each tier.

        HyperNodes that are domains of no level form a topology of their own.
        """
        documents: dict[str, Mapping[str, Any]] = {}
        for resource in resources:
            documents[resource.name] = resource.document
        if not documents:
            return {}
        inside = nodes_inside(documents, known.view.by_name)
        forest = Forest.of(documents, inside)
        forest_topology = forest.topology()

        topologies: dict[str, TopologyLevels] = {}
        covered: set[str] = set()
        are_levels = True
        for name, topology in known.own.items():
            table = known.table(name)
            levels = tiered(topology.levels, table)
            tiers = levels_of_tiers(levels, table, forest.specs, inside)
            if not tiers:
                continue
            for node in table:
                covered.add(node.name)
            if None in tiers.values():
                are_levels = False
            topologies[name] = TopologyLevels(
                name,
                tuple(levels),
                source=HYPER_NODES.kind,
                aliases=_keys_by_tier(tiers, forest),
                defect=forest_topology.defect,
            )
        if not are_levels or not covered.issuperset(forest_topology.places):
            topologies[forest_topology.name] = forest_topology
        return topologies

    def decide(self, verdict: Verdict, question: PlacementQuestion) -> Verdict:
        """Decide by the queue's remaining capability, then by the form of the tree."""
        if question.workload.system != NAME:
            return verdict
        return _in_queue(_in_tree(verdict, question), question)

    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The fields of a queue that a snapshot keeps."""
        return kept(document)

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


def _in_tree(verdict: Verdict, question: PlacementQuestion) -> Verdict:
    """The verdict if HyperNodes form no tree, which blocks placement, or have unknown nodes."""
    name = question.workload.topology
    if name is None:
        return verdict
    read_hyper_nodes = question.cluster.read.get(HYPER_NODES.option)
    topology = read_hyper_nodes.by_name.get(name) if read_hyper_nodes else None
    if topology is None:
        return verdict
    if topology.defect:
        return verdict.limited("full", topology.defect)
    if topology.doubt and verdict.refuses:
        return verdict.limited("unclear", topology.doubt)
    return verdict


def _in_queue(verdict: Verdict, question: PlacementQuestion) -> Verdict:
    """The verdict with respect to the queue's capability."""
    workload = question.workload
    beyond = excess(workload.queue, workload.groups, question.cluster, question.own)
    if beyond is None:
        return verdict
    look = shell("kubectl describe {} {}", QUEUES.name, beyond.queue)
    if beyond.is_lasting:
        return verdict.limited("never", str(beyond), look)
    if verdict.kind == "never":
        return verdict
    return verdict.limited("full", str(beyond), look)


def _keys_by_tier(tiers: Mapping[int, Level | None], forest: Forest) -> Aliases:
    """Each tier, by number and name, with the label key of its level; no key if it is no level."""
    aliases = []
    keys: dict[int, str] = {}
    for tier, level in tiers.items():
        key = level.key if level else ""
        keys[tier] = key
        aliases.append((str(tier), key))
    for name, tier in forest.names_of_tiers.items():
        key = keys.get(tier, "")
        if key:
            aliases.append((NAMED + name, key))
    return tuple(aliases)


def _aliases(topology: TopologyLevels, tiers: Mapping[str, int]) -> Aliases:
    """Tier and label key of each level; if tiers are unknown, the narrowest level has 1."""
    aliases = []
    tier_by_position = len(topology.levels)
    for level in topology.levels:
        tier = tiers.get(level.domain, tier_by_position)
        aliases.append((str(tier), level.key))
        tier_by_position -= 1
    return tuple(aliases)


PLACEMENT: Final = _Placement()
