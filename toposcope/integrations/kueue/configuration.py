"""Documents that configure Kueue: its Topology. Queues and flavors are used unchanged."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.kueue.api import CONFIGURATION as MANAGER
from toposcope.integrations.kueue.api import TOPOLOGIES, WORKLOAD
from toposcope.integrations.kueue.pod_groups import group_of, with_members


class _KueueConfiguration(Configuration):
    """Kueue's Topology, its manager's Configuration, and the pods of pod groups."""

    kinds = (TOPOLOGIES,)
    from_cluster = (WORKLOAD,)

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        return read_node_labels(document, catalogue)

    def configure(self, cluster: ClusterFacts, document: Document) -> ClusterFacts | None:
        if kind_of(document) == MANAGER:
            return replace(cluster, objects={**cluster.objects, MANAGER: (document,)})
        return super().configure(cluster, document)

    def members(self, cluster: ClusterFacts, documents: Collection[Document]) -> ClusterFacts:
        pods = [document for document in documents if group_of(Field(document)) is not None]
        return with_members(cluster, pods)


CONFIGURATION: Final = _KueueConfiguration()
