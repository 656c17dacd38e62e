"""Which pods a workload is made of, for every kind that has pod templates: read here, for all systems.

Counts are those of the controllers: a Job runs `parallelism` pods at once, never more than are left to complete; a
JobSet runs `replicas` Jobs of each kind; a LeaderWorkerSet runs `replicas` groups of `size` pods, one of them the
leader; a Ray worker group runs `replicas` times `numOfHosts` pods.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Part
from toposcope.integrations.framework.pod_templates import pods_of

JOBSET: Final = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template within one copy of a workload."""

    name: str
    pods: Pods
    """Those of one Job, where the set consists of Jobs."""
    template: Part
    """The pod template, or the Pod itself."""
    jobs: int = 1
    job: Part | None = None
    """The template of those Jobs; None where there are none."""

    @property
    def annotations(self) -> Part:
        """Those of the pod template."""
        return self.template / "metadata" / "annotations"

    @property
    def count(self) -> int:
        """All pods of the set."""
        return self.jobs * self.pods.count

    def some(self, count: int) -> Pods:
        """So many of its pods."""
        return replace(self.pods, count=count)


@dataclass(frozen=True, slots=True)
class Structure:
    """A workload's pods. Each of its `copies` is made of all the sets and is scheduled by itself."""

    sets: tuple[PodSet, ...]
    copies: int = 1
    separate: bool = False
    """Schedulers see each pod as a workload of its own, as they see those of a Deployment."""

    @property
    def whole(self) -> tuple[Pods, ...]:
        """All pods of one copy."""
        return tuple(set_.some(set_.count) for set_ in self.sets)


def structure_of(root: Part) -> Structure | None:
    """The pods of a workload; None for a kind that has no pods of its own. What is wrong is noted in `root`."""
    reader = _READERS.get(kind_of(root.value))
    return reader(root) if reader else None


def kind_of(document: Any) -> tuple[str, str]:
    """API group (empty for the core group) and kind; empty strings for what is no object of Kubernetes."""
    found = document if isinstance(document, dict) else {}
    version, kind = found.get("apiVersion"), found.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return "", ""
    return version.rpartition("/")[0], kind


def portions(count: int, size: int) -> Iterator[tuple[int, int]]:
    """`count` pods in portions of `size`: how many pods, and how many such portions; the last one may be smaller."""
    whole, rest = divmod(count, size)
    if whole:
        yield size, whole
    if rest:
        yield rest, 1


def subgroups(structure: Structure, size: int, *, leader_apart: bool) -> tuple[tuple[tuple[Pods, ...], int], ...]:
    """The sub-groups of one group of a LeaderWorkerSet: their pods, and how many are alike.

    The leader belongs to the first one, as an extra pod where size - 1 can be divided; or to none (`LeaderExcluded`).
    Source: SubGroupPolicy in the LeaderWorkerSet API; a last one that is not full is KAI's doing.
    """
    leader, worker = structure.sets[0], structure.sets[-1]
    total = sum(set_.count for set_ in structure.sets)
    found: list[tuple[tuple[Pods, ...], int]] = []
    left = total - 1
    if not leader_apart:
        first = min(size if left % size == 0 else size - 1, left)
        found.append((tuple(each for each in (leader.some(1), worker.some(first)) if each.count), 1))
        left -= first
    found += [((worker.some(count),), times) for count, times in portions(left, size)]
    return tuple(found)


def _set(name: str, count: int, template: Part, jobs: int = 1, job: Part | None = None) -> PodSet:
    return PodSet(name, pods_of(name, count, template / "spec"), template, jobs, job)


def _pod(root: Part) -> Structure:
    return Structure((_set("pod", 1, root),))


def _replicated(root: Part) -> Structure:
    spec = root / "spec"
    return Structure((_set("pods", (spec / "replicas").number(1), spec / "template"),))


def _deployment(root: Part) -> Structure:
    return replace(_replicated(root), separate=True)


def _parallelism(spec: Part) -> int:
    at_once = (spec / "parallelism").number(1)
    return min(at_once, (spec / "completions").number(at_once))


def _job(root: Part) -> Structure:
    spec = root / "spec"
    return Structure((_set("pods", _parallelism(spec), spec / "template"),))


def _jobset(root: Part) -> Structure:
    sets = []
    for each in (root / "spec" / "replicatedJobs").items():
        job = each / "template"
        name = (each / "name").text() or each.path
        spec = job / "spec"
        sets.append(_set(name, _parallelism(spec), spec / "template", (each / "replicas").number(1), job))
    return Structure(tuple(sets))


def _leader_worker_set(root: Part) -> Structure:
    spec = root / "spec"
    template = spec / "leaderWorkerTemplate"
    size = (template / "size").number(1, least=1)
    copies = (spec / "replicas").number(1)
    worker = template / "workerTemplate"
    if not template / "leaderTemplate":
        return Structure((_set("pods", size, worker),), copies)
    return Structure((_set("leader", 1, template / "leaderTemplate"), _set("worker", size - 1, worker)), copies)


def _kubeflow(root: Part) -> Structure:
    """`pytorchReplicaSpecs`, `mpiReplicaSpecs` and so on: an object of roles."""
    roles = [
        role for name, part in (root / "spec").members() if name.endswith("ReplicaSpecs") for role in part.members()
    ]
    return Structure(tuple(_set(name, (role / "replicas").number(1), role / "template") for name, role in roles))


def _ray(*path: str) -> Callable[[Part], Structure]:
    def read(root: Part) -> Structure:
        cluster = root
        for step in path:
            cluster = cluster / step
        sets = [_set("head", 1, cluster / "headGroupSpec" / "template")]
        for number, each in enumerate((cluster / "workerGroupSpecs").items()):
            name = (each / "groupName").text() or f"worker-group-{number}"
            count = (each / "replicas").number(0) * (each / "numOfHosts").number(1, least=1)
            sets.append(_set(name, 0 if (each / "suspend").flag() else count, each / "template"))
        return Structure(tuple(sets))

    return read


_READERS: Final[dict[tuple[str, str], Callable[[Part], Structure]]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _deployment,
    ("apps", "StatefulSet"): _replicated,
    JOBSET: _jobset,
    LEADER_WORKER_SET: _leader_worker_set,
    **{
        ("kubeflow.org", f"{framework}Job"): _kubeflow
        for framework in ("PyTorch", "TF", "MPI", "XGBoost", "JAX", "Paddle")
    },
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): _ray("spec", "rayClusterSpec"),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
}
