"""What Kueue rejects in a job as a whole, before its queue matters.

Rules and messages: Kueue 0.19 (pkg/controller/jobframework/validation.go, the webhooks of
pkg/controller/jobs/job, rayjob and raycluster, MaxPodSets).
"""

from typing import Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.pods import JOBSET, LEADER_WORKER_SET, Structure
from toposcope.integrations.kueue import api
from toposcope.integrations.kueue.pod_sets import ray_cluster

_JOB: Final = ("batch", "Job")
_RAY_JOB: Final = ("ray.io", "RayJob")
_ELASTIC: Final = frozenset(
    [_JOB, ("ray.io", "RayCluster"), _RAY_JOB, ("ray.io", "RayService")],
)
"""The kinds that may be elastic jobs."""
_PAIRS_CHECKED: Final = frozenset(
    [
        JOBSET,
        LEADER_WORKER_SET,
        ("kubeflow.org", "MPIJob"),
        ("ray.io", "RayCluster"),
        _RAY_JOB,
        ("ray.io", "RayService"),
    ]
)
"""The kinds whose webhook requires a group of pod sets to be a leader and its workers."""
_MOST_POD_SETS: Final = 18
_MOST_POD_SETS_BEFORE: Final = 8
"""The same before Kueue 0.19."""
_HEAD: Final = "head"


def checks_pairs(root: Field) -> bool:
    """Whether the webhook of this kind checks the groups of pod sets."""
    return kind_of(root.value) in _PAIRS_CHECKED


def is_elastic(root: Field) -> bool:
    """Whether it is an elastic job, whose Workload is replaced when it grows."""
    annotation = root / "metadata" / "annotations" / api.ELASTIC
    return annotation.text() == "true"


def is_left_alone(root: Field) -> bool:
    """Whether Kueue does not manage it: a RayJob on an existing cluster."""
    selector = root / "spec" / "clusterSelector"
    return kind_of(root.value) == _RAY_JOB and bool(selector.value)


def held_back_by(root: Field) -> str:
    """What keeps the workload out of its queue for now; empty if nothing."""
    gates = (root / "metadata" / "annotations" / api.GATED_BY).text()
    if gates:
        return f"Kueue admits it only after its annotation {api.GATED_BY} ({gates}) is removed"
    active = root / "spec" / "active"
    if kind_of(root.value) == api.WORKLOAD.key and active.value is False:
        return "spec.active is false, and Kueue admits no Workload that is not active"
    return ""


def check_submission(root: Field, structure: Structure) -> bool:
    """Note why Kueue rejects the object. Returns whether it does."""
    before = len(root.findings)
    _check_pod_sets(root, structure)
    if is_elastic(root):
        _check_elastic(root, structure)
    _check_ray(root)
    return any(finding.severity == "error" for finding in root.findings[before:])


def _check_pod_sets(root: Field, structure: Structure) -> None:
    """Note more pod sets than a Workload may have."""
    count = len(structure.sets)
    spec = root / "spec"
    if count > _MOST_POD_SETS:
        text = f"it has {count} pod sets, and a Workload must have at most {_MOST_POD_SETS} items"
        spec.error("kueue/pod-sets", text, "merge similar roles, or create several jobs")
    elif count > _MOST_POD_SETS_BEFORE:
        text = (
            f"it has {count} pod sets, and before Kueue 0.19 a Workload has at most "
            f"{_MOST_POD_SETS_BEFORE}"
        )
        spec.warn("kueue/pod-sets", text, "update Kueue, or merge similar roles")


def _check_elastic(root: Field, structure: Structure) -> None:
    """Note what an elastic job may not request."""
    annotations = root / "metadata" / "annotations"
    elastic = annotations / api.ELASTIC
    rule = "kueue/elastic-job"
    kind = kind_of(root.value)
    if kind == (api.GROUP, api.WORKLOAD.kind):
        return
    if kind not in _ELASTIC:
        text = f"elastic job is not supported for {kind[1]}"
        elastic.error(rule, text, f"remove the annotation {api.ELASTIC}")
        return
    if kind != _JOB:
        return
    least = annotations / api.MIN_PARALLELISM
    if least:
        text = "partial admission and elastic job cannot be used together"
        least.error(rule, text, "keep one of the two annotations")
    for pod_set in structure.sets:
        for key, mode in ((api.REQUIRED, "required"), (api.PREFERRED, "preferred")):
            text = f"{mode} topology is not supported with elastic jobs"
            fix = f"use {api.UNCONSTRAINED}, or remove {api.ELASTIC}"
            if pod_set.annotations / key:
                (pod_set.annotations / key).error(rule, text, fix)


def _check_ray(root: Field) -> None:
    """Note what Kueue rejects in KubeRay's objects."""
    cluster = ray_cluster(root)
    if cluster is None:
        return
    rule = "kueue/ray"
    autoscaling = cluster / "enableInTreeAutoscaling"
    if autoscaling.flag() and not is_elastic(root):
        text = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        autoscaling.error(rule, text, f'set the annotation {api.ELASTIC}: "true", or remove it')
    for workers in (cluster / "workerGroupSpecs").items():
        if (workers / "groupName").value == _HEAD:
            text = f'"{_HEAD}" is reserved for the head group'
            (workers / "groupName").error(rule, text, "choose another name")

    if kind_of(root.value) != _RAY_JOB:
        return
    shutdown = root / "spec" / "shutdownAfterJobFinishes"
    if not shutdown.flag():
        text = "a kueue managed job should delete the cluster after finishing"
        shutdown.error(rule, text, "set it to true")
