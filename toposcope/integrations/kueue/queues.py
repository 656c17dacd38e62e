"""Finds what a workload may use from its queue.

LocalQueue, ClusterQueue, cohort, ResourceFlavors, and quota in use are read. Rules and messages:
Kueue 0.19 (pkg/cache/scheduler: clusterqueue.go, resource_node.go; workload_controller.go). Objects
of v1beta1 and v1beta2 agree in the fields that are read, except the name of the cohort.
`status.admission` lists the assigned domains: v1beta1 lists every domain (`domains`); v1beta2
compresses them (`slices`): one value for a whole slice of domains, or a root for each with a common
prefix and suffix.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.integrations.framework.document import Field, kind_of, name_of, namespace_of
from toposcope.integrations.framework.features import Object, condition
from toposcope.integrations.framework.levels import did_you_mean
from toposcope.integrations.framework.node_affinity import NodeFilter, Taint
from toposcope.integrations.framework.node_terms import node_filter_of
from toposcope.integrations.framework.pods import pods_of
from toposcope.integrations.framework.system import ClusterFacts, Held
from toposcope.integrations.kueue.api import (
    CLUSTER_QUEUE,
    CONFIGURATION,
    FLAVORS,
    LOCAL_QUEUE,
    QUEUE_NAME,
    WORKLOAD,
)
from toposcope.integrations.kueue.fifo import ahead
from toposcope.integrations.kueue.queue_state import (
    Inactive,
    checks_of,
    in_cycle,
    of_checks,
    reported,
    stopped,
)
from toposcope.integrations.kueue.quota import FlavorResource, QuotaNode, quota_of
from toposcope.kube.discovery import Kind


@dataclass(frozen=True, slots=True)
class AssignedDomain:
    """A domain with the pods that it got.

    `values` are those of the labels `levels`, broadest first.
    """

    pod_set: str
    levels: tuple[str, ...]
    values: tuple[str, ...]
    pods: int


def assigned_domains(workload: Object) -> Iterator[AssignedDomain]:
    """The domains of a Workload's admission, if it is admitted. Skips malformed entries."""
    status = Field(workload) / "status"
    assignments = status / "admission" / "podSetAssignments"
    for assigned in assignments.items():
        name = (assigned / "name").text() or "main"
        yield from _domains_of(name, assigned / "topologyAssignment")


def _domains_of(pod_set: str, assignment: Field) -> Iterator[AssignedDomain]:
    """The domains of one pod set, in either version of the API."""
    levels = _texts(assignment / "levels")
    for domain in (assignment / "domains").items():
        yield AssignedDomain(
            pod_set=pod_set,
            levels=levels,
            values=_texts(domain / "values"),
            pods=(domain / "count").number(1),
        )
    for piece in (assignment / "slices").items():
        yield from _of_slice(piece, pod_set, levels)


def _texts(entries: Field) -> tuple[str, ...]:
    return tuple([entry.text() or "" for entry in entries.items()])


def _of_slice(piece: Field, pod_set: str, levels: tuple[str, ...]) -> Iterator[AssignedDomain]:
    """The domains of a slice, each of which has one value of each level."""
    domains = (piece / "domainCount").number(0)
    columns = []
    for level in (piece / "valuesPerLevel").items():
        values_of_level = _values(level, domains)
        columns.append(list(values_of_level))

    pod_counts = piece / "podCounts"
    individual = [entry.number(1) for entry in (pod_counts / "individual").items()]
    universal = (pod_counts / "universal").number(1)

    for number, values in enumerate(zip(*columns, strict=False)):
        pods = universal
        if number < len(individual):
            pods = individual[number]
        yield AssignedDomain(pod_set, levels, values, pods)


def _values(level: Field, domains: int) -> Iterator[str]:
    """The values of one level, domain by domain."""
    universal = (level / "universal").text()
    if universal:
        # No more than the domains that the other levels name; a slice of one level has but this
        # one.
        for _ in range(min(domains, _MOST_DOMAINS)):
            yield universal
        return
    individual = level / "individual"
    prefix = (individual / "prefix").text() or ""
    suffix = (individual / "suffix").text() or ""
    for root in (individual / "roots").items():
        value = root.text() or ""
        yield f"{prefix}{value}{suffix}"


