"""Which ClusterTopologies would suit the nodes: one for each kind of nodes that carry the same level keys.

Schedulers leave a node without one of a topology's levels out of it, so hardware that carries different keys needs a
topology for each kind. A suggestion is only made where its selector takes in exactly its nodes and its levels nest.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Final

from controller.spec import Requirement
from survey.scope import table_of
from survey.snapshot import NodeView
from topology.catalogue import CATALOGUE, KEYS, PLACEHOLDERS
from topology.keys import GPU_PRODUCT, GPUS, NVLINK_DOMAIN
from topology.levels import Level
from topology.table import Table

MAIN: Final = "cluster"
_EXISTS: Final = "Exists"
_ABSENT: Final = "DoesNotExist"
_NOT_IN: Final = "NotIn"

Carried = frozenset[str]
"""Level keys that a node has, with a value that is no placeholder."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A level that was left out, because one of its values lies under two values of another level."""

    level: Level
    other: Level
    value: str
    parents: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One ClusterTopology: what is in its spec, and why."""

    name: str
    levels: tuple[Level, ...]
    selector: tuple[Requirement, ...]
    """Empty: the default, every node with an agent."""
    nodes: tuple[NodeView, ...]
    own: tuple[Level, ...]
    """Levels that some other nodes lack."""
    crossings: tuple[Crossing, ...]

    @property
    def gpus(self) -> int:
        """On all its nodes."""
        return sum(node.gpus for node in self.nodes)

    def document(self) -> dict[str, Any]:
        """The spec as it is applied."""
        spec: dict[str, Any] = {}
        if self.selector:
            spec["nodeSelector"] = {"matchExpressions": [_expression(each) for each in self.selector]}
        spec["levels"] = [{"domain": level.domain, "key": level.key} for level in self.levels]
        return spec


def _expression(requirement: Requirement) -> dict[str, Any]:
    values = {"values": sorted(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator} | values


@dataclass(frozen=True, slots=True)
class Suggestions:
    """All of them, the ones with most nodes first, and what nothing could be suggested for, one sentence each."""

    found: tuple[Suggestion, ...]
    reasons: tuple[str, ...]


def suggest(nodes: Sequence[NodeView]) -> Suggestions:
    """Suggest topologies for the nodes of a cluster that agents have labelled."""
    labelled = [node for node in nodes if node.label(GPUS) is not None]
    silent = sorted(node.name for node in nodes if node.label(GPUS) is None and node.has_gpus)
    reasons = []
    if silent:
        reasons.append(f"{_some(silent)} GPUs and no label {GPUS}: is the agent's DaemonSet running there?")
    doubtful = [node for node in labelled if any(node.label(key) in PLACEHOLDERS for key in KEYS)]
    if doubtful:
        names = sorted(node.name for node in doubtful)
        reasons.append(f"{_some(names)} a placeholder (no-topology or nothing) for a level; see that it gets a value")
    kinds: dict[Carried, list[NodeView]] = {}
    for node in labelled:
        if node not in doubtful:
            kinds.setdefault(KEYS.intersection(node.places), []).append(node)
    if not labelled and not silent:
        reasons.append("there is no node with GPUs")
    suggestions = _of_kinds(kinds, labelled, reasons)
    return Suggestions(_named(suggestions), tuple(reasons))


def _some(names: Sequence[str], few: int = 3) -> str:
    some = ", ".join(names[:few]) + (", ..." if len(names) > few else "")
    return f"1 node has ({some})" if len(names) == 1 else f"{len(names)} nodes have ({some})"


def _of_kinds(
    kinds: dict[Carried, list[NodeView]], labelled: Sequence[NodeView], reasons: list[str]
) -> list[Suggestion]:
    everywhere = frozenset.intersection(*kinds) if kinds else frozenset()
    by_path: dict[tuple[Level, ...], list[Carried]] = {}
    for carried in kinds:
        by_path.setdefault(_path(carried, everywhere), []).append(carried)
    shared = frozenset.intersection(*map(frozenset, by_path)) if by_path else frozenset()
    found = []
    for path, members in by_path.items():
        inside = tuple(node for carried in members for node in kinds[carried])
        own = tuple(level for level in path if level not in shared)
        selector = (
            *_selector(own, members, [carried for carried in kinds if carried not in members]),
            *(
                Requirement(level.key, _NOT_IN, PLACEHOLDERS)
                for level in path
                if any(node.label(level.key) in PLACEHOLDERS for node in labelled)
            ),
        )
        taken = [node for node in labelled if all(requirement.holds(node) for requirement in selector)]
        if len(taken) != len(inside):
            names = sorted(node.name for node in inside)
            reasons.append(f"{_some(names)} levels of their own that no selector tells from those of other nodes")
        elif not path:
            names = sorted(node.name for node in inside)
            reasons.append(f"{_some(names)} no label that is known to carry a level, not even kubernetes.io/hostname")
        else:
            levels, crossings = _nested(path, table_of(inside, {level.key for level in path}))
            found.append(
                Suggestion("", levels, selector if len(inside) < len(labelled) else (), inside, own, crossings)
            )
    return sorted(found, key=lambda each: (-len(each.nodes), [level.key for level in each.levels]))


def _path(carried: Carried, everywhere: Carried) -> tuple[Level, ...]:
    """One key for each domain: one that all nodes carry before others."""
    path = []
    for domain, keys in CATALOGUE.items():
        mine = [key for key in keys if key in carried]
        if mine:
            path.append(Level(domain, next((key for key in mine if key in everywhere), mine[0])))
    return tuple(path)


def _selector(own: Iterable[Level], members: Sequence[Carried], others: Sequence[Carried]) -> tuple[Requirement, ...]:
    """What the nodes have and others lack, and what those others have that would be taken in by this alone."""
    has = [level.key for level in own]
    mine = frozenset().union(*members)
    lacks: list[str] = []
    for other in sorted(others, key=sorted):
        telling = sorted(other - mine)
        if other.issuperset(has) and other.isdisjoint(lacks) and telling:
            lacks.append(telling[0])
    return (
        Requirement(GPUS, _EXISTS),
        *(Requirement(key, _EXISTS) for key in has),
        *(Requirement(key, _ABSENT) for key in lacks),
    )


def _nested(path: tuple[Level, ...], nodes: Table) -> tuple[tuple[Level, ...], tuple[Crossing, ...]]:
    """The most levels that nest, and those that do not fit in between.

    Of as many, the broader ones: a narrow level that crosses a broad one may be a name used twice, and would join
    strangers without the broad one. NVLink domains are named uniquely, so theirs stays in any case.
    """
    for size in range(len(path), 0, -1):
        for levels in combinations(path, size):
            if any(level.key == NVLINK_DOMAIN for level in path) and all(x.key != NVLINK_DOMAIN for x in levels):
                continue
            if all(_nests(broad, narrow, nodes) for broad, narrow in pairwise(levels)):
                left_out = [level for level in path if level not in levels]
                return levels, tuple(_crossing(level, path, nodes) for level in left_out)
    raise AssertionError("one level alone always nests")


def _nests(broad: Level, narrow: Level, nodes: Table) -> bool:
    return nodes.column(narrow.key).singular or nodes.nests(broad.key, narrow.key)


def _crossing(level: Level, path: Sequence[Level], nodes: Table) -> Crossing:
    """Why a level does not fit: the first level that it crosses, and where."""
    place = path.index(level)
    pairs = [(other, level) if path.index(other) < place else (level, other) for other in path if other != level]
    broad, narrow = next(pair for pair in pairs if not _nests(*pair, nodes))
    parents: dict[str | None, str | None] = {}
    rows = zip(nodes.column(narrow.key).values, nodes.column(broad.key).values, strict=True)
    value, first, second = next(
        (inner, parents[inner], outer) for inner, outer in rows if parents.setdefault(inner, outer) != outer
    )
    a, b = sorted((str(first), str(second)))
    return Crossing(level, narrow if level == broad else broad, str(value), (a, b))


def _named(suggestions: Sequence[Suggestion]) -> tuple[Suggestion, ...]:
    """A name for each: `cluster` for the only one, else the product of its GPUs, else its narrowest own level."""
    if len(suggestions) == 1 and not suggestions[0].selector:
        names = [MAIN]
    else:
        names = [_name(each) for each in suggestions]
        uses = Counter(names)
        numbers: Counter[str] = Counter()
        for place, name in enumerate(names):
            if uses[name] > 1:
                numbers[name] += 1
                names[place] = f"{name}-{numbers[name]}"
    return tuple(
        Suggestion(name, each.levels, each.selector, each.nodes, each.own, each.crossings)
        for name, each in zip(names, suggestions, strict=True)
    )


def _name(suggestion: Suggestion) -> str:
    products = {node.label(GPU_PRODUCT) for node in suggestion.nodes}
    product = products.pop() if len(products) == 1 else None
    if product:
        return "".join(c if c.isalnum() else "-" for c in product.lower()).strip("-") or MAIN
    return f"by-{suggestion.own[-1].domain}" if suggestion.own else "others"
