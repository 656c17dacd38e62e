"""Suggests ClusterTopologies for the nodes: one for each group of nodes with the same level keys.

Schedulers ignore nodes that lack a level of a topology, so groups of nodes with different keys need
topologies of their own. A suggestion is only made if its selector matches exactly its nodes and its
levels nest. A level that nearly all of its nodes carry is suggested, with the names of the few that
lack it: what becomes of these is the admin's decision.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple

from toposcope.api.cluster_topology import USUAL_COVERAGE
from toposcope.api.label_keys import GPU_PRODUCT, GPUS, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.api.requirement import Requirement
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.segments import Segment, divide, whole
from toposcope.hierarchy.table import Table
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import MAIN, table_of

_EXISTS: Final = "Exists"
_ABSENT: Final = "DoesNotExist"
_NOT_IN: Final = "NotIn"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that was left out because one of its values lies under two values of another level."""

    level: Level
    other: Level
    value: str
    parents: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One ClusterTopology: its spec, and why."""

    name: str
    levels: tuple[Level, ...]
    selector: tuple[Requirement, ...]
    """Empty: the default, every node with an agent."""
    nodes: tuple[NodeView, ...]
    own: tuple[Level, ...]
    """Levels that other nodes lack."""
    crossings: tuple[Crossing, ...]
    lacking: tuple[str, ...] = ()
    """Names of the few nodes that lack one of its levels."""
    coverage: int = USUAL_COVERAGE

    @property
    def gpus(self) -> int:
        """Of all its nodes."""
        return sum(node.gpus for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """The spec as it is applied."""
        spec: dict[str, Any] = {}
        if self.selector:
            spec["nodeSelector"] = {
                "matchExpressions": [_expression(requirement) for requirement in self.selector]
            }
        if self.coverage != USUAL_COVERAGE:
            spec["minCoveragePercent"] = self.coverage
        spec["levels"] = [{"domain": level.domain, "key": level.key} for level in self.levels]
        return spec


def _expression(requirement: Requirement) -> dict[str, Any]:
    values = {"values": sorted(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator} | values


class Suggestions(NamedTuple):
    """The suggestions, largest first, and one sentence for whatever has none."""

    found: tuple[Suggestion, ...]
    reasons: tuple[str, ...]


def suggest(
    nodes: Sequence[NodeView], catalogue: Catalogue = BUILT_IN, coverage: int = USUAL_COVERAGE
) -> Suggestions:
    """Suggest topologies for the nodes that agents have labelled.

    `coverage` is the percentage of its nodes that must carry a level.
    """
    labelled = [node for node in nodes if node.label(GPUS) is not None]
    silent = sorted(node.name for node in nodes if node.label(GPUS) is None and node.has_gpus)
    reasons = [] if labelled or silent else ["there are no nodes with GPUs"]
    if silent:
        reasons.append(
            f"{_some(silent)} GPUs but no label {GPUS}: is the agent's DaemonSet running there?"
        )
    doubted = _doubted(labelled, catalogue)
    if doubted:
        names = sorted(doubted)
        reasons.append(
            f"{_some(names)} a placeholder (no-topology or an empty value) for a level; make sure it gets a value"
        )
    clear = [node for node in labelled if node.name not in doubted]
    found = []
    if clear:
        table = table_of(clear, catalogue.level_keys | {GPUS}, catalogue)
        for segment in (
            divide(table, catalogue, coverage) or whole(table, catalogue, coverage)
        ).segments:
            suggestion = _suggestion(segment, labelled, catalogue, coverage)
            if isinstance(suggestion, str):
                reasons.append(suggestion)
            else:
                found.append(suggestion)
    return Suggestions(_named(found), tuple(reasons))


def _doubted(nodes: Sequence[NodeView], catalogue: Catalogue) -> frozenset[str]:
    """Names of nodes with "unknown" for some level: they neither have nor lack it."""
    return frozenset(
        node.name
        for node in nodes
        if any(
            node.label(key) in catalogue.placeholders
            for key in catalogue.level_keys.intersection(node.places)
        )
    )


def _some(names: Sequence[str], few: int = 3) -> str:
    some = ", ".join(names[:few]) + (", ..." if len(names) > few else "")
    return f"1 node has ({some})" if len(names) == 1 else f"{len(names)} nodes have ({some})"


def _suggestion(
    segment: Segment, labelled: Sequence[NodeView], catalogue: Catalogue, coverage: int
) -> Suggestion | str:
    """The topology of a segment, or why there is none."""
    if not segment.levels:
        return (
            f"{_some(segment.examples)} no label of a known level, not even kubernetes.io/hostname"
        )
    selector = _selector(segment, labelled, catalogue)
    nodes = tuple(
        node for node in labelled if all(requirement.holds(node) for requirement in selector)
    )
    if len(nodes) != segment.nodes:
        return f"{_some(segment.examples)} levels that no selector can separate from those of other nodes"
    keys = {level.key for level in segment.levels}
    lacking = [node.name for node in nodes if not keys <= node.places.keys()]
    complete = [node for node in nodes if keys <= node.places.keys()]
    levels, crossings = _nested(segment.levels, table_of(complete or nodes, keys, catalogue))
    needed = selector if len(nodes) < len(labelled) else ()
    return Suggestion("", levels, needed, nodes, segment.own, crossings, tuple(lacking), coverage)


def _selector(
    segment: Segment, labelled: Sequence[NodeView], catalogue: Catalogue
) -> tuple[Requirement, ...]:
    """Selects the segment: keys that it has and lacks, and no placeholder."""
    doubtful = [
        level.key
        for level in segment.levels
        if any(node.label(level.key) in catalogue.placeholders for node in labelled)
    ]
    return (
        Requirement(GPUS, _EXISTS),
        *(Requirement(key, _EXISTS) for key in segment.has),
        *(Requirement(key, _ABSENT) for key in segment.lacks),
        *(Requirement(key, _NOT_IN, catalogue.placeholders) for key in doubtful),
    )


def _nested(
    path: tuple[Level, ...], nodes: Table
) -> tuple[tuple[Level, ...], tuple[Crossing, ...]]:
    """As many levels as nest, and those left out.

    Of equally many, the broader ones: a narrow level that crosses a broad one may be a name used
    twice, and would join unrelated nodes without the broad one. NVLink domains have unique names,
    so their level is always kept.
    """
    for size in range(len(path), 0, -1):
        for levels in combinations(path, size):
            if any(level.key == NVLINK_DOMAIN for level in path) and all(
                x.key != NVLINK_DOMAIN for x in levels
            ):
                continue
            if all(_nests(broad, narrow, nodes) for broad, narrow in pairwise(levels)):
                left_out = [level for level in path if level not in levels]
                return levels, tuple(_crossing(level, path, nodes) for level in left_out)
    raise AssertionError("one level alone always nests")


def _nests(broad: Level, narrow: Level, nodes: Table) -> bool:
    return nodes.column(narrow.key).unique or nodes.nests(broad.key, narrow.key)


def _crossing(level: Level, path: Sequence[Level], nodes: Table) -> Crossing:
    """Why a level was left out: the first level that it crosses, and where."""
    place = path.index(level)
    pairs = [
        (other, level) if path.index(other) < place else (level, other)
        for other in path
        if other != level
    ]
    broad, narrow = next(pair for pair in pairs if not _nests(*pair, nodes))
    parents: dict[str | None, str | None] = {}
    rows = zip(nodes.values(narrow.key), nodes.values(broad.key), strict=True)
    value, first, second = next(
        (inner, parents[inner], outer)
        for inner, outer in rows
        if parents.setdefault(inner, outer) != outer
    )
    a, b = sorted((str(first), str(second)))
    return Crossing(level, narrow if level == broad else broad, str(value), (a, b))


def _named(suggestions: Sequence[Suggestion]) -> tuple[Suggestion, ...]:
    """A name for each: `cluster` for the only one, else the product of its GPUs, else its narrowest own level."""
    if len(suggestions) == 1 and not suggestions[0].selector:
        names = [MAIN]
    else:
        names = [_name(suggestion) for suggestion in suggestions]
        uses = Counter(names)
        numbers: Counter[str] = Counter()
        for place, name in enumerate(names):
            if uses[name] > 1:
                numbers[name] += 1
                names[place] = f"{name}-{numbers[name]}"
    return tuple(
        replace(suggestion, name=name) for name, suggestion in zip(names, suggestions, strict=True)
    )


def _name(suggestion: Suggestion) -> str:
    products = {node.label(GPU_PRODUCT) for node in suggestion.nodes}
    product = products.pop() if len(products) == 1 else None
    if product:
        return (
            "".join(c if c.isascii() and c.isalnum() else "-" for c in product.lower()).strip("-")
            or MAIN
        )
    return f"by-{suggestion.own[-1].domain}" if suggestion.own else "others"
