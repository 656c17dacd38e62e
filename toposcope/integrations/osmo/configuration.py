"""Documents that configure OSMO: its pools and backends."""

from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.osmo.scheduler import TOPOLOGIES
from toposcope.integrations.osmo.topology import (
    POOL,
    is_topology_of,
    pools_of,
    read,
    schedulers_of,
    topology_of,
)


class _OsmoConfiguration(Configuration):
    """Pools, of whose topology keys OSMO makes Topologies, and the schedulers of backends."""

    plain_field = "topology_keys"
    plain_title = "OSMO's topology_keys"

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        del catalogue  # domains are in the document
        return read(document)

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        if not POOL.claims(document):
            return None
        for pool in pools_of(document):
            cluster = replace(cluster, pools={**cluster.pools, pool.name: pool})
            cluster = _with_pool(cluster, pool)
        schedulers = {**cluster.schedulers, **schedulers_of(document)}
        return replace(cluster, schedulers=schedulers)


def _with_pool(cluster: ClusterFacts, pool: TopologyLevels) -> ClusterFacts:
    """With a pool's names for the levels of its Topology; keys of no pool are one themselves."""
    if not pool.name:
        topology = replace(pool, name=topology_of(""))
        return cluster.with_topology(TOPOLOGIES.option, topology)
    known = cluster.read.get(TOPOLOGIES.option)
    if known is None:
        return cluster

    by_name = dict(known.by_name)
    for name, topology in known.by_name.items():
        if is_topology_of(name, pool.name):
            levels = [pool.by_key(level.key) or level for level in topology.levels]
            by_name[name] = replace(topology, levels=tuple(levels))

    read_topologies = replace(known, by_name=by_name)
    return replace(cluster, read={**cluster.read, TOPOLOGIES.option: read_topologies})


CONFIGURATION: Final = _OsmoConfiguration()
