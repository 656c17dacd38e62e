"""From nodes and one ClusterTopology to conditions, and to the levels to publish: pure."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Final, NamedTuple

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import (
    FABRIC_HEALTHY,
    HIERARCHY_CONSISTENT,
    LEVELS_COVERED,
    NAMES_MIXED,
    Condition,
)
from toposcope.api.levels import Level
from toposcope.controller.assess import availability
from toposcope.controller.assess.agents import (
    NO_PODS_SEEN,
    AgentPodsSeen,
    agent_reports,
    agents_condition,
)
from toposcope.controller.assess.covered import covered_condition
from toposcope.controller.assess.diagnostics import Diagnostic, diagnostics
from toposcope.controller.assess.health import Health, fabric_condition, health
from toposcope.controller.assess.rails import Rails, rails, rails_condition
from toposcope.controller.assess.rebuilds import Rebuild, Rebuilds, fabrics, rebuilds_of
from toposcope.controller.assess.selection import selected
from toposcope.controller.memory import Memory
from toposcope.controller.segments import Segments, observe, reported_segments
from toposcope.hierarchy import coverage as hierarchy
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.effective_levels import (
    EffectiveLevels,
    effective_levels,
    reported,
    unpublished_levels,
)
from toposcope.hierarchy.node import NodeFacts, fabric_of
from toposcope.hierarchy.table import Table, table_of
from toposcope.integrations.registry import is_bound

_MIXED: Final = (
    "; but {} groups by this label alone and would mix the domains: "
    "list the level in spec.uniqueValues and use gpu.topology/unique-<level>"
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a pass knows of the cluster, for assessing one topology."""

    nodes: Iterable[NodeFacts]
    """All nodes of the cluster, as they are now."""
    now: float = 0.0
    """Monotonic seconds."""
    required: Collection[str] = ()
    """Domains that workloads require."""
    preferred: Collection[str] = ()
    """Domains that workloads prefer."""
    bound: Container[str] | None = ()
    """Domains that workloads require through a binding; None: that is not known."""
    by_value: Mapping[str, str] = field(default_factory=dict)
    """Workload that groups by this label's value alone, per label key."""
    held: Table | None = None
    """The same nodes with the labels that are away for a while only. Whether a level is gone is
    judged without them, because that has a grace period of its own."""
    rebuilds: Sequence[Rebuild] = ()
    """NVLink fabrics that were rebuilt, of all nodes."""
    catalogue: Catalogue = BUILT_IN
    agent_pods: AgentPodsSeen = NO_PODS_SEEN


class LeftOutSelection(NamedTuple):
    """The selected nodes that lack a level, and their GPUs."""

    nodes: int = 0
    gpus: int = 0


