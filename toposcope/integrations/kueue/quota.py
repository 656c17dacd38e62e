"""The quota of ClusterQueues within their cohorts: nominal, lent, borrowed and used.

Rules: Kueue 0.19 (pkg/cache/scheduler/resource_node.go). Objects of v1beta1 and v1beta2 agree in
the fields that are read, except the name of the cohort.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.framework.containers import amounts_of
from toposcope.integrations.framework.document import Field, name_of
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.kueue.api import CLUSTER_QUEUE, COHORT
from toposcope.kube.pod_resources import amount

FlavorResource = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a ClusterQueue or cohort for one resource of a flavor; None means no limit."""

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


_NONE: Final = Quota()


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue or a cohort, with its own, lent and borrowed quota."""

    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    parent: "QuotaNode | None" = None
    children: "list[QuotaNode]" = field(default_factory=list)
    used: dict[FlavorResource, int] = field(default_factory=dict)
    """Used by workloads of a ClusterQueue."""

    def quota(self, resource: FlavorResource) -> Quota:
        """Its own quota."""
        return self.quotas.get(resource, _NONE)

    def subtree(self, resource: FlavorResource) -> int:
        """Its own quota, with what those below lend."""
        total = self.quota(resource).nominal
        for child in self.children:
            lent = child.subtree(resource) - child.local(resource)
            total += lent
        return total

    def local(self, resource: FlavorResource) -> int:
        """What it never lends."""
        lending_limit = self.quota(resource).lending_limit
        if lending_limit is None:
            return 0
        kept = self.subtree(resource) - lending_limit
        return max(0, kept)

    def usage(self, resource: FlavorResource) -> int:
        """What is used here, with what those below have borrowed."""
        total = self.used.get(resource, 0)
        for child in self.children:
            borrowed = child.usage(resource) - child.local(resource)
            total += max(0, borrowed)
        return total

    def available(self, resource: FlavorResource) -> int:
        """What is left here and above; negative if more was admitted than exists now."""
        usage = self.usage(resource)
        if self.parent is None:
            return self.subtree(resource) - usage

        above = self.parent.available(resource)
        local = self.local(resource)
        borrowing_limit = self.quota(resource).borrowing_limit
        if borrowing_limit is not None:
            lent = self.subtree(resource) - local
            borrowed = max(0, usage - local)
            may_borrow = lent - borrowed + borrowing_limit
            above = min(may_borrow, above)
        own = max(0, local - usage)
        return own + above

    def potential(self, resource: FlavorResource) -> int:
        """The most that could be available."""
        if self.parent is None:
            return self.subtree(resource)
        local = self.local(resource)
        above = self.parent.potential(resource)
        most = local + above
        borrowing_limit = self.quota(resource).borrowing_limit
        if borrowing_limit is None:
            return most
        may_borrow = self.subtree(resource) + borrowing_limit
        return min(may_borrow, most)

    def root(self) -> "QuotaNode":
        """The topmost cohort, or itself."""
        if self.parent is None:
            return self
        return self.parent.root()

    def adopt(self, child: "QuotaNode") -> None:
        """Add a ClusterQueue or a cohort below it."""
        child.parent = self
        self.children.append(child)


def quota_of(name: str, cluster: ClusterFacts, workloads: Sequence[Field] | None) -> QuotaNode:
    """The quota of a ClusterQueue within its cohorts, less what Workloads use.

    If `workloads` is None, uses what ClusterQueues report.
    """
    written_cohorts = _all(cluster, COHORT.key)
    cohorts = _quota_nodes(written_cohorts)
    written_queues = _all(cluster, CLUSTER_QUEUE.key)
    queues = _quota_nodes(written_queues)
    for written in written_queues:
        queue = queues[name_of(written)]
        cohort_name = cohort_of(written)
        if cohort_name:
            cohort = cohorts.setdefault(cohort_name, QuotaNode())
            cohort.adopt(queue)
        if workloads is None:
            queue.used = _reported(written / "status" / "flavorsReservation")

    _nest(cohorts, parents_of(cluster))
    for workload in workloads or ():
        _use(queues, workload)
    return queues[name]


def _quota_nodes(documents: Iterable[Field]) -> dict[str, QuotaNode]:
    """ClusterQueues or cohorts with their own quota, by name."""
    nodes = {}
    for document in documents:
        quotas = _written(document / "spec")
        nodes[name_of(document)] = QuotaNode(quotas)
    return nodes


def cohort_of(queue: Field) -> str | None:
    """The cohort of a ClusterQueue, in either version of the API."""
    spec = queue / "spec"
    newer = (spec / "cohortName").text()
    older = (spec / "cohort").text()
    return newer or older


def parents_of(cluster: ClusterFacts) -> dict[str, str]:
    """The parent of each cohort that has one."""
    parents = {}
    for cohort in _all(cluster, COHORT.key):
        parent = (cohort / "spec" / "parentName").text()
        parents[name_of(cohort)] = parent or ""
    return parents


def _nest(cohorts: dict[str, QuotaNode], parents: Mapping[str, str]) -> None:
    """Nest cohorts below those that they name. An undefined cohort has no quota."""
    for name, parent_name in parents.items():
        if not parent_name:
            continue
        child = cohorts[name]
        parent = cohorts.setdefault(parent_name, QuotaNode())
        if child is not parent.root():  # Kueue admits nothing in a cycle
            parent.adopt(child)


def _all(cluster: ClusterFacts, kind: tuple[str, str]) -> list[Field]:
    documents = cluster.objects.get(kind, ())
    return [Field(document) for document in documents]


def _written(spec: Field) -> dict[FlavorResource, Quota]:
    """The quotas of a ClusterQueue or cohort."""
    quotas = {}
    for group in (spec / "resourceGroups").items():
        for flavor in (group / "flavors").items():
            flavor_name = (flavor / "name").text() or ""
            for entry in (flavor / "resources").items():
                resource = (entry / "name").text() or ""
                quotas[flavor_name, resource] = Quota(
                    nominal=_amount(resource, entry / "nominalQuota") or 0,
                    borrowing_limit=_amount(resource, entry / "borrowingLimit"),
                    lending_limit=_amount(resource, entry / "lendingLimit"),
                )
    return quotas


def _amount(resource: str, quantity: Field) -> int | None:
    if not isinstance(quantity.value, str | int | float):
        return None
    try:
        return amount(resource, quantity.value)
    except ValueError:
        return None


def _reported(reservations: Field) -> dict[FlavorResource, int]:
    """The reservations that a ClusterQueue reports."""
    reserved = {}
    for flavor in reservations.items():
        flavor_name = (flavor / "name").text() or ""
        for entry in (flavor / "resources").items():
            resource = (entry / "name").text()
            if resource:
                total = _amount(resource, entry / "total")
                reserved[flavor_name, resource] = total or 0
    return reserved


def _use(queues: dict[str, QuotaNode], workload: Field) -> None:
    """Count what an admitted Workload holds."""
    admission = workload / "status" / "admission"
    name = (admission / "clusterQueue").text() or ""
    queue = queues.get(name)
    if queue is None:
        return
    total = queue.used
    for resource, used in _used(workload):
        total[resource] = total.get(resource, 0) + used


def _used(workload: Field) -> Iterator[tuple[FlavorResource, int]]:
    """The quota that an admitted Workload holds, without pods that no longer need it."""
    status = workload / "status"
    counts = _counts(workload / "spec" / "podSets", default=1)
    reclaimed = _counts(status / "reclaimablePods", default=0)
    assignments = status / "admission" / "podSetAssignments"
    for assigned in assignments.items():
        name = (assigned / "name").text()
        count = counts.get(name)
        if count is None:
            admitted = (assigned / "count").number(1)
            count = admitted
        else:
            admitted = (assigned / "count").number(count)
        needed = count - reclaimed.get(name, 0)

        usage = amounts_of(assigned / "resourceUsage")
        flavors = (assigned / "flavors").texts()
        for resource, flavor in flavors.items():
            used = usage.get(resource, 0)
            if 0 <= needed < admitted:
                used = used * needed // admitted
            yield (flavor, resource), used


def _counts(entries: Field, *, default: int) -> dict[str | None, int]:
    """The number of pods in each pod set."""
    counts = {}
    for entry in entries.items():
        name = (entry / "name").text()
        counts[name] = (entry / "count").number(default)
    return counts
