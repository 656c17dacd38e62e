"""Documents that configure Kueue: its Topology; queues and flavors count as they are."""

from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.kueue.api import TOPOLOGIES, WORKLOAD


class _KueueConfiguration(Configuration):
    """Kueue's Topology."""

    kinds = (TOPOLOGIES,)
    from_cluster = (WORKLOAD,)

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        return read_node_labels(document, catalogue)


CONFIGURATION: Final = _KueueConfiguration()
