"""Ray clusters that Volcano places: KubeRay creates one PodGroup for each.

It copies labels of the RayCluster or RayJob into the PodGroup. The gang is the head and all
workers, or, with Ray's autoscaler, as many pods as the head and `minReplicas` make. The submitter
of a RayJob is not in the gang. Source: KubeRay 1.6 (controllers/ray/batchscheduler/volcano).
"""

from typing import Final

from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.pods import Structure
from toposcope.integrations.volcano.tasks import Tasks, VolcanoTask

_GROUP: Final = "ray.io"
_LABELS: Final = "volcano.sh/"
_QUEUE: Final = "volcano.sh/queue-name"
_SCHEDULER_LABEL: Final = "ray.io/scheduler-name"
_SCHEDULER: Final = "volcano"


def is_placed_by_volcano(root: Field) -> bool:
    """Whether this is a Ray cluster whose labels or pods name Volcano."""
    group, _ = kind_of(root.value)
    if group != _GROUP:
        return False
    labels = root / "metadata" / "labels"
    for key in labels.texts():
        if key.startswith(_LABELS):
            return True
    return (labels / _SCHEDULER_LABEL).text() == _SCHEDULER


def queue_of(root: Field) -> Field:
    """The label with its queue."""
    return root / "metadata" / "labels" / _QUEUE


def tasks_of_cluster(root: Field, structure: Structure) -> Tasks:
    """Head and workers. If there may be more pods than the gang needs, any of them count."""
    tasks = []
    for pod_set in structure.sets:
        tasks.append(VolcanoTask(pod_set.template, pod_set, least=pod_set.count, after=()))
    job = Tasks(tuple(tasks), sum(task.least for task in tasks))
    spec = root / "spec"
    cluster = spec
    for name in ("rayClusterSpec", "rayClusterConfig"):
        if spec / name:
            cluster = spec / name
    if not (cluster / "enableInTreeAutoscaling").flag():
        return job
    return Tasks(job.all, 1 + _least_workers(cluster))


def _least_workers(cluster: Field) -> int:
    """The pods of `minReplicas` of all worker groups."""
    least = 0
    for workers in (cluster / "workerGroupSpecs").items():
        if (workers / "suspend").flag():
            continue
        hosts = (workers / "numOfHosts").number(1, least=1)
        least += (workers / "minReplicas").number(0) * hosts
    return least
