"""Kinds, annotations and labels of JobSet, and the levels that its objects request.

v1alpha2 and v1 agree in the fields that are read. Exclusive placement is pod affinity over a node
label, so the label need not be a level. The annotation is on the JobSet, for all its Jobs, or on
the template of one ReplicatedJob.
"""

from collections.abc import Iterator
from typing import Final

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.level_requests import (
    ANNOTATIONS,
    Annotated,
    LevelRequest,
    ReadAnnotations,
    WatchedKind,
    requests_at,
)

_PREFIX: Final = "alpha.jobset.sigs.k8s.io/"
EXCLUSIVE: Final = _PREFIX + "exclusive-topology"
NODE_SELECTOR: Final = _PREFIX + "node-selector"
NAMESPACED_JOB: Final = _PREFIX + "namespaced-job"
NO_SCHEDULE: Final = _PREFIX + "no-schedule"
SET_OF: Final = "jobset.sigs.k8s.io/jobset-name"
"""Label of a pod: its JobSet."""
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
"""Label of a pod in an exclusive Job: its anti-affinity is against pods with this label."""

JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
"""Labels of a pod: its ReplicatedJob, and which Job of that."""
PRIORITY: Final = "jobset.sigs.k8s.io/priority"
"""Label of such a pod: its priority; pods of another priority do not repel it."""


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests of a JobSet: exclusive placement, and what schedulers read from templates."""
    jobs = []
    pods = []
    replicated_jobs = root / "spec" / "replicatedJobs"
    for replicated in replicated_jobs.items():
        job = replicated / "template"
        jobs.append(job)
        pods.append(job / "spec" / "template")

    exclusive = []
    for place in (root, *jobs):
        annotation = place / "metadata" / "annotations" / EXCLUSIVE
        exclusive.append((annotation, True))
    yield from requests_at(exclusive, accepts_any_label=True)
    places = Annotated(root, jobs=tuple(jobs), pods=tuple(pods))
    yield from read_annotations(places)


_JOB: Final = {**ANNOTATIONS, "spec": {"template": ANNOTATIONS}}
JOBSETS: Final = WatchedKind(
    "jobset.x-k8s.io",
    "JobSet",
    "jobsets",
    ("v1", "v1alpha2"),
    {**ANNOTATIONS, "spec": {"replicatedJobs": [{"template": _JOB}]}},
    requests,
    finished_conditions=frozenset({"Completed", "Failed"}),
)
