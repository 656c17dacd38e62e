"""From nodes and one ClusterTopology to conditions, and to the levels that should be published.

Pure.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import mul
from types import MappingProxyType
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import (
    AGENTS_REPORTING,
    FABRIC_HEALTHY,
    HIERARCHY_CONSISTENT,
    LEVELS_COVERED,
    NAMES_MIXED,
    Condition,
)
from toposcope.api.label_keys import GPU_PRESENT, GPUS, NVLINK_DOMAIN
from toposcope.api.label_values import MOST_COUNT, count_of
from toposcope.api.levels import Level
from toposcope.controller.assess import availability
from toposcope.controller.assess.covered import covered_condition
from toposcope.controller.assess.diagnostics import Diagnostic, diagnostics
from toposcope.controller.assess.health import Health, fabric_condition, health
from toposcope.controller.assess.rails import Rails, rails, rails_condition
from toposcope.controller.assess.rebuilds import Rebuild, Rebuilds, rebuilds_of
from toposcope.controller.assess.selection import selected
from toposcope.controller.segments import UNCLAIMED, Segments, observe, reported_segments
from toposcope.hierarchy import coverage as hierarchy
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.effective_levels import (
    UNNEEDED,
    Absences,
    EffectiveLevels,
    effective_levels,
    reported,
)
from toposcope.hierarchy.node import NodeFacts, Traits, fabric_of
from toposcope.hierarchy.table import Table, table_of

IS_IT_RUNNING: Final = "is the agent's DaemonSet running there?"
"""What `AgentsReporting` says of nodes without labels as long as the cause is not known."""
_MIXED: Final = (
    "; but {} goes by the value alone and mixes them: let it ask for a label of spec.uniqueValues"
)


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
    left_out: tuple[int, int] = (0, 0)
    """Those of the nodes that lack a level, and of the GPUs."""
    unavailable: tuple[str, ...] = ()
    """Required levels that are gone."""
    publishable: tuple[Level, ...] | None = None
    """The levels for published resources; None: leave them as they are."""
    bindable: tuple[Level, ...] | None = None
    """Those for Grove's binding, and for the KAI Topology made of it, with retained ones; None as above."""
    health: Health = field(default_factory=Health)
    rails: Rails = field(default_factory=Rails)
    segments: Segments | None = None
    """How the nodes divide; None: they do not."""
    diagnostics: tuple[Diagnostic, ...] = ()


def assess(
    topology: Topology,
    nodes: Iterable[NodeFacts],
    absences: Absences,
    now: float,
    required: Iterable[str] = (),
    preferred: Iterable[str] = (),
    catalogue: Catalogue = BUILT_IN,
    bound: Container[str] | None = (),
    by_value: Mapping[str, str] = MappingProxyType({}),
    *,
    held: Table | None = None,
    rebuilds: Sequence[Rebuild] = (),
) -> Assessment:
    """Assess one topology against all nodes, at `now` (monotonic seconds), with the domains that workloads ask for.

    `bound` as in `effective_levels`. `by_value`: who here goes by a label's value alone, by its key. `held`: the same
    nodes with the labels that are away for a while only; whether a level is gone is judged without them, because that
    has a grace period of its own. `rebuilds`: as observed on all nodes.
    """
    table = table_of(nodes, catalogue.placeholders)
    chosen = selected(topology, table if held is None else held)
    seen = chosen if held is None or held is table else _as_seen(table, chosen)
    reporting = _agents_reporting(table)
    if not chosen:
        # Nodes that come after this may lack their labels for a while, whatever those before them
        # lacked.
        absences.forget(topology.uid, but=(UNNEEDED, UNCLAIMED))
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
            selected=chosen,
            segments=reported_segments(topology),
        )
    effective = effective_levels(topology, seen, absences, now, catalogue, bound)
    coverage = hierarchy.cover(effective.levels, chosen)
    segments = observe(topology, chosen, effective.levels, absences, now, catalogue)
    wanted = {*_required(topology, effective, segments), *required}
    kept = {level.domain for level in effective.retained}
    moves = rebuilds_of(topology, chosen, rebuilds, absences, now)
    crossed = hierarchy.crossings(effective.levels, chosen, _passing(chosen, moves))
    if topology.levels is None and hierarchy.will_turn(effective.levels, chosen):
        crossed = [clash for clash in crossed if not clash.turned]
    mixed = {clash.key: by_value[clash.key] for clash in crossed if clash.key in by_value}
    carried = coverage if seen is chosen else hierarchy.cover(effective.levels, seen)
    verdict = availability.judge(topology, wanted, carried, absences, now, preferred, kept)
    report = health(effective.levels, chosen, moves)
    cabled = rails(topology, chosen, absences, now)
    listed = segments.listed if segments else ()
    segment_keys = {level.key for segment in listed for level in segment.levels}
    gone = frozenset[Level]() if topology.retain else effective.expired
    remaining = tuple(level for level in effective.levels if level not in gone)
    publishes = bool(remaining) and not topology.problems
    return Assessment(
        nodes=len(chosen),
        gpus=report.gpus,
        left_out=_left_out(effective.levels, chosen),
        effective=effective,
        coverage=coverage,
        conditions=(
            verdict.condition,
            covered_condition(
                topology, chosen, coverage, catalogue, segment_keys if topology.divided else ()
            ),
            reporting,
            _consistent(crossed, hierarchy.ambiguous_paths(effective.levels, chosen), by_value),
            fabric_condition(report),
            rails_condition(cabled),
        ),
        unavailable=verdict.unavailable,
        missed=verdict.missed,
        publishable=remaining if publishes else None,
        bindable=tuple(x for x in effective.levels if x not in gone - effective.retained)
        if publishes
        else None,
        health=report,
        rails=cabled,
        selected=chosen,
        segments=segments,
        diagnostics=diagnostics(topology, chosen, effective.levels, catalogue, known=segment_keys, mixed=mixed),
    )


