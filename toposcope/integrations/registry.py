"""All integrated systems: who reads a document, and whose topology resource it is.

A new system is a folder beside this file and its entries here.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.integrations.deciding import READ
from toposcope.integrations.dynamo import workload as dynamo
from toposcope.integrations.framework.document import Field, Finding, kind_of, name_of, namespace_of
from toposcope.integrations.framework.levels import TopologyLevels, UnreadableDocumentError, domain_topology
from toposcope.integrations.framework.system import ClusterFacts, GangMark, Reading, ReadTopologies, System
from toposcope.integrations.grove import api as grove_api
from toposcope.integrations.grove import topology as grove_topology
from toposcope.integrations.grove import workload as grove
from toposcope.integrations.jobset import api as jobset_api
from toposcope.integrations.jobset import workload as jobset
from toposcope.integrations.kai import api as kai_api
from toposcope.integrations.kai import pod_group
from toposcope.integrations.kai import topology as kai_topology
from toposcope.integrations.kai import workload as kai
from toposcope.integrations.kubernetes import gangs
from toposcope.integrations.kubernetes import workload as kubernetes
from toposcope.integrations.kueue import api as kueue_api
from toposcope.integrations.kueue import queues
from toposcope.integrations.kueue import topology as kueue_topology
from toposcope.integrations.kueue import workload as kueue
from toposcope.integrations.lws import api as lws_api
from toposcope.integrations.lws import workload as lws
from toposcope.integrations.osmo import pool as osmo_pool
from toposcope.integrations.osmo import workload as osmo
from toposcope.integrations.runai import topology as runai_topology
from toposcope.integrations.runai import workload as runai
from toposcope.integrations.volcano import api as volcano_api
from toposcope.integrations.volcano import workload as volcano
from toposcope.integrations.watched import PUBLISHED
from toposcope.topology.catalogue import BUILT_IN, Catalogue

SYSTEMS: Final[tuple[System, ...]] = (
    dynamo.SYSTEM,
    grove.SYSTEM,
    runai.SYSTEM,
    runai_topology.NETWORK_TOPOLOGY,
    kai.SYSTEM,
    pod_group.SYSTEM,
    kai_topology.TOPOLOGY,
    kueue.SYSTEM,
    kueue_topology.TOPOLOGY,
    kueue_topology.FLAVOR,
    lws.SYSTEM,
    jobset.SYSTEM,
    gangs.SYSTEM,
    volcano.SYSTEM,
    osmo.SYSTEM,
    osmo_pool.POOL,
)
"""In the order of their answers; several may read one document."""

READS: Final = {system.name: system.reads for system in SYSTEMS if system.reads}
"""By the name of a system: the kind of topology resource that it reads, as `spec.publish` names it."""

EXCLUSIVE_POD_LABELS: Final = (jobset_api.JOB_KEY, lws_api.GROUP_KEY, lws_api.SUBGROUP_KEY)
"""Pods with one of these labels keep pods of other groups out of their domain."""

GANG_MARKS: Final = (
    GangMark("PodGang", (grove_api.GANG_OF,)),
    GangMark("PodGroup", (kai_api.GROUP_OF,), annotation=True),
    GangMark("PodGroup", (volcano_api.GROUP_OF,), annotation=True, single=volcano_api.OF_NO_GROUP),
    GangMark("Workload", (queues.WORKLOAD_OF,), annotation=True),
    GangMark("Pod", (queues.POD_GROUP_OF,)),
    GangMark("LeaderWorkerSet", (lws_api.SET_OF, lws_api.GROUP_INDEX)),
    GangMark("JobSet", (jobset_api.SET_OF,)),
)
"""How pods say which gang they belong to: the innermost system first, as it is the one that schedules."""

_OWN_GROUP: Final = API_VERSION.partition("/")[0]
_KINDS: Final[Mapping[tuple[str, str], Callable[[Any, Catalogue], TopologyLevels]]] = {
    grove_api.BINDINGS.key: lambda document, _: grove_topology.read(document),
    grove_api.OLDER_TOPOLOGIES.key: lambda document, _: grove_topology.read(document),
    kai_api.TOPOLOGIES.key: kai_topology.read,
    kueue_api.TOPOLOGIES.key: kai_topology.read,
}
"""Readers of topology resources by API group and kind."""
_CONFIGURING: Final = {kind.key for kind in READ if kind is not queues.WORKLOAD}
"""Kinds that count as applied where they stand beside a workload."""
_OPTIONS: Final = {kind.key: kind.option for kind in PUBLISHED}
_FIELDS: Final[Mapping[str, Callable[[Any, Catalogue], TopologyLevels]]] = {
    "topology_keys": lambda document, _: osmo_pool.read(document),
    "config": lambda document, _: grove_topology.read_values(document),
    "levels": runai_topology.read,
}
"""Readers of documents without a kind, by a field at the top."""


def read_topology(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """The levels in the topology resource of any system, or in a ClusterTopology. Raises UnreadableDocumentError."""
    if not isinstance(document, dict):
        raise UnreadableDocumentError(f"this is not a topology but a {type(document).__name__}; give one object")
    group, kind = str(document.get("apiVersion", "")).rpartition("/")[0], str(document.get("kind", ""))
    if (group, kind) == (_OWN_GROUP, KIND):
        text = f"{KIND} with spec.levels (look at the cluster for levels that are inferred)"
        return domain_topology(document, text)
    if (group, kind) in _KINDS:
        return _KINDS[group, kind](document, catalogue)
    for field, reader in _FIELDS.items() if not kind else ():
        if field in document:
            return reader(document, catalogue)
    known = ", ".join(f"{kind}.{group}" for group, kind in _KINDS)
    raise UnreadableDocumentError(
        f"no topology is known by kind {kind!r} of group {group!r}; known are {KIND}.{_OWN_GROUP}, "
        f"{known}, Run:ai's network topology, OSMO's topology_keys and older values of Grove's chart"
    )


def with_documents(cluster: ClusterFacts, documents: Collection[Mapping[str, Any]]) -> ClusterFacts:
    """The same, with what the documents configure: topology resources, OSMO's pools and backends, Run:ai's topologies.

    A topology of the cluster takes precedence over a document of the same name; for the pods of a PodGroup the
    documents do.
    """
    pools, schedulers, topologies = dict(cluster.pools), dict(cluster.schedulers), dict(cluster.topologies)
    read, objects = dict(cluster.read), dict(cluster.objects)
    for document in documents:
        if osmo_pool.POOL.claims(document):
            for pool in osmo_pool.pools_of(document):
                pools[pool.name] = pool
                read = _with_pool(read, pool)
            schedulers.update(osmo_pool.schedulers_of(document))
        elif runai_topology.NETWORK_TOPOLOGY.claims(document):
            topology = runai_topology.levels_of(document, cluster.domain_of)
            topologies.setdefault(topology.name, topology)
            read = _with_topology(read, "kai", topology)  # Run:ai's scheduler is KAI, and reads what Run:ai makes of it
        elif option := _OPTIONS.get(kind_of(document)):
            with suppress(UnreadableDocumentError):
                levels, aliases = read_topology(document), kai_topology.aliases_of(document)
                topology = replace(levels, source=str(document["kind"]), aliases=aliases)
                read = _with_topology(read, option, topology)
        elif kind_of(document) in _CONFIGURING:
            there = objects.get(kind_of(document), ())
            if _name(document) not in map(_name, there):
                objects[kind_of(document)] = (*there, document)
    pod_groups = {**cluster.pod_groups, **pod_group.members_of_documents(documents)}
    configured = replace(cluster, pools=pools, schedulers=schedulers, topologies=topologies, read=read, objects=objects)
    members = {**cluster.gangs, **gangs.members_of_documents(documents)}
    return replace(configured, pod_groups=pod_groups, gangs=members)


def _name(document: Mapping[str, Any]) -> tuple[str, str]:
    root = Field(document)
    return namespace_of(root), name_of(root)


def _with_topology(
    read: Mapping[str, ReadTopologies], option: str, topology: TopologyLevels
) -> dict[str, ReadTopologies]:
    known = read.get(option, ReadTopologies({}))
    if not known.served:
        return dict(read)
    first, second = {topology.name: topology}, known.by_name
    by_name = {**second, **first} if known.stand_in else {**first, **second}
    return {**read, option: replace(known, by_name=by_name)}


def _with_pool(read: Mapping[str, ReadTopologies], pool: TopologyLevels) -> dict[str, ReadTopologies]:
    """With the Topology of keys that no pool has yet, else with a pool's names for the levels of its Topology."""
    if not pool.name:
        return _with_topology(read, "kai", replace(pool, name=osmo_pool.topology_of("")))
    if (known := read.get("kai")) is None:
        return dict(read)
    by_name = {
        name: replace(topology, levels=tuple(pool.by_key(level.key) or level for level in topology.levels))
        for name, topology in known.by_name.items()
        if osmo_pool.is_topology_of(name, pool.name)
    }
    return {**read, "kai": replace(known, by_name={**known.by_name, **by_name})}


