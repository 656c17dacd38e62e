"""Documents that configure Grove: its topology resources, and older values of its chart."""

from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.grove import topology
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES


class _GroveConfiguration(Configuration):
    """Bindings, the ClusterTopology before them, and the values of Grove's chart."""

    kinds = (BINDINGS, OLDER_TOPOLOGIES)
    plain_field = "config"
    plain_title = "older values of Grove's chart"

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        del catalogue  # domains are in the document
        return topology.read(document)

    def read_plain(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        del catalogue
        return topology.read_values(document)


CONFIGURATION: Final = _GroveConfiguration()
