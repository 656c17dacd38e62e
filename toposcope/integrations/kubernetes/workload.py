"""Kubernetes' own workloads: their pods, and the levels that KAI and Kueue read from their annotations.

Jobs are watched because training runs as them, Deployments and StatefulSets because inference does. They are watched
themselves, and not only what KAI and Kueue make of them, because a PodGroup comes with the first pod and a Workload
with the queue: only here can one be seen that is suspended or scaled to zero, or that a Job has finished. Other kinds
(Kubeflow's, Ray's) are known by their PodGroups and Workloads. Without KAI or Kueue the annotations mean nothing, and
nothing is watched, but for Jobs where kube-scheduler's own gangs are served: `spec.scheduling` asks for these.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of, name_of
from toposcope.integrations.framework.level_requests import ANNOTATIONS, LevelRequest, WatchedKind
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, System
from toposcope.integrations.kai import api as kai
from toposcope.integrations.kubernetes.api import CONSTRAINED, GROUP, constraint_requests
from toposcope.integrations.kueue import api as kueue

_ONLY_WITH: Final = frozenset({kai.POD_GROUPS.group, kueue.GROUP})
_JOB: Final = {**ANNOTATIONS, "spec": {"template": ANNOTATIONS, "scheduling": CONSTRAINED}}
_FIELDS: Final = {**ANNOTATIONS, "spec": {"template": ANNOTATIONS}}


def requests(root: Field) -> Iterator[LevelRequest]:
    """The requests in the annotations of a workload and of its pod template."""
    templates = [root / "spec" / "template"]
    yield from kai.annotated(root, templates)
    yield from kueue.annotated(templates)


def _of_job(root: Field) -> Iterator[LevelRequest]:
    yield from requests(root)
    yield from constraint_requests(root / "spec" / "scheduling")


_FINISHED: Final = frozenset({"Complete", "Failed"})
JOBS: Final = WatchedKind(
    "batch",
    "Job",
    "jobs",
    ("v1",),
    _JOB,
    _of_job,
    finished=_FINISHED,
    only_with=_ONLY_WITH | {GROUP},
)
DEPLOYMENTS: Final = WatchedKind(
    "apps", "Deployment", "deployments", ("v1",), _FIELDS, requests, only_with=_ONLY_WITH
)
STATEFUL_SETS: Final = WatchedKind(
    "apps",
    "StatefulSet",
    "statefulsets",
    ("v1",),
    _FIELDS,
    requests,
    derived_from=frozenset({"Pod"}),  # the workers of a LeaderWorkerSet's group
    only_with=_ONLY_WITH,
)


def _read(root: Field, cluster: ClusterFacts, before: Field | None) -> Reading:
    del cluster, before  # it asks for no topology
    structure = structure_of(root) or Structure(())
    group = Group(name_of(root, "pods"), structure.whole, copies=structure.copies)
    return Reading(Workload("Kubernetes", handle_of(root), (group,)))


PODS_ONLY: Final = System(
    "Kubernetes", lambda document: structure_of(Field(document)) is not None, _read
)
"""Reads every kind with pod templates: whether there is room for the pods anywhere."""
