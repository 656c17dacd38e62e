"""Suggests ClusterTopologies for the nodes: one for each group of nodes with the same level keys.

Schedulers ignore nodes that lack a level of a topology, so groups of nodes with different keys need
topologies of their own. A suggestion is only made if its selector matches exactly its nodes and its
levels nest. A level that nearly all of its nodes carry is suggested, with the names of the few that
lack it: the admin decides what to do about these.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
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
_NAMED_NODES: Final = 3
"""Nodes that a sentence names."""


@dataclass(frozen=True, slots=True)
class Crossing:
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
        """The number of GPUs on its nodes."""
        return sum(node.gpus for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """The spec as it is applied."""
        spec: dict[str, Any] = {}
        if self.selector:
            expressions = [_expression(requirement) for requirement in self.selector]
            spec["nodeSelector"] = {"matchExpressions": expressions}
        if self.coverage != USUAL_COVERAGE:
            spec["minCoveragePercent"] = self.coverage

        levels = []
        for level in self.levels:
            levels.append({"domain": level.domain, "key": level.key})
        spec["levels"] = levels
        return spec


def _expression(requirement: Requirement) -> dict[str, Any]:
    expression: dict[str, Any] = {
        "key": requirement.key,
        "operator": requirement.operator,
    }
    if requirement.values:
        expression["values"] = sorted(requirement.values)
    return expression


class Suggestions(NamedTuple):
    """The suggestions, largest first, and a sentence about each group of nodes without one."""

    suggestions: tuple[Suggestion, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The nodes that agents have labelled, and what makes a label a level."""

    labelled: Sequence[NodeView]
    catalogue: Catalogue
    coverage: int
    """The percentage of its nodes that must carry a level."""


def suggest(
    nodes: Sequence[NodeView], catalogue: Catalogue = BUILT_IN, coverage: int = USUAL_COVERAGE
) -> Suggestions:
    """Suggest topologies for the nodes that agents have labelled.

    `coverage` is the percentage of its nodes that must carry a level.
    """
    labelled = []
    unlabelled = []
    for node in nodes:
        if node.label(GPUS) is not None:
            labelled.append(node)
        elif node.has_gpus:
            unlabelled.append(node.name)

    fleet = _Fleet(labelled, catalogue, coverage)
    doubted = _doubted(fleet)
    reasons = _reasons(labelled, sorted(unlabelled), sorted(doubted))
    clear = [node for node in labelled if node.name not in doubted]
    suggestions = []
    for segment in _segments(clear, fleet):
        suggestion = _suggestion(segment, fleet)
        if isinstance(suggestion, str):
            reasons.append(suggestion)
        else:
            suggestions.append(suggestion)

    return Suggestions(_named(suggestions), tuple(reasons))


def _reasons(
    labelled: Sequence[NodeView], unlabelled: Sequence[str], doubted: Sequence[str]
) -> list[str]:
    """Why some nodes are in no suggestion, before their levels are looked at."""
    if not labelled and not unlabelled:
        return ["there are no nodes with GPUs"]
    reasons = []
    if unlabelled:
        have = _some(unlabelled)
        reasons.append(f"{have} GPUs but no label {GPUS}: is the agent's DaemonSet running there?")
    if doubted:
        reasons.append(
            f"{_some(doubted)} a placeholder (no-topology or an empty value) for a level; "
            "make sure it gets a value"
        )
    return reasons


def _segments(nodes: Sequence[NodeView], fleet: _Fleet) -> Sequence[Segment]:
    """The segments that the controller would find; nodes that carry the same levels are one."""
    if not nodes:
        return ()

    catalogue = fleet.catalogue
    table = table_of(nodes, catalogue.level_keys | {GPUS}, catalogue)
    division = divide(table, catalogue, fleet.coverage)
    if division is None:
        division = whole(table, catalogue, fleet.coverage)
    return division.segments


def _doubted(fleet: _Fleet) -> frozenset[str]:
    """The names of nodes with a placeholder for some level: they neither have nor lack it."""
    level_keys = fleet.catalogue.level_keys
    placeholders = fleet.catalogue.placeholders
    doubted = set()
    for node in fleet.labelled:
        for key in level_keys.intersection(node.places):
            if node.label(key) in placeholders:
                doubted.add(node.name)

    return frozenset(doubted)


