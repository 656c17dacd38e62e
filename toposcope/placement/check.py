"""A workload checked against a cluster: what is wrong with it, and whether it would fit."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from toposcope.api.label_keys import unique_key
from toposcope.hierarchy.coverage import CrossedLevels, crossings
from toposcope.integrations.framework.constraints import (
    Admission,
    Decision,
    Workload,
    pods_in,
    simplified,
)
from toposcope.integrations.framework.document import Finding, UnreadField
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.system import Reading
from toposcope.integrations.framework.verdict import Kind, Shortage, Verdict
from toposcope.integrations.readings import READS, readings, resource_read_for
from toposcope.integrations.registry import placements
from toposcope.placement.cluster import Cluster
from toposcope.placement.cluster_facts import OWN
from toposcope.placement.deciding import decide
from toposcope.placement.devices import unkept_channels
from toposcope.placement.room import Room
from toposcope.placement.shares import share_remark, shared_room, with_shares
from toposcope.placement.shortage import Offer, offers
from toposcope.placement.verdict import Fittings, fittings, judge
from toposcope.snapshot.model import PodView, Snapshot
from toposcope.snapshot.scope import select_scope, with_gpus
from toposcope.text import plural

_ORDER: Final[tuple[Kind | None, ...]] = (None, "fits", "unclear", "full", "never")
"""The best answer first; None: no verdict."""
_NOT_ENOUGH_KNOWN: Final = "too little is known to check for room"


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for one document and one system."""

    reading: Reading
    verdict: Verdict | None
    """None if it requests nothing placeable."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps it from running as intended."""
        errors = []
        for finding in self.reading.findings:
            if finding.severity == "error":
                errors.append(finding)
        return tuple(errors)

    @property
    def unread(self) -> tuple[UnreadField, ...]:
        """The fields that may decide the verdict and are not read."""
        workload = self.reading.workload
        return workload.unread if workload else ()

    @property
    def is_ok(self) -> bool:
        """Whether it would be accepted and fits now, as far as known."""
        if self.errors:
            return False
        return self.verdict is None or self.verdict.fits

    @property
    def has_no_pods(self) -> bool:
        """Whether it is a workload without pods, so that the cluster's room was not checked."""
        return self.reading.workload is not None and self.verdict is None and not self.errors

    @property
    def is_unclear(self) -> bool:
        """Whether nothing is wrong with it, and its verdict is unclear."""
        if self.errors or self.verdict is None:
            return False
        return self.verdict.kind == "unclear"


