"""A workload checked against a cluster: what is wrong with it, and whether it would fit."""

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from toposcope.api.label_keys import HOSTNAME, unique_key
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import crossings
from toposcope.integrations.documents import with_documents
from toposcope.integrations.dra.allocation import Claims
from toposcope.integrations.framework.constraints import Admission, Decision, Workload, simplified
from toposcope.integrations.framework.document import Finding
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.framework.packing import PODS
from toposcope.integrations.framework.system import Held, Reading
from toposcope.integrations.framework.verdict import Kind, Remedy, Shortage, Verdict
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES
from toposcope.integrations.grove.waiting import named_kai_topology
from toposcope.integrations.kai.queues import missing
from toposcope.integrations.readings import READS, readings
from toposcope.placement import known_topologies
from toposcope.placement.devices import by_devices, with_extended
from toposcope.placement.gangs import by_kai, in_queue
from toposcope.placement.in_order import in_order
from toposcope.placement.room import Node, Obstacle, Room
from toposcope.placement.shares import shared_room, with_shares
from toposcope.placement.shares import told as told_of_shares
from toposcope.placement.shortage import Offer, offers
from toposcope.placement.tolerating import tolerate
from toposcope.placement.verdict import Fittings, fittings, judge
from toposcope.snapshot.model import NodeView, PodView, Snapshot
from toposcope.snapshot.scope import select_scope, with_gpus
from toposcope.text import listing, plural

_ORDER: Final[tuple[Kind | None, ...]] = (None, "fits", "unclear", "full", "never")
"""The best answer first; None: there is none."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result for one document and one system."""

    reading: Reading
    verdict: Verdict | None
    """None where nothing placeable is requested."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What keeps it from running as intended."""
        return tuple(finding for finding in self.reading.findings if finding.severity == "error")

    @property
    def well(self) -> bool:
        """Whether it would be accepted and fits now, as far as is known."""
        return not self.errors and (self.verdict is None or self.verdict.kind == "fits")

    @property
    def unclear(self) -> bool:
        """Whether nothing is wrong with it, and no more is known."""
        return not self.errors and self.verdict is not None and self.verdict.kind == "unclear"


class _Place(NamedTuple):
    levels: tuple[Level, ...]
    nodes: list[Node]
    partial: bool
    """As in `Room`."""


