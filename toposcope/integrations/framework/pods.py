"""The pods of a workload, for every kind that has pod templates.

How many, what each requests, which nodes it may use. Counts are those of the controllers: a Job
runs `parallelism` pods at once, never more than are left to complete; a JobSet runs `replicas` Jobs
of each kind; a LeaderWorkerSet runs `replicas` groups of `size` pods, one of them the leader; a Ray
worker group runs `replicas` times `numOfHosts` pods, within `minReplicas` and `maxReplicas`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from toposcope.integrations.framework.constraints import ClaimRef, Pods
from toposcope.integrations.framework.document import Field, kind_of, namespace_of
from toposcope.integrations.framework.node_affinity import (
    OPERATORS,
    Expression,
    NodeFilter,
    Toleration,
)
from toposcope.kube.pod_resources import (
    ContainerRequests,
    QuantityError,
    Requests,
    amount,
    pod_requests,
)

JOBSET: Final = ("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET: Final = ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
RAY_JOB: Final = ("ray.io", "RayJob")
K8S_JOB_MODE: Final = "K8sJobMode"
"""The `submissionMode` of RayJobs that name none: a Job of Kubernetes submits them."""
_AUTOSCALER: Final = {"cpu": 500, "memory": 512 << 20}
_SUBMITTER: Final = {"cpu": 500, "memory": 200 << 20}
"""Requests of the containers that KubeRay adds, where nobody says otherwise. Source: KubeRay 1.6
(BuildAutoscalerContainer, GetDefaultSubmitterContainer)."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template in one copy of a workload."""

    name: str
    pods: Pods
    """Where the set consists of Jobs, the pods of one Job."""
    template: Field
    """The pod template, or the Pod itself."""
    jobs: int = 1
    job: Field | None = None
    """The template of those Jobs; None where the set has no Jobs."""

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
    separate: bool = False
    """Schedulers see each pod as a workload of its own, as with a Deployment."""
    later: tuple[PodSet, ...] = ()
    """Sets whose pods are created when all others run: the submitter of a RayJob."""

    @property
    def whole(self) -> tuple[Pods, ...]:
        """All pods of one copy."""
        return tuple(set_.some(set_.count) for set_ in self.sets)


def structure_of(root: Field) -> Structure | None:
    """The pods of a workload; None for a kind without pods. Findings go to `root`."""
    reader = _READERS.get(kind_of(root.value))
    return reader(root) if reader else None


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """`count` pods in chunks of `size`: the size of a chunk, and how many there are.

    The last one may be smaller.
    """
    whole, rest = divmod(count, size)
    if whole:
        yield size, whole
    if rest:
        yield rest, 1


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


def _deployment(root: Field) -> Structure:
    return replace(_replicated(root), separate=True)


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


def _leader_worker_set(root: Field) -> Structure:
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
    """The pod that submits a RayJob to its cluster; none where it is no RayJob of that mode."""
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
    """The pods of all objects in it, which its controller creates together."""
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
    ("apps", "StatefulSet"): _replicated,
    JOBSET: _jobset,
    LEADER_WORKER_SET: _leader_worker_set,
    **{
        ("kubeflow.org", f"{framework}Job"): _kubeflow
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


def pods_of(name: str, count: int, spec: Field, *added: Requests) -> Pods:
    """`count` pods with the pod spec at `spec`; invalid values become findings and are left out.

    `added` are the requests of containers that an operator adds to the spec.
    """
    containers = list(added)
    for container in (spec / "containers").items():
        requested = requests_of(container / "resources")
        containers.append(requested)
    init_containers = []
    for container in (spec / "initContainers").items():
        init_containers.append(_init_container(container))
    overhead = amounts_of(spec / "overhead")
    whole_pod = requests_of(spec / "resources")

    total = pod_requests(containers, init_containers, overhead, whole_pod)
    requests = []
    for resource, requested_amount in sorted(total.items()):
        if requested_amount:
            requests.append((resource, requested_amount))
    return Pods(
        name=name,
        count=count,
        requests=tuple(requests),
        node_filter=node_filter_of(spec),
        claims=_claims(spec),
    )


def _init_container(container: Field) -> ContainerRequests:
    restart_policy = (container / "restartPolicy").text()
    requests = requests_of(container / "resources")
    return ContainerRequests(requests, sidecar=restart_policy == "Always")


def _claims(spec: Field) -> tuple[ClaimRef, ...]:
    """The claims of a pod spec, each once."""
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


def requests_of(resources: Field) -> dict[str, int]:
    """A container's requests.

    A resource that only `limits` names is requested too, as the API server defaults it.
    """
    limits = amounts_of(resources / "limits")
    requests = amounts_of(resources / "requests")
    return limits | requests


def amounts_of(quantities: Field) -> dict[str, int]:
    """An object of quantities by resource; invalid ones become findings and are left out."""
    amounts = {}
    for resource, quantity in quantities.properties():
        value = _amount(resource, quantity)
        if value is not None:
            amounts[resource] = value
    return amounts


def _amount(resource: str, quantity: Field) -> int | None:
    """A quantity in the unit of its resource; None where there is none, or an invalid one."""
    written = quantity.value
    if written is None:
        return None
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        quantity.wrong("a quantity such as 8, 500m or 2Gi")
        return None
    try:
        value = amount(resource, written)
    except QuantityError as error:
        quantity.error("pods/quantity", error.problem, error.fix)
        return None
    if value < 0:
        quantity.error("pods/quantity", f"{written!r} is below zero", "write 0 or more")
        return None
    return value


def node_filter_of(spec: Field) -> NodeFilter:
    """The nodes that a pod spec allows."""
    affinity = spec / "affinity" / "nodeAffinity" / "requiredDuringSchedulingIgnoredDuringExecution"
    terms = []
    for term in (affinity / "nodeSelectorTerms").items():
        terms.append(term_of(term))
    tolerations = []
    for toleration in (spec / "tolerations").items():
        tolerations.append(toleration_of(toleration))

    selector = (spec / "nodeSelector").texts()
    return NodeFilter(
        selector=tuple(sorted(selector.items())),
        terms=tuple(terms),
        tolerations=tuple(tolerations),
    )


def term_of(term: Field) -> tuple[Expression, ...]:
    """A term of a node selector; what is malformed in it becomes a finding."""
    expressions: list[Expression] = []
    for requirement in (term / "matchExpressions").items():
        expressions += _expressions(requirement, on_fields=False)
    for requirement in (term / "matchFields").items():
        expressions += _expressions(requirement, on_fields=True)
    return tuple(expressions)


def _expressions(requirement: Field, *, on_fields: bool) -> Iterator[Expression]:
    """A requirement of a term; none where its operator is unknown."""
    key = (requirement / "key").text() or ""
    operator_field = requirement / "operator"
    name = operator_field.text()
    for operator in OPERATORS:
        if operator == name:
            values = _texts(requirement / "values")
            yield Expression(key, operator, values, on_fields)
            return
    text = f"{name!r} is none of {', '.join(OPERATORS)}"
    operator_field.error("pods/operator", text)


def _texts(values: Field) -> tuple[str, ...]:
    texts = []
    for value in values.items():
        text = value.text()
        if text is not None:
            texts.append(text)
    return tuple(texts)


def toleration_of(toleration: Field) -> Toleration:
    """One toleration, of a pod or of a request for devices."""
    return Toleration(
        key=(toleration / "key").text() or "",
        operator=(toleration / "operator").text() or "Equal",
        value=(toleration / "value").text() or "",
        effect=(toleration / "effect").text() or "",
    )
