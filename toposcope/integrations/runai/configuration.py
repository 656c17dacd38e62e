"""Documents that configure Run:ai: its network topologies."""

from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.runai.scheduler import TOPOLOGIES
from toposcope.integrations.runai.topology import NETWORK_TOPOLOGY, levels_of, read


class _RunaiConfiguration(Configuration):
    """Network topologies."""

    plain_field = "levels"
    plain_title = "Run:ai's network topology"

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        return read(document, catalogue)

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        if not NETWORK_TOPOLOGY.claims(document):
            return None
        topology = levels_of(document, cluster.domain_of)
        topologies = cluster.topologies
        if topology.name not in topologies:
            cluster = replace(cluster, topologies={**topologies, topology.name: topology})
        # its scheduler reads the Topology that Run:ai creates from it
        return cluster.with_topology(TOPOLOGIES.option, topology)


CONFIGURATION: Final = _RunaiConfiguration()
