"""Workloads beside another one, whose pods name a PodGroup of kube-scheduler."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.configuration import Configuration, Document
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kubernetes.gangs import members_of_documents


class _KubernetesConfiguration(Configuration):
    """The pods of PodGroups."""

    def members(self, cluster: ClusterFacts, documents: Collection[Document]) -> ClusterFacts:
        members = members_of_documents(documents, cluster.surroundings)
        return replace(cluster, gangs={**cluster.gangs, **members})


CONFIGURATION: Final = _KubernetesConfiguration()
