"""Kubernetes' own workloads, for what KAI and Kueue read from their annotations.

Jobs, because training runs as them; Deployments and StatefulSets, because inference does. They are asked and not only
what KAI and Kueue make of them, because a PodGroup comes with the first pod and a Workload with the queue: one that is
suspended or scaled to zero is seen only here, and so is that a Job has finished. Kinds beyond these (Kubeflow's, Ray's)
are known by their PodGroups and Workloads. Without KAI or Kueue the annotations mean nothing, and nobody is asked.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from toposcope.integrations.framework.level_requests import LevelRequest, Source, Workload, annotations
from toposcope.integrations.kai import level_requests as kai
from toposcope.integrations.kueue import level_requests as kueue
from toposcope.kube.reflector import Raw

_ONLY_WITH: Final = frozenset({kai.GROUP, kueue.GROUP})
_WORKLOAD: Final = msgspec.json.Decoder(Workload)


def needs(raw: Raw) -> Iterator[LevelRequest]:
    """What the annotations of a workload and of its pod template ask for."""
    workload = _WORKLOAD.decode(raw)
    templates = [annotations(workload.template)]
    yield from kai.annotated(annotations(workload), templates)
    yield from kueue.annotated(templates)


SOURCES: Final = (
    Source("Job", "batch", ("v1",), "jobs", needs, finished=frozenset({"Complete", "Failed"}), only_with=_ONLY_WITH),
    Source("Deployment", "apps", ("v1",), "deployments", needs, only_with=_ONLY_WITH),
    # Those that belong to a Pod are the workers of a LeaderWorkerSet's group.
    Source("StatefulSet", "apps", ("v1",), "statefulsets", needs, repeats=frozenset({"Pod"}), only_with=_ONLY_WITH),
)
