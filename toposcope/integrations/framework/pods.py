"""The pods of a workload, for every kind that has pod templates.

How many, what each requests, which nodes it may use. Counts are those of the controllers: a Job
runs `parallelism` pods at once, never more than are left to complete; a JobSet runs `replicas` Jobs
of each kind; a LeaderWorkerSet runs `replicas` groups of `size` pods, one of them the leader; a Ray
worker group runs `replicas` times `numOfHosts` pods.
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
    for replicated in (root / "spec" / "replicatedJobs").items():
        job = replicated / "template"
        name = (replicated / "name").text() or replicated.path
        count, template = _parallelism(job / "spec"), job / "spec" / "template"
        jobs = (replicated / "replicas").number(1)
        sets.append(_set(name, count, template, jobs, job))
    return Structure(tuple(sets))


def _leader_worker_set(root: Field) -> Structure:
    spec = root / "spec"
    template = spec / "leaderWorkerTemplate"
    size = (template / "size").number(1, least=1)
    copies = (spec / "replicas").number(1)
    worker = template / "workerTemplate"
    leader = template / "leaderTemplate"
    if not leader:
        return Structure((_set("pods", size, worker),), copies)
    return Structure((_set("leader", 1, leader), _set("worker", size - 1, worker)), copies)


def _kubeflow(root: Field) -> Structure:
    """`pytorchReplicaSpecs`, `mpiReplicaSpecs` and so on: an object of roles."""
    sets = []
    for field, roles in (root / "spec").properties():
        if not field.endswith("ReplicaSpecs"):
            continue
        for name, role in roles.properties():
            sets.append(_set(name, (role / "replicas").number(1), role / "template"))
    return Structure(tuple(sets))


def _tasks(root: Field) -> Structure:
    """The tasks of a Job of batch.volcano.sh."""
    sets = []
    for task in (root / "spec" / "tasks").items():
        name = (task / "name").text() or task.path
        sets.append(_set(name, (task / "replicas").number(1), task / "template"))
    return Structure(tuple(sets))


def _ray(*path: str) -> Callable[[Field], Structure]:
    def read(root: Field) -> Structure:
        cluster = root
        for step in path:
            cluster = cluster / step
        sets = [_set("head", 1, cluster / "headGroupSpec" / "template")]
        for number, workers in enumerate((cluster / "workerGroupSpecs").items()):
            name = (workers / "groupName").text() or f"worker-group-{number}"
            hosts = (workers / "numOfHosts").number(1, least=1)
            count = (workers / "replicas").number(0) * hosts
            if (workers / "suspend").flag():
                count = 0
            sets.append(_set(name, count, workers / "template"))
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
    ("batch.volcano.sh", "Job"): _tasks,
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): _ray("spec", "rayClusterSpec"),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
}


def pods_of(name: str, count: int, spec: Field, *added: Requests) -> Pods:
    """`count` pods with the pod spec at `spec`; invalid values become findings and are left out.

    `added` are the requests of containers that an operator adds to the spec.
    """
    containers = [*added]
    for container in (spec / "containers").items():
        containers.append(requests_of(container / "resources"))
    init = []
    for container in (spec / "initContainers").items():
        sidecar = (container / "restartPolicy").text() == "Always"
        init.append(ContainerRequests(requests_of(container / "resources"), sidecar=sidecar))
    overhead, whole_pod = amounts_of(spec / "overhead"), requests_of(spec / "resources")
    total = pod_requests(containers, init, overhead, whole_pod)
    requests = [(resource, amount) for resource, amount in sorted(total.items()) if amount]
    return Pods(name, count, tuple(requests), node_filter_of(spec), _claims(spec))


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
    return amounts_of(resources / "limits") | amounts_of(resources / "requests")


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
    """Which nodes a pod spec allows."""
    affinity = spec / "affinity" / "nodeAffinity" / "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [term_of(term) for term in (affinity / "nodeSelectorTerms").items()]
    tolerations = [toleration_of(toleration) for toleration in (spec / "tolerations").items()]
    return NodeFilter(
        selector=tuple(sorted((spec / "nodeSelector").texts().items())),
        terms=tuple(terms),
        tolerations=tuple(tolerations),
    )


def term_of(term: Field) -> tuple[Expression, ...]:
    """One of a node selector's terms; what is malformed in it becomes a finding."""
    expressions: list[Expression] = []
    for requirement in (term / "matchExpressions").items():
        expressions += _expressions(requirement, on_fields=False)
    for requirement in (term / "matchFields").items():
        expressions += _expressions(requirement, on_fields=True)
    return tuple(expressions)


def _expressions(requirement: Field, *, on_fields: bool) -> Iterator[Expression]:
    """A requirement of a term; none where its operator is unknown."""
    key, name = (requirement / "key").text() or "", (requirement / "operator").text()
    for operator in OPERATORS:
        if operator == name:
            values = [value.text() for value in (requirement / "values").items()]
            known = tuple(value for value in values if value is not None)
            yield Expression(key, operator, known, on_fields)
            return
    text = f"{name!r} is none of {', '.join(OPERATORS)}"
    (requirement / "operator").error("pods/operator", text)


def toleration_of(toleration: Field) -> Toleration:
    """One toleration, of a pod or of a request for devices."""
    return Toleration(
        key=(toleration / "key").text() or "",
        operator=(toleration / "operator").text() or "Equal",
        value=(toleration / "value").text() or "",
        effect=(toleration / "effect").text() or "",
    )
