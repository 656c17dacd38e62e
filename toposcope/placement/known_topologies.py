"""What a snapshot says about topologies, as the readers need it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from toposcope.api.cluster_topology import KIND
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import (
    PodGroupMember,
    PodGroupMembers,
    PodGroupName,
    Pods,
)
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.pods import node_filter_of
from toposcope.integrations.framework.system import ClusterFacts, ExclusivePod, Held, ReadTopologies
from toposcope.integrations.kai.api import GROUP_OF, SUB_GROUP_OF
from toposcope.integrations.kai.topology import aliases_of
from toposcope.integrations.kubernetes.gangs import group_of
from toposcope.integrations.kueue import queues
from toposcope.integrations.kueue.api import POD_SET_OF, WORKLOAD, WORKLOAD_OF
from toposcope.integrations.registry import DECISIVE, EXCLUSIVE_POD_LABELS, PUBLISHED
from toposcope.integrations.volcano.hyper_nodes import (
    HYPER_NODES,
    levels_of_tiers,
    nodes_inside,
    tiered,
    tiers_of,
)
from toposcope.snapshot.model import PodView, Published, Snapshot
from toposcope.snapshot.scope import select_scope
from toposcope.text import shell

OWN: Final = KIND
INFERRED: Final = "the hierarchy of the nodes' labels"
STAND_INS: Final = (OWN, INFERRED)
"""Sources of levels that stand in for a scheduler's own."""
_SYSTEMS: Final = {"grove": "Grove", "kai": "KAI", "kueue": "Kueue", HYPER_NODES.option: "Volcano"}
"""Who reads the kinds of topology resources, by their field in `spec.publish`."""


def cluster_facts(snapshot: Snapshot) -> ClusterFacts:
    """ClusterTopologies, then what else schedulers have; without any, `cluster` with the levels that labels suggest."""
    own = {
        topology.name: TopologyLevels(topology.name, select_scope(snapshot, topology.name).levels)
        for topology in snapshot.topologies
    }
    suggested = own or _inferred(snapshot)
    domain_of = dict(snapshot.catalogue.domain_of)
    domain_of |= {level.key: level.domain for topology in own.values() for level in topology.levels}

    def levels_of(resources: Sequence[Published]) -> dict[str, TopologyLevels]:
        return {
            resource.name: _published(resource, domain_of, own) for resource in reversed(resources)
        }

    readers = dict.fromkeys(_SYSTEMS, levels_of) | {
        HYPER_NODES.option: partial(_of_hyper_nodes, snapshot, own)
    }
    tiers = {} if HYPER_NODES.name in snapshot.served else _tiers(snapshot, suggested)
    stand_ins = {**dict.fromkeys(_SYSTEMS, suggested), HYPER_NODES.option: tiers}
    read = {
        option: _read_by(option, snapshot, stand_ins[option], levels)
        for option, levels in readers.items()
    }
    known: dict[str, TopologyLevels] = {}
    for system in read.values():
        known |= {
            name: topology for name, topology in system.by_name.items() if not system.stand_in
        }
    labels = frozenset(
        key
        for places in {id(n.places): n.places for n in snapshot.nodes}.values()
        for key in places
    )
    return ClusterFacts(
        {**known, **own} or suggested,
        labels,
        _exclusive_pods(snapshot),
        pod_groups=members_of_pods(snapshot.pods or ()),
        gangs=gangs_of_pods(snapshot.pods or ()),
        unserved=frozenset(name for name, served in snapshot.served.items() if not served),
        grove=snapshot.grove,
        domain_of=snapshot.catalogue.domain_of,
        read=read,
        objects=_objects(snapshot),
    )


def _objects(snapshot: Snapshot) -> dict[tuple[str, str], tuple[Mapping[str, Any], ...]]:
    """What decides besides topologies, by kind: those of which the snapshot has some, or the cluster none."""
    objects: dict[tuple[str, str], list[Mapping[str, Any]]] = {
        kind.key: [] for kind in DECISIVE if snapshot.served.get(kind.name)
    }
    for document in snapshot.objects:
        objects.setdefault(kind_of(document), []).append(document)
    return {key: tuple(documents) for key, documents in objects.items()}


def held_by_kueue(facts: ClusterFacts, snapshot: Snapshot) -> Held:
    """What Kueue holds for admitted pods that have no node yet."""
    if not facts.objects.get(WORKLOAD.key):
        return {}
    bound: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for pod in snapshot.pods or ():
        node = snapshot.by_name.get(pod.node)
        name, pod_set = pod.annotations.get(WORKLOAD_OF), pod.labels.get(POD_SET_OF)
        if node and name and pod_set:
            bound.setdefault((pod.namespace, name, pod_set), []).append(node.labels)
    return queues.held(facts, bound)


def _inferred(snapshot: Snapshot) -> dict[str, TopologyLevels]:
    levels = select_scope(snapshot).levels
    return {"cluster": TopologyLevels("cluster", levels, INFERRED)} if levels else {}


