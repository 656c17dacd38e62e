"""From a workload's queue to what it may use: LocalQueue, ClusterQueue, cohort, ResourceFlavors, and quota in use.

Rules and messages: Kueue 0.19 (pkg/cache/scheduler: clusterqueue.go, resource_node.go; workload_controller.go). Objects
of v1beta1 and v1beta2 agree in what is read, but for the name of the cohort.

`status.admission` says where pods were assigned: v1beta1 lists every domain (`domains`); v1beta2 compresses them
(`slices`): one value for a whole slice of domains, or a root for each with a common prefix and suffix.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.features import Object, condition
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.node_affinity import NodeFilter, Taint
from toposcope.integrations.framework.pods import amounts_of, node_filter_of, pods_of
from toposcope.integrations.framework.system import ClusterFacts, Held
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    COHORT,
    FLAVORS,
    LOCAL_QUEUE,
    QUEUE_NAME,
    WORKLOAD,
)
from toposcope.kube.discovery import Kind
from toposcope.kube.pod_resources import amount


@dataclass(frozen=True, slots=True)
class AssignedDomain:
    """One domain with the pods that it got; `values` are those of the labels `levels`, broadest first."""

    pod_set: str
    levels: tuple[str, ...]
    values: tuple[str, ...]
    pods: int


def assigned_domains(workload: Object) -> Iterator[AssignedDomain]:
    """The domains of a Workload's admission; none where it is not admitted.

    What is malformed is passed over.
    """
    for pod_set in (Field(workload) / "status" / "admission" / "podSetAssignments").items():
        name, assignment = (pod_set / "name").text() or "main", pod_set / "topologyAssignment"
        levels = tuple(level.text() or "" for level in (assignment / "levels").items())
        for domain in (assignment / "domains").items():
            values = tuple(value.text() or "" for value in (domain / "values").items())
            yield AssignedDomain(name, levels, values, (domain / "count").number(1))
        for piece in (assignment / "slices").items():
            domains = (piece / "domainCount").number(0)
            columns = [
                list(_values(level, domains)) for level in (piece / "valuesPerLevel").items()
            ]
            counts = [count.number(1) for count in (piece / "podCounts" / "individual").items()]
            everywhere = (piece / "podCounts" / "universal").number(1)
            for number, values in enumerate(zip(*columns, strict=False)):
                yield AssignedDomain(
                    name, levels, values, counts[number] if number < len(counts) else everywhere
                )


def _values(level: Field, domains: int) -> Iterator[str]:
    if universal := (level / "universal").text():
        # No more than the domains that the other levels name; a slice of one level has but this
        # one.
        yield from (universal for _ in range(min(domains, _MOST)))
        return
    individual = level / "individual"
    prefix, suffix = (individual / "prefix").text() or "", (individual / "suffix").text() or ""
    yield from (f"{prefix}{root.text() or ''}{suffix}" for root in (individual / "roots").items())


_MOST = 100_000
"""Kueue's own limit of domains in a slice."""


DEFAULT: Final = "default"
"""The LocalQueue of workloads that name none."""
_STOPPED: Final = {"Hold", "HoldAndDrain"}
_NAMESPACE: Final = "kubernetes.io/metadata.name"

FlavorResource = tuple[str, str]


