"""Topology resources of all systems: read from a document, and added to what is known of a cluster."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.levels import (
    TopologyLevels,
    UnreadableDocumentError,
    domain_topology,
)
from toposcope.integrations.framework.system import ClusterFacts, ReadTopologies
from toposcope.integrations.grove import api as grove_api
from toposcope.integrations.grove import topology as grove_topology
from toposcope.integrations.kai import api as kai_api
from toposcope.integrations.kai import pod_group
from toposcope.integrations.kai import topology as kai_topology
from toposcope.integrations.kubernetes import gangs
from toposcope.integrations.kueue import api as kueue_api
from toposcope.integrations.osmo import topology as osmo_pool
from toposcope.integrations.registry import DECISIVE, PUBLISHED
from toposcope.integrations.runai import topology as runai_topology

_OWN_GROUP: Final = API_VERSION.partition("/")[0]
_KINDS: Final[Mapping[tuple[str, str], Callable[[Any, Catalogue], TopologyLevels]]] = {
    grove_api.BINDINGS.key: lambda document, _: grove_topology.read(document),
    grove_api.OLDER_TOPOLOGIES.key: lambda document, _: grove_topology.read(document),
    kai_api.TOPOLOGIES.key: kai_topology.read,
    kueue_api.TOPOLOGIES.key: kai_topology.read,
}
"""Readers of topology resources by API group and kind."""
_CONFIGURING: Final = {kind.key for kind in DECISIVE if kind is not kueue_api.WORKLOAD}
"""Kinds that count as applied where they stand beside a workload."""
_OPTIONS: Final = {kind.key: kind.option for kind in PUBLISHED}
_FIELDS: Final[Mapping[str, Callable[[Any, Catalogue], TopologyLevels]]] = {
    "topology_keys": lambda document, _: osmo_pool.read(document),
    "config": lambda document, _: grove_topology.read_values(document),
    "levels": runai_topology.read,
}
"""Readers of documents without a kind, by a field at the top."""


def read_topology(document: Any, catalogue: Catalogue = BUILT_IN) -> TopologyLevels:
    """The levels in the topology resource of any system, or in a ClusterTopology.

    Raises UnreadableDocumentError.
    """
    if not isinstance(document, dict):
        raise UnreadableDocumentError(
            f"this is not a topology but a {type(document).__name__}; give one object"
        )
    group, kind = (
        str(document.get("apiVersion", "")).rpartition("/")[0],
        str(document.get("kind", "")),
    )
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
    pools, schedulers, topologies = (
        dict(cluster.pools),
        dict(cluster.schedulers),
        dict(cluster.topologies),
    )
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
            # Run:ai's scheduler is KAI, and reads what Run:ai makes of it
            read = _with_topology(read, "kai", topology)
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
    configured = replace(
        cluster,
        pools=pools,
        schedulers=schedulers,
        topologies=topologies,
        read=read,
        objects=objects,
    )
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


def _with_pool(
    read: Mapping[str, ReadTopologies], pool: TopologyLevels
) -> dict[str, ReadTopologies]:
    """With the Topology of keys that no pool has yet, else with a pool's names for the levels of its Topology."""
    if not pool.name:
        return _with_topology(read, "kai", replace(pool, name=osmo_pool.topology_of("")))
    if (known := read.get("kai")) is None:
        return dict(read)
    by_name = {
        name: replace(
            topology, levels=tuple(pool.by_key(level.key) or level for level in topology.levels)
        )
        for name, topology in known.by_name.items()
        if osmo_pool.is_topology_of(name, pool.name)
    }
    return {**read, "kai": replace(known, by_name={**known.by_name, **by_name})}
