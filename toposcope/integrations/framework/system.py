"""What every system's reader receives and returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.constraints import (
    PodGroupMembers,
    PodGroupName,
    Pods,
    Workload,
)
from toposcope.integrations.framework.document import Field, Finding
from toposcope.integrations.framework.levels import TopologyLevels, did_you_mean
from toposcope.integrations.framework.object_names import check_name
from toposcope.integrations.framework.surroundings import Surroundings

_LEVELS_FIRST: Final = "room is not checked until the levels are right"


@dataclass(frozen=True, slots=True)
class ExclusivePod:
    """A running pod that keeps other groups out of its domain."""

    namespace: str
    node_labels: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)


Held = Mapping[tuple[str, str], Mapping[tuple[str, ...], Mapping[str, int]]]
"""By namespace and name of a Workload, then by domain (the values of its topology assignment):
amounts by resource.
"""


@dataclass(frozen=True, slots=True)
class ReadTopologies:
    """The topology resources that one system reads."""

    by_name: Mapping[str, TopologyLevels]
    stand_in: str = ""
    """What replaces them if they are unknown, and why; empty if these are the system's own and
    complete.
    """
    is_served: bool = True
    """Whether the cluster serves the kind, as far as is known, so that there can be any."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Why a topology of this name is not among them, and what to do; the empty name is for all
    others.
    """


@dataclass(frozen=True, slots=True)
class SchedulerProfiles:
    """The schedulers in the configuration of an operator."""

    enabled: tuple[str, ...]
    default: str
    is_topology_aware: bool = True
    has_mnnvl: bool = False
    """Whether it puts pods into ComputeDomains."""
    named_topologies: tuple[str, ...] = ()
    """Schedulers whose topologies it does not create, so the binding must name them."""
    has_default_scheduler_gangs: bool = False
    """Whether it creates gangs for default-scheduler."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What is known about the cluster of a workload."""

    topologies: Mapping[str, TopologyLevels] = field(default_factory=dict)
    """Topologies by name.

    A system that reads topology resources gets only these (`seen_by`), whatever the
    ClusterTopologies are.
    """
    node_labels: frozenset[str] = frozenset()
    """Label keys of the nodes, whether or not a topology has them; empty if unknown."""
    exclusive_pods: Mapping[str, tuple[ExclusivePod, ...]] = field(default_factory=dict)
    """By the pod label that marks them."""
    pools: Mapping[str, TopologyLevels] = field(default_factory=dict)
    """OSMO's pools by name, with their own names for the levels."""
    schedulers: Mapping[str, str] = field(default_factory=dict)
    """The type of scheduler of each OSMO backend."""
    pod_groups: PodGroupMembers = field(default_factory=dict)
    """The pods of PodGroups that schedulers create."""
    gangs: Mapping[PodGroupName, tuple[Pods, ...]] = field(default_factory=dict)
    """The pods of Kubernetes' own gangs, by PodGroup."""
    unserved: frozenset[str] = frozenset()
    """Names of kinds that the cluster is known not to serve."""
    profiles: SchedulerProfiles | None = None
    """The configuration of the operator that names schedulers by profile; None if unknown."""
    domain_of: Mapping[str, str] = field(default_factory=lambda: BUILT_IN.domain_of)
    """The domain of each label key in the catalogue."""
    read: Mapping[str, ReadTopologies] = field(default_factory=dict)
    """By the kind that is read, as `spec.publish` names it."""
    reads: str = ""
    """The kind that `topologies` are of."""
    objects: Mapping[tuple[str, str], tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    """Other objects that affect placement, by API group and kind: all of a kind, or the kind is
    unknown."""
    incomplete: frozenset[tuple[str, str]] = frozenset()
    """Kinds of `objects` of which only those in the given documents are known."""
    held: Held = field(default_factory=dict)
    """Resources reserved for pods that were admitted and have no node yet."""
    is_room_checked: bool = True
    """False if no nodes are known, so there can be no verdict."""

    @property
    def levels_first(self) -> tuple[str, ...]:
        """The note on a workload whose levels are wrong, and whose room says nothing.

        Empty if room is not checked anyway.
        """
        return (_LEVELS_FIRST,) if self.is_room_checked else ()

    @property
    def surroundings(self) -> Surroundings:
        """The objects that affect pods."""
        return Surroundings(self.objects, self.incomplete)

    def seen_by(self, reads: str) -> "ClusterFacts":
        """The facts for a system that reads one kind of topology resource."""
        read_topologies = self.read.get(reads)
        if read_topologies is None:
            return self
        return replace(self, topologies=read_topologies.by_name, reads=reads)

    def with_topology(self, option: str, topology: TopologyLevels) -> "ClusterFacts":
        """The facts with one more topology resource, unless the cluster has one of that name."""
        read_topologies = self.read.get(option, ReadTopologies({}))
        if not read_topologies.is_served:
            return self
        if read_topologies.stand_in:
            by_name = {**read_topologies.by_name, topology.name: topology}
        else:
            by_name = {topology.name: topology, **read_topologies.by_name}
        more = replace(read_topologies, by_name=by_name)
        return replace(self, read={**self.read, option: more})

    @property
    def knows_topologies(self) -> bool:
        """Whether `topologies` are all that exist."""
        read_topologies = self.read.get(self.reads)
        return read_topologies is not None and not read_topologies.stand_in

    def missing(self, name: str) -> str:
        """The fix for a request for a topology of this name that does not exist."""
        read_topologies = self.read.get(self.reads, ReadTopologies({}))
        why = read_topologies.absent.get(name)
        if name and why:
            return why
        close = did_you_mean(name, self.topologies)
        if close:
            return close
        return read_topologies.absent.get("", "")

    def occupied(self, pod_label: str, key: str, namespace: str | None = None) -> tuple[str, ...]:
        """The values of the node label `key` where pods with `pod_label` run.

        `namespace` is that of these pods; None for any.
        """
        values = self.holders(pod_label, key, namespace)
        return tuple(sorted(values))

    def holders(
        self, pod_label: str, key: str, namespace: str | None = None
    ) -> dict[str, ExclusivePod]:
        """A pod with `pod_label` for each value of the node label `key` where such pods run.

        `namespace` is that of these pods; None for any.
        """
        holders: dict[str, ExclusivePod] = {}
        for pod in self.exclusive_pods.get(pod_label, ()):
            if namespace is not None and pod.namespace != namespace:
                continue
            value = pod.node_labels.get(key)
            if value is not None:
                holders.setdefault(value, pod)
        return holders

    def lacks_label(self, key: str | None) -> bool:
        """Whether it is known that no node carries the label."""
        if not self.node_labels or not key:
            return False
        return key not in self.node_labels

    @property
    def only_topology(self) -> TopologyLevels | None:
        """The only topology; None if there is not exactly one."""
        if len(self.topologies) != 1:
            return None
        (topology,) = self.topologies.values()
        return topology


@dataclass(frozen=True, slots=True)
class Reading:
    """What a document requests."""

    workload: Workload | None = None
    """None if it requests nothing that could be placed."""
    findings: tuple[Finding, ...] = ()
    alternatives: tuple[Workload, ...] = ()
    """If the system chooses the topology: the same workload on each other topology that has the
    levels.
    """
    stages: tuple[Workload, ...] = ()
    """If its parts are placed one after the other: the other parts, each of which must fit too.
    """
    subject: str = ""
    """The name of a document that has no kind and places nothing."""


def _never(_document: Mapping[str, Any]) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class System:
    """How one scheduler or operator reads one kind of document."""

    name: str
    claims: Callable[[Mapping[str, Any]], bool]
    """Whether this system would act on the document.

    It may be malformed in any way; never raises.
    """
    reader: Callable[[Field, ClusterFacts, Field | None], Reading]
    """Reads the document and records everything wrong with it in its fields. Never raises.

    The last argument is the object in the cluster, for rules about changes; None if it is new or
    unknown. If it is the same document, nothing changes and everything wrong with it counts.
    """
    reads: str = ""
    """The kind of topology resource that it reads, as `spec.publish` names it; empty for none.
    """
    places_plain_pods: Callable[[Mapping[str, Any]], bool] = field(default=_never, kw_only=True)
    """Whether it places the pods of a document that no system claims. Never raises."""
    instead_of: str = field(default="", kw_only=True)
    """The system that yields to this one if both claim a document."""

    @property
    def reads_plain_pods(self) -> bool:
        """Whether it reads documents that no system claims."""
        return self.places_plain_pods is not _never

    def read(
        self,
        document: Mapping[str, Any],
        cluster: ClusterFacts,
        before: Mapping[str, Any] | None = None,
    ) -> Reading:
        """What the document requests, and what is wrong with it, each finding once."""
        root = Field(document, surroundings=cluster.surroundings)
        existing = None
        if before is not None:
            existing = Field(before)
        facts = cluster.seen_by(self.reads)
        reading = self.reader(root, facts, existing)
        check_name(root)
        findings = dict.fromkeys(root.findings)
        return replace(reading, findings=tuple(findings))


def is_change(root: Field, before: Field | None) -> bool:
    """Whether the document changes an object: then a webhook accepts what stays the same."""
    return before is not None and before.value is not root.value
