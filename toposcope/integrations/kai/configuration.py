"""Documents that configure KAI: its Topology, and workloads whose pods name a PodGroup."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import Catalogue
from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.document import kind_of
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.framework.topologies import read_node_labels
from toposcope.integrations.kai.api import POD_GROUPS, TOPOLOGIES
from toposcope.integrations.kai.pod_group import members_of_documents


class _KaiConfiguration(Configuration):
    """KAI's Topology, and the pods of its PodGroups."""

    kinds = (TOPOLOGIES,)

    def read(self, document: Any, catalogue: Catalogue) -> TopologyLevels:
        return read_node_labels(document, catalogue)

    def members(self, cluster: ClusterFacts, documents: Collection[Document]) -> ClusterFacts:
        members = members_of_documents(documents, cluster.surroundings)
        pod_groups = {**cluster.pod_groups, **members}
        groups = [document for document in documents if kind_of(document) == POD_GROUPS.key]
        objects = dict(cluster.objects)
        objects[POD_GROUPS.key] = (*objects.get(POD_GROUPS.key, ()), *groups)
        return replace(cluster, pod_groups=pod_groups, objects=objects)


CONFIGURATION: Final = _KaiConfiguration()
