"""From nodes and one ClusterTopology to what its status should say and what should be published: pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from typing import Any

from controller import availability
from controller.conditions import AGENTS_REPORTING, HIERARCHY_CONSISTENT, LEVELS_COVERED, Condition
from controller.effective import Absences, Effective, effective_levels, said_expired
from controller.hints import Hint, hints
from controller.segments import Segments, observe
from controller.spec import Topology
from topology.catalogue import BUILT_IN, Catalogue
from topology.hierarchy import Coverage, cover, crossings, some_names
from topology.keys import GPU_PRESENT, GPUS
from topology.levels import Level
from topology.node import NodeFacts
from topology.table import Table, table_of


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the nodes say about one topology."""

    nodes: int
    gpus: int
    effective: Effective
    coverage: tuple[Coverage, ...]
    conditions: tuple[Condition, ...]
    unavailable: tuple[str, ...]
    """Required levels that are gone."""
    missed: tuple[str, ...]
    """Preferred ones."""
    publishable: tuple[Level, ...] | None
    """The levels that published resources should have; None: leave them as they are."""
    segments: Segments | None = None
    """How the nodes divide; None: they do not."""
    hints: tuple[Hint, ...] = ()


def assess(
    topology: Topology,
    nodes: Sequence[NodeFacts],
    absences: Absences,
    now: float,
    required: Iterable[str] = (),
    preferred: Iterable[str] = (),
    catalogue: Catalogue = BUILT_IN,
) -> Assessment:
    """Assess one topology against all nodes of a cluster whose nodes have been listed.

    `now` is monotonic seconds; `required` are the domains that workloads require, beside those of the spec, and
    `preferred` those that they prefer.
    """
    everything = table_of(nodes, catalogue.placeholders)
    selected = _selected(topology, everything)
    reporting = _agents_reporting(everything)
    if not selected:
        waiting = availability.no_nodes()
        last = Effective(topology.last_levels, said_expired(topology))
        return Assessment(
            nodes=0,
            gpus=0,
            effective=last,
            coverage=cover(last.levels, ()),
            conditions=(
                waiting,
                Condition(LEVELS_COVERED, "Unknown", "NoNodes", waiting.message),
                reporting,
                Condition(HIERARCHY_CONSISTENT, "Unknown", "NoNodes", waiting.message),
            ),
            unavailable=(),
            missed=tuple(sorted(availability.said_missed(topology.status))),
            publishable=None,
            segments=observe(topology, selected, last.levels, absences, now, catalogue),
        )
    effective = effective_levels(topology, selected, absences, now, catalogue)
    coverage = cover(effective.levels, selected)
    segments = observe(topology, selected, effective.levels, absences, now, catalogue)
    wanted = {*_required(topology, effective, segments), *required}
    verdict = availability.judge(topology, wanted, coverage, absences, now, preferred)
    remaining = (
        effective.levels if topology.retain else tuple(x for x in effective.levels if x not in effective.expired)
    )
    return Assessment(
        nodes=len(selected),
        gpus=_gpus(selected),
        effective=effective,
        coverage=coverage,
        conditions=(
            verdict.condition,
            _covered(coverage, len(selected)),
            reporting,
            _consistent(effective.levels, selected),
        ),
        unavailable=verdict.unavailable,
        missed=verdict.missed,
        publishable=None if topology.problems or not remaining else remaining,
        segments=segments,
        hints=hints(topology, selected, effective.levels, catalogue, _of_segments(segments)),
    )


def _of_segments(segments: Segments | None) -> frozenset[str]:
    """The keys of all levels that a segment has."""
    return frozenset(level.key for each in (segments.listed if segments else ()) for level in each.levels)


def _required(topology: Topology, effective: Effective, segments: Segments | None) -> Iterable[str]:
    """What the spec requires of the topology itself; what only a segment has is required of the segment's."""
    if not topology.divided or segments is None:
        return topology.required
    elsewhere = {level.domain for each in segments.listed for level in each.levels}
    elsewhere -= {level.domain for level in effective.levels}
    return [domain for domain in topology.required if domain not in elsewhere]


def _selected(topology: Topology, nodes: Table) -> Table:
    """The topology's nodes; nodes that are alike in what the selector looks at are asked about once."""
    alike: Iterable[Hashable]
    examples: Mapping[Any, NodeFacts]
    if any(requirement.values for requirement in topology.selector):
        alike = list(zip(*[nodes.labels(requirement.key) for requirement in topology.selector], strict=True))
        examples = dict(zip(alike, nodes, strict=True))
    else:  # it looks at what labels there are, whatever they say
        alike = map(attrgetter("keys"), nodes)
        examples = nodes.segments
    chosen = {each for each, node in examples.items() if topology.selects(node)}
    return (
        nodes
        if len(chosen) == len(examples)
        else Table(compress(nodes, map(chosen.__contains__, alike)), nodes.placeholders)
    )


def _gpus(nodes: Table) -> int:
    """GPUs as the nodes' agents counted them, else as the device plugin offers them."""
    labels = nodes.labels(GPUS)
    found = Counter(labels)
    counted = {label: int(label) for label in found if label and label.isascii() and label.isdigit()}
    total = sum(gpus * found[label] for label, gpus in counted.items())
    if len(counted) < len(found):
        total += sum(node.gpus for node, label in zip(nodes, labels, strict=True) if label not in counted)
    return total


def _covered(coverage: Sequence[Coverage], nodes: int) -> Condition:
    gaps = [
        f"{c.missing} of {nodes} nodes {'lacks' if c.missing == 1 else 'lack'} level '{c.level.domain}' "
        f"({c.level.key}): {some_names(c.missing_nodes, c.missing)}"
        for c in coverage
        if c.missing
    ]
    if gaps:
        text = "; ".join(gaps) + "; schedulers leave these nodes out of the topology"
        return Condition(LEVELS_COVERED, "False", "NodesMissingLevels", text)
    return Condition(LEVELS_COVERED, "True", "AllNodesCovered", f"All {nodes} nodes carry every level")


def _agents_reporting(nodes: Table) -> Condition:
    bare = {keys for keys in nodes.segments if GPUS not in keys}
    unlabelled = [node for node in nodes if node.keys in bare] if bare else ()
    silent = sorted(node.name for node in unlabelled if node.gpus or node.label(GPU_PRESENT) == "true")
    if silent:
        who = "1 node has" if len(silent) == 1 else f"{len(silent)} nodes have"
        text = f"{who} GPUs but no {GPUS} label: {some_names(silent)}; is the agent's DaemonSet running there?"
        return Condition(AGENTS_REPORTING, "False", "NodesWithoutLabels", text)
    return Condition(AGENTS_REPORTING, "True", "AllAgentsReport", "Every node with GPUs carries the labels of an agent")


def _consistent(levels: Sequence[Level], nodes: Table) -> Condition:
    found = crossings(levels, nodes)
    if found:
        return Condition(HIERARCHY_CONSISTENT, "False", "LevelsDoNotNest", "; ".join(found))
    return Condition(
        HIERARCHY_CONSISTENT, "True", "LevelsNest", "Every domain lies within one domain of the level above"
    )