def _read_by(
    option: str,
    snapshot: Snapshot,
    stand_ins: Mapping[str, TopologyLevels],
    levels_of: Callable[[Sequence[Published]], dict[str, TopologyLevels]],
) -> ReadTopologies:
    """The topology resources of one system; where none is known and some may exist, what would be published."""
    kinds = [kind for kind in PUBLISHED if kind.option == option]
    of_kinds = {(kind.group, kind.kind) for kind in kinds}
    resources = [
        resource
        for resource in snapshot.published
        if (resource.api_version.rpartition("/")[0], resource.kind) in of_kinds
    ]
    system, kind = _SYSTEMS[option], kinds[0]
    if not resources and kind.name not in snapshot.served:
        return ReadTopologies(stand_ins, f"which {kind.kind} {system} reads is not known")
    by_name = levels_of(resources)
    served = bool(resources) or any(snapshot.served.get(kind.name) for kind in kinds)
    absent: dict[str, str] = {}
    for topology in snapshot.topologies:
        if topology.name not in by_name and served:
            publish = topology.mode(option)
            why = f"is not published as {kind.name}; {shell('kubectl describe gtopo {}', topology.name)} says why"
            why = (
                why
                if publish == "Auto"
                else f"sets spec.publish.{option}: {publish}; Auto writes the {kind.kind}"
            )
            absent[topology.name] = f"ClusterTopology {topology.name} {why}"
    unserved = f"the cluster does not serve {kind.name}: is {system} installed?"
    why = next(iter(absent.values()), "") if served else unserved
    return ReadTopologies(by_name, served=served, absent={**absent, "": why})


def _tiers(
    snapshot: Snapshot, topologies: Mapping[str, TopologyLevels]
) -> dict[str, TopologyLevels]:
    """The topologies with the tiers that their HyperNodes would have."""
    found = {}
    for name, topology in topologies.items():
        table = select_scope(snapshot, name if snapshot.topologies else None).table()
        found[name] = replace(topology, levels=tuple(tiered(topology.levels, table)))
    tiers = tiers_of(topology.domains for topology in found.values())
    for name, topology in found.items():
        ranked = zip(topology.levels, range(len(topology.levels), 0, -1), strict=True)
        aliases = tuple((str(tiers.get(level.domain, rank)), level.key) for level, rank in ranked)
        found[name] = replace(topology, aliases=aliases)
    return found


def _of_hyper_nodes(
    snapshot: Snapshot, own: Mapping[str, TopologyLevels], resources: Sequence[Published]
) -> dict[str, TopologyLevels]:
    """The ClusterTopologies whose nodes HyperNodes have, with the levels that these are."""
    documents = {resource.name: resource.document for resource in resources}
    inside, specs = (
        nodes_inside(documents, snapshot.by_name),
        {n: Field(one) / "spec" for n, one in documents.items()},
    )
    found = {}
    for name, topology in own.items():
        table = select_scope(snapshot, name).table()
        levels = tuple(tiered(topology.levels, table))
        tiers = levels_of_tiers(levels, table, specs, inside)
        aliases = tuple((str(tier), level.key if level else "") for tier, level in tiers.items())
        if tiers:
            found[name] = TopologyLevels(name, levels, HYPER_NODES.kind, aliases)
    return found


def _published(
    published: Published, domain_of: Mapping[str, str], own: Mapping[str, TopologyLevels]
) -> TopologyLevels:
    """KAI and Kueue name keys only: the domain is a ClusterTopology's or the catalogue's, else the key itself."""
    if published.name in own:
        domain_of = {
            **domain_of,
            **{level.key: level.domain for level in own[published.name].levels},
        }
    levels = tuple(
        Level(level.domain or domain_of.get(level.key, level.key), level.key)
        for level in published.levels
    )
    return TopologyLevels(published.name, levels, published.kind, aliases_of(published.document))


def _exclusive_pods(snapshot: Snapshot) -> dict[str, tuple[ExclusivePod, ...]]:
    pods: dict[str, dict[tuple[str, str], ExclusivePod]] = {}
    for pod in snapshot.pods or ():
        node = snapshot.by_name.get(pod.node)
        for label in EXCLUSIVE_POD_LABELS:
            place = pod.namespace, pod.node
            if node and label in pod.labels and place not in pods.setdefault(label, {}):
                pods[label][place] = ExclusivePod(pod.namespace, node.labels)
    return {label: tuple(by_place.values()) for label, by_place in pods.items()}


def gangs_of_pods(pods: Iterable[PodView]) -> dict[PodGroupName, tuple[Pods, ...]]:
    """The existing pods of kube-scheduler's own PodGroups, by PodGroup."""
    groups: dict[PodGroupName, Counter[Pods]] = {}
    for pod in pods:
        if name := group_of(Field(pod.wants)):
            groups.setdefault((pod.namespace, name), Counter())[_one(pod)] += 1
    return {
        group: tuple(replace(one, count=count) for one, count in kinds.items())
        for group, kinds in groups.items()
    }


def _one(pod: PodView) -> Pods:
    requests = tuple(sorted((resource, count) for resource, count in pod.requests.items() if count))
    return Pods("pods", 1, requests, node_filter_of(Field(pod.wants)))


def members_of_pods(pods: Iterable[PodView]) -> PodGroupMembers:
    """The existing pods of KAI's PodGroups, by PodGroup."""
    groups: dict[PodGroupName, Counter[PodGroupMember]] = {}
    for pod in pods:
        name = pod.annotations.get(GROUP_OF)
        if name:
            member = PodGroupMember(pod.labels.get(SUB_GROUP_OF, ""), _one(pod))
            groups.setdefault((pod.namespace, name), Counter())[member] += 1
    return {
        group: tuple(
            replace(member, pods=replace(member.pods, count=count))
            for member, count in members.items()
        )
        for group, members in groups.items()
    }