class Checker:
    """Checks documents against one snapshot; what they have in common is computed once."""

    def __init__(
        self,
        snapshot: Snapshot,
        documents: Iterable[Mapping[str, Any]] = (),
        own: Iterable[PodView] = (),
    ) -> None:
        """`documents` are all documents of this run: some configure what others ask for.

        `own` are pods left out of the snapshot because a new place is to be found for them.
        """
        self.snapshot, self._documents = snapshot, list(documents)
        facts = known_topologies.cluster_facts(snapshot)
        pod_groups = {**facts.pod_groups, **known_topologies.members_of_pods(own)}
        facts = replace(
            facts,
            pod_groups=pod_groups,
            gangs={**facts.gangs, **known_topologies.gangs_of_pods(own)},
        )
        self.known = with_documents(facts, self._documents)
        self.known = replace(self.known, held=known_topologies.held_by_kueue(self.known, snapshot))
        self._nodes: dict[tuple[Any, ...], list[Node]] = {}
        self._decided: dict[Admission | None, Decision] = {}
        self._bound = Counter[str]()
        """What its own pods hold."""
        for pod in own:
            self._bound.update(pod.requests if pod.node else {})

    def check(
        self, document: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> tuple[Checked, ...]:
        """One result for each system that handles the document; empty when none does.

        Never raises.
        """
        self._decided.clear()
        return tuple(self._checked(reading) for reading in readings(document, self.known, before))

    def _checked(self, reading: Reading) -> Checked:
        """With the verdict: on the best topology where the system chooses one, on the hardest of several stages."""
        verdict = self.verdict(reading.workload)
        for other in reading.alternatives:
            if verdict is None or verdict.kind == "fits":
                break
            another = self.verdict(other)
            if _rank(another) < _rank(verdict):
                reading, verdict = replace(reading, workload=other), another
        for stage in reading.stages:
            another = self.verdict(stage)
            if _rank(another) > _rank(verdict):
                reading, verdict = replace(reading, workload=stage), another
        workload = reading.workload
        if workload is None:
            return Checked(reading, None)
        verdict, shared = self._on_shares(workload, verdict)
        found = [
            self._kai_differs(workload),
            self._mixes(workload),
            missing(self.known, workload.queue),
        ]
        decided = self._decided.get(workload.admission)
        told = decided.notes if decided else ()
        notes = [*workload.notes, *told, self._stand_in(workload), self._unlabelled(workload)]
        if isinstance(shared, Finding):
            found.append(shared)
        else:
            notes.append(shared)
        workload = replace(workload, notes=tuple(filter(None, notes)))
        return Checked(
            replace(reading, workload=workload, findings=(*reading.findings, *filter(None, found))),
            verdict,
        )

    def _on_shares(
        self, workload: Workload, verdict: Verdict | None
    ) -> tuple[Verdict | None, Finding | str]:
        """The verdict, and what to know where it counts shares as GPUs, as schedulers do; empty where it does not."""
        if verdict is None or not self.snapshot.shares:
            return verdict, ""
        levels, nodes, partial = self._place(workload)
        room = shared_room(workload, nodes, self.snapshot.shares)
        if room is None:
            return verdict, ""
        whole = None
        if verdict.kind == "fits":
            others = [node for node in nodes if node.name not in set(room.nodes)]
            whole = judge(workload.groups, levels, others, partial=partial)
        told = told_of_shares(room, verdict, whole)
        return with_shares(verdict, room, nodes, levels) if isinstance(
            told, Finding
        ) else verdict, told

    def _kai_differs(self, workload: Workload) -> Finding | None:
        """Of what Grove passes on to KAI: that KAI has no Topology for it, or one without a level that is asked for."""
        kai = self.known.read["kai"]
        if not workload.topology or READS.get(workload.system) != "grove" or not workload.placeable:
            return None
        named = (
            resource for resource in self.snapshot.published if resource.name == workload.topology
        )
        binding = next((resource for resource in named if resource.kind in _BINDINGS), None)
        if kai.stand_in or binding is None:
            return None
        name = named_kai_topology(binding.document) or binding.name
        nested = [group for top in workload.groups for group, _ in top.everything()]
        asked = dict.fromkeys(
            level.key for group in nested for level in (group.required, group.preferred) if level
        )
        if name not in kai.by_name:
            text = f"KAI has no Topology {name}"
            fix = "Grove's operator makes it of the binding with KAI v0.12 or later; else Toposcope (spec.publish.kai)"
        elif lacks := [key for key in asked if not kai.by_name[name].by_key(key)]:
            text = f"KAI's Topology {name} lacks {listing(lacks, len(lacks))}"
            fix = f"give it the levels of {binding.handle}"
        else:
            return None
        return Finding(
            "grove/kai-topology",
            "error",
            "",
            f"{text}, so it cannot keep Grove's pods together",
            fix,
        )

    def _mixes(self, workload: Workload) -> Finding | None:
        """Of one that goes by a label's value alone: that several domains of a level share a value."""
        if not workload.levels or workload.topology:
            return None
        names: list[str | None] = [topology.name for topology in self.snapshot.topologies]
        for scope in (select_scope(self.snapshot, name) for name in names or [None]):
            for crossed in crossings(scope.levels, scope.table()):
                if crossed.key == workload.levels[0].key:
                    fix = f"ask for {unique_key(crossed.domain)}, which spec.uniqueValues of the ClusterTopology writes"
                    return Finding(
                        "levels/names-mixed",
                        "warning",
                        "",
                        f"{crossed.key}: {crossed.sentence}",
                        fix,
                    )
        return None

    def _unlabelled(self, workload: Workload) -> str:
        """How many nodes lack the label that it goes by; empty where none does."""
        if (
            not workload.levels
            or workload.topology
            or self.known.lacks_label(workload.levels[0].key)
        ):
            return ""
        nodes, key = with_gpus(self.snapshot.nodes), workload.levels[0].key
        lacking = sum(node.label(key) is None for node in nodes)
        if not lacking:
            return ""
        lack, left = plural(lacking, "lacks", "lack"), plural(lacking, "is", "are")
        return f"{lacking} of {len(nodes)} nodes with GPUs {lack} {key} and {left} silently skipped"

    def _stand_in(self, workload: Workload) -> str:
        """That the topology is not the scheduler's own, which is not known; empty where it is."""
        topology = self.topology(workload)
        if topology is None or topology.source not in known_topologies.STAND_INS:
            return ""
        why = self.known.read[READS[workload.system]].stand_in
        name = f" {topology.name}" if topology.source == known_topologies.OWN else ""
        return f"{why}: {topology.source}{name} stands in for what would be published"

    def verdict(self, workload: Workload | None) -> Verdict | None:
        """Whether it fits; None where nothing placeable is requested."""
        verdict = self._verdict(workload)
        if workload is None or verdict is None or verdict.kind not in ("full", "never"):
            return verdict
        remedy = tolerate(workload, verdict, self._place(workload).nodes, self._verdict)
        return replace(verdict, remedies=(remedy, *verdict.remedies)) if remedy else verdict

    def _verdict(self, workload: Workload | None) -> Verdict | None:
        verdict = self._by_requests(workload)
        if workload is None or verdict is None or verdict.kind != "fits":
            return verdict
        groups = (group for top in workload.groups for group, _ in top.everything())
        if not any(pods.claims for group in groups for pods in group.pods):
            return verdict
        if workload.admission or workload.gang is not None or workload.doubt:
            return Verdict(
                "unclear",
                limitation="which devices the resource claims of its pods get is not known",
            )
        levels, nodes, partial = self._place(workload)
        return by_devices(
            workload.groups, levels, nodes, self.snapshot.inventory, self._claims, partial=partial
        )

    def _by_requests(self, workload: Workload | None) -> Verdict | None:
        """The verdict by what its pods request of nodes, whatever they claim."""
        if workload is None or not workload.placeable:
            return None
        if not any(group.copies and group.total().get(PODS) for group in workload.groups):
            return None
        if lost := self._lost(workload):
            return Verdict("never", limitation=lost)
        levels, nodes, partial = self._place(workload)
        judged = functools.partial(judge, levels=levels, nodes=nodes, partial=partial)
        verdict = judged(workload.groups)
        if workload.doubt and verdict.kind == "fits":
            certain = judged(workload.certain) if workload.certain else None
            return (
                certain
                if certain and certain.kind == "fits"
                else Verdict("unclear", limitation=workload.doubt)
            )
        if workload.pod_groups and verdict.kind != "fits":
            verdict = judged(workload.pod_groups)
        if workload.admission:
            if workload.admission not in self._decided:
                self._decided[workload.admission] = workload.admission.decide(nodes)
            verdict = in_order(
                verdict, workload.admission, nodes, self._decided[workload.admission]
            )
        if workload.gang is not None:
            verdict = by_kai(verdict, workload, levels, nodes)
            verdict = in_queue(verdict, workload, self.known, self._bound)
        return replace(verdict, remedies=tuple(map(self._with_pods, verdict.remedies)))

    def _with_pods(self, remedy: Remedy) -> Remedy:
        """The pods to drain: those that hold what is short there."""
        holding = (
            pod
            for node in remedy.nodes
            for pod in self._pods_on.get(node, ())
            if any(pod.requests.get(resource) for resource in remedy.short)
        )
        return replace(remedy, pods=tuple(f"{pod.namespace}/{pod.name}" for pod in holding))

    @functools.cached_property
    def _claims(self) -> Claims:
        """The claims of the cluster and of the documents, and what says which devices they get."""
        return Claims.of((*self.snapshot.objects, *self._documents))

    @functools.cached_property
    def _pods_on(self) -> dict[str, list[PodView]]:
        """The pods of each node; computed only where pods have to be drained."""
        pods: dict[str, list[PodView]] = {}
        for pod in self.snapshot.pods or ():
            pods.setdefault(pod.node, []).append(pod)
        return pods

    def fittings(self, workload: Workload) -> Fittings | None:
        """The domains with room for one copy of the group that has to stay together; None where none has to."""
        levels, nodes, partial = self._place(workload)
        return fittings(workload.groups, levels, nodes, partial=partial)

    def offers(self, workload: Workload, shortage: Shortage) -> tuple[Offer, ...]:
        """What each domain of the level at which the workload does not fit offers, the best one first."""
        if shortage.level is None:
            return ()
        levels, nodes, partial = self._place(workload)
        room = Room(levels, nodes, simplified(workload.groups), partial=partial)
        return offers(room, shortage.group, shortage.level, shortage.resource)

    def topology(self, workload: Workload) -> TopologyLevels | None:
        """The topology that the workload asks for, as its system reads it."""
        if workload.topology is None:
            return None
        return self.known.read[READS[workload.system]].by_name.get(workload.topology)

    def _place(self, workload: Workload) -> _Place:
        """The levels of the workload's topology, else those that it names, and the nodes that its scheduler looks at.

        Schedulers know nothing of a ClusterTopology's selector, and a placeholder is a value like any other to them.
        """
        topology = self.topology(workload)
        own = workload.admission.own if workload.admission else None
        groups = (group for top in workload.groups for group, _ in top.everything())
        asked = {
            name for group in groups for pods in group.pods for name, _ in pods.requests
        } & self._claims.extended.keys()
        look = workload.gang is not None, own, frozenset(asked)
        if look not in self._nodes:
            held = {
                key: domains
                for key, domains in self.known.held.items()
                if own is not None and key not in own
            }
            nodes = list(nodes_of(self.snapshot, frozenset(), held))
            nodes = with_extended(nodes, self.snapshot.inventory, self._claims, asked)
            self._nodes[look] = [_by_kai(node) if look[0] else node for node in nodes]
        levels = topology.levels if topology else ()
        return _Place(levels or workload.levels, self._nodes[look], not levels)

    def _lost(self, workload: Workload) -> str:
        """Which levels of the scheduler's own topology no node carries any more; empty where all are carried."""
        topology = self.topology(workload)
        if topology is None or not (
            lost := [level.key for level in topology.levels if self.known.lacks_label(level.key)]
        ):
            return ""
        return (
            f"no node carries {listing(lost, len(lost))}, which {topology.source} {topology.name} has as a level, and "
            f"{workload.system if workload.system in _OWN_READERS else 'KAI'} leaves out every node that lacks a level"
        )


def _rank(verdict: Verdict | None) -> tuple[int, bool]:
    """The lower, the better; of two that are equally good, the one that says which room is missing."""
    return _ORDER.index(verdict.kind if verdict else None), bool(verdict and verdict.limitation)


_BINDINGS: Final = frozenset(kind.kind for kind in (BINDINGS, OLDER_TOPOLOGIES))
_OWN_READERS: Final = frozenset({"Kueue", "Volcano"})
"""Of the systems that read a topology, those whose scheduler is not KAI."""
MAX_PODS: Final = 110
"""The kubelet's default, where a node does not say."""


def nodes_of(snapshot: Snapshot, placeholders: frozenset[str] | None, held: Held) -> Iterator[Node]:
    """The nodes with what is free on them and not held; where pods are unknown, everything counts as free."""
    unknown = snapshot.catalogue.placeholders if placeholders is None else placeholders
    on_hosts: dict[str | None, Counter[str]] = {}
    for domains in held.values():
        for values, amounts in domains.items():
            if len(values) == 1:  # an assignment of nodes names these alone
                on_hosts.setdefault(values[0], Counter()).update(amounts)
    for view in snapshot.nodes:
        total = (
            view.allocatable if PODS in view.allocatable else {**view.allocatable, PODS: MAX_PODS}
        )
        taken = snapshot.requested.get(view.name)
        free = (
            {name: amount - taken.get(name, 0) for name, amount in total.items()}
            if taken
            else total
        )
        if on_hosts and (more := on_hosts.get(view.label(HOSTNAME))):
            free = {name: amount - more[name] for name, amount in free.items()}
        yield Node(view.name, _Labels(view), free, total, view.taints, _obstacle(view), unknown)


class _Labels(Mapping[str, str]):
    """A node's labels without a dictionary of them for each of 100,000 nodes."""

    __slots__ = ("_view",)

    def __init__(self, view: NodeView) -> None:
        self._view = view

    def __getitem__(self, key: str) -> str:
        return self._view.values[self._view.places[key]]

    def get(self, key: str, default: Any = None) -> Any:
        """As of every mapping, but without an exception for each label that is not there."""
        place = self._view.places.get(key)
        return default if place is None else self._view.values[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._view.places)

    def __len__(self) -> int:
        return len(self._view.places)


_PRESSURE: Final = frozenset(
    f"node.kubernetes.io/{what}"
    for what in ("memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable")
)
"""The control plane's taints for conditions of a node."""


def _by_kai(node: Node) -> Node:
    """The node as KAI 0.17 sees it (scheduler_util.CheckNodeConditionPredicate): no toleration opens a closed one."""
    pressed = any(taint.key in _PRESSURE for taint in node.taints)
    return replace(
        node, obstacle=node.obstacle or ("under pressure" if pressed else ""), strict=True
    )


def _obstacle(view: NodeView) -> Obstacle:
    if not view.ready:
        return "not Ready"
    return "" if view.schedulable else "cordoned"
