"""The pods of a workload, for every kind that has pod templates.

How many, what each requests, which nodes it may use. Counts are those of the controllers: a Job
runs `parallelism` pods at once, never more than are left to complete; a JobSet runs `replicas` Jobs
of each kind; a LeaderWorkerSet runs `replicas` groups of `size` pods, one of them the leader; a Ray
worker group runs `replicas` times `numOfHosts` pods, within `minReplicas` and `maxReplicas`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import ClaimRef, Hold, Pods
from toposcope.integrations.framework.containers import requests_of
from toposcope.integrations.framework.controller_labels import added_labels
from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.pod_creation import created_of
from toposcope.integrations.framework.pod_rules import rules_of
from toposcope.integrations.framework.volumes import claims_of_set
from toposcope.kube.pod_resources import Requests

TRAINING_OPERATOR: Final = "kubeflow.org"
"""The API group of its jobs."""
JOBSET: Final = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
RAY_JOB: Final = ("ray.io", "RayJob")
K8S_JOB_MODE: Final = "K8sJobMode"
"""The default `submissionMode` of RayJobs: a Kubernetes Job submits them."""
_AUTOSCALER: Final = {"cpu": 500, "memory": 512 << 20}
_SUBMITTER: Final = {"cpu": 500, "memory": 200 << 20}
"""Default requests of the containers that KubeRay adds.

Source: KubeRay 1.6 (BuildAutoscalerContainer, GetDefaultSubmitterContainer).
"""

_SUSPENDED_BY_SPEC: Final = (
    ("batch", "Job"),
    JOBSET,
    ("ray.io", "RayCluster"),
    ("ray.io", "RayJob"),
    ("trainer.kubeflow.org", "TrainJob"),
    ("workload.codeflare.dev", "AppWrapper"),
)


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template in one copy of a workload."""

    name: str
    pods: Pods
    """The pods of one Job, if the set consists of Jobs."""
    template: Field
    """The pod template, or the Pod itself."""
    jobs: int = 1
    job: Field | None = None
    """The template of those Jobs; None if the set has no Jobs."""

    @property
    def annotations(self) -> Field:
        """The annotations of the pod template."""
        return self.template / "metadata" / "annotations"

    @property
    def count(self) -> int:
        """All pods of the set."""
        return self.jobs * self.pods.count

    def some(self, count: int) -> Pods:
        """`count` of its pods."""
        return replace(self.pods, count=count)


@dataclass(frozen=True, slots=True)
class Structure:
    """A workload's pods. Each of its `copies` has all the sets and is scheduled separately."""

    sets: tuple[PodSet, ...]
    copies: int = 1
    has_separate_pods: bool = False
    """Whether schedulers treat each pod as a separate workload, as for a Deployment."""
    later: tuple[PodSet, ...] = ()
    """Sets whose pods are created once all others run: the submitter of a RayJob."""

    @property
    def whole(self) -> tuple[Pods, ...]:
        """All pods of one copy."""
        return tuple(set_.some(set_.count) for set_ in self.sets)


def structure_of(root: Field) -> Structure | None:
    """The pods of a workload; None for a kind without pods. Findings are recorded in `root`."""
    reader = _READERS.get(kind_of(root.value))
    return reader(root) if reader else None


def suspension_of(root: Field) -> str:
    """The path of the field that suspends a workload; empty if it is not suspended."""
    kind = kind_of(root.value)
    if kind[0] == "kubeflow.org":
        field = root / "spec" / "runPolicy" / "suspend"
    elif kind in _SUSPENDED_BY_SPEC:
        field = root / "spec" / "suspend"
    else:
        return ""
    return field.path if field.flag() else ""


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """`count` pods in chunks of `size`: the size of a chunk, and how many there are.

    The last one may be smaller.
    """
    full_chunks, remainder = divmod(count, size)
    if full_chunks:
        yield size, full_chunks
    if remainder:
        yield remainder, 1


def _set(name: str, count: int, template: Field, jobs: int = 1, job: Field | None = None) -> PodSet:
    pods = pods_of(name, count, template / "spec")
    return PodSet(name, pods, template, jobs, job)