def _some(names: Sequence[str]) -> str:
    """The beginning of a sentence about nodes, with their number and the first names."""
    count = len(names)
    some = ", ".join(names[:_NAMED_NODES])
    if count > _NAMED_NODES:
        some += ", ..."
    if count == 1:
        return f"1 node has ({some})"
    return f"{count} nodes have ({some})"


def _suggestion(segment: Segment, fleet: _Fleet) -> Suggestion | str:
    """The topology of a segment, or why there is none."""
    some = _some(segment.examples)
    if not segment.levels:
        return f"{some} no label of a known level, not even kubernetes.io/hostname"

    selector = _selector(segment, fleet)
    nodes = _selected(fleet.labelled, selector)
    if len(nodes) != segment.nodes:
        return f"{some} levels that no selector can separate from those of other nodes"
    keys = {level.key for level in segment.levels}
    complete = []
    lacking = []
    for node in nodes:
        if keys <= node.places.keys():
            complete.append(node)
        else:
            lacking.append(node.name)

    table = table_of(complete or nodes, keys, fleet.catalogue)
    levels, crossings = _nested(segment.levels, table)
    are_all_nodes = len(nodes) == len(fleet.labelled)
    return Suggestion(
        name="",
        levels=levels,
        selector=() if are_all_nodes else selector,
        nodes=nodes,
        own=segment.own,
        crossings=crossings,
        lacking=tuple(lacking),
        coverage=fleet.coverage,
    )


def _selected(nodes: Sequence[NodeView], selector: Sequence[Requirement]) -> tuple[NodeView, ...]:
    selected = []
    for node in nodes:
        if all(requirement.holds(node) for requirement in selector):
            selected.append(node)
    return tuple(selected)


def _selector(segment: Segment, fleet: _Fleet) -> tuple[Requirement, ...]:
    """The selector of a segment: keys that it has and lacks, and no placeholder."""
    requirements = [Requirement(GPUS, _EXISTS)]
    for key in segment.has:
        requirements.append(Requirement(key, _EXISTS))
    for key in segment.lacks:
        requirements.append(Requirement(key, _ABSENT))

    placeholders = fleet.catalogue.placeholders
    for level in segment.levels:
        values = {node.label(level.key) for node in fleet.labelled}
        if not values.isdisjoint(placeholders):
            requirements.append(Requirement(level.key, _NOT_IN, placeholders))
    return tuple(requirements)


def _nested(
    path: tuple[Level, ...], nodes: Table
) -> tuple[tuple[Level, ...], tuple[Crossing, ...]]:
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
    return nodes.column(narrow.key).unique or nodes.nests(broad.key, narrow.key)


def _crossing(level: Level, path: Sequence[Level], nodes: Table) -> Crossing:
    """The reason why a level was left out: the first level that it crosses, and where."""
    broad, narrow = _crossed_pair(level, path, nodes)
    parents: dict[str | None, str | None] = {}
    rows = zip(nodes.values(narrow.key), nodes.values(broad.key), strict=True)
    for value, parent in rows:
        first = parents.setdefault(value, parent)
        if first == parent:
            continue

        low, high = sorted((str(first), str(parent)))
        return Crossing(
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


def _named(suggestions: Sequence[Suggestion]) -> tuple[Suggestion, ...]:
    """The suggestions with names.

    The only one is called `cluster`, any other by the product of its GPUs or its narrowest own
    level.
    """
    if len(suggestions) == 1 and not suggestions[0].selector:
        return (replace(suggestions[0], name=MAIN),)

    uses = Counter(map(_name, suggestions))
    numbers: Counter[str] = Counter()
    named = []
    for suggestion in suggestions:
        name = _name(suggestion)
        if uses[name] > 1:
            numbers[name] += 1
            name = f"{name}-{numbers[name]}"
        named.append(replace(suggestion, name=name))
    return tuple(named)


def _name(suggestion: Suggestion) -> str:
    products = {node.label(GPU_PRODUCT) for node in suggestion.nodes}
    if len(products) == 1:
        (product,) = products
        if product:
            return _slug(product) or MAIN

    if not suggestion.own:
        return "others"
    narrowest = suggestion.own[-1]
    return f"by-{narrowest.domain}"


def _slug(product: str) -> str:
    """A product as a part of a name: lower-case letters and digits, and dashes between them."""
    slug = ""
    for character in product.lower():
        if character.isascii() and character.isalnum():
            slug += character
        else:
            slug += "-"
    return slug.strip("-")