class Checker:
    """Checks documents against one snapshot; computes what they share once."""

    def __init__(
        self,
        snapshot: Snapshot,
        documents: Iterable[Mapping[str, Any]] = (),
        own: Iterable[PodView] = (),
    ) -> None:
        """`documents` are all documents of this run: some configure what others ask for.

        `own` are pods to find a new place for, which the snapshot leaves out.
        """
        self.snapshot = snapshot
        self._cluster = Cluster(snapshot, list(documents), list(own))
        self.facts = self._cluster.facts
        self._decisions: dict[Admission, Decision] = {}

    def check(
        self, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> tuple[Checked, ...]:
        """One result for each system that handles the document. Never raises."""
        self._decisions.clear()
        checked = []
        for reading in readings(document, self.facts, before):
            checked.append(self._checked(reading))
        return tuple(checked)

    def verdict(self, workload: Workload | None, *, with_remedies: bool = True) -> Verdict | None:
        """Whether it fits; None if it requests nothing placeable."""
        if workload is None:
            return None
        question = self._cluster.question(workload, self._decisions)
        return decide(question, with_remedies=with_remedies)

    def topology(self, workload: Workload) -> TopologyLevels | None:
        """The topology that the workload asks for, as its system reads it."""
        return self._cluster.topology(workload)

    def fittings(self, workload: Workload) -> Fittings | None:
        """The domains with room for one copy of the group that has to stay together; None: none."""
        question = self._cluster.question(workload)
        return fittings(
            workload.groups,
            question.levels,
            question.nodes,
            can_lack_levels=question.can_lack_levels,
        )

    def offers(self, workload: Workload, shortage: Shortage) -> tuple[Offer, ...]:
        """What each domain of the level that lacks room offers, the best one first."""
        if shortage.level is None:
            return ()
        question = self._cluster.question(workload)
        groups = simplified(workload.groups)
        room = Room(
            question.levels, question.nodes, groups, can_lack_levels=question.can_lack_levels
        )
        return offers(room, shortage.group, shortage.level, shortage.resource)

    def _checked(self, reading: Reading) -> Checked:
        """The reading with its verdict.

        Where the system chooses the topology, the best topology decides; of several stages, the
        one that is hardest to place.
        """
        verdict = self.verdict(reading.workload)
        for alternative in reading.alternatives:
            if verdict is None or verdict.fits:
                break
            another = self.verdict(alternative)
            if _rank(another) < _rank(verdict):
                reading = replace(reading, workload=alternative)
                verdict = another

        for stage in reading.stages:
            another = self.verdict(stage)
            if _rank(another) > _rank(verdict):
                reading = replace(reading, workload=stage)
                verdict = another

        if reading.workload is None:
            return Checked(reading, None)
        return self._with_remarks(reading, reading.workload, verdict)

    def _with_remarks(
        self, reading: Reading, workload: Workload, verdict: Verdict | None
    ) -> Checked:
        """The reading with findings and notes that need the cluster."""
        findings = list(reading.findings)
        findings += self._findings(workload)
        notes = list(workload.notes)
        notes += self._notes(workload)
        if verdict is not None:
            if verdict.waiting_pods:
                notes.append(_waiting(verdict.waiting_pods))
            verdict, remark = self._on_shares(workload, verdict)
            if isinstance(remark, Finding):
                findings.append(remark)
            elif remark:
                notes.append(remark)

        workload = replace(workload, notes=tuple(notes))
        reading = replace(reading, workload=workload, findings=tuple(findings))
        checked = Checked(reading, verdict)
        if verdict is None and not workload.is_placeable and not checked.errors:
            unclear = Verdict("unclear", limitation=_NOT_ENOUGH_KNOWN, unread=workload.unread)
            return Checked(reading, unclear)
        return checked

    def _findings(self, workload: Workload) -> Iterator[Finding]:
        """What is wrong with it in this cluster."""
        option = READS.get(workload.system, "")
        cluster = self.facts.seen_by(option)
        for placement in placements():
            yield from placement.findings(workload, cluster, self.snapshot)
        if any(pods.claims for pods in pods_in(workload.groups)):
            question = self._cluster.question(workload)
            claims = self._cluster.claims
            yield from unkept_channels(workload, claims, question.nodes, question.levels)
        mixed = self._mixed_domains(workload)
        if mixed:
            yield mixed

    def _notes(self, workload: Workload) -> Iterator[str]:
        """What the admin should know about the answer."""
        if workload.admission in self._decisions:
            decision = self._decisions[workload.admission]
            yield from decision.notes
        for note in (self._stand_in(workload), self._unlabelled(workload)):
            if note:
                yield note

    def _on_shares(self, workload: Workload, verdict: Verdict) -> tuple[Verdict, Finding | str]:
        """The verdict, and a remark if it counts shares of GPUs as GPUs, as schedulers do.

        The remark is empty if it counts none.
        """
        if not self.snapshot.shares:
            return verdict, ""
        question = self._cluster.question(workload)
        room = shared_room(workload, question.nodes, self.snapshot.shares)
        if room is None:
            return verdict, ""

        on_whole_gpus = None
        if verdict.fits:
            shared = set(room.nodes)
            in_whole_gpus = [node for node in question.nodes if node.name not in shared]
            on_whole_gpus = judge(
                workload.groups,
                question.levels,
                in_whole_gpus,
                can_lack_levels=question.can_lack_levels,
            )

        remark = share_remark(room, verdict, on_whole_gpus)
        if isinstance(remark, Finding):
            verdict = with_shares(verdict, room, question.nodes, question.levels)
        return verdict, remark

    def _mixed_domains(self, workload: Workload) -> Finding | None:
        """The finding that domains share a label value, where the scheduler uses only the value."""
        if not workload.levels or workload.topology:
            return None
        key = workload.levels[0].key
        names: list[str | None] = [topology.name for topology in self.snapshot.topologies]
        for name in names or [None]:
            scope = select_scope(self.snapshot, name)
            for crossed in crossings(scope.levels, scope.table()):
                if crossed.key == key:
                    return _mixed(crossed)
        return None

    def _unlabelled(self, workload: Workload) -> str:
        """How many nodes lack the label of its level; empty if none does."""
        if not workload.levels or workload.topology:
            return ""
        key = workload.levels[0].key
        if self.facts.lacks_label(key):
            return ""
        nodes = with_gpus(self.snapshot.nodes)
        lacking = 0
        for node in nodes:
            if node.label(key) is None:
                lacking += 1
        if not lacking:
            return ""
        lack = plural(lacking, "lacks", "lack")
        are = plural(lacking, "is", "are")
        return f"{lacking} of {len(nodes)} nodes with GPUs {lack} {key} and {are} silently skipped"

    def _stand_in(self, workload: Workload) -> str:
        """The note that another topology replaces the scheduler's own; empty if none does."""
        topology = self.topology(workload)
        if topology is None:
            return ""
        is_own = topology.source == OWN
        if not topology.is_inferred and not is_own:
            return ""

        option = resource_read_for(workload)
        why = self.facts.read[option].stand_in
        name = f" {topology.name}" if is_own else ""
        return f"{why}: {topology.source}{name} is used instead"


def _waiting(pods: int) -> str:
    """The note on pods that need not start with the others, and have no room now."""
    wait = plural(pods, "pod waits", "pods wait")
    return f"{pods} more {wait} for room; those that have to start together fit without them"


def _mixed(crossed: CrossedLevels) -> Finding:
    unique = unique_key(crossed.domain)
    return Finding(
        rule="levels/names-mixed",
        severity="warning",
        field="",
        message=f"{crossed.key}: {crossed.sentence}",
        fix=f"list {crossed.domain} in spec.uniqueValues of the ClusterTopology and use {unique}",
    )


def _rank(verdict: Verdict | None) -> tuple[int, bool]:
    """The lower, the better; between equals, one that says what room is missing is better."""
    if verdict is None:
        return _ORDER.index(None), False
    return _ORDER.index(verdict.kind), bool(verdict.limitation)
