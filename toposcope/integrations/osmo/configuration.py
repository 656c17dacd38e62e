"""Documents of OSMO: its pools and backends, and templates of its workflows."""

from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.osmo import template
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
    """Pools, whose topology keys become Topologies, and the schedulers of backends."""

    plain_field = "topology_keys"
    plain_title = "OSMO's topology_keys"

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        del catalogue  # domains are in the document
        return read(document)

    def expanded(self, text: bytes) -> bytes | None:
        return template.expanded(text)

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        if not POOL.claims(document):
            return None
        for pool in pools_of(document):
            pools = {**cluster.pools, pool.name: pool}
            cluster = replace(cluster, pools=pools)
            cluster = _with_pool(cluster, pool)
        schedulers = {**cluster.schedulers, **schedulers_of(document)}
        return replace(cluster, schedulers=schedulers)


def _with_pool(cluster: ClusterFacts, pool: TopologyLevels) -> ClusterFacts:
    """The facts, with a pool's names for the levels of its Topology.

    Topology keys without a Topology are used as one.
    """
    if not pool.name:
        topology = replace(pool, name=topology_of(""))
        return cluster.with_topology(TOPOLOGIES.option, topology)
    topologies = cluster.read.get(TOPOLOGIES.option)
    if topologies is None:
        return cluster

    by_name = dict(topologies.by_name)
    for name, topology in topologies.by_name.items():
        if not is_topology_of(name, pool.name):
            continue
        levels = [pool.by_key(level.key) or level for level in topology.levels]
        by_name[name] = replace(topology, levels=tuple(levels))

    renamed = replace(topologies, by_name=by_name)
    read_by_option = {**cluster.read, TOPOLOGIES.option: renamed}
    return replace(cluster, read=read_by_option)


CONFIGURATION: Final = _OsmoConfiguration()
