"""Documents that configure KAI: its Topology, and workloads whose pods name a PodGroup."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.kai.api import TOPOLOGIES
from toposcope.integrations.kai.pod_group import members_of_documents


class _KaiConfiguration(Configuration):
    """KAI's Topology, and the pods of its PodGroups."""

    kinds = (TOPOLOGIES,)

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        return read_node_labels(document, catalogue)

    def members(self, cluster: ClusterFacts, documents: Collection[Document]) -> ClusterFacts:
        pod_groups = {**cluster.pod_groups, **members_of_documents(documents)}
        return replace(cluster, pod_groups=pod_groups)


CONFIGURATION: Final = _KaiConfiguration()
