"""What a system knows about places: the base of `PLACEMENT` in its `placement.py`.

A system overrides what it has; the rest says nothing. Everything here is pure: what is known of the
cluster comes as `ClusterView`, which a snapshot is.
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
        """The node it is on; empty while it is pending."""

    @property
    def requests(self) -> Mapping[str, int]:
        """What it requests, by resource."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that say what it belongs to."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that ask for a placement."""

    @property
    def wants(self) -> Mapping[str, Any]:
        """The fields of its spec that choose nodes."""

    @property
    def pod_labels(self) -> PodLabels:
        """What the selectors of other pods go by."""

    @property
    def repels(self) -> tuple[PodTerm, ...]:
        """Its required pod anti-affinity."""

    @property
    def ports(self) -> tuple[HostPort, ...]:
        """The ports of its node that it takes."""


class ViewedResource(ReadResource, Protocol):
    """A published topology resource with its levels."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def levels(self) -> Sequence[Level]:
        """Broadest first; `domain` is empty where the resource names label keys only."""


class ClusterView(Protocol):
    """A cluster at one moment."""

    @property
    def pods(self) -> Sequence[ViewedPod] | None:
        """Pods that have not finished; None: not known."""

    @property
    def by_name(self) -> Mapping[str, ViewedNode]:
        """The nodes by name."""

    @property
    def published(self) -> Sequence[ViewedResource]:
        """Topology resources."""

    @property
    def served(self) -> Mapping[str, bool]:
        """Whether the cluster serves a kind, by its name, where that is known."""


@dataclass(frozen=True, slots=True)
class KnownLevels:
    """The hierarchy as it is known without the topology resources of any system."""

    own: Mapping[str, TopologyLevels]
    """The ClusterTopologies, by name."""
    suggested: Mapping[str, TopologyLevels]
    """The same, or without any the hierarchy that the labels of nodes suggest."""
    domain_of: Mapping[str, str]
    """By label key."""
    table: Callable[[str], Table]
    """The nodes of one of those that are suggested."""
    unpublished: Callable[[str], Sequence[Level]]
    """The first levels of one of these that only repeat the host."""
    view: ClusterView

    def named(self, resource: ViewedResource) -> TopologyLevels:
        """The levels of a resource that names keys only.

        A domain is that of the ClusterTopology of the same name, or the catalogue's, else the key.
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
    """The rules between the pods of a workload, and pods that run, while it is placed."""

    def allows(self, pods: Pods, node: int) -> bool:
        """Whether one more of these pods may go to a node, by its position."""

    def put(self, pods: Pods, node: int, count: int) -> None:
        """Note pods on a node; a negative count takes them away again."""


@dataclass(frozen=True)
class PlacementQuestion:
    """Whether a workload fits, and what its scheduler's own procedure needs to know."""

    workload: Workload
    levels: Sequence[Level]
    nodes: Sequence[OfferedNode]
    """All of the cluster.

    Schedulers know nothing of a ClusterTopology's selector, and a placeholder is a value like any
    other to them.
    """
    cluster: ClusterFacts
    own: Mapping[str, int]
    """What pods of this very workload hold already."""
    decisions: MutableMapping[Admission, Decision]
    """The decisions made so far: they take long, and parts of a workload may share one."""

    def beside(self, groups: Sequence[Group], *, emptied: bool) -> PodsBeside | None:
        """The rules between the pods of these groups; None: they have none.

        `emptied`: as if nothing else were running.
        """
        del groups, emptied
        return None

    @property
    def decision(self) -> Decision | None:
        """What the workload's admission decides about the nodes; None: it has none."""
        admission = self.workload.admission
        if admission is None:
            return None
        if admission not in self.decisions:
            self.decisions[admission] = admission.decide(self.nodes)
        return self.decisions[admission]


@dataclass(frozen=True, slots=True)
class OfferedShares:
    """How many pods with a part of a GPU a node takes."""

    now: int
    """Beside what runs there."""
    empty: int
    """If nothing ran there."""


class Placement:
    """What one system knows about places."""

    def kept(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What counts of an object of `decisive`; None: it decides nothing."""
        return document

    def profiles(self, configuration: Mapping[str, Any]) -> SchedulerProfiles | None:
        """What the configuration of its operator, which may be malformed, says of schedulers."""
        del configuration
        return None

    def with_pods(self, cluster: ClusterFacts, pods: Iterable[ViewedPod]) -> ClusterFacts:
        """What is known of the cluster, with what these pods say of their gangs."""
        del pods
        return cluster

    def held(self, cluster: ClusterFacts, view: ClusterView) -> Held:
        """What it holds for pods that have no node yet."""
        del cluster, view
        return {}

    def topologies(
        self, resources: Sequence[ViewedResource], known: KnownLevels
    ) -> dict[str, TopologyLevels]:
        """The topologies that its resources are, by name; of two of one name the first counts."""
        return {resource.name: known.named(resource) for resource in reversed(resources)}

    def stand_ins(self, known: KnownLevels) -> Mapping[str, TopologyLevels]:
        """What would be published, where its resources are not known."""
        return known.suggested

    def shares(
        self, node: OfferedNode, share: GpuShare, pods: Sequence[ViewedPod]
    ) -> OfferedShares | None:
        """How many pods with this part of a GPU the node takes, which has `pods`; None: not known.

        It is asked only about workloads with such pods.
        """
        del node, share, pods
        return None

    def asks_nodes(self, workload: Workload) -> bool:
        """Whether its scheduler goes by the state of a node and not by the taints for that.

        No toleration opens a node to it that is not Ready, cordoned or under pressure.
        """
        del workload
        return False

    def ignores_spread(self, workload: Workload) -> bool:
        """Whether its scheduler does not go by `topologySpreadConstraints`."""
        del workload
        return False

    def findings(
        self, workload: Workload, cluster: ClusterFacts, view: ClusterView
    ) -> Iterator[Finding]:
        """What only the cluster shows to be wrong; rules about fields are the reader's.

        `cluster` is as the workload's reader sees it.
        """
        del workload, cluster, view
        yield from ()

    def decide(self, verdict: Verdict, question: PlacementQuestion) -> Verdict:
        """What its own procedure makes of the verdict that a search for a place led to."""
        del question
        return verdict


def kind_of_pod(pod: ViewedPod) -> Pods:
    """What a pod requests and which nodes it may use."""
    requests = []
    for resource, amount in sorted(pod.requests.items()):
        if amount:
            requests.append((resource, amount))
    wants = Field(pod.wants)
    rules = rules_of_pod(wants, pod.pod_labels, pod.ports, pod.repels)
    return Pods("pods", 1, tuple(requests), node_filter_of(wants), rules=rules)