NOTHING_LEFT_OUT: Final = LeftOutSelection()


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the nodes say about one topology."""

    effective: EffectiveLevels
    coverage: tuple[hierarchy.Coverage, ...]
    conditions: tuple[Condition, ...]
    missed: tuple[str, ...]
    """Preferred levels that are gone."""
    selected: Table
    nodes: int = 0
    gpus: int = 0
    left_out: LeftOutSelection = NOTHING_LEFT_OUT
    unavailable: tuple[str, ...] = ()
    """Required levels that are gone."""
    publishable: tuple[Level, ...] | None = None
    """The levels for published resources; None: leave them as they are. They do not begin with
    levels that add nothing above the host."""
    unexpired: tuple[Level, ...] | None = None
    """The same with these levels."""
    bindable: tuple[Level, ...] | None = None
    """The levels for a binding that translates levels, and for what is made of it: these and
    retained ones; None as above."""
    health: Health = field(default_factory=Health)
    rails: Rails = field(default_factory=Rails)
    segments: Segments | None = None
    """How the nodes divide; None: they do not."""
    diagnostics: tuple[Diagnostic, ...] = ()
    noted_fabrics: frozenset[str] | None = None
    """The fabrics of interest that `selected` had before it was let go; None: it is there."""

    def fabrics(self) -> Collection[str]:
        """The cluster UUIDs of the fabrics that selected nodes are in."""
        if self.noted_fabrics is not None:
            return self.noted_fabrics
        return fabrics(self.selected)

    def without_nodes(self, fabrics_of_interest: Collection[str]) -> "Assessment":
        """The same without the nodes, which take most of its memory."""
        noted: frozenset[str] = frozenset()
        if fabrics_of_interest:
            noted = frozenset(self.fabrics()).intersection(fabrics_of_interest)
        return replace(self, selected=Table(()), noted_fabrics=noted)


def assess(topology: Topology, evidence: Evidence, memory: Memory) -> Assessment:
    """Assess one topology, whose `memory` is updated."""
    catalogue, now = evidence.catalogue, evidence.now
    table = table_of(evidence.nodes, catalogue.placeholders)
    chosen = selected(topology, table if evidence.held is None else evidence.held)
    reporting = agents_condition(agent_reports(table), evidence.agent_pods, topology.status)
    if not chosen:
        memory.forget_nodes()
        return _without_nodes(topology, chosen, reporting)
    present = _present(table, chosen, evidence.held)

    effective = effective_levels(
        topology,
        present,
        memory.levels,
        now,
        catalogue=catalogue,
        bound=evidence.bound,
        retains=is_bound(topology),
    )
    levels = effective.levels
    coverage = hierarchy.cover(levels, chosen)
    segments = observe(topology, chosen, levels, memory, now=now, catalogue=catalogue)
    rebuilds = rebuilds_of(topology, chosen, evidence.rebuilds, memory.rebuilds, now)
    crossed = _crossed(topology, levels, chosen, rebuilds)
    verdict = availability.judge(
        topology,
        coverage if present is chosen else hierarchy.cover(levels, present),
        memory,
        now,
        required={*_required(topology, effective, segments), *evidence.required},
        preferred=evidence.preferred,
        retained={level.domain for level in effective.retained},
    )
    report = health(levels, chosen, rebuilds)
    cabled = rails(topology, chosen, memory, now)
    segment_keys = _segment_keys(segments)
    covered = covered_condition(
        topology, chosen, coverage, catalogue, segment_keys if topology.is_divided else ()
    )
    ambiguous = hierarchy.ambiguous_paths(levels, chosen)
    mixed = _mixed(crossed, evidence.by_value)
    unpublished = unpublished_levels(topology, levels, chosen, memory.levels, now)
    hints = diagnostics(topology, chosen, levels, catalogue, segment_keys=segment_keys, mixed=mixed)
    can_publish = not topology.problems
    unexpired = _publishable(topology, effective) if can_publish else None
    return Assessment(
        nodes=len(chosen),
        gpus=report.gpus,
        left_out=_left_out(levels, chosen),
        effective=effective,
        coverage=coverage,
        conditions=(
            verdict.condition,
            covered,
            reporting,
            _consistent(crossed, ambiguous, mixed),
            fabric_condition(report),
            rails_condition(cabled),
        ),
        unavailable=verdict.unavailable,
        missed=verdict.missed,
        publishable=_without(unexpired, unpublished) if unexpired else None,
        unexpired=unexpired,
        bindable=_bindable(topology, effective) if can_publish else None,
        health=report,
        rails=cabled,
        selected=chosen,
        segments=segments,
        diagnostics=hints,
    )


def _without_nodes(topology: Topology, nodes: Table, reporting: Condition) -> Assessment:
    """No node is selected: everything stays as the status has it."""
    waiting = availability.no_nodes()
    last = reported(topology)
    return Assessment(
        effective=last,
        coverage=hierarchy.cover(last.levels, ()),
        conditions=(
            waiting,
            Condition(LEVELS_COVERED, "Unknown", "NoNodes", waiting.message),
            reporting,
            Condition(HIERARCHY_CONSISTENT, "Unknown", "NoNodes", waiting.message),
            Condition(FABRIC_HEALTHY, "Unknown", "NoNodes", waiting.message),
            rails_condition(Rails()),
        ),
        missed=tuple(sorted(availability.reported_missed(topology.status))),
        selected=nodes,
        segments=reported_segments(topology),
    )


def _present(nodes: Table, chosen: Table, held: Table | None) -> Table:
    """The chosen nodes with the labels that they carry now."""
    if held is None or held is nodes:
        return chosen
    names = {node.name for node in chosen}
    present = []
    for node in nodes:
        if node.name in names:
            present.append(node)
    return table_of(present, nodes.placeholders)


def _crossed(
    topology: Topology, levels: Sequence[Level], nodes: Table, rebuilds: Rebuilds
) -> list[hierarchy.CrossedLevels]:
    """The levels that do not nest; but not those that are about to change places."""
    passing = _passing(nodes, rebuilds)
    crossed = hierarchy.crossings(levels, nodes, passing)
    if topology.levels is not None or not hierarchy.will_turn(levels, nodes):
        return crossed
    lasting = []
    for clash in crossed:
        if not clash.is_turned:
            lasting.append(clash)
    return lasting


def _passing(nodes: Table, rebuilds: Rebuilds) -> frozenset[str]:
    """The NVLink domains that nodes are leaving or joining."""
    if not rebuilds.under_way:
        return frozenset()
    passing = set()
    for machine, _ in nodes.machines:
        if machine.domain is not None and fabric_of(machine.domain) in rebuilds.moving:
            passing.add(machine.domain)
    return frozenset(passing)


def _mixed(
    crossed: Iterable[hierarchy.CrossedLevels], by_value: Mapping[str, str]
) -> dict[str, str]:
    """Workloads that would mix domains because they group by a label whose values are reused."""
    mixed = {}
    for clash in crossed:
        if clash.key in by_value:
            mixed[clash.key] = by_value[clash.key]
    return mixed


def _left_out(levels: Sequence[Level], nodes: Table) -> LeftOutSelection:
    lacking = hierarchy.lacking_any(levels, nodes)
    weights = compress(nodes.weights, lacking)
    groups = compress(nodes.groups, lacking)
    count = 0
    gpus = 0
    for weight, group in zip(weights, groups, strict=True):
        count += weight
        gpus += weight * group.hardware.gpus
    return LeftOutSelection(count, gpus)


def _segment_keys(segments: Segments | None) -> set[str]:
    """The label keys of the levels that segments have."""
    if segments is None:
        return set()
    keys = set()
    for segment in segments.listed:
        for level in segment.levels:
            keys.add(level.key)
    return keys


def _required(
    topology: Topology, effective: EffectiveLevels, segments: Segments | None
) -> Sequence[str]:
    """What the spec requires of the topology itself.

    Levels that only a segment has are required of that segment's topology.
    """
    if not topology.is_divided or segments is None:
        return topology.required
    everywhere = {level.domain for level in effective.levels}
    elsewhere = set()
    for segment in segments.listed:
        for level in segment.levels:
            if level.domain not in everywhere:
                elsewhere.add(level.domain)
    return [domain for domain in topology.required if domain not in elsewhere]


def _publishable(topology: Topology, effective: EffectiveLevels) -> tuple[Level, ...] | None:
    """The levels without expired ones; None if there is none."""
    levels = effective.levels
    if not topology.is_retaining:
        levels = _without(levels, effective.expired)
    return levels or None


def _bindable(topology: Topology, effective: EffectiveLevels) -> tuple[Level, ...] | None:
    """The levels without expired ones that no workload needs; None if none is publishable."""
    if _publishable(topology, effective) is None:
        return None
    if topology.is_retaining:
        return effective.levels
    gone = effective.expired - effective.retained
    return _without(effective.levels, gone)


def _without(levels: Iterable[Level], gone: Container[Level]) -> tuple[Level, ...]:
    staying = []
    for level in levels:
        if level not in gone:
            staying.append(level)
    return tuple(staying)


def _consistent(
    crossed: Sequence[hierarchy.CrossedLevels],
    ambiguous: Sequence[str],
    mixed: Mapping[str, str],
) -> Condition:
    """Whether every domain lies within one domain of the level above.

    Reused names are ordinary to schedulers that go by the whole path, and a hazard to one that
    groups by the label alone.
    """
    sentences = []
    for clash in crossed:
        sentence = clash.sentence
        workload = mixed.get(clash.key)
        if workload:
            sentence += _MIXED.format(workload)
        sentences.append(sentence)
    text = "; ".join([*sentences, *ambiguous])

    if not all(clash.is_reused for clash in crossed):
        return Condition(HIERARCHY_CONSISTENT, "False", "LevelsDoNotNest", text)
    if any(mixed.values()):
        return Condition(HIERARCHY_CONSISTENT, "False", NAMES_MIXED, text)
    if ambiguous:
        return Condition(HIERARCHY_CONSISTENT, "False", "ValuesReadAlike", text)
    if crossed:
        return Condition(HIERARCHY_CONSISTENT, "True", "NamesReused", text)
    text = "Every domain lies within one domain of the level above"
    return Condition(HIERARCHY_CONSISTENT, "True", "LevelsNest", text)
