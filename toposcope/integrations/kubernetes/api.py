"""Kinds of kube-scheduler's own gangs and Kubernetes' own workloads, and the levels they request.

A constraint names a node label, in a topology or not, and all nodes with one value are one domain.
Kubernetes 1.36 serves Workload and PodGroup as v1alpha2. 1.37 has them as v1alpha3 and v1beta1,
CompositePodGroups that nest PodGroups, and constraints in a Job's `spec.scheduling`; the fields
that are read agree. Jobs are watched because training runs as them, Deployments and StatefulSets
because inference does. They are watched in addition to the objects that schedulers create from
their annotations, which only exist with the first pod or a queue: only here are suspended and
scaled-down workloads and finished Jobs visible. Other kinds (training jobs, Ray's) are known by the
objects that schedulers create. If no system reads annotations, only Jobs are watched, and only if
kube-scheduler's own gangs are served, which `spec.scheduling` requests.
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

GROUP: Final = "scheduling.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2")
_MAX_TEMPLATE_DEPTH: Final = 4
"""The deepest nesting of a Workload's templates (Kubernetes 1.37: WorkloadMaxTreeDepth)."""

CONSTRAINED: Final = {"schedulingConstraints": {"topology": [{"key": str}]}}
"""The fields of a group, of a template and of a Job's `spec.scheduling` that are watched."""


def keys_of(group: Field) -> Iterator[Field]:
    """The label keys of a group's constraints; kube-scheduler uses the first."""
    constraints = group / "schedulingConstraints" / "topology"
    for constraint in constraints.items():
        yield constraint / "key"


def constraint_requests(group: Field) -> Iterator[LevelRequest]:
    """The requests of one group, template or `spec.scheduling`. Raises ValueError."""
    required = [(key, True) for key in keys_of(group)]
    yield from requests_at(required, accepts_any_label=True)


def templates_of(workload: Field) -> Iterator[Field]:
    """All templates of a Workload, including nested ones."""
    level = [workload / "spec"]
    for _ in range(_MAX_TEMPLATE_DEPTH):
        composites: list[Field] = []
        for above in level:
            pod_groups = above / "podGroupTemplates"
            yield from pod_groups.items()
            nested = above / "compositePodGroupTemplates"
            composites += nested.items()
        yield from composites
        level = composites


def _of_workload(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    for template in templates_of(root):
        yield from constraint_requests(template)


def _of_group(root: Field, _: ReadAnnotations) -> Iterator[LevelRequest]:
    yield from constraint_requests(root / "spec")


_TEMPLATES: dict[str, object] = {"podGroupTemplates": [CONSTRAINED]}
for _ in range(_MAX_TEMPLATE_DEPTH - 1):
    _TEMPLATES = {
        "podGroupTemplates": [CONSTRAINED],
        "compositePodGroupTemplates": [{**CONSTRAINED, **_TEMPLATES}],
    }

POD_GROUPS: Final = WatchedKind(
    GROUP, "PodGroup", "podgroups", VERSIONS, {"spec": CONSTRAINED}, _of_group
)
COMPOSITES: Final = WatchedKind(
    GROUP,
    "CompositePodGroup",
    "compositepodgroups",
    ("v1alpha3",),
    {"spec": CONSTRAINED},
    _of_group,
)
WORKLOADS: Final = WatchedKind(
    GROUP, "Workload", "workloads", VERSIONS, {"spec": _TEMPLATES}, _of_workload
)

_JOB: Final = {**ANNOTATIONS, "spec": {"template": ANNOTATIONS, "scheduling": CONSTRAINED}}
_FIELDS: Final = {**ANNOTATIONS, "spec": {"template": ANNOTATIONS}}


def requests(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    """The requests in the annotations of a workload and of its pod template."""
    template = root / "spec" / "template"
    places = Annotated(root, pods=(template,))
    yield from read_annotations(places)


def _of_job(root: Field, read_annotations: ReadAnnotations) -> Iterator[LevelRequest]:
    yield from requests(root, read_annotations)
    yield from constraint_requests(root / "spec" / "scheduling")


_FINISHED: Final = frozenset({"Complete", "Failed"})
JOBS: Final = WatchedKind(
    "batch",
    "Job",
    "jobs",
    ("v1",),
    _JOB,
    _of_job,
    finished_conditions=_FINISHED,
    only_with=frozenset({GROUP}),
    needs_annotation_reader=True,
)
DEPLOYMENTS: Final = WatchedKind(
    "apps", "Deployment", "deployments", ("v1",), _FIELDS, requests, needs_annotation_reader=True
)
STATEFUL_SETS: Final = WatchedKind(
    "apps",
    "StatefulSet",
    "statefulsets",
    ("v1",),
    _FIELDS,
    requests,
    derived_from=frozenset({"Pod"}),  # the workers of a group that a Pod leads
    needs_annotation_reader=True,
)
