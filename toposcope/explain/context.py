"""What all steps look at: a workload with everything around it, what it asks for, and what its scheduler reads."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from toposcope.explain.kinds import BINDING, CLIQUE_SET, KAI_TOPOLOGY, KUEUE_TOPOLOGY, OLD_BINDING, Kind
from toposcope.explain.object_store import Object, ObjectStore, Ref, conditions
from toposcope.explain.ownership import Ownership
from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.system import Finding
from toposcope.integrations.kubernetes.workload import Plain
from toposcope.placement.check import Checked, Checker
from toposcope.placement.known_topologies import scope_of
from toposcope.snapshot.model import NodeView, PodView, Published, Snapshot
from toposcope.snapshot.scope import Scope, with_gpus
from toposcope.topology.levels import Level

_READS: Final = {
    "Dynamo": (BINDING, OLD_BINDING),
    "Grove": (BINDING, OLD_BINDING),
    "KAI": (KAI_TOPOLOGY,),
    "Kueue": (KUEUE_TOPOLOGY,),
}
"""The topology resource that each system reads: one of these; LeaderWorkerSet and JobSet read node labels only."""
_ENDED: Final = frozenset({"Complete", "Failed", "Completed", "Succeeded", "Finished"})


@dataclass(frozen=True, slots=True)
class Context:
    """One workload. `checked` is what each system that places it asks and would find, its own pods left aside."""

    snapshot: Snapshot
    store: ObjectStore
    ownership: Ownership
    demand: Ref
    """The object whose demands count: the topmost that asks for anything."""
    checked: tuple[Checked, ...]
    checker: Checker

    @property
    def waiting(self) -> tuple[PodView, ...]:
        """Its pods that have no node."""
        return tuple(pod for pod in self.ownership.pods if not pod.node)

    @property
    def placed(self) -> tuple[PodView, ...]:
        """Its pods that have one."""
        return tuple(pod for pod in self.ownership.pods if pod.node)

    @property
    def settled(self) -> bool:
        """Whether all its pods have a node: then nothing keeps it from being placed."""
        return bool(self.ownership.pods) and not self.waiting and len(self.ownership.pods) >= self.expected

    @property
    def expected(self) -> int:
        """How many pods it asks for; 0: not known."""
        counts = [
            sum(group.total().get("pods", 0) * group.copies for group in workload.groups)
            for workload in self.workloads
            if workload.placeable
        ]
        return max(counts, default=0)

    @property
    def finished(self) -> bool:
        """Whether it has run to its end."""
        document = self.document
        ended = any(condition.type in _ENDED and condition.status == "True" for condition in conditions(document))
        status = document.get("status")
        return ended or (isinstance(status, dict) and status.get("phase") in ("Succeeded", "Failed"))

    @property
    def document(self) -> Object:
        """The object whose demands count."""
        return self.store.objects.get(self.demand, {})

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """What is asked for, once for each system."""
        return tuple(each.reading.workload for each in self.checked if each.reading.workload)

    @property
    def topologies(self) -> tuple[str, ...]:
        """The topologies that are asked for."""
        return tuple(dict.fromkeys(workload.topology for workload in self.workloads if workload.topology))

    def findings(self, *rules: str, severity: str = "error") -> Iterator[Finding]:
        """What the systems would object to by these rules (`kai/level-exists` is `level-exists` of KAI)."""
        for checked in self.checked:
            for finding in checked.reading.findings:
                if finding.severity == severity and finding.rule.partition("/")[2] in rules:
                    yield finding

    def members(self, kind: Kind) -> Iterator[tuple[Ref, Object]]:
        """The objects of a kind in the family."""
        for ref in self.ownership.members:
            if (ref.group, ref.kind) == kind.key:
                yield ref, self.store.objects[ref]

    def levels(self, workload: Workload) -> tuple[Level, ...]:
        """All levels that count for a workload: those of its topology, else the labels that it names itself."""
        found = scope_of(self.snapshot, workload.topology)
        if found:
            return found.levels
        published = next((each for each in self.snapshot.published if each.name == workload.topology), None)
        if published is None:
            return workload.levels
        # Without domains of their own (KAI, Kueue) the key is all there is to say.
        named = {level.key: level for level in asked(workload.groups)}
        return tuple(
            level if level.domain else named.get(level.key, Level(level.key, level.key)) for level in published.levels
        )

    def scope(self, workload: Workload) -> Scope | None:
        """The ClusterTopology that a workload asks for, with its nodes; None where there is none of that name."""
        return scope_of(self.snapshot, workload.topology)

    def nodes(self, workload: Workload) -> tuple[NodeView, ...]:
        """The nodes that a workload may be about."""
        found = self.scope(workload)
        return found.nodes if found else with_gpus(self.snapshot.nodes)

    def reads(self, workload: Workload) -> tuple[Kind, ...]:
        """The kinds of topology resources of which the workload's system reads one."""
        return _READS.get(workload.system, ())

    def resource(self, workload: Workload) -> Published | None:
        """The topology resource that the workload's system reads; None where it is not there or not seen."""
        return published_as(self.snapshot, workload.topology or "", self.reads(workload))

    @property
    def uses_grove(self) -> bool:
        """Whether Grove places it, for Dynamo or by itself."""
        return any(workload.system in ("Dynamo", "Grove") for workload in self.workloads) or any(
            self.members(CLIQUE_SET)
        )


def published_as(snapshot: Snapshot, name: str, kinds: Iterable[Kind]) -> Published | None:
    """The topology resource of this name and of one of these kinds."""
    keys = {kind.key for kind in kinds}
    return next(
        (
            each
            for each in snapshot.published
            if each.name == name and (each.api_version.rpartition("/")[0], each.kind) in keys
        ),
        None,
    )


def asked(groups: Iterable[Group]) -> tuple[Level, ...]:
    """The levels that groups name, required before preferred."""
    everything = [group for top in groups for group, _ in top.everything()]
    required = [group.required for group in everything if group.required]
    preferred = [group.preferred for group in everything if group.preferred]
    return tuple(dict.fromkeys((*required, *preferred)))


def build_context(snapshot: Snapshot, store: ObjectStore, ownership: Ownership) -> Context:
    """Look at what the family asks for. Never raises."""
    own = {(pod.namespace, pod.name) for pod in ownership.pods}
    others = tuple(pod for pod in snapshot.pods if (pod.namespace, pod.name) not in own) if snapshot.pods else None
    pods = snapshot.pods if snapshot.pods is None else others or ()
    checker = Checker(replace(snapshot, pods=pods), own=ownership.pods)
    found: list[tuple[Ref, tuple[Checked, ...]]] = []
    for ref in reversed(ownership.chain):
        document = store.objects.get(ref)
        if document is not None:
            # The object exists, so it is what it was: rules for new objects do not count.
            checked = checker.check(document, document)
            found += [(ref, checked)] * bool(checked)
    telling = [each for each in found if any(_tells(checked) for checked in each[1])]
    demand, checked = next(iter(telling or found), (ownership.top, ()))
    return Context(snapshot, store, ownership, demand, checked, checker)


def _tells(checked: Checked) -> bool:
    """Whether somebody has a say about where it is placed."""
    return checked.reading.workload is None or checked.reading.workload.system != Plain.name
