"""What a snapshot says about topologies, as the readers need it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from toposcope.integrations.framework.constraints import PodGroupMember, PodGroupMembers, PodGroupName, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import node_filter_of
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod
from toposcope.integrations.kai.api import GROUP_OF, SUB_GROUP_OF
from toposcope.integrations.kai.topology import aliases_of
from toposcope.integrations.registry import EXCLUSIVE_POD_LABELS
from toposcope.snapshot.model import PodView, Published, Snapshot
from toposcope.snapshot.scope import Scope, select_scope
from toposcope.topology.levels import Level


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """ClusterTopologies, then what else schedulers have; without any, `cluster` with the levels that labels suggest."""
    topologies = {
        topology.name: TopologyLevels(topology.name, select_scope(snapshot, topology.name).levels)
        for topology in snapshot.topologies
    }
    for published in snapshot.published:
        topology = topologies.setdefault(published.name, _published(snapshot, published))
        topologies[published.name] = replace(topology, aliases=topology.aliases + aliases_of(published.document))
    if not topologies:
        inferred = select_scope(snapshot)
        if inferred.levels:
            topologies["cluster"] = TopologyLevels("cluster", inferred.levels, "labels of the nodes")
    labels = frozenset(key for places in {id(n.places): n.places for n in snapshot.nodes}.values() for key in places)
    return ClusterFacts(
        topologies,
        labels,
        _exclusive_pods(snapshot),
        pod_groups=members_of_pods(snapshot.pods or ()),
        domain_of=snapshot.catalogue.domain_of,
    )


def scope_of(snapshot: Snapshot, name: str | None) -> Scope | None:
    """The nodes and levels of a ClusterTopology by its name; None where no ClusterTopology has it."""
    if name is None or all(topology.name != name for topology in snapshot.topologies):
        return None
    return select_scope(snapshot, name)


def _published(snapshot: Snapshot, published: Published) -> TopologyLevels:
    """KAI and Kueue name keys only: the domain is the catalogue's, else the key itself."""
    domain_of = snapshot.catalogue.domain_of
    levels = tuple(Level(level.domain or domain_of.get(level.key, level.key), level.key) for level in published.levels)
    return TopologyLevels(published.name, levels, published.kind)


def _exclusive_pods(snapshot: Snapshot) -> dict[str, tuple[ExclusivePod, ...]]:
    pods: dict[str, dict[tuple[str, str], ExclusivePod]] = {}
    for pod in snapshot.pods or ():
        node = snapshot.by_name.get(pod.node)
        for label in EXCLUSIVE_POD_LABELS:
            place = pod.namespace, pod.node
            if node and label in pod.labels and place not in pods.setdefault(label, {}):
                pods[label][place] = ExclusivePod(pod.namespace, node.labels)
    return {label: tuple(by_place.values()) for label, by_place in pods.items()}


def members_of_pods(pods: Iterable[PodView]) -> PodGroupMembers:
    """The existing pods of KAI's PodGroups, by PodGroup."""
    groups: dict[PodGroupName, Counter[PodGroupMember]] = {}
    for pod in pods:
        name = pod.annotations.get(GROUP_OF)
        if name:
            requests = tuple(sorted((resource, count) for resource, count in pod.requests.items() if count))
            one = Pods("pods", 1, requests, node_filter_of(Field(pod.wants)))
            member = PodGroupMember(pod.labels.get(SUB_GROUP_OF, ""), one)
            groups.setdefault((pod.namespace, name), Counter())[member] += 1
    return {
        group: tuple(replace(member, pods=replace(member.pods, count=count)) for member, count in members.items())
        for group, members in groups.items()
    }
