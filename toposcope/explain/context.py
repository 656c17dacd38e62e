"""One workload with everything around it, what it asks for, and what its scheduler reads.

Nothing is read or checked before a question asks for it; what has been read is kept.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from typing import Final, NamedTuple

import msgspec

from toposcope.api.levels import Level
from toposcope.explain.object_store import TOPOLOGY_KINDS, ObjectStore, owner_of, ref_of
from toposcope.explain.ownership import Ownership, ownership_of
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Finding, kind_of
from toposcope.integrations.framework.features import Object, Ref, conditions
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.published import PublishedKind
from toposcope.integrations.framework.verdict import Verdict
from toposcope.integrations.readings import READERS_OF_PLAIN_PODS
from toposcope.integrations.registry import waiting
from toposcope.kube.discovery import Kind
from toposcope.kube.pod_resources import Requests
from toposcope.placement import sentences
from toposcope.placement.check import Checked, Checker
from toposcope.snapshot.model import NOTHING, NodeView, PodView, PublishedTopology, Snapshot
from toposcope.snapshot.scope import Scope, select_scope, with_gpus

_ENDED: Final = frozenset({"Complete", "Failed", "Completed", "Succeeded", "Finished"})
"""Conditions of an object that has run to its end."""
_ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})


class _Explained(NamedTuple):
    """An object with its constraints and their verdict for each system that places it."""

    ref: Ref
    checked: tuple[Checked, ...]


@dataclass(frozen=True)
class Context:
    """One workload of a cluster."""

    snapshot: Snapshot
    store: ObjectStore
    subject: Ref
    """The object that is asked about."""

    @cached_property
    def ownership(self) -> Ownership:
        """Its owners, and all that belongs to it."""
        return ownership_of(self.store, self.snapshot, self.subject)

    @cached_property
    def checker(self) -> Checker:
        """Checks what it asks for, as if its own pods did not run."""
        own = self.ownership.pods
        pods = self.snapshot.pods
        if pods:
            pods = _without(pods, own)
        others = replace(self.snapshot, pods=pods)
        return Checker(others, own=own)

    @property
    def explained(self) -> Ref:
        """The object whose constraints count: the topmost owner that has any."""
        return self._explained.ref

    @property
    def checked(self) -> tuple[Checked, ...]:
        """Its constraints and their verdict, one for each system that places it."""
        return self._explained.checked

    @cached_property
    def _explained(self) -> _Explained:
        return (
            self._first_constrained(reversed(self.ownership.chain))
            or self._first_constrained(self._made_by_top())
            or _Explained(self.ownership.top, ())
        )

    def _first_constrained(self, refs: Iterable[Ref]) -> _Explained | None:
        """The first object with constraints, else the first with pods; None: neither."""
        with_pods = None
        for ref in refs:
            document = self.store.objects.get(ref)
            if document is None:
                continue

            # The object is its own previous version: rules for new objects do not count.
            checked = self.checker.check(document, document)
            if not any(map(_is_read, checked)):
                continue
            candidate = _Explained(ref, checked)
            if any(map(_is_constrained, checked)):
                return candidate
            if with_pods is None:
                with_pods = candidate
        return with_pods

    def _made_by_top(self) -> Iterator[Ref]:
        """What the topmost owner made, where its own kind has no rules."""
        for ref in self.ownership.members:
            document = self.store.objects.get(ref)
            if document is not None and owner_of(document) == self.ownership.top:
                yield ref

    @cached_property
    def waiting(self) -> tuple[PodView, ...]:
        """Its pods that have no node."""
        return tuple(filterfalse(_has_node, self.ownership.pods))

    @cached_property
    def placed(self) -> tuple[PodView, ...]:
        """Its pods that have one."""
        return tuple(filter(_has_node, self.ownership.pods))

    def pod_document(self, pod: PodView) -> Object | None:
        """A waiting pod as it was read; None where only its summary is known."""
        return self.store.pods.get(Ref("", "Pod", pod.namespace, pod.name))

    @property
    def cluster_nodes(self) -> Mapping[str, NodeView]:
        """All nodes of the cluster, by name."""
        return self.snapshot.by_name

    @property
    def schedulers(self) -> frozenset[str]:
        """The `schedulerName` of each of its pods; empty text for pods that name none."""
        return frozenset(pod.scheduler for pod in self.ownership.pods)

    @property
    def is_fully_placed(self) -> bool:
        """Whether all its pods have a node: then nothing blocks its placement."""
        count = len(self.ownership.pods)
        if not count or self.waiting:
            return False
        return count >= self.expected

    @property
    def expected(self) -> int:
        """The number of pods that it asks for; 0: unknown."""
        most = 0
        for workload in self.workloads:
            if workload.is_placeable:
                most = max(most, pod_count(workload.groups))
        return most

    @property
    def missing(self) -> int:
        """How many of the pods that it asks for are not there; 0 where that is not known."""
        if self.has_finished or self.snapshot.pods is None:
            return 0
        return max(0, self.expected - len(self.ownership.pods))

    @property
    def has_finished(self) -> bool:
        """Whether it has run to completion, or failed."""
        for condition in conditions(self.document):
            if condition.type in _ENDED and condition.status == "True":
                return True

        status = self.document.get("status")
        return isinstance(status, dict) and status.get("phase") in _ENDED_PHASES

    @property
    def document(self) -> Object:
        """The object whose constraints count."""
        return self.store.objects.get(self.explained, {})

    @property
    def namespace(self) -> str:
        """The namespace of that object."""
        return self.explained.namespace

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """What it asks for, as each system reads it."""
        workloads = []
        for checked in self.checked:
            if checked.reading.workload:
                workloads.append(checked.reading.workload)
        return tuple(workloads)

    @cached_property
    def topologies(self) -> tuple[str, ...]:
        """The topologies that it asks for."""
        names: dict[str, None] = {}
        for workload in self.workloads:
            if workload.topology:
                names[workload.topology] = None
        return tuple(names)

    @cached_property
    def asked_levels(self) -> tuple[Level, ...]:
        """The levels that it names, required before preferred."""
        groups: list[Group] = []
        for workload in self.workloads:
            groups += workload.groups
        return asked_levels(groups)

    @property
    def asks_for_levels(self) -> bool:
        """Whether any part of it asks to be kept together."""
        return bool(self.asked_levels)

    def findings(self, broken: Collection[str], *, severity: str = "error") -> Iterator[Finding]:
        """The objections of the systems by these rules."""
        for finding in self.all_findings:
            if finding.severity == severity and finding.rule in broken:
                yield finding

    @cached_property
    def all_findings(self) -> tuple[Finding, ...]:
        """The objections of all systems, errors and warnings."""
        findings: list[Finding] = []
        for checked in self.checked:
            findings += checked.reading.findings
        return tuple(findings)

    def verdict(self, workload: Workload) -> Verdict | None:
        """The verdict on a workload as if none of its own pods ran."""
        return self.checker.verdict(workload)

    def verdict_within(self, workload: Workload, nodes: Collection[str]) -> Verdict | None:
        """The verdict on a workload on these nodes, beside its own pods that run."""
        snapshot = self.without_own
        inside = []
        for node in snapshot.nodes:
            if node.name in nodes:
                inside.append(node)

        part = replace(snapshot, nodes=tuple(inside))
        return Checker(part).verdict(workload)

    def answer(self, verdict: Verdict) -> str:
        """A verdict in one sentence."""
        return sentences.answer(verdict)

    def advice(self, verdict: Verdict) -> list[str]:
        """What to do about a verdict, one sentence per remedy."""
        return list(sentences.advice(verdict))

    @cached_property
    def without_own(self) -> Snapshot:
        """The cluster without its own placed pods, and without the resources that they hold.

        Draining other workloads does not free those resources.
        """
        snapshot = self.snapshot
        held = replace(snapshot, pods=self.placed).requested
        nodes = []
        for node in snapshot.nodes:
            held_there = held.get(node.name, NOTHING)
            reduced = _without_amounts(node, held_there)
            nodes.append(reduced)

        pods = snapshot.pods or ()
        others = _without(pods, self.placed)
        return replace(snapshot, nodes=tuple(nodes), pods=others)

    @property
    def lineage(self) -> tuple[Object, ...]:
        """The subject, its owner, the owner's owner, as far as they are read."""
        documents = []
        for ref in self.ownership.chain:
            document = self.store.objects.get(ref)
            if document is not None:
                documents.append(document)
        return tuple(documents)

    @property
    def all_members(self) -> Iterator[tuple[Ref, Object]]:
        """All objects that belong to the workload, without pods."""
        for ref in self.ownership.members:
            document = self.store.objects[ref]
            yield ref, document

    def members(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind that belong to the workload."""
        for ref, document in self.all_members:
            if (ref.group, ref.kind) == kind.key:
                yield ref, document

    def every(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """All objects of a kind that are known in the cluster.

        Those of other namespaces may be reduced to what decides about placement.
        """
        documents = dict(self.store.of_kind(kind))
        for document in self.snapshot.objects:
            if kind_of(document) == kind.key:
                documents.setdefault(ref_of(document), document)
        yield from documents.items()

    def levels(self, workload: Workload) -> tuple[Level, ...]:
        """The levels of a workload's topology, else the levels that the workload names itself."""
        topology = self.checker.topology(workload)
        return topology.levels if topology else workload.levels

    def scope(self, workload: Workload) -> Scope | None:
        """The ClusterTopology that a workload asks for, with its nodes; None: it does not exist."""
        name = workload.topology
        if name is None or not any(topology.name == name for topology in self.snapshot.topologies):
            return None

        if name not in self._scopes:
            self._scopes[name] = select_scope(self.snapshot, name)
        return self._scopes[name]

    @cached_property
    def _scopes(self) -> dict[str, Scope]:
        """The scopes that questions have asked for, by the name of their topology."""
        return {}

    def listing_kind(self, workload: Workload) -> str:
        """The kind of the objects that list the nodes of each domain; empty if labels tell."""
        topology = self._listed_topology(workload)
        return topology.source if topology else ""

    def _listed_topology(self, workload: Workload) -> TopologyLevels | None:
        """The workload's topology, if objects list the nodes of its domains instead of labels."""
        topology = self.checker.topology(workload)
        return topology if topology and topology.places else None

    def nodes(self, workload: Workload) -> tuple[NodeView, ...]:
        """The nodes that a workload could use.

        Where objects list the nodes of each domain, with these domains as labels.
        """
        scope = self.scope(workload)
        nodes = scope.nodes if scope else with_gpus(self.snapshot.nodes)
        topology = self._listed_topology(workload)
        if topology is None:
            return nodes
        placed = []
        for node in nodes:
            domains = topology.places.get(node.name)
            placed.append(node.with_labels(domains) if domains else node)
        return tuple(placed)

    def topology_kinds(self, workload: Workload) -> tuple[PublishedKind, ...]:
        """The kinds of topology resources of which the workload's system reads one."""
        return TOPOLOGY_KINDS.get(workload.system, ())

    def resource(self, workload: Workload) -> PublishedTopology | None:
        """The topology resource that the workload's system reads; None: missing or unreadable."""
        return self.published(workload.topology or "", *self.topology_kinds(workload))

    def published(self, name: str, *kinds: Kind) -> PublishedTopology | None:
        """The topology resource of this name and one of these kinds."""
        for kind in kinds:
            for resource in self.all_published(kind):
                if resource.name == name:
                    return resource
        return None

    def all_published(self, kind: Kind) -> Iterator[PublishedTopology]:
        """The topology resources of one kind."""
        for resource in self.snapshot.published:
            if resource.key == kind.key:
                yield resource


def rules(concern: str) -> frozenset[str]:
    """The names of all systems' rules in one field of `Waiting`."""
    names: set[str] = set()
    for system in waiting():
        names.update(getattr(system, concern))
    return frozenset(names)


def pod_count(groups: Iterable[Group]) -> int:
    """The number of pods in all copies of these groups."""
    count = 0
    for group in groups:
        pods = group.total().get("pods", 0)
        count += pods * group.copies
    return count


def asked_levels(groups: Iterable[Group]) -> tuple[Level, ...]:
    """The levels that groups name, required before preferred."""
    required: list[Level] = []
    preferred: list[Level] = []
    for top in groups:
        for group, _ in top.everything():
            if group.required:
                required.append(group.required)
            if group.preferred:
                preferred.append(group.preferred)
    in_order = required + preferred
    return tuple(dict.fromkeys(in_order))


def _is_read(checked: Checked) -> bool:
    """Whether some system reads the kind; of another one it is only known that it makes pods."""
    workload = checked.reading.workload
    return workload is None or workload.system != ""


def _is_constrained(checked: Checked) -> bool:
    """Whether an object asks for something that its owners may not ask for."""
    workload = checked.reading.workload
    if workload is None:
        return True
    reader = READERS_OF_PLAIN_PODS.get(workload.system)
    if reader is None:
        return True

    asks = bool(workload.topology or checked.reading.findings)
    return bool(reader.reads) and asks


def _has_node(pod: PodView) -> bool:
    return bool(pod.node)


def _without(pods: Iterable[PodView], own: Iterable[PodView]) -> tuple[PodView, ...]:
    """The pods without the workload's own ones."""
    own_names = {(pod.namespace, pod.name) for pod in own}
    others = []
    for pod in pods:
        if (pod.namespace, pod.name) not in own_names:
            others.append(pod)
    return tuple(others)


def _without_amounts(node: NodeView, amounts: Requests) -> NodeView:
    if not amounts:
        return node

    remaining = {}
    for name, amount in node.allocatable.items():
        remaining[name] = amount - amounts.get(name, 0)
    return msgspec.structs.replace(node, allocatable=remaining)
