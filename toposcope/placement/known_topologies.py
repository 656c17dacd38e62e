"""What a snapshot says about topologies, as the readers need it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.integrations.framework.constraints import PodGroupMember, PodGroupMembers, PodGroupName, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.exclusive import MARKS
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import node_filter_of
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod
from toposcope.integrations.kai.pod_group import GROUP_OF, SUB_GROUP_OF
from toposcope.snapshot.model import PodView, Published, Snapshot
from toposcope.snapshot.scope import Scope, scope
from toposcope.topology.levels import Level


def known_of(snapshot: Snapshot) -> ClusterFacts:
    """Every topology of the snapshot: ClusterTopologies first, then what else schedulers have been given.

    Where there is none at all, the levels that the nodes' labels suggest serve under the name `cluster`.
    """
    ladders = {topology.name: _ladder(snapshot, topology) for topology in snapshot.topologies}
    for published in snapshot.published:
        ladder = ladders.setdefault(published.name, _published(snapshot, published))
        ladders[published.name] = replace(ladder, aliases=ladder.aliases + _aliases(published.document))
    if not ladders:
        found = scope(snapshot)
        if found.levels:
            ladders["cluster"] = TopologyLevels("cluster", found.levels, "labels of the nodes")
    labels = frozenset(key for places in {id(n.places): n.places for n in snapshot.nodes}.values() for key in places)
    return ClusterFacts(
        ladders,
        labels,
        _holders(snapshot),
        members=members_of_pods(snapshot.pods or ()),
        domain_of=snapshot.catalogue.domain_of,
    )


def scope_of(snapshot: Snapshot, name: str | None) -> Scope | None:
    """The nodes and levels of a ClusterTopology by its name; None where no ClusterTopology has it."""
    if name is None or all(topology.name != name for topology in snapshot.topologies):
        return None
    return scope(snapshot, name)


def _ladder(snapshot: Snapshot, topology: Topology) -> TopologyLevels:
    return TopologyLevels(topology.name, scope(snapshot, topology.name).levels)


def _published(snapshot: Snapshot, published: Published) -> TopologyLevels:
    """KAI and Kueue name keys only: the domain is the catalogue's, else the key itself."""
    domain_of = snapshot.catalogue.domain_of
    levels = tuple(Level(level.domain or domain_of.get(level.key, level.key), level.key) for level in published.levels)
    return TopologyLevels(published.name, levels, published.kind)


def _aliases(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What KAI's Topology (0.17 and later) also calls its levels."""
    levels = Field(document) / "spec" / "levels"
    named = [((level / "alias").text(), (level / "nodeLabel").text()) for level in levels.items()]
    return tuple((alias, key) for alias, key in named if alias and key)


def _holders(snapshot: Snapshot) -> dict[str, tuple[ExclusivePod, ...]]:
    found: dict[str, dict[tuple[str, str], ExclusivePod]] = {}
    for pod in snapshot.pods or ():
        node = snapshot.by_name.get(pod.node)
        for mark in MARKS:
            if node and mark in pod.labels and (pod.namespace, pod.node) not in found.setdefault(mark, {}):
                found[mark][pod.namespace, pod.node] = ExclusivePod(pod.namespace, node.labels)
    return {mark: tuple(holders.values()) for mark, holders in found.items()}


def members_of_pods(pods: Iterable[PodView]) -> PodGroupMembers:
    """By PodGroup: the pods that there are."""
    found: dict[PodGroupName, Counter[PodGroupMember]] = {}
    for pod in pods:
        name = pod.annotations.get(GROUP_OF)
        if name:
            asked = tuple(sorted((resource, count) for resource, count in pod.requests.items() if count))
            member = PodGroupMember(
                pod.labels.get(SUB_GROUP_OF, ""), Pods("pods", 1, asked, node_filter_of(Field(pod.wants)))
            )
            found.setdefault((pod.namespace, name), Counter())[member] += 1
    return {
        group: tuple(replace(each, pods=replace(each.pods, count=count)) for each, count in members.items())
        for group, members in found.items()
    }