def _pod(root: Field) -> Structure:
    only = _set("pod", 1, root)
    return Structure((only,))


def _replicated(root: Field) -> Structure:
    spec = root / "spec"
    replicas = (spec / "replicas").number(1)
    only = _set("pods", replicas, spec / "template")
    return Structure((only,))


def _stateful_set(root: Field) -> Structure:
    structure = _replicated(root)
    (only,) = structure.sets
    return Structure((_with_own_claims(root, only),))


def _with_own_claims(root: Field, pod_set: PodSet) -> PodSet:
    """The pods with their own volumes."""
    holds: list[Hold] = []
    places = []
    for volume in claims_of_set(root, pod_set.pods.count):
        if volume.hold:
            holds.append(volume.hold)
        if volume.place:
            places.append(volume.place)

    pods = pod_set.pods
    node_filter = replace(pods.node_filter, volumes=(*pods.node_filter.volumes, *places))
    creation = replace(pods.creation, holds=(*pods.creation.holds, *holds))
    return replace(
        pod_set,
        pods=replace(pods, node_filter=node_filter, creation=creation),
    )


def _deployment(root: Field) -> Structure:
    return replace(_replicated(root), has_separate_pods=True)


def _parallelism(spec: Field) -> int:
    at_once = (spec / "parallelism").number(1)
    completions = (spec / "completions").number(at_once)
    return min(at_once, completions)


def _job(root: Field) -> Structure:
    spec = root / "spec"
    only = _set("pods", _parallelism(spec), spec / "template")
    return Structure((only,))


def _jobset(root: Field) -> Structure:
    replicated_jobs = root / "spec" / "replicatedJobs"
    sets = []
    for replicated in replicated_jobs.items():
        job = replicated / "template"
        name = (replicated / "name").text() or replicated.path
        spec = job / "spec"
        count = _parallelism(spec)
        template = spec / "template"
        jobs = (replicated / "replicas").number(1)
        pod_set = _set(name, count, template, jobs, job)
        sets.append(pod_set)
    return Structure(tuple(sets))


def leader_worker_set(root: Field) -> Structure:
    """The pods of a LeaderWorkerSet, or of a template of one."""
    spec = root / "spec"
    template = spec / "leaderWorkerTemplate"
    size = (template / "size").number(1, least=1)
    copies = (spec / "replicas").number(1)
    worker = template / "workerTemplate"
    leader = template / "leaderTemplate"
    if not leader:
        only = _set("pods", size, worker)
        return Structure((only,), copies)

    leaders = _set("leader", 1, leader)
    workers = _set("worker", size - 1, worker)
    return Structure((leaders, workers), copies)


def _kubeflow(root: Field) -> Structure:
    """`pytorchReplicaSpecs`, `mpiReplicaSpecs` and so on: an object of roles."""
    sets = []
    for field, roles in (root / "spec").properties():
        if not field.endswith("ReplicaSpecs"):
            continue
        for name, role in roles.properties():
            replicas = (role / "replicas").number(1)
            pod_set = _set(name, replicas, role / "template")
            sets.append(pod_set)
    return Structure(tuple(sets))


def _tasks(root: Field) -> Structure:
    """The tasks of a Job of batch.volcano.sh."""
    tasks = root / "spec" / "tasks"
    sets = []
    for task in tasks.items():
        name = (task / "name").text() or task.path
        replicas = (task / "replicas").number(1)
        pod_set = _set(name, replicas, task / "template")
        sets.append(pod_set)
    return Structure(tuple(sets))


def _ray(*path: str) -> Callable[[Field], Structure]:
    def read(root: Field) -> Structure:
        cluster = root
        for step in path:
            cluster = cluster / step
        if not cluster:  # a RayJob that is submitted to a cluster of others
            return Structure(())

        head_template = cluster / "headGroupSpec" / "template"
        beside = _beside_the_head(root, cluster)
        head = pods_of("head", 1, head_template / "spec", *beside)
        sets = [PodSet("head", head, head_template)]
        worker_groups = cluster / "workerGroupSpecs"
        for number, workers in enumerate(worker_groups.items()):
            sets.append(_ray_workers(number, workers))
        return Structure(tuple(sets), later=_submitters(root))

    return read


