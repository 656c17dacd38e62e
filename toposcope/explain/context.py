"""What every check looks at: a workload with everything around it, what it asks for, and what its scheduler reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from toposcope.api.levels import Level
from toposcope.explain.object_store import TOPOLOGY_KINDS, ObjectStore
from toposcope.explain.ownership import Ownership
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.features import Object, Ref, conditions
from toposcope.integrations.kai.workload import SYSTEM as KAI
from toposcope.integrations.kubernetes.workload import PODS_ONLY
from toposcope.kube.discovery import Kind
from toposcope.placement.check import Checked, Checker
from toposcope.snapshot.model import NodeView, PodView, Published, Snapshot
from toposcope.snapshot.scope import Scope, select_scope, with_gpus

_ENDED: Final = frozenset({"Complete", "Failed", "Completed", "Succeeded", "Finished"})


@dataclass(frozen=True)
class Context:
    """One workload.

    `checked` is what each system that places it asks for and would find, its own pods left aside.
    """

    snapshot: Snapshot
    store: ObjectStore
    ownership: Ownership
    explained: Ref
    """The object whose constraints count: the topmost owner that has any."""
    checked: tuple[Checked, ...]
    checker: Checker

    @cached_property
    def waiting(self) -> tuple[PodView, ...]:
        """Its pods that have no node."""
        return tuple(pod for pod in self.ownership.pods if not pod.node)

    @cached_property
    def placed(self) -> tuple[PodView, ...]:
        """Its pods that have one."""
        return tuple(pod for pod in self.ownership.pods if pod.node)

    @property
    def schedulers(self) -> frozenset[str]:
        """Who schedules its pods, by their `schedulerName`; empty for pods that name none."""
        return frozenset(pod.scheduler for pod in self.ownership.pods)

    @property
    def all_placed(self) -> bool:
        """Whether all its pods have a node: then nothing blocks its placement."""
        return (
            bool(self.ownership.pods)
            and not self.waiting
            and len(self.ownership.pods) >= self.expected
        )

    @property
    def expected(self) -> int:
        """How many pods it asks for; 0: unknown."""
        counts = [
            sum(group.total().get("pods", 0) * group.copies for group in workload.groups)
            for workload in self.workloads
            if workload.placeable
        ]
        return max(counts, default=0)

    @property
    def finished(self) -> bool:
        """Whether it has run to completion, or failed."""
        ended = any(
            condition.type in _ENDED and condition.status == "True"
            for condition in conditions(self.document)
        )
        status = self.document.get("status")
        return ended or (
            isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed")
        )

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
        """What it asks for, once for each system."""
        return tuple(
            checked.reading.workload for checked in self.checked if checked.reading.workload
        )

    @cached_property
    def topologies(self) -> tuple[str, ...]:
        """The topologies that it asks for."""
        return tuple(
            dict.fromkeys(workload.topology for workload in self.workloads if workload.topology)
        )

    @cached_property
    def asked_levels(self) -> tuple[Level, ...]:
        """The levels that it names, required before preferred."""
        return asked_levels(group for workload in self.workloads for group in workload.groups)

    @property
    def asks_for_levels(self) -> bool:
        """Whether any part of it asks to be kept together."""
        return bool(self.asked_levels)

    def findings(self, *rules: str, severity: str = "error") -> Iterator[Finding]:
        """What the systems would object to by these rules (`kai/level-exists` is `level-exists` of KAI)."""
        for checked in self.checked:
            for finding in checked.reading.findings:
                if finding.severity == severity and finding.rule.partition("/")[2] in rules:
                    yield finding

    def members(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind that belong to the workload."""
        for ref in self.ownership.members:
            if (ref.group, ref.kind) == kind.key:
                yield ref, self.store.objects[ref]

    def levels(self, workload: Workload) -> tuple[Level, ...]:
        """All levels that count for a workload: those of its topology, else the labels that it names itself."""
        topology = self.checker.topology(workload)
        return topology.levels if topology else workload.levels

    def scope(self, workload: Workload) -> Scope | None:
        """The ClusterTopology that a workload asks for, with its nodes; None where none has that name."""
        if all(topology.name != workload.topology for topology in self.snapshot.topologies):
            return None
        return select_scope(self.snapshot, workload.topology)

    def nodes(self, workload: Workload) -> tuple[NodeView, ...]:
        """The nodes that a workload could use."""
        scope = self.scope(workload)
        return scope.nodes if scope else with_gpus(self.snapshot.nodes)

    def topology_kinds(self, workload: Workload) -> tuple[Kind, ...]:
        """The kinds of topology resources of which the workload's system reads one."""
        return TOPOLOGY_KINDS.get(workload.system, ())

    def resource(self, workload: Workload) -> Published | None:
        """The topology resource that the workload's system reads; None where it is missing or cannot be read."""
        return self.published(workload.topology or "", *self.topology_kinds(workload))

    def published(self, name: str, *kinds: Kind) -> Published | None:
        """The topology resource of this name and one of these kinds."""
        return next(
            (item for kind in kinds for item in self.all_published(kind) if item.name == name), None
        )

    def all_published(self, kind: Kind) -> Iterator[Published]:
        """The topology resources of one kind."""
        published = self.snapshot.published
        return (
            item
            for item in published
            if (item.api_version.rpartition("/")[0], item.kind) == kind.key
        )


def asked_levels(groups: Iterable[Group]) -> tuple[Level, ...]:
    """The levels that groups name, required before preferred."""
    nested = [group for top in groups for group, _ in top.everything()]
    required = [group.required for group in nested if group.required]
    preferred = [group.preferred for group in nested if group.preferred]
    return tuple(dict.fromkeys((*required, *preferred)))


def build_context(snapshot: Snapshot, store: ObjectStore, ownership: Ownership) -> Context:
    """Check what the workload asks for. Never raises."""
    own = {(pod.namespace, pod.name) for pod in ownership.pods}
    others = tuple(pod for pod in snapshot.pods or () if (pod.namespace, pod.name) not in own)
    pods = others if snapshot.pods else snapshot.pods
    checker = Checker(replace(snapshot, pods=pods), own=ownership.pods)
    candidates: list[tuple[Ref, tuple[Checked, ...]]] = []
    for ref in reversed(ownership.chain):
        document = store.objects.get(ref)
        # The object exists, so it is its own previous version: rules for new objects do not count.
        if document is not None and (checked := checker.check(document, document)):
            candidates.append((ref, checked))
    constrained = [candidate for candidate in candidates if any(map(_is_constrained, candidate[1]))]
    explained, checked = next(iter(constrained or candidates), (ownership.top, ()))
    return Context(snapshot, store, ownership, explained, checked, checker)


def _is_constrained(checked: Checked) -> bool:
    """Whether it asks for something that its owners may not ask for."""
    workload = checked.reading.workload
    if workload is None or workload.system == KAI.name:
        return workload is None or bool(workload.topology or checked.reading.findings)
    return workload.system != PODS_ONLY.name
