"""Suggests ClusterTopologies for the nodes: one for each segment that the controller would find.

Schedulers ignore nodes that lack a level of a topology, so groups of nodes with different keys need
topologies of their own. Division, names and selectors are those of `spec.segments: Auto`; beside
that a suggestion lists its levels, as far as they nest, and says what was left out. A level that
nearly all of its nodes carry is suggested, with the names of the few that lack it: the admin
decides what to do about these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

import msgspec

from toposcope.api.cluster_topology import USUAL_COVERAGE_PERCENT, Topology, read
from toposcope.api.label_keys import GPUS, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import crossings, lies_around, nested
from toposcope.hierarchy.effective_levels import LevelTimers, unpublished_levels
from toposcope.hierarchy.segments import (
    Path,
    Segment,
    Segmentation,
    child_name,
    divide,
    names_of,
    selector_of,
    whole,
)
from toposcope.hierarchy.table import Table
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import MAIN, Scope, select_scope, table_of

_NAMED_NODES: Final = 3
"""Nodes that a sentence names."""


@dataclass(frozen=True, slots=True)
class LeftOutLevel:
    """A level that was left out, because it and another level do not nest."""

    level: Level
    crossed: Level
    value: str
    """One value of the narrower level."""
    parents: tuple[str, str]
    """Two values of the broader level that it lies under."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One ClusterTopology: its spec, and why."""

    name: str
    levels: tuple[Level, ...]
    selector: Mapping[str, Any]
    """`spec.nodeSelector`; empty: the default, every node with an agent."""
    nodes: tuple[NodeView, ...]
    own: tuple[Level, ...]
    """Levels that other nodes lack."""
    crossings: tuple[LeftOutLevel, ...]
    idle: tuple[Level, ...] = ()
    """The broadest levels, left out because they add nothing above the host."""
    lacking: tuple[str, ...] = ()
    """Names of the few nodes that lack one of its levels."""
    coverage: int = USUAL_COVERAGE_PERCENT

    @property
    def gpus(self) -> int:
        """The number of GPUs on its nodes."""
        return sum(node.gpus for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """The spec as it is applied."""
        spec: dict[str, Any] = {}
        if self.selector:
            spec["nodeSelector"] = dict(self.selector)
        if self.coverage != USUAL_COVERAGE_PERCENT:
            spec["minCoveragePercent"] = self.coverage

        levels = []
        for level in self.levels:
            levels.append({"domain": level.domain, "key": level.key})
        spec["levels"] = levels
        return spec


class Suggestions(NamedTuple):
    """The suggestions, largest first, and a sentence about each group of nodes without one."""

    suggestions: tuple[Suggestion, ...]
    reasons: tuple[str, ...]
    is_before_agents: bool = False
    """Whether no agent has labelled a node yet: the suggestions select the nodes from then on."""
    outside: tuple[str, ...] = ()
    """Names of the nodes with an agent that the ClusterTopology does not select."""


def suggest(snapshot: Snapshot) -> Suggestions:
    """Suggest topologies for the nodes that the ClusterTopology `cluster` selects, or would.

    Before there are agents, these are the nodes with GPUs.
    """
    parent = _parent(snapshot)
    labelled, unlabelled = _by_agent(snapshot.nodes)
    before_agents = bool(unlabelled) and not labelled
    if before_agents:
        labelled = _as_if_labelled(unlabelled)
        unlabelled = []
    scope = select_scope(replace(snapshot, nodes=tuple(labelled), topologies=(parent,)), MAIN)
    if not scope.nodes:
        return Suggestions((), tuple(_reasons(labelled, unlabelled, ())), before_agents)

    division = _division(scope, parent)
    reasons = _reasons(labelled, unlabelled, _doubted(scope))
    names = _names(division, parent)
    suggestions = []
    for segment in division.segments:
        suggestion = _suggestion(segment, names[segment.levels], parent, scope)
        if isinstance(suggestion, str):
            reasons.append(suggestion)
        else:
            suggestions.append(suggestion)
    selected = {node.name for node in scope.nodes}
    outside = [node.name for node in labelled if node.name not in selected]
    return Suggestions(tuple(suggestions), tuple(reasons), before_agents, tuple(outside))


def _parent(snapshot: Snapshot) -> Topology:
    """The ClusterTopology `cluster`, or what it would be."""
    for topology in snapshot.topologies:
        if topology.name == MAIN:
            return topology
    return read({"metadata": {"name": MAIN}})


def _by_agent(nodes: Sequence[NodeView]) -> tuple[list[NodeView], list[NodeView]]:
    """The nodes that agents have labelled, and others with GPUs."""
    labelled = []
    unlabelled = []
    for node in nodes:
        if node.label(GPUS) is not None:
            labelled.append(node)
        elif node.has_gpus:
            unlabelled.append(node)
    return labelled, unlabelled


def _as_if_labelled(nodes: Sequence[NodeView]) -> list[NodeView]:
    """The nodes with the label by which an agent's nodes are selected."""
    places_by_id: dict[int, Mapping[str, int]] = {}
    labelled = []
    for node in nodes:
        # Nodes with equal label keys share one mapping, and go on doing so.
        places = places_by_id.get(id(node.places))
        if places is None:
            places = {**node.places, GPUS: len(node.places)}
            places_by_id[id(node.places)] = places
        values = (*node.values, str(node.gpus))
        labelled.append(msgspec.structs.replace(node, places=places, values=values))
    return labelled


def _division(scope: Scope, parent: Topology) -> Segmentation:
    """The segments that the controller would find; nodes that carry the same levels are one."""
    catalogue = scope.catalogue
    table = scope.table_with(catalogue.level_keys | {GPUS})
    division = divide(table, catalogue, parent.min_coverage_percent, scope.levels)
    if division is None:
        division = whole(table, catalogue, parent.min_coverage_percent, scope.levels)
    return division


def _doubted(scope: Scope) -> list[str]:
    """The names of nodes with a placeholder for some level: they neither have nor lack it."""
    catalogue = scope.catalogue
    doubted = []
    for node in scope.nodes:
        values = [node.label(key) for key in catalogue.level_keys.intersection(node.places)]
        if not catalogue.placeholders.isdisjoint(values):
            doubted.append(node.name)
    return sorted(doubted)


def _names(division: Segmentation, parent: Topology) -> dict[Path, str]:
    """The names of the segments' ClusterTopologies; one alone is that of the parent."""
    if len(division.segments) == 1:
        (only,) = division.segments
        return {only.levels: parent.name}

    present: dict[Path, str] = {}
    for entry in parent.status.get("segments") or ():
        levels = []
        for level in entry.get("levels") or ():
            levels.append(Level(level["domain"], level["key"]))
        present[tuple(levels)] = entry["name"]

    names = {}
    for path, name in names_of(division.segments, present).items():
        names[path] = child_name(parent.name, name)
    return names


def _reasons(
    labelled: Sequence[NodeView], unlabelled: Sequence[NodeView], doubted: Sequence[str]
) -> list[str]:
    """Why some nodes are in no suggestion, before their levels are compared."""
    if not labelled and not unlabelled:
        return ["there are no nodes with GPUs"]
    reasons = []
    if unlabelled:
        names = sorted(node.name for node in unlabelled)
        reasons.append(
            f"{_have(names)} GPUs but no label {GPUS}: {_first(names)}; "
            "is the agent's DaemonSet running there?"
        )
    if doubted:
        reasons.append(
            f"{_have(doubted)} a placeholder (no-topology or an empty value) for a level: "
            f"{_first(doubted)}; set the label to the real value"
        )
    return reasons


def _have(names: Sequence[str], count: int | None = None) -> str:
    """The beginning of a sentence about nodes: how many they are."""
    if count is None:
        count = len(names)
    if count == 1:
        return "1 node has"
    return f"{count} nodes have"


def _first(names: Sequence[str], count: int | None = None) -> str:
    """The first names of these nodes."""
    if count is None:
        count = len(names)
    first = ", ".join(names[:_NAMED_NODES])
    return f"{first}, ..." if count > _NAMED_NODES else first


def _suggestion(segment: Segment, name: str, parent: Topology, scope: Scope) -> Suggestion | str:
    """The topology of a segment, or why there is none."""
    have = _have(segment.examples, segment.nodes)
    names = _first(segment.examples, segment.nodes)
    if not segment.levels:
        return f"{have} no label of a known level, not even kubernetes.io/hostname: {names}"

    selector = _selector(segment, parent)
    nodes = _selected(scope.nodes, selector)
    if len(nodes) != segment.nodes:
        return f"{have} levels that no selector can separate from those of other nodes: {names}"

    complete, lacking = _complete(nodes, segment.levels, scope)
    keys = {level.key for level in segment.levels}
    table = table_of(complete or nodes, keys, scope.catalogue)
    levels, left_out = _nested(_ordered(segment.levels, table), table)
    idle = unpublished_levels(parent, levels, table, timers=LevelTimers(), now=0.0)
    return Suggestion(
        name=name,
        levels=levels[len(idle) :],
        selector=selector,
        nodes=nodes,
        own=segment.own,
        crossings=left_out,
        idle=idle,
        lacking=lacking,
        coverage=parent.min_coverage_percent,
    )


def _selector(segment: Segment, parent: Topology) -> Mapping[str, Any]:
    """The node selector of a segment; that of the parent, which may have none, if it is alone."""
    if segment.has or segment.lacks:
        return selector_of(parent.spec, segment)
    selector: Mapping[str, Any] = parent.spec.get("nodeSelector") or {}
    return selector


def _selected(nodes: Sequence[NodeView], selector: Mapping[str, Any]) -> tuple[NodeView, ...]:
    """The nodes that a ClusterTopology with this selector has."""
    topology = read({"metadata": {"name": MAIN}, "spec": {"nodeSelector": selector or None}})
    return tuple(filter(topology.selects, nodes))


def _complete(
    nodes: Sequence[NodeView], levels: Sequence[Level], scope: Scope
) -> tuple[list[NodeView], tuple[str, ...]]:
    """The nodes that carry all levels, and the names of those that lack one."""
    keys = [level.key for level in levels]
    table = table_of(nodes, set(keys), scope.catalogue)
    columns = [table.values(key) for key in keys]
    complete = []
    lacking = []
    for node, path in zip(nodes, zip(*columns, strict=True), strict=True):
        if None in path:
            lacking.append(node.name)
        else:
            complete.append(node)
    return complete, tuple(lacking)


def _ordered(levels: Sequence[Level], nodes: Table) -> tuple[Level, ...]:
    """The levels as the controller orders them: NVLink domains may lie around racks."""

    def is_around(level: Level, rack: Level, above: Level | None) -> bool:
        return lies_around(level, rack, above, nodes) is True

    return nested(levels, is_around)


def _nested(
    path: tuple[Level, ...], nodes: Table
) -> tuple[tuple[Level, ...], tuple[LeftOutLevel, ...]]:
    """As many levels as nest, and the levels that are left out.

    Of equally many it takes the broader ones: a narrow level that crosses a broad one may be a name
    that is used twice, and would join unrelated nodes without the broad level. NVLink domains have
    unique names, so their level is always kept.
    """
    for levels in _subsets(path):
        if not _all_nest(levels, nodes):
            continue
        crossings = []
        for level in path:
            if level not in levels:
                crossings.append(_crossing(level, path, nodes))
        return levels, tuple(crossings)

    raise AssertionError("one level alone always nests")


def _subsets(path: tuple[Level, ...]) -> Iterator[tuple[Level, ...]]:
    """The subsets of levels to try, the largest first; each has the NVLink level, if any."""
    needs_nvlink = _has_nvlink(path)
    for size in range(len(path), 0, -1):
        for levels in combinations(path, size):
            if _has_nvlink(levels) or not needs_nvlink:
                yield levels


def _has_nvlink(levels: Sequence[Level]) -> bool:
    return any(level.key == NVLINK_DOMAIN for level in levels)


def _all_nest(levels: Sequence[Level], nodes: Table) -> bool:
    for broad, narrow in pairwise(levels):
        if not _nests(broad, narrow, nodes):
            return False
    return True


def _nests(broad: Level, narrow: Level, nodes: Table) -> bool:
    """Whether each narrow domain lies in one broad one; names may be used in each of these."""
    column = nodes.column(narrow.key)
    if column.is_unique or nodes.nests(broad.key, narrow.key):
        return True
    crossed = crossings([broad, narrow], nodes)
    return any(crossing.is_reused for crossing in crossed)


def _crossing(level: Level, path: Sequence[Level], nodes: Table) -> LeftOutLevel:
    """The reason why a level was left out: the first level that it crosses, and where."""
    broad, narrow = _crossed_pair(level, path, nodes)
    parents: dict[str | None, str | None] = {}
    rows = zip(nodes.values(narrow.key), nodes.values(broad.key), strict=True)
    for value, parent in rows:
        first = parents.setdefault(value, parent)
        if first == parent:
            continue

        low, high = sorted((str(first), str(parent)))
        return LeftOutLevel(
            level=level,
            crossed=narrow if level == broad else broad,
            value=str(value),
            parents=(low, high),
        )
    raise AssertionError("a level that does not nest has a value with two parents")


def _crossed_pair(level: Level, path: Sequence[Level], nodes: Table) -> tuple[Level, Level]:
    """The level and the first other one that it crosses, the broader one first."""
    place = path.index(level)
    for position, other in enumerate(path):
        if other == level:
            continue

        pair = (other, level) if position < place else (level, other)
        if not _nests(*pair, nodes):
            return pair
    raise AssertionError("a level that was left out crosses another one")