def _passing(nodes: Table, moves: Rebuilds) -> frozenset[str]:
    """The NVLink domains that nodes are leaving or joining."""
    if not moves.under_way:
        return frozenset()
    domains = [machine.domain for machine, _ in nodes.machines if machine.domain is not None]
    return frozenset(domain for domain in domains if fabric_of(domain) in moves.moving)


def _as_seen(nodes: Table, chosen: Table) -> Table:
    """The nodes of the same names with the labels that they carry now."""
    names = {node.name for node in chosen}
    return table_of([node for node in nodes if node.name in names], nodes.placeholders)


def _left_out(levels: Sequence[Level], nodes: Table) -> tuple[int, int]:
    lacking = hierarchy.lacking_any(levels, nodes)
    weights = [*compress(nodes.weights, lacking)]
    gpus = sum(
        map(mul, weights, (group.hardware.gpus for group in compress(nodes.groups, lacking)))
    )
    return sum(weights), gpus


def _required(
    topology: Topology, effective: EffectiveLevels, segments: Segments | None
) -> Iterable[str]:
    """What the spec requires of the topology itself; levels that only a segment has are required of that segment's."""
    if not topology.divided or segments is None:
        return topology.required
    elsewhere = {level.domain for segment in segments.listed for level in segment.levels}
    elsewhere -= {level.domain for level in effective.levels}
    return [domain for domain in topology.required if domain not in elsewhere]


def _agents_reporting(nodes: Table) -> Condition:
    parts = []
    implausible = _implausible(nodes)
    if implausible:
        what = f"a {GPUS} label that is not a number from 0 to {MOST_COUNT}"
        advice = "the device plugin's count is used; check who wrote it"
        parts.append(
            (
                "ImplausibleLabels",
                f"{_have(implausible)} {what}: {hierarchy.some_names(implausible)}; {advice}",
            )
        )
    silent = (
        []
        if all(GPUS in keys for keys in nodes.key_sets)
        else sorted(nodes.names(map(_is_silent, nodes.groups)))
    )
    if silent:
        text = f"{_have(silent)} GPUs but no {GPUS} label: {hierarchy.some_names(silent)}; {IS_IT_RUNNING}"
        parts.append(("NodesWithoutLabels", text))
    if parts:
        return Condition(
            AGENTS_REPORTING, "False", parts[0][0], "; ".join(text for _, text in parts)
        )
    return Condition(
        AGENTS_REPORTING,
        "True",
        "AllAgentsReport",
        "Every node with GPUs carries the labels of an agent",
    )


def _have(names: Sequence[str]) -> str:
    return "1 node has" if len(names) == 1 else f"{len(names)} nodes have"


def _implausible(nodes: Table) -> list[str]:
    """Nodes whose label `gpus` is not a count; a node whose own name is its value stands for itself in the table."""
    if all(value is None or count_of(value) is not None for value in nodes.distinct(GPUS)):
        return []
    return sorted(
        node.name
        for node in nodes
        if (value := node.label(GPUS)) is not None and count_of(value) is None
    )


def _is_silent(node: Traits) -> bool:
    """Whether a node has GPUs that no agent has counted; labels may be left of an agent of former times."""
    gpus = node.gpus or node.label(GPU_PRESENT) == "true" or node.label(NVLINK_DOMAIN) is not None
    return node.label(GPUS) is None and bool(gpus)


def _consistent(
    crossed: Sequence[hierarchy.CrossedLevels], merged: Sequence[str], by_value: Mapping[str, str]
) -> Condition:
    """Reused names are ordinary to schedulers that go by the whole path, and a hazard where one goes by the value."""
    who = {clash.key: by_value.get(clash.key, "") for clash in crossed}
    sentences = [
        clash.sentence + (_MIXED.format(who[clash.key]) if who[clash.key] else "")
        for clash in crossed
    ]
    wrong = not all(clash.reused for clash in crossed)
    if wrong or any(who.values()) or merged:
        reason = (
            "LevelsDoNotNest" if wrong else NAMES_MIXED if any(who.values()) else "ValuesReadAlike"
        )
        return Condition(HIERARCHY_CONSISTENT, "False", reason, "; ".join((*sentences, *merged)))
    if crossed:
        return Condition(HIERARCHY_CONSISTENT, "True", "NamesReused", "; ".join(sentences))
    return Condition(
        HIERARCHY_CONSISTENT,
        "True",
        "LevelsNest",
        "Every domain lies within one domain of the level above",
    )
