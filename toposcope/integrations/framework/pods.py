"""Which pods a workload is made of, for every kind that has pod templates: read here, for all systems.

Counts are those of the controllers: a Job runs `parallelism` pods at once, never more than are left to complete; a
JobSet runs `replicas` Jobs of each kind; a LeaderWorkerSet runs `replicas` groups of `size` pods, one of them the
leader; a Ray worker group runs `replicas` times `numOfHosts` pods.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import OPERATORS, Expression, NodeFilter, Toleration
from toposcope.kube.pod_resources import ContainerRequests, Requests, amount, pod_requests

JOBSET: Final = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template within one copy of a workload."""

    name: str
    pods: Pods
    """Those of one Job, where the set consists of Jobs."""
    template: Field
    """The pod template, or the Pod itself."""
    jobs: int = 1
    job: Field | None = None
    """The template of those Jobs; None where there are none."""

    @property
    def annotations(self) -> Field:
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


def structure_of(root: Field) -> Structure | None:
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


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
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
    found += [((worker.some(count),), times) for count, times in chunks(left, size)]
    return tuple(found)


def _set(name: str, count: int, template: Field, jobs: int = 1, job: Field | None = None) -> PodSet:
    return PodSet(name, pods_of(name, count, template / "spec"), template, jobs, job)


def _pod(root: Field) -> Structure:
    return Structure((_set("pod", 1, root),))


def _replicated(root: Field) -> Structure:
    spec = root / "spec"
    return Structure((_set("pods", (spec / "replicas").number(1), spec / "template"),))


def _deployment(root: Field) -> Structure:
    return replace(_replicated(root), separate=True)


def _parallelism(spec: Field) -> int:
    at_once = (spec / "parallelism").number(1)
    return min(at_once, (spec / "completions").number(at_once))


def _job(root: Field) -> Structure:
    spec = root / "spec"
    return Structure((_set("pods", _parallelism(spec), spec / "template"),))


def _jobset(root: Field) -> Structure:
    sets = []
    for each in (root / "spec" / "replicatedJobs").items():
        job = each / "template"
        name = (each / "name").text() or each.path
        spec = job / "spec"
        sets.append(_set(name, _parallelism(spec), spec / "template", (each / "replicas").number(1), job))
    return Structure(tuple(sets))


def _leader_worker_set(root: Field) -> Structure:
    spec = root / "spec"
    template = spec / "leaderWorkerTemplate"
    size = (template / "size").number(1, least=1)
    copies = (spec / "replicas").number(1)
    worker = template / "workerTemplate"
    if not template / "leaderTemplate":
        return Structure((_set("pods", size, worker),), copies)
    return Structure((_set("leader", 1, template / "leaderTemplate"), _set("worker", size - 1, worker)), copies)


def _kubeflow(root: Field) -> Structure:
    """`pytorchReplicaSpecs`, `mpiReplicaSpecs` and so on: an object of roles."""
    roles = [
        role for name, part in (root / "spec").members() if name.endswith("ReplicaSpecs") for role in part.members()
    ]
    return Structure(tuple(_set(name, (role / "replicas").number(1), role / "template") for name, role in roles))


def _ray(*path: str) -> Callable[[Field], Structure]:
    def read(root: Field) -> Structure:
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


_READERS: Final[dict[tuple[str, str], Callable[[Field], Structure]]] = {
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

_DRA: Final = "pods/resource-claims"


def pods_of(name: str, count: int, spec: Field, *beside: Requests) -> Pods:
    """`count` pods with the pod spec at `spec`; what is wrong in it is noted there and left out.

    `beside` is what containers ask for that an operator adds to those of the spec.
    """
    containers = [*beside, *(requests_of(container / "resources") for container in (spec / "containers").items())]
    init = [
        ContainerRequests(
            requests_of(container / "resources"), sidecar=(container / "restartPolicy").text() == "Always"
        )
        for container in (spec / "initContainers").items()
    ]
    if spec / "resourceClaims":
        (spec / "resourceClaims").warn(
            _DRA,
            "devices that come from resource claims are not counted",
            "compare the claims' device requests with `kubectl get resourceslices` by hand",
        )
    whole = pod_requests(containers, init, amounts_of(spec / "overhead"), requests_of(spec / "resources"))
    return Pods(name, count, tuple(sorted((key, value) for key, value in whole.items() if value)), node_filter_of(spec))


def requests_of(resources: Field) -> dict[str, int]:
    """A container's requests; what only `limits` names is requested as much (as the API server fills it in)."""
    return amounts_of(resources / "limits") | amounts_of(resources / "requests")


def amounts_of(quantities: Field) -> dict[str, int]:
    """An object of quantities by resource; what is none is noted and left out."""
    found = {}
    for resource, part in quantities.members():
        if isinstance(part.value, str | int | float) and not isinstance(part.value, bool):
            try:
                value = amount(resource, part.value)
            except ValueError as error:
                part.error("pods/quantity", str(error))
                continue
            if value < 0:
                part.error("pods/quantity", f"{part.value!r} is below zero")
                continue
            found[resource] = value
        elif part:
            part.wrong("a quantity such as 8, 500m or 2Gi")
    return found


def node_filter_of(spec: Field) -> NodeFilter:
    """What a pod spec says about nodes."""
    affinity = spec / "affinity" / "nodeAffinity" / "requiredDuringSchedulingIgnoredDuringExecution"
    return NodeFilter(
        selector=tuple(sorted((spec / "nodeSelector").texts().items())),
        terms=tuple(_term(term) for term in (affinity / "nodeSelectorTerms").items()),
        tolerations=tuple(_toleration(toleration) for toleration in (spec / "tolerations").items()),
    )


def _term(term: Field) -> tuple[Expression, ...]:
    found = []
    for member, field in (("matchExpressions", False), ("matchFields", True)):
        for each in (term / member).items():
            key, operator = (each / "key").text() or "", (each / "operator").text()
            known = next((name for name in OPERATORS if name == operator), None)
            if known is None:
                (each / "operator").error("pods/operator", f"{operator!r} is none of {', '.join(OPERATORS)}")
                continue
            values = tuple(text for value in (each / "values").items() if (text := value.text()) is not None)
            found.append(Expression(key, known, values, field))
    return tuple(found)


def _toleration(each: Field) -> Toleration:
    return Toleration(
        key=(each / "key").text() or "",
        operator=(each / "operator").text() or "Equal",
        value=(each / "value").text() or "",
        effect=(each / "effect").text() or "",
    )