def kept(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """As much of one of these objects as counts; None for a Workload that holds nothing, because there are many."""
    if kind_of(document) != WORKLOAD.key:
        return document
    root = Field(document)
    finished = condition(document, "Finished")
    if not root / "status" / "admission" or (finished and finished.status == "True"):
        return None
    metadata = {
        key: (root / "metadata" / key).value for key in ("name", "namespace", "ownerReferences")
    }
    pod_sets = []
    for pod_set in (root / "spec" / "podSets").items():
        spec = pod_set / "template" / "spec"
        requests = dict(pods_of("", 1, spec).requests)
        pod_sets.append(
            {
                "name": (pod_set / "name").value,
                "count": (pod_set / "count").value,
                "requests": requests,
            }
        )
    priority = (root / "spec" / "priority").value
    status = {key: (root / "status" / key).value for key in ("admission", "reclaimablePods")}
    kept_spec = {"podSets": pod_sets, "priority": priority}
    about = {key: document.get(key) for key in ("apiVersion", "kind")}
    return {**about, "metadata": metadata, "spec": kept_spec, "status": status}


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor."""

    name: str
    nodes: NodeFilter
    """Its nodeLabels as selector, and the tolerations that it adds to pods."""
    taints: tuple[Taint, ...]
    topology: str | None


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that come from the same flavor, and the flavors in the order in which Kueue tries them."""

    resources: tuple[str, ...]
    flavors: tuple[Flavor, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue as a workload finds it."""

    name: str
    groups: tuple[ResourceGroup, ...]
    nominal: Mapping[FlavorResource, int]
    """What is left of its own quota."""
    available: Mapping[FlavorResource, int]
    """What is left with what it may borrow."""
    capacity: Mapping[FlavorResource, int]
    """What it could have at most, if nothing else were admitted."""
    prefers_own_quota: bool = False
    """`whenCanBorrow: TryNextFlavor`: it tries the next flavor before it borrows."""
    notes: tuple[str, ...] = ()

    @property
    def flavors(self) -> tuple[Flavor, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(flavor for group in self.groups for flavor in group.flavors))

    @property
    def only_topologies(self) -> bool:
        """Whether each flavor has a topology: then Kueue assigns nodes even to pods without an annotation."""
        return bool(self.flavors) and all(flavor.topology for flavor in self.flavors)


def known(cluster: ClusterFacts) -> bool:
    """Whether the queues of the cluster are known."""
    return all(kind.key in cluster.objects for kind in (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVORS))


def queue_name(root: Field, cluster: ClusterFacts) -> str:
    """The LocalQueue that the workload names, else the one called `default` in its namespace; empty without either."""
    if name := _named(root).text():
        return name
    queues = ((name_of(queue), namespace_of(queue)) for queue in _all(cluster, LOCAL_QUEUE))
    return (
        DEFAULT
        if kind_of(root.value) != WORKLOAD.key and (DEFAULT, namespace_of(root)) in queues
        else ""
    )


def _named(root: Field) -> Field:
    is_workload = kind_of(root.value) == WORKLOAD.key
    return root / "spec" / "queueName" if is_workload else root / "metadata" / "labels" / QUEUE_NAME


def queue_of(root: Field, cluster: ClusterFacts) -> Queue | None:
    """The ClusterQueue that admits the workload, where the queues are `known`; what is wrong with it is noted."""
    named, name, namespace = _named(root), queue_name(root, cluster), namespace_of(root)
    queues = {
        name_of(queue): queue
        for queue in _all(cluster, LOCAL_QUEUE)
        if namespace_of(queue) == namespace
    }
    queue = queues.get(name)
    if queue is None:
        fix = (
            did_you_mean(name, queues)
            or f"kubectl get {LOCAL_QUEUE.name} -A; the namespace of the workload counts"
        )
        named.error("kueue/queue-exists", f"LocalQueue {name} doesn't exist", fix)
        return None
    cluster_name = (queue / "spec" / "clusterQueue").text() or ""
    cluster_queues = {name_of(other): other for other in _all(cluster, CLUSTER_QUEUE)}
    cluster_queue = cluster_queues.get(cluster_name)
    if cluster_queue is None:
        fix = f"LocalQueue {name} names it: {did_you_mean(cluster_name, cluster_queues)}"
        named.error("kueue/queue-exists", f"ClusterQueue {cluster_name} doesn't exist", fix)
        return None
    for stopped, what in (
        (queue, f"LocalQueue {name}"),
        (cluster_queue, f"ClusterQueue {cluster_name}"),
    ):
        if (stopped / "spec" / "stopPolicy").text() in _STOPPED:
            named.error(
                "kueue/queue-stopped",
                f"{what} is stopped",
                "its spec.stopPolicy says so; None starts it again",
            )
            return None
    return _cluster_queue(named, namespace, cluster_queue, cluster, _own(root))


def _all(cluster: ClusterFacts, kind: Kind) -> list[Field]:
    return [Field(document) for document in cluster.objects.get(kind.key, ())]


def own_workloads(root: Field, cluster: ClusterFacts) -> frozenset[tuple[str, str]]:
    """Namespace and name of the admitted Workloads of this document."""
    own = _own(root)
    return frozenset(
        (namespace_of(raw), name_of(raw)) for raw in _all(cluster, WORKLOAD) if own(raw)
    )


def _own(root: Field) -> Callable[[Field], bool]:
    """Whether a Workload is the one of this document: it is admitted already, and would be admitted anew."""
    kind, name, namespace = kind_of(root.value)[1], name_of(root), namespace_of(root)

    def own(workload: Field) -> bool:
        if namespace_of(workload) != namespace:
            return False
        owners = (workload / "metadata" / "ownerReferences").items()
        is_owner = any(
            ((owner / "kind").value, (owner / "name").value) == (kind, name) for owner in owners
        )
        return is_owner or (kind == WORKLOAD.kind and name_of(workload) == name)

    return own


def _cluster_queue(
    named: Field, namespace: str, queue: Field, cluster: ClusterFacts, own: Callable[[Field], bool]
) -> Queue | None:
    name, spec = name_of(queue), queue / "spec"
    flavors = {name_of(flavor): _flavor(flavor) for flavor in _all(cluster, FLAVORS)}
    groups = [
        (
            [text for field in (group / "coveredResources").items() if (text := field.text())],
            [text for flavor in (group / "flavors").items() if (text := (flavor / "name").text())],
        )
        for group in (spec / "resourceGroups").items()
    ]
    if missing := [flavor for _, names in groups for flavor in names if flavor not in flavors]:
        text = f"ClusterQueue {name} is inactive: references missing ResourceFlavor(s): {','.join(missing)}"
        named.error("kueue/flavor-exists", text, did_you_mean(missing[0], flavors))
        return None
    used = [flavors[flavor] for _, names in groups for flavor in names]
    for flavor in used if cluster.knows_topologies else ():
        if flavor.topology and flavor.topology not in cluster.topologies:
            text = f'there is no Topology "{flavor.topology}" for TAS flavor "{flavor.name}"'
            fix = cluster.missing(flavor.topology)
            named.error("kueue/topology-exists", f"ClusterQueue {name} is inactive: {text}", fix)
            return None
    matches, notes = _selects(spec / "namespaceSelector", namespace)
    if not matches:
        text = (
            f"the namespace {namespace} doesn't match the namespaceSelector of ClusterQueue {name}"
        )
        named.error("kueue/namespace", text, "{} selects every namespace")
        return None
    if list((spec / "admissionChecks").items()) or spec / "admissionChecksStrategy":
        notes += (
            f"ClusterQueue {name} has admission checks, which decide after the quota and are not looked at",
        )
    workloads = [workload for workload in _all(cluster, WORKLOAD) if not own(workload)]
    quotas = _quotas(name, cluster, workloads if WORKLOAD.key in cluster.objects else None)
    if note := _preemption(spec, quotas, workloads):
        notes += (note,)
    resources = [
        (flavor.name, resource)
        for resources, names in groups
        for flavor in map(flavors.__getitem__, names)
        for resource in resources
    ]
    return Queue(
        name,
        tuple(
            ResourceGroup(tuple(resources), tuple(flavors[name] for name in names))
            for resources, names in groups
        ),
        {resource: quotas.nominal(resource) - quotas.usage(resource) for resource in resources},
        {resource: max(quotas.available(resource), 0) for resource in resources},
        {resource: quotas.potential(resource) for resource in resources},
        (spec / "flavorFungibility" / "whenCanBorrow").text() == "TryNextFlavor",
        notes,
    )


def _flavor(root: Field) -> Flavor:
    spec = root / "spec"
    pods = {
        "nodeSelector": (spec / "nodeLabels").value,
        "tolerations": (spec / "tolerations").value,
    }
    taints = tuple(
        Taint(
            (taint / "key").text() or "",
            (taint / "value").text() or "",
            (taint / "effect").text() or "",
        )
        for taint in (spec / "nodeTaints").items()
        if (taint / "effect").text() in ("NoSchedule", "NoExecute")
    )
    return Flavor(
        name_of(root), node_filter_of(Field(pods)), taints, (spec / "topologyName").text()
    )


def _selects(selector: Field, namespace: str) -> tuple[bool, tuple[str, ...]]:
    """Whether a selector takes the namespace, whose labels are not known but for its name, and what is not known."""
    if not selector:
        return False, ()
    labels = (selector / "matchLabels").texts()
    if labels.pop(_NAMESPACE, namespace) != namespace:
        return False, ()
    if labels or list((selector / "matchExpressions").items()):
        return True, (
            f"whether the labels of namespace {namespace} match the ClusterQueue's selector is not checked",
        )
    return True, ()


@dataclass(slots=True, eq=False)
class _QuotaNode:
    """A ClusterQueue or a cohort: what it has, lends and borrows."""

    quotas: dict[FlavorResource, tuple[int, int | None, int | None]] = field(default_factory=dict)
    """Nominal quota, borrowing limit, lending limit."""
    parent: "_QuotaNode | None" = None
    children: "list[_QuotaNode]" = field(default_factory=list)
    used: dict[FlavorResource, int] = field(default_factory=dict)
    """By workloads of a ClusterQueue."""

    def nominal(self, one: FlavorResource) -> int:
        return self.quotas.get(one, (0, None, None))[0]

    def subtree(self, one: FlavorResource) -> int:
        return self.nominal(one) + sum(
            child.subtree(one) - child.local(one) for child in self.children
        )

    def local(self, one: FlavorResource) -> int:
        """What it never lends."""
        lending = self.quotas.get(one, (0, None, None))[2]
        return 0 if lending is None else max(0, self.subtree(one) - lending)

    def usage(self, one: FlavorResource) -> int:
        return self.used.get(one, 0) + sum(
            max(0, child.usage(one) - child.local(one)) for child in self.children
        )

    def available(self, one: FlavorResource) -> int:
        """What is left here and above; below zero where more was admitted than there is now."""
        if self.parent is None:
            return self.subtree(one) - self.usage(one)
        above, local, usage = self.parent.available(one), self.local(one), self.usage(one)
        borrowing = self.quotas.get(one, (0, None, None))[1]
        if borrowing is not None:
            above = min(self.subtree(one) - local - max(0, usage - local) + borrowing, above)
        return max(0, local - usage) + above

    def potential(self, one: FlavorResource) -> int:
        """The most that there could be."""
        if self.parent is None:
            return self.subtree(one)
        most = self.local(one) + self.parent.potential(one)
        borrowing = self.quotas.get(one, (0, None, None))[1]
        return most if borrowing is None else min(self.subtree(one) + borrowing, most)

    def root(self) -> "_QuotaNode":
        return self.parent.root() if self.parent else self


def _quotas(name: str, cluster: ClusterFacts, workloads: Sequence[Field] | None) -> _QuotaNode:
    """The quota of a ClusterQueue within its cohorts, with what Workloads use, else with what ClusterQueues report."""
    cohorts: dict[str, _QuotaNode] = {}
    parents: dict[str, str] = {}
    for cohort in _all(cluster, COHORT):
        cohorts[name_of(cohort)] = _QuotaNode(_written(cohort / "spec"))
        parents[name_of(cohort)] = (cohort / "spec" / "parentName").text() or ""
    queues: dict[str, _QuotaNode] = {}
    for queue in _all(cluster, CLUSTER_QUEUE):
        spec = queue / "spec"
        node = queues[name_of(queue)] = _QuotaNode(_written(spec))
        if cohort_name := (spec / "cohortName").text() or (spec / "cohort").text():
            node.parent = cohorts.setdefault(cohort_name, _QuotaNode())
            node.parent.children.append(node)
        if workloads is None:
            node.used = _reported(queue / "status" / "flavorsReservation")
    for child, above in parents.items():
        parent = cohorts.setdefault(above, _QuotaNode()) if above else None
        if parent and cohorts[child] is not parent.root():  # Kueue admits nothing in a cycle
            cohorts[child].parent = parent
            parent.children.append(cohorts[child])
    for workload in workloads or ():
        admission = workload / "status" / "admission"
        queue_node = queues.get((admission / "clusterQueue").text() or "")
        for pair, used in _used(workload) if queue_node else ():
            if queue_node:
                queue_node.used[pair] = queue_node.used.get(pair, 0) + used
    return queues[name]


def _written(spec: Field) -> dict[FlavorResource, tuple[int, int | None, int | None]]:
    quotas = {}
    for group in (spec / "resourceGroups").items():
        for flavor in (group / "flavors").items():
            for quota in (flavor / "resources").items():
                resource = (quota / "name").text() or ""
                limits = [
                    _amount(resource, quota / key)
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                ]
                quotas[(flavor / "name").text() or "", resource] = (
                    limits[0] or 0,
                    limits[1],
                    limits[2],
                )
    return quotas


def _amount(resource: str, quantity: Field) -> int | None:
    try:
        return (
            amount(resource, quantity.value)
            if isinstance(quantity.value, str | int | float)
            else None
        )
    except ValueError:
        return None


def _reported(reservations: Field) -> dict[FlavorResource, int]:
    return {
        ((flavor / "name").text() or "", resource): _amount(resource, entry / "total") or 0
        for flavor in reservations.items()
        for entry in (flavor / "resources").items()
        if (resource := (entry / "name").text())
    }


def _used(workload: Field) -> Iterator[tuple[FlavorResource, int]]:
    """The quota that an admitted Workload holds, without pods that need it no more."""
    counts = _counts(workload / "spec" / "podSets", 1)
    reclaimed = _counts(workload / "status" / "reclaimablePods", 0)
    for pod_set in (workload / "status" / "admission" / "podSetAssignments").items():
        name = (pod_set / "name").text()
        admitted = (pod_set / "count").number(counts.get(name, 1))
        left = min(admitted, counts.get(name, admitted) - reclaimed.get(name, 0))
        usage = amounts_of(pod_set / "resourceUsage")
        for resource, flavor in (pod_set / "flavors").texts().items():
            used = usage.get(resource, 0)
            yield (flavor, resource), used * left // admitted if 0 <= left < admitted else used


def _counts(entries: Field, default: int) -> dict[str | None, int]:
    return {(entry / "name").text(): (entry / "count").number(default) for entry in entries.items()}


def _preemption(spec: Field, quotas: _QuotaNode, workloads: Iterable[Field]) -> str:
    """That Kueue may make room by preemption; empty where it does not."""
    policies = spec / "preemption"
    kinds = ("withinClusterQueue", "reclaimWithinCohort")
    able = [policy for policy in kinds if (policies / policy).text() not in (None, "Never")]
    if not able or (
        not any(workloads) and not any(node.used for node in (quotas, *quotas.root().children))
    ):
        return ""
    return "the ClusterQueue preempts: where room or quota lacks, Kueue may evict workloads of lower priority for it"


def held(
    cluster: ClusterFacts, bound: Mapping[tuple[str, str, str], Sequence[Mapping[str, str]]]
) -> Held:
    """What admitted Workloads still hold for pods without a node, `pods` included.

    A domain is a hostname where the topology ends with it, else the values of all levels. `bound`
    are the labels of the nodes that pods have got, by namespace, Workload and pod set of the pods.
    """
    result: dict[tuple[str, str], dict[tuple[str, ...], dict[str, int]]] = {}
    for workload in _all(cluster, WORKLOAD):
        key = namespace_of(workload), name_of(workload)
        requests = {
            str((pods / "name").value): _requests(pods)
            for pods in (workload / "spec" / "podSets").items()
        }
        on: dict[tuple[str, tuple[str, ...]], Counter[tuple[str | None, ...]]] = {}
        for domain in assigned_domains(workload.value):
            if (domain.pod_set, domain.levels) not in on:
                nodes = bound.get((*key, domain.pod_set), ())
                on[domain.pod_set, domain.levels] = Counter(
                    tuple(map(node.get, domain.levels)) for node in nodes
                )
            there = on[domain.pod_set, domain.levels][domain.values]
            taken = result.setdefault(key, {}).setdefault(domain.values, {})
            for resource, request in requests.get(domain.pod_set, {}).items():
                taken[resource] = taken.get(resource, 0) + request * max(0, domain.pods - there)
    return result


def _requests(pod_set: Field) -> dict[str, int]:
    """What a pod of an admitted Workload takes; `kept` has computed it."""
    return {"pods": 1, **(pod_set / "requests").value}