_MOST_DOMAINS: Final = 100_000
"""Kueue's own limit of domains in a slice."""


DEFAULT: Final = "default"
"""The LocalQueue of workloads without a queue name."""
_OF_CONFIGURATION: Final = ("apiVersion", "kind", "integrations", "resources", "waitForPodsReady")
"""Fields of the manager's Configuration that are read."""
_OF_PENDING: Final = frozenset({"QuotaReserved", "Requeued"})
"""The conditions that say whether a Workload waits in its queue, and why."""
_NO_PREEMPTION: Final = frozenset({None, "Never"})
_NAMESPACE: Final = "kubernetes.io/metadata.name"


def kept(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The relevant fields of one of these objects; None for the many finished Workloads."""
    root = Field(document)
    if kind_of(document) == CONFIGURATION:
        kept_fields = _some(root, *_OF_CONFIGURATION)
        return kept_fields | {"metadata": _some(root / "metadata", "name", "namespace")}
    if kind_of(document) != WORKLOAD.key:
        return document
    finished = condition(document, "Finished")
    if finished and finished.status == "True":
        return None
    metadata = _some(root / "metadata", "name", "namespace", "ownerReferences")
    spec = _some(root / "spec", "priority")
    if root / "status" / "admission":
        pod_sets = root / "spec" / "podSets"
        spec["podSets"] = [_kept_pod_set(pod_set) for pod_set in pod_sets.items()]
        status = _some(root / "status", "admission", "reclaimablePods")
    else:
        metadata |= _some(root / "metadata", "creationTimestamp", "uid")
        spec |= _some(root / "spec", "queueName", "active")
        status = {"conditions": _kept_conditions(root)}
    return {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _kept_conditions(root: Field) -> list[Any]:
    """The conditions of a Workload without reservation that say whether it waits."""
    conditions = []
    for written in (root / "status" / "conditions").items():
        if (written / "type").value in _OF_PENDING:
            conditions.append(written.value)
    return conditions


def _some(field: Field, *names: str) -> dict[str, Any]:
    """Some properties of an object."""
    return {name: (field / name).value for name in names}


def _kept_pod_set(pod_set: Field) -> dict[str, Any]:
    pods = pods_of("", 1, pod_set / "template" / "spec")
    kept_fields = _some(pod_set, "name", "count")
    kept_fields["requests"] = dict(pods.requests)
    return kept_fields


@dataclass(frozen=True, slots=True)
class Flavor:
    """A ResourceFlavor."""

    name: str
    nodes: NodeFilter
    """Its nodeLabels as a selector, and the tolerations that it adds to pods."""
    taints: tuple[Taint, ...]
    topology: str | None


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that come from the same flavor."""

    resources: tuple[str, ...]
    flavors: tuple[Flavor, ...]
    """In the order in which Kueue tries them."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue as it applies to one workload."""

    name: str
    groups: tuple[ResourceGroup, ...]
    nominal: Mapping[FlavorResource, int]
    """What is left of its own quota."""
    available: Mapping[FlavorResource, int]
    """What is left with what it may borrow."""
    capacity: Mapping[FlavorResource, int]
    """The most that it could get if nothing else were admitted."""
    prefers_own_quota: bool = False
    """`whenCanBorrow: TryNextFlavor`: it tries the next flavor before it borrows."""
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why it may not admit what it has quota for: other rules that are not checked."""
    blocked_by: str = ""
    """The waiting workload that must be admitted first; empty if none."""

    @property
    def flavors(self) -> tuple[Flavor, ...]:
        """All flavors, without repeats."""
        flavors: dict[Flavor, None] = {}
        for group in self.groups:
            flavors.update(dict.fromkeys(group.flavors))
        return tuple(flavors)

    @property
    def has_topologies(self) -> bool:
        """Whether a flavor has a topology."""
        return any(flavor.topology for flavor in self.flavors)

    @property
    def has_only_topologies(self) -> bool:
        """Whether every flavor has a topology.

        Then Kueue assigns nodes even to pods without an annotation.
        """
        return bool(self.flavors) and all(flavor.topology for flavor in self.flavors)


def are_known(cluster: ClusterFacts) -> bool:
    """Whether the queues of the cluster are known."""
    return all(kind.key in cluster.objects for kind in (LOCAL_QUEUE, CLUSTER_QUEUE, FLAVORS))


def queue_name(root: Field, cluster: ClusterFacts) -> str:
    """The LocalQueue that the workload names, else the one called `default`, if there is one."""
    name = _named(root).text()
    if name:
        return name
    if kind_of(root.value) == WORKLOAD.key:
        return ""
    for queue in _all(cluster, LOCAL_QUEUE):
        if name_of(queue) == DEFAULT and namespace_of(queue) == namespace_of(root):
            return DEFAULT
    return ""


def _named(root: Field) -> Field:
    """The queue that a workload names."""
    if kind_of(root.value) == WORKLOAD.key:
        return root / "spec" / "queueName"
    return root / "metadata" / "labels" / QUEUE_NAME


def queue_of(root: Field, cluster: ClusterFacts) -> Queue | None:
    """The ClusterQueue of the workload, if the queues are known. Notes what is wrong with it."""
    named = _named(root)
    name = queue_name(root, cluster)
    queue = _local_queue(named, name, namespace_of(root), cluster)
    if queue is None:
        return None
    cluster_queue = _named_by(queue, named, cluster)
    if cluster_queue is None:
        return None
    inactive = _why_inactive(queue, cluster_queue, cluster)
    if inactive is not None:
        named.error(inactive.rule, inactive.text, inactive.fix)
        return None
    read = _ClusterQueue(cluster_queue, cluster, root).queue()
    if read is None:
        return None
    reported_inactive = reported(cluster_queue, CLUSTER_QUEUE.kind)
    reported_inactive = reported_inactive or reported(queue, LOCAL_QUEUE.kind)
    if reported_inactive is not None:
        named.error(reported_inactive.rule, reported_inactive.text, reported_inactive.fix)
        return None
    return read


def _why_inactive(queue: Field, cluster_queue: Field, cluster: ClusterFacts) -> Inactive | None:
    """Why a LocalQueue or its ClusterQueue admits nothing, by their specs; None if unknown."""
    return (
        stopped(queue, LOCAL_QUEUE.kind)
        or stopped(cluster_queue, CLUSTER_QUEUE.kind)
        or in_cycle(cluster_queue, cluster)
        or of_checks(cluster_queue, cluster)
    )


def _local_queue(named: Field, name: str, namespace: str, cluster: ClusterFacts) -> Field | None:
    """The LocalQueue of this name; None if it does not exist, which is recorded."""
    queues = {}
    for queue in _all(cluster, LOCAL_QUEUE):
        if namespace_of(queue) == namespace:
            queues[name_of(queue)] = queue
    if name not in queues:
        where = f"kubectl get {LOCAL_QUEUE.name} -A; the namespace of the workload counts"
        fix = did_you_mean(name, queues) or where
        named.error("kueue/queue-exists", f"LocalQueue {name} doesn't exist", fix)
        return None
    return queues[name]


def _named_by(queue: Field, named: Field, cluster: ClusterFacts) -> Field | None:
    """The ClusterQueue of a LocalQueue; None if it does not exist, which is recorded."""
    name = (queue / "spec" / "clusterQueue").text() or ""
    cluster_queues = {}
    for cluster_queue in _all(cluster, CLUSTER_QUEUE):
        cluster_queues[name_of(cluster_queue)] = cluster_queue
    if name not in cluster_queues:
        meant = did_you_mean(name, cluster_queues)
        fix = f"LocalQueue {name_of(queue)} names it: {meant}"
        named.error("kueue/queue-exists", f"ClusterQueue {name} doesn't exist", fix)
        return None
    return cluster_queues[name]


def _all(cluster: ClusterFacts, kind: Kind) -> list[Field]:
    return [Field(document) for document in cluster.objects.get(kind.key, ())]


def own_workloads(root: Field, cluster: ClusterFacts) -> frozenset[tuple[str, str]]:
    """Namespace and name of the Workloads of this document."""
    own = _own(root)
    names = []
    for workload in _all(cluster, WORKLOAD):
        if own(workload):
            names.append((namespace_of(workload), name_of(workload)))
    return frozenset(names)


def _own(root: Field) -> Callable[[Field], bool]:
    """Whether a Workload belongs to this document: already admitted, it would be admitted again."""
    kind = kind_of(root.value)[1]
    name = name_of(root)
    namespace = namespace_of(root)

    def own(workload: Field) -> bool:
        if namespace_of(workload) != namespace:
            return False
        owners = workload / "metadata" / "ownerReferences"
        for owner in owners.items():
            if (owner / "kind").value == kind and (owner / "name").value == name:
                return True
        return kind == WORKLOAD.kind and name_of(workload) == name

    return own


@dataclass(frozen=True, slots=True)
class _Workloads:
    """The Workloads of a document, and all others."""

    own: list[Field]
    others: list[Field]


def _workloads(root: Field, cluster: ClusterFacts) -> _Workloads:
    is_own = _own(root)
    workloads = _Workloads([], [])
    for workload in _all(cluster, WORKLOAD):
        if is_own(workload):
            workloads.own.append(workload)
        else:
            workloads.others.append(workload)
    return workloads


@dataclass(frozen=True, slots=True)
class _Offer:
    """A resource group as written: resources, and names of flavors."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class _ClusterQueue:
    """A ClusterQueue, read for one workload. Records errors at the workload's queue name."""

    def __init__(self, queue: Field, cluster: ClusterFacts, root: Field) -> None:
        self._queue = queue
        self._spec = queue / "spec"
        self._name = name_of(queue)
        self._cluster = cluster
        self._root = root
        self._named = _named(root)
        self._namespace = namespace_of(root)
        self._workloads = _workloads(root, cluster)
        self._flavors: dict[str, Flavor] = {}
        for written in _all(cluster, FLAVORS):
            flavor = _flavor(written)
            self._flavors[flavor.name] = flavor
        groups = self._spec / "resourceGroups"
        self._offers = [_offer(group) for group in groups.items()]

    def queue(self) -> Queue | None:
        """The queue as it applies to the workload; None if it cannot admit it."""
        if not (self._has_flavors() and self._has_topologies()):
            return None
        selection = _selects(self._spec / "namespaceSelector", self._namespace)
        if not selection.matches:
            text = (
                f"the namespace {self._namespace} doesn't match the namespaceSelector "
                f"of ClusterQueue {self._name}"
            )
            self._named.error("kueue/namespace", text, "{} selects every namespace")
            return None

        # Workloads that are not known are not the same as none.
        workloads = self._workloads.others if WORKLOAD.key in self._cluster.objects else None
        quotas = quota_of(self._name, self._cluster, workloads)
        nominal: dict[FlavorResource, int] = {}
        available: dict[FlavorResource, int] = {}
        capacity: dict[FlavorResource, int] = {}
        for pair in self._pairs():
            nominal[pair] = quotas.quota(pair).nominal - quotas.usage(pair)
            available[pair] = max(quotas.available(pair), 0)
            capacity[pair] = quotas.potential(pair)

        fungibility = self._spec / "flavorFungibility"
        when_borrowing = (fungibility / "whenCanBorrow").text()
        first = ahead(
            self._queue,
            self._root,
            self._workloads.own,
            self._workloads.others,
            self._cluster,
        )
        doubts = [*selection.doubts, *self._doubts()]
        if first is not None and not first.is_certain:
            doubts.append(first.text)
        return Queue(
            name=self._name,
            groups=self._groups(),
            nominal=nominal,
            available=available,
            capacity=capacity,
            prefers_own_quota=when_borrowing == "TryNextFlavor",
            notes=tuple(self._notes(quotas)),
            doubts=tuple(doubts),
            blocked_by=first.text if first is not None and first.is_certain else "",
        )

    def _groups(self) -> tuple[ResourceGroup, ...]:
        groups = []
        for offer in self._offers:
            flavors = [self._flavors[name] for name in offer.flavors]
            groups.append(ResourceGroup(offer.resources, tuple(flavors)))
        return tuple(groups)

    def _pairs(self) -> Iterator[FlavorResource]:
        for offer in self._offers:
            for flavor in offer.flavors:
                for resource in offer.resources:
                    yield flavor, resource

    def _has_flavors(self) -> bool:
        """Note flavors that do not exist."""
        missing = []
        for offer in self._offers:
            for name in offer.flavors:
                if name not in self._flavors:
                    missing.append(name)
        if missing:
            text = (
                f"ClusterQueue {self._name} is inactive: "
                f"references missing ResourceFlavor(s): {','.join(missing)}"
            )
            fix = did_you_mean(missing[0], self._flavors)
            self._named.error("kueue/flavor-exists", text, fix)
        return not missing

    def _has_topologies(self) -> bool:
        """Note the first flavor whose topology does not exist."""
        if not self._cluster.knows_topologies:
            return True
        for offer in self._offers:
            for name in offer.flavors:
                topology = self._flavors[name].topology
                if topology and topology not in self._cluster.topologies:
                    self._note_no_topology(topology, name)
                    return False
        return True

    def _note_no_topology(self, topology: str, flavor: str) -> None:
        text = (
            f"ClusterQueue {self._name} is inactive: "
            f'there is no Topology "{topology}" for TAS flavor "{flavor}"'
        )
        self._named.error("kueue/topology-exists", text, self._cluster.missing(topology))

    def _doubts(self) -> Iterator[str]:
        checks = ", ".join(checks_of(self._queue))
        if checks:
            yield (
                f"ClusterQueue {self._name} has admission checks ({checks}), "
                "which decide after the quota and are not checked"
            )
        if self._spec / "concurrentAdmissionPolicy":
            yield (
                f"ClusterQueue {self._name} has spec.concurrentAdmissionPolicy: it tries a "
                "workload in several flavors at once, which is not checked"
            )

    def _notes(self, quotas: QuotaNode) -> Iterator[str]:
        if self._may_preempt(quotas):
            yield (
                "the ClusterQueue preempts: if room or quota is short, Kueue may evict workloads "
                "of lower priority for it"
            )

    def _may_preempt(self, quotas: QuotaNode) -> bool:
        """Whether Kueue may preempt, and something can be evicted."""
        policies = self._spec / "preemption"
        in_queue = (policies / "withinClusterQueue").text()
        in_cohort = (policies / "reclaimWithinCohort").text()
        if in_queue in _NO_PREEMPTION and in_cohort in _NO_PREEMPTION:
            return False
        if any(workload / "status" / "admission" for workload in self._workloads.others):
            return True
        return any(node.used for node in (quotas, *quotas.root().children))


def _offer(group: Field) -> _Offer:
    resources = []
    for covered in (group / "coveredResources").items():
        resource = covered.text()
        if resource:
            resources.append(resource)
    flavors = []
    for flavor in (group / "flavors").items():
        name = (flavor / "name").text()
        if name:
            flavors.append(name)
    return _Offer(tuple(resources), tuple(flavors))


def _flavor(root: Field) -> Flavor:
    spec = root / "spec"
    pods = {
        "nodeSelector": (spec / "nodeLabels").value,
        "tolerations": (spec / "tolerations").value,
    }
    taints = []
    for written in (spec / "nodeTaints").items():
        effect = (written / "effect").text() or ""
        if effect not in ("NoSchedule", "NoExecute"):
            continue
        key = (written / "key").text() or ""
        value = (written / "value").text() or ""
        taints.append(Taint(key, value, effect))
    return Flavor(
        name=name_of(root),
        nodes=node_filter_of(Field(pods)),
        taints=tuple(taints),
        topology=(spec / "topologyName").text(),
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """Whether a selector matches a namespace, with the unknown requirements."""

    matches: bool
    doubts: tuple[str, ...] = ()


def _selects(selector: Field, namespace: str) -> _Selection:
    """Whether a selector matches the namespace, of whose labels only the name is known."""
    if not selector:
        return _Selection(matches=False)
    labels = (selector / "matchLabels").texts()
    if labels.pop(_NAMESPACE, namespace) != namespace:
        return _Selection(matches=False)

    unread = sorted(labels)
    for expression in (selector / "matchExpressions").items():
        key = (expression / "key").text() or ""
        if key != _NAMESPACE:
            unread.append(key)
        elif not _allows(expression, namespace):
            return _Selection(matches=False)
    if unread:
        doubt = (
            f"it is unknown whether namespace {namespace} has the labels of the ClusterQueue's "
            f"namespaceSelector ({', '.join(unread)})"
        )
        return _Selection(matches=True, doubts=(doubt,))
    return _Selection(matches=True)


def _allows(expression: Field, value: str) -> bool:
    """Whether a requirement of a label selector matches an existing label."""
    values = _texts(expression / "values")
    operator = (expression / "operator").text()
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return operator == "Exists"


BoundNodes = Mapping[tuple[str, str, str], Sequence[Mapping[str, str]]]
"""Labels of the nodes of pods, by the pods' namespace, Workload and pod set."""
_Holding = dict[tuple[str, ...], dict[str, int]]
"""The reserved amounts by domain and resource."""


def held(cluster: ClusterFacts, bound: BoundNodes) -> Held:
    """What admitted Workloads still reserve for pods without a node, `pods` included.

    A domain is a hostname if the topology ends with it, else the values of all levels.
    """
    holdings: dict[tuple[str, str], _Holding] = {}
    for workload in _all(cluster, WORKLOAD):
        key = namespace_of(workload), name_of(workload)
        holding = _held_by(workload, key, bound)
        if holding:
            holdings[key] = holding
    return holdings


def _held_by(workload: Field, key: tuple[str, str], bound: BoundNodes) -> _Holding:
    """What one of them reserves."""
    requests = _requests_by_pod_set(workload)
    running: dict[tuple[str, tuple[str, ...]], _PodsByDomain] = {}
    holding: _Holding = {}
    for domain in assigned_domains(workload.value):
        pod_set = domain.pod_set
        column = pod_set, domain.levels
        if column not in running:
            nodes = bound.get((*key, pod_set), ())
            running[column] = _pods_by_domain(nodes, domain.levels)

        pods = running[column]
        waiting = domain.pods - pods[domain.values]
        waiting = max(waiting, 0)

        held_here = holding.setdefault(domain.values, {})
        requested = requests.get(pod_set, {})
        for resource, amount in requested.items():
            held_here[resource] = held_here.get(resource, 0) + amount * waiting
    return holding


_PodsByDomain = Counter[tuple[str | None, ...]]


def _pods_by_domain(nodes: Sequence[Mapping[str, str]], levels: Sequence[str]) -> _PodsByDomain:
    """How many of these nodes of pods are in each domain."""
    pods: _PodsByDomain = Counter()
    for labels in nodes:
        path = tuple([labels.get(level) for level in levels])
        pods[path] += 1
    return pods


def _requests_by_pod_set(workload: Field) -> dict[str, dict[str, int]]:
    """The requests of a pod of each pod set of an admitted Workload, as computed by `kept`."""
    requests = {}
    for pod_set in (workload / "spec" / "podSets").items():
        name = (pod_set / "name").value
        requested = (pod_set / "requests").value
        requests[str(name)] = {"pods": 1, **requested}
    return requests
