"""From nodes and one ClusterTopology to what its status should say and what should be published: pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controller import availability
from controller.conditions import AGENTS_REPORTING, HIERARCHY_CONSISTENT, LEVELS_COVERED, Condition
from controller.effective import Absences, Effective, effective_levels
from controller.spec import Topology
from topology.hierarchy import MOST_NAMES, Coverage, cover, crossings
from topology.keys import GPU_PRESENT, GPUS
from topology.levels import Level
from topology.node import NodeFacts


@dataclass(frozen=True, slots=True)
class Assessment:
    """What the nodes say about one topology."""

    nodes: int
    gpus: int
    effective: Effective
    coverage: tuple[Coverage, ...]
    conditions: tuple[Condition, ...]
    unavailable: tuple[str, ...]
    publishable: tuple[Level, ...] | None
    """The levels that published resources should have; None: leave them as they are."""


def assess(topology: Topology, nodes: Sequence[NodeFacts], absences: Absences, now: float) -> Assessment:
    """Assess one topology against all nodes of a cluster whose nodes have been listed.

    `now` is monotonic seconds.
    """
    selected = [node for node in nodes if topology.selects(node)]
    reporting = _agents_reporting(nodes)
    if not selected:
        waiting = availability.no_nodes()
        last = Effective(_last_levels(topology), frozenset())
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
            publishable=None,
        )
    effective = effective_levels(topology, selected, absences, now)
    coverage = cover(effective.levels, selected)
    verdict = availability.judge(topology, topology.required, coverage, absences, now)
    remaining = (
        effective.levels if topology.retain else tuple(x for x in effective.levels if x not in effective.expired)
    )
    return Assessment(
        nodes=len(selected),
        gpus=sum(_gpus(node) for node in selected),
        effective=effective,
        coverage=coverage,
        conditions=(
            verdict.condition,
            _covered(coverage, len(selected)),
            reporting,
            _consistent(effective.levels, selected),
        ),
        unavailable=verdict.unavailable,
        publishable=None if topology.problems or not remaining else remaining,
    )


def _last_levels(topology: Topology) -> tuple[Level, ...]:
    if topology.levels is not None:
        return topology.levels
    return tuple(Level(entry["domain"], entry["key"]) for entry in topology.status.get("levels") or ())


def _gpus(node: NodeFacts) -> int:
    """GPUs of a node as its agent counted them, else as the device plugin offers them."""
    counted = node.label(GPUS) or ""
    return int(counted) if counted.isascii() and counted.isdigit() else node.gpus


def _covered(coverage: Sequence[Coverage], nodes: int) -> Condition:
    gaps = [
        f"{c.missing} of {nodes} nodes {'lacks' if c.missing == 1 else 'lack'} level '{c.level.domain}' "
        f"({c.level.key}): {_some(c.missing_nodes, c.missing)}"
        for c in coverage
        if c.missing
    ]
    if gaps:
        text = "; ".join(gaps) + "; schedulers leave these nodes out of the topology"
        return Condition(LEVELS_COVERED, "False", "NodesMissingLevels", text)
    return Condition(LEVELS_COVERED, "True", "AllNodesCovered", f"All {nodes} nodes carry every level")


def _some(names: Sequence[str], total: int) -> str:
    more = total - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _agents_reporting(nodes: Sequence[NodeFacts]) -> Condition:
    silent = sorted(
        node.name for node in nodes if node.label(GPUS) is None and (node.gpus or node.label(GPU_PRESENT) == "true")
    )
    if silent:
        who = "1 node has" if len(silent) == 1 else f"{len(silent)} nodes have"
        text = (
            f"{who} GPUs but no {GPUS} label: {_some(silent[:MOST_NAMES], len(silent))}; "
            "is the agent's DaemonSet running there?"
        )
        return Condition(AGENTS_REPORTING, "False", "NodesWithoutLabels", text)
    return Condition(AGENTS_REPORTING, "True", "AllAgentsReport", "Every node with GPUs carries the labels of an agent")


def _consistent(levels: Sequence[Level], nodes: Sequence[NodeFacts]) -> Condition:
    found = crossings(levels, nodes)
    if found:
        return Condition(HIERARCHY_CONSISTENT, "False", "LevelsDoNotNest", "; ".join(found))
    return Condition(
        HIERARCHY_CONSISTENT, "True", "LevelsNest", "Every domain lies within one domain of the level above"
    )
