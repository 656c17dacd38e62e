"""kube-scheduler's own gangs: which pods belong to each PodGroup."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from toposcope.integrations.framework.constraints import PodGroupName, Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.placement import Placement, ViewedPod, kind_of_pod
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kubernetes.gangs import group_of


class _Placement(Placement):
    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """Add the existing pods of each PodGroup to what is known."""
        counts: dict[PodGroupName, Counter[Pods]] = {}
        for pod in pods:
            name = group_of(Field(pod.wants))
            if name:
                kinds = counts.setdefault((pod.namespace, name), Counter())
                kinds[kind_of_pod(pod)] += 1

        gangs = dict(cluster.gangs)
        for group, kinds in counts.items():
            members = [replace(kind, count=count) for kind, count in kinds.items()]
            gangs[group] = tuple(members)
        return replace(cluster, gangs=gangs)


PLACEMENT: Final = _Placement()
