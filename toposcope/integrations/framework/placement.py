"""What a system knows about placement: the base of `PLACEMENT` in its `placement.py`.

A system overrides the parts that it has. Everything here is pure: the cluster comes as a
`ClusterView`, which a snapshot is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.constraints import (
    Admission,
    Decision,
    GpuShare,
    Group,
    OfferedNode,
    Pods,
    Workload,
)
from toposcope.integrations.framework.document import Field, Finding
from toposcope.integrations.framework.features import ReadResource
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.node_terms import node_filter_of
from toposcope.integrations.framework.pod_rules import (
    HostPort,
    PodLabels,
    PodTerm,
    rules_of_pod,
)
from toposcope.integrations.framework.system import ClusterFacts, Held, SchedulerProfiles
from toposcope.integrations.framework.verdict import Verdict


class ViewedNode(Protocol):
    """A node."""

    @property
    def labels(self) -> Mapping[str, str]:
        """All of its labels."""

    def label(self, key: str) -> str | None:
        """The value of one label."""


class ViewedPod(Protocol):
    """A pod that has not finished."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def node(self) -> str:
        """Its node; empty while it is pending."""

    @property
    def requests(self) -> Mapping[str, int]:
        """What it requests, by resource."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that name its groups."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that request a placement."""

    @property
    def wants(self) -> Mapping[str, Any]:
        """The fields of its spec that choose nodes."""

    @property
    def pod_labels(self) -> PodLabels:
        """What the selectors of other pods match."""

    @property
    def repels(self) -> tuple[PodTerm, ...]:
        """Its required pod anti-affinity."""

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """The ports of its node that it uses."""


class ViewedResource(ReadResource, Protocol):
    """A published topology resource with its levels."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def levels(self) -> Sequence[Level]:
        """Broadest first; `domain` is empty if the resource lists only label keys."""


class ClusterView(Protocol):
    """A cluster at one moment."""

    @property
    def pods(self) -> Sequence[ViewedPod] | None:
        """Pods that have not finished; None if unknown."""

    @property
    def by_name(self) -> Mapping[str, ViewedNode]:
        """The nodes by name."""

    @property
    def published(self) -> Sequence[ViewedResource]:
        """Topology resources."""

    @property
    def served(self) -> Mapping[str, bool]:
        """Whether the cluster serves a kind, by its name, as far as known."""


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """The hierarchy that is known without any system's topology resources."""

    own: Mapping[str, TopologyLevels]
    """The ClusterTopologies, by name."""
    suggested: Mapping[str, TopologyLevels]
    """The same, or, if there are none, the hierarchy that node labels suggest."""
    domain_of: Mapping[str, str]
    """By label key."""
    table: Callable[[str], Table]
    """The nodes of a suggested topology."""
    unpublished: Callable[[str], Sequence[Level]]
    """The first levels of a suggested topology that only repeat the host."""
    view: ClusterView

    def named(self, resource: ViewedResource) -> TopologyLevels:
        """The levels of a resource that lists only keys.

        The domain of each is that of the ClusterTopology of the same name, or the catalogue's, else
        the key.
        """
        domain_of = dict(self.domain_of)
        own = self.own.get(resource.name)
        if own is not None:
            for level in own.levels:
                domain_of[level.key] = level.domain

        levels = []
        for level in resource.levels:
            key = level.key
            domain = level.domain or domain_of.get(key, key)
            levels.append(Level(domain, key))
        return TopologyLevels(resource.name, tuple(levels), resource.kind)


class PodsBeside(Protocol):
    """The rules between a workload's pods, and running pods, while it is placed."""

    def allows(self, pods: Pods, node: int) -> bool:
        """Whether one more of these pods may go to the node at a position."""

    def put(self, pods: Pods, node: int, count: int) -> None:
        """Record pods on a node; a negative count removes them again."""


@dataclass(frozen=True)
class PlacementQuestion:
    """The question whether a workload fits, with what its scheduler's procedure needs to know."""

    workload: Workload
    levels: Sequence[Level]
    nodes: Sequence[OfferedNode]
    """All of the cluster.

    Schedulers do not know a ClusterTopology's selector, and treat a placeholder like any other
    value.
    """
    cluster: ClusterFacts
    own: Mapping[str, int]
    """What pods of this workload already hold."""
    decisions: MutableMapping[Admission, Decision]
    """The decisions made so far. They are expensive, and parts of a workload may share one."""

    def beside(self, groups: Sequence[Group], *, emptied: bool) -> PodsBeside | None:
        """The rules between the pods of these groups; None if they have none.

        With `emptied`, as if nothing else were running.
        """
        del groups, emptied
        return None

    @property
    def decision(self) -> Decision | None:
        """The decision of the workload's admission on these nodes; None if it has no admission."""
        admission = self.workload.admission
        if admission is None:
            return None
        if admission not in self.decisions:
            self.decisions[admission] = admission.decide(self.nodes)
        return self.decisions[admission]


@dataclass(frozen=True, slots=True)
class OfferedShares:
    """How many pods with a fraction of a GPU fit on a node."""

    now: int
    """With what runs there."""
    empty: int
    """If nothing ran there."""


class Placement:
    """What one system knows about placement."""

    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The relevant fields of an object of `decisive`; None if it has no effect."""
        return document

    def profiles(self, configuration: Mapping[str, Any]) -> SchedulerProfiles | None:
        """The schedulers in the configuration of its operator, which may be malformed."""
        del configuration
        return None

    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """The facts of the cluster, with what these pods say about their gangs."""
        del pods
        return cluster

    def held(self, cluster: ClusterFacts, view: ClusterView) -> Held:
        """The resources that it reserves for pods without a node."""
        del cluster, view
        return {}

    def topologies(
        self, resources: Sequence[ViewedResource], known: KnownLevels
    ) -> dict[str, TopologyLevels]:
        """The topologies of its resources, by name; the first of two with the same name."""
        return {resource.name: known.named(resource) for resource in reversed(resources)}

    def stand_ins(self, known: KnownLevels) -> Mapping[str, TopologyLevels]:
        """The topologies that would be published, used if its resources are unknown."""
        return known.suggested

    def shares(
        self, node: OfferedNode, share: GpuShare, pods: Sequence[ViewedPod]
    ) -> OfferedShares | None:
        """How many pods with this fraction of a GPU fit on the node beside `pods`; None if unknown.

        Called only for workloads with such pods.
        """
        del node, share, pods
        return None

    def asks_nodes(self, workload: Workload) -> bool:
        """Whether its scheduler uses the state of a node instead of the taints for it.

        Then no toleration allows a node that is not Ready, cordoned or under pressure.
        """
        del workload
        return False

    def ignores_spread(self, workload: Workload) -> bool:
        """Whether its scheduler ignores `topologySpreadConstraints`."""
        del workload
        return False

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """Problems that need the cluster to be found; the reader checks the fields.

        `cluster` is as the workload's reader sees it.
        """
        del workload, cluster, view
        yield from ()

    def decide(self, verdict: Verdict, question: PlacementQuestion) -> Verdict:
        """The verdict after its own procedure, given the verdict of a search."""
        del question
        return verdict


def kind_of_pod(pod: ViewedPod) -> Pods:
    """The requests of a pod and the nodes that it may use."""
    requests = []
    for resource, amount in sorted(pod.requests.items()):
        if amount:
            requests.append((resource, amount))
    wants = Field(pod.wants)
    rules = rules_of_pod(wants, pod.pod_labels, pod.ports, pod.repels)
    return Pods("pods", 1, tuple(requests), node_filter_of(wants), rules=rules)