def _beside_the_head(root: Field, cluster: Field) -> Iterator[Requests]:
    """The containers that KubeRay adds to the head of a Ray cluster."""
    if (cluster / "enableInTreeAutoscaling").flag():
        resources = cluster / "autoscalerOptions" / "resources"
        yield requests_of(resources) if resources else _AUTOSCALER
    if (root / "spec" / "submissionMode").text() == "SidecarMode":
        yield _SUBMITTER


def _submitters(root: Field) -> tuple[PodSet, ...]:
    """The pod that submits a RayJob to its cluster; none for other modes."""
    spec = root / "spec"
    mode = (spec / "submissionMode").text() or K8S_JOB_MODE
    if kind_of(root.value) != RAY_JOB or mode != K8S_JOB_MODE:
        return ()
    template = spec / "submitterPodTemplate"
    added = [] if template else [_SUBMITTER]
    pods = pods_of("submitter", 1, template / "spec", *added)
    return (PodSet("submitter", pods, template),)


def _ray_workers(number: int, workers: Field) -> PodSet:
    name = (workers / "groupName").text()
    if not name:
        name = f"worker-group-{number}"
    hosts = (workers / "numOfHosts").number(1, least=1)
    count = _ray_replicas(workers) * hosts
    return _set(name, count, workers / "template")


def _app_wrapper(root: Field) -> Structure:
    """The pods of all wrapped objects, which its controller creates together."""
    components = root / "spec" / "components"
    sets: list[PodSet] = []
    for component in components.items():
        inner = structure_of(component / "template")
        if inner is None:
            continue
        for pod_set in inner.sets:
            jobs = pod_set.jobs * inner.copies
            sets.append(replace(pod_set, jobs=jobs))
    return Structure(tuple(sets))


def _ray_replicas(workers: Field) -> int:
    """How many replicas of a worker group are created. Source: GetWorkerGroupDesiredReplicas."""
    if (workers / "suspend").flag():
        return 0
    replicas = (workers / "replicas").number(0)
    least = (workers / "minReplicas").number(0)
    most = (workers / "maxReplicas").number(max(least, replicas))
    return least if replicas < least else min(replicas, most)


_READERS: Final[dict[tuple[str, str], Callable[[Field], Structure]]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    JOBSET: _jobset,
    LEADER_WORKER_SET: leader_worker_set,
    **{
        (TRAINING_OPERATOR, f"{framework}Job"): _kubeflow
        for framework in ("PyTorch", "TF", "MPI", "XGBoost", "JAX", "Paddle")
    },
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
    ("batch.volcano.sh", "Job"): _tasks,
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): _ray("spec", "rayClusterSpec"),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
}

KINDS_WITH_PODS: Final = frozenset(_READERS)
"""API group and kind of all that `structure_of` reads."""


def pods_of(
    name: str, count: int, spec: Field, *added: Requests, labels: Field | None = None
) -> Pods:
    """`count` pods with the pod spec at `spec`.

    Invalid values are recorded as findings and left out. They are as the API server creates them.
    `added` are the requests of containers that an operator adds to the spec. `labels` are the pods'
    labels, if not in the metadata beside the spec.
    """
    if labels is None:
        labels = spec.beside("metadata") / "labels"
    root = spec.root
    added_by_controller = added_labels(kind_of(root.value), name_of(root), name)
    created = created_of(spec, count, added)
    return Pods(
        name=name,
        count=count,
        requests=created.requests,
        node_filter=created.node_filter,
        claims=_claims(spec),
        creation=created.creation,
        rules=rules_of(spec, labels, added_by_controller),
    )


def _claims(spec: Field) -> tuple[ClaimRef, ...]:
    """The claims of a pod spec, without repeats."""
    namespace = namespace_of(spec.root)
    claims = []
    for claim in (spec / "resourceClaims").items():
        template = (claim / "resourceClaimTemplateName").text()
        name = (claim / "resourceClaimName").text()
        if template:
            claims.append(ClaimRef("ResourceClaimTemplate", namespace, template))
        elif name:
            claims.append(ClaimRef("ResourceClaim", namespace, name))
    return tuple(claims)
