"""The JobSet of a TrainJob.

Source: Kubeflow Trainer 2.2 (pkg/runtime: core, plugins jobset, plainml, torch and mpi). The
runtime that `spec.runtimeRef` names has the template of a JobSet. Its ReplicatedJobs with the label
value `trainer` run as many pods as `spec.trainer.numNodes`, else as the runtime's `mlPolicy`; their
container `node` has the resources of `spec.trainer.resourcesPerNode`.
"""

import copy
from typing import Any, Final

from toposcope.integrations.framework.document import Field, name_of, namespace_of
from toposcope.integrations.framework.making import NOTHING, Made, Maker
from toposcope.integrations.framework.pods import JOBSET
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kubeflow.plugin import CLUSTER_RUNTIMES, RUNTIMES

_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_TRAINER: Final = "trainer"
_NODE: Final = "node"
"""The name of the trainer's container, and of MPI's workers."""


def _job_set(root: Field, cluster: ClusterFacts) -> tuple[Made, ...]:
    runtime = _runtime_of(root, cluster)
    if runtime is None:
        return NOTHING
    template = runtime / "spec" / "template"
    spec = copy.deepcopy((template / "spec").value)
    if not isinstance(spec, dict):
        return NOTHING

    train_job = root / "spec"
    trainer = train_job / "trainer"
    policy = runtime / "spec" / "mlPolicy"
    replicated_jobs = Field(spec) / "replicatedJobs"
    for job in replicated_jobs.items():
        if isinstance(job.value, dict):
            _adjust(job, trainer, policy)
    suspend = train_job / "suspend"
    spec["suspend"] = suspend.flag()
    job_set = {
        "apiVersion": f"{JOBSET[0]}/v1alpha2",
        "kind": JOBSET[1],
        "metadata": _metadata(root, template),
        "spec": spec,
    }
    source = name_of(runtime), runtime.value
    created = Made("JobSet", job_set, is_copied=False, sources=(source,))
    return (created,)


def _runtime_of(root: Field, cluster: ClusterFacts) -> Field | None:
    """The runtime that a TrainJob names; None if unknown."""
    reference = root / "spec" / "runtimeRef"
    name = (reference / "name").text()
    kind = (reference / "kind").text() or CLUSTER_RUNTIMES.kind
    for kind_of_runtime in (CLUSTER_RUNTIMES, RUNTIMES):
        if kind_of_runtime.kind != kind:
            continue
        for document in cluster.objects.get(kind_of_runtime.key, ()):
            runtime = Field(document)
            is_near = not kind_of_runtime.is_namespaced or namespace_of(runtime) == namespace_of(
                root
            )
            if name_of(runtime) == name and is_near:
                return runtime
    return None


def _metadata(root: Field, template: Field) -> dict[str, Any]:
    """The JobSet's metadata, with that of the TrainJob that owns it, which systems also read."""
    metadata: dict[str, Any] = {
        "name": name_of(root),
        "namespace": namespace_of(root),
    }
    inherited = template / "metadata"
    own = root / "metadata"
    for name in ("labels", "annotations"):
        of_template = inherited / name
        of_train_job = own / name
        metadata[name] = of_template.texts() | of_train_job.texts()
    return metadata


def _adjust(replicated: Field, trainer: Field, policy: Field) -> None:
    """Set the pods and resources that the TrainJob requests on a ReplicatedJob, in place."""
    job = replicated / "template"
    labels = job / "metadata" / "labels"
    step = labels / _ANCESTOR
    name = replicated / "name"
    mpi = policy / "mpi"
    launcher = mpi / "runLauncherAsNode"

    is_trainer = step.text() == _TRAINER
    is_worker = name.text() == _NODE
    launches = launcher.flag()
    if is_trainer:
        replicated.value["replicas"] = 1
    if is_trainer or (is_worker and launches):
        _set_resources(job, trainer / "resourcesPerNode")

    is_counted = is_worker if mpi else is_trainer
    if is_counted and trainer / "numNodes":
        _set_count(job, _nodes(trainer, has_launcher=launches))
    elif is_trainer and policy:
        _set_count(job, (policy / "numNodes").number(1))


def _nodes(trainer: Field, *, has_launcher: bool) -> int:
    """How many pods `numNodes` requests, besides a launcher that is a node."""
    nodes = (trainer / "numNodes").number(1)
    if has_launcher:
        return max(nodes - 1, 1)
    return nodes


def _set_count(job: Field, count: int) -> None:
    """Set the number of pods of a Job template, in place."""
    spec = (job / "spec").value
    if isinstance(spec, dict):
        spec |= {"parallelism": count, "completions": count}


def _set_resources(job: Field, resources: Field) -> None:
    """Set these resources on the container `node` in place, if there are any."""
    written = {}
    for name in ("limits", "requests"):
        amounts = resources / name
        if amounts:
            written[name] = amounts.value
    if not written:
        return
    containers = job / "spec" / "template" / "spec" / "containers"
    for container in containers.items():
        if isinstance(container.value, dict) and (container / "name").text() == _NODE:
            container.value["resources"] = written


MADE: Final[dict[tuple[str, str], Maker]] = {("trainer.kubeflow.org", "TrainJob"): _job_set}