def readings(
    document: Mapping[str, Any], cluster: ClusterFacts, before: Mapping[str, Any] | None = None
) -> tuple[Reading, ...]:
    """What each system that acts on the document makes of it; empty when none does. Never raises.

    The items of a list are read one by one. A finding about a pod template is reported once, not by every system.
    """
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind") or "List").endswith("List"):
        return tuple(
            _prefixed(f"items[{number}]", reading)
            for number, item in enumerate(items)
            if isinstance(item, dict)
            for reading in readings(item, cluster)
        )
    systems = [system for system in SYSTEMS if system.claims(document)]
    if runai.SYSTEM in systems:  # whose scheduler reads KAI's annotations itself
        systems = [system for system in systems if system is not kai.SYSTEM]
    if not systems and kubernetes.PODS_ONLY.claims(document):
        systems = [kai.SYSTEM if kai.is_for_kai(document) else kubernetes.PODS_ONLY]
    results = []
    reported: set[Finding] = set()
    for reading in [system.read(document, cluster, before) for system in systems]:
        new = tuple(finding for finding in reading.findings if finding not in reported)
        reported.update(new)
        results.append(_beside(replace(reading, findings=new), [system.name for system in systems]))
    return tuple(results)


def _prefixed(path: str, reading: Reading) -> Reading:
    """The same, with the paths of the fields in the list."""
    findings = (
        replace(finding, field=f"{path}.{finding.field}" if finding.field else path) for finding in reading.findings
    )
    return replace(reading, findings=tuple(findings))


def _beside(reading: Reading, names: list[str]) -> Reading:
    """With a note that other systems place the same pods too, which each verdict ignores."""
    workload = reading.workload
    others = [name for name in names if workload and name != workload.system]
    if workload is None or not others:
        return reading
    note = f"{' and '.join(others)} asks for a placement of these pods too; each answer leaves the others aside"
    return replace(reading, workload=replace(workload, notes=(*workload.notes, note)))
