"""How nodes fall into the levels: coverage, domains, and whether the levels nest.

The identity of a domain is the tuple of values from the broadest level down: rack names are reused
across blocks.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, compress
from operator import mul, not_
from typing import Final, NamedTuple

from toposcope.api.label_keys import LEAF, LEAF_GROUP, NVLINK_DOMAIN
from toposcope.api.levels import Level
from toposcope.api.requirement import Labelled
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.node import OWN_VALUES, NodeFacts
from toposcope.hierarchy.platforms import PLACEHOLDERS
from toposcope.hierarchy.table import Table, table_of, totals
from toposcope.text import listing

MOST_NAMES: Final = 10
"""How many node names a message or status carries: a list of all of them would outgrow etcd's
object limit."""

_LEAVES: Final = frozenset({LEAF, LEAF_GROUP})
_RACK: Final = "rack"
_NVLINK: Final = frozenset({"nvlink-domain", "nvlink-partition"})
"""Domains that may span racks; in the catalogue they lie within one."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of one level over the selected nodes."""

    level: Level
    domains: int
    nodes: int
    usable: int
    """Nodes that carry the level and take pods (Ready, not cordoned)."""
    missing: int
    missing_nodes: tuple[str, ...]
    """The first `MOST_NAMES` names, sorted."""
    placeholders: str = field(default="", compare=False)
    """As in `placeholder_words`."""


@dataclass(slots=True)
class Domain:
    """One domain value in the tree, with everything below it."""

    nodes: int = 0
    gpus: int = 0
    children: dict[str, "Domain"] = field(default_factory=dict)


def level_value(
    node: Labelled, key: str, placeholders: frozenset[str] = PLACEHOLDERS
) -> str | None:
    """The node's domain value at a level; None for a placeholder that means unknown."""
    value = node.label(key)
    return None if value is None or value in placeholders else value


def some_names(names: Sequence[str], total: int | None = None) -> str:
    """The first `MOST_NAMES` names in one line, as in `listing`."""
    return listing(names, MOST_NAMES, total)


def placeholder_words(nodes: Table, key: str) -> str:
    """How many nodes lack a level though they carry its label, and its value, in brackets.

    Empty if none does.
    """
    if nodes.placeholders.isdisjoint(nodes.distinct(key)):
        return ""
    labels = zip(nodes.labels(key), nodes.weights, strict=True)
    found = totals((repr(label), count) for label, count in labels if label in nodes.placeholders)
    listed = ", ".join(
        f"{count:,} with the value {value}" for value, count in sorted(found.items())
    )
    return f" ({listed}, which names no place)"


def cover(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> tuple[Coverage, ...]:
    """The coverage of each level over `nodes`, in the order of `levels`."""
    table = table_of(nodes)
    domains = table.domains([level.key for level in levels])
    return tuple(
        _coverage(level, count, table) for level, count in zip(levels, domains, strict=True)
    )


def _coverage(level: Level, domains: int, table: Table) -> Coverage:
    column = table.column(level.key)
    carrying = len(table) - column.missing
    if not column.missing:
        return Coverage(level, domains, carrying, table.usable_nodes, 0, ())
    there = [value is not None for value in column.values]
    return Coverage(
        level=level,
        domains=domains,
        nodes=carrying,
        usable=sum(compress(table.usable, there)),
        missing=column.missing,
        missing_nodes=table.first_names(map(not_, there), MOST_NAMES),
        placeholders=placeholder_words(table, level.key),
    )


def lacking_any(levels: Sequence[Level], nodes: Table) -> Sequence[bool]:
    """For each group of the table whether it lacks one of the levels; empty if none does."""
    columns = [column.values for level in levels if (column := nodes.column(level.key)).missing]
    return [None in values for values in zip(*columns, strict=True)]


def nodes_needed(total: int, percent: int) -> int:
    """How many of `total` nodes must carry a key that makes a level."""
    return -(-total * percent // 100)


def widely_carried(
    keys: Collection[str], nodes: Iterable[NodeFacts], percent: int
) -> dict[str, int]:
    """Those of `keys` that at least `percent` of the nodes carry with a real value, and how many do."""
    table = table_of(nodes)
    needed = max(nodes_needed(len(table), percent), 1)
    labelled: dict[str, int] = {}
    for key_set, count in table.key_sets.items():
        for key in key_set:
            labelled[key] = labelled.get(key, 0) + count
    carrying = {
        key: len(table) - table.column(key).missing
        for key in keys
        if labelled.get(key, 0) >= needed
    }
    return {key: count for key, count in carrying.items() if count >= needed}


def partly_carried(
    levels: Iterable[Level], nodes: Iterable[NodeFacts], catalogue: Catalogue
) -> tuple[Level, ...]:
    """What could be further levels if more nodes carried it.

    The best covered key of each domain that has no level.
    """
    table = table_of(nodes)
    taken = {level.domain for level in levels}
    present = catalogue.level_keys.intersection(chain.from_iterable(table.key_sets))
    found = []
    for domain, keys in catalogue.keys.items():
        if domain not in taken and not present.isdisjoint(keys):
            counts = {key: len(table) - table.column(key).missing for key in keys if key in present}
            key = max(counts, key=counts.__getitem__)
            found += [Level(domain, key)] if counts[key] else []
    return tuple(found)


def tree(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> Domain:
    """The domain tree; a node that lacks a level leaves the tree at that level's parent."""
    root = Domain()
    for node in nodes:
        root.nodes += 1
        root.gpus += node.gpus
        here = root
        for level in levels:
            value = level_value(node, level.key)
            if value is None:
                break
            here = here.children.setdefault(value, Domain())
            here.nodes += 1
            here.gpus += node.gpus
    return root


def lies_around(level: Level, rack: Level, above: Level | None, nodes: Table) -> bool | None:
    """Whether the domains of `level` span racks (True) or lie within them (False), all of them.

    None: the labels do not tell. Both are the same, or some span racks and some divide them, or
    there is one that spans several domains of the level `above` too: no order makes such levels
    nest.
    """
    racks_within = nodes.nests(level.key, rack.key)
    within_racks = nodes.nests(rack.key, level.key)
    if racks_within == within_racks:
        return None
    if racks_within and above is not None and not nodes.nests(above.key, level.key):
        return None
    return racks_within


def nested(
    levels: Sequence[Level], is_around: Callable[[Level, Level, Level | None], bool]
) -> tuple[Level, ...]:
    """The levels with each NVLink level above the rack level if `is_around` says so of it, the racks, and those above.

    One NVLink domain may span several racks, as those of NVL36x2 do. It may span leaf switches in any case.
    """
    rack = _rack(levels)
    if rack is None:
        return tuple(levels)
    place = levels.index(rack)
    above = _above(rack, levels)
    around: list[Level] = []
    within: list[Level] = []
    for level in levels[place + 1 :]:
        spans = level.domain in _NVLINK and is_around(level, rack, above)
        (around if spans else within).append(level)
    return (*levels[:place], *around, rack, *within)


def will_turn(levels: Sequence[Level], nodes: Table) -> bool:
    """Whether the labels show another order of racks and an NVLink level than `levels` have."""
    rack = _rack(levels)
    if rack is None:
        return False
    above = _above(rack, levels)
    for level in levels:
        if level.domain not in _NVLINK:
            continue
        is_around = levels.index(level) < levels.index(rack)
        says = lies_around(level, rack, above, nodes)
        if says is not None and says != is_around:
            return True
    return False


def _rack(levels: Sequence[Level]) -> Level | None:
    return next((level for level in levels if level.domain == _RACK), None)


def _above(rack: Level, levels: Sequence[Level]) -> Level | None:
    """The nearest level above the racks in which an NVLink domain has to lie."""
    for level in reversed(levels[: levels.index(rack)]):
        if level.domain not in _NVLINK and level.key not in _LEAVES:
            return level
    return None


class CrossedLevels(NamedTuple):
    """A level with values that lie under several values of the one above."""

    key: str
    """Its label key."""
    domain: str
    reused: bool
    """Whether most of its values do, as where each block numbers its racks from 1: ordinary to whom
    the path counts."""
    turned: bool
    """Whether these are a rack and an NVLink level that nest the other way round."""
    sentence: str


def crossings(
    levels: Sequence[Level], nodes: Iterable[NodeFacts], passing: Collection[str] = ()
) -> list[CrossedLevels]:
    """Which values lie under two parents, a sentence for each two neighbouring levels.

    The first by name, and how many. Most schedulers take such a value for two domains. This is
    reported, not corrected: only an admin can tell a reused name from a cable in the wrong switch.
    NVLink needs no leaf switch, so a domain of it may span several: there the next level above
    counts. Nothing is said of `passing` values, which nodes are leaving or joining.
    """
    table = table_of(nodes)
    found: list[CrossedLevels] = []
    for broad, narrow in _neighbours(levels):
        if table.column(narrow.key).unique or table.nests(broad.key, narrow.key):
            continue
        found += _crossing(
            broad, narrow, table.expanded_for_levels((broad.key, narrow.key)), passing
        )
    return found


def _neighbours(levels: Sequence[Level]) -> Iterator[tuple[Level, Level]]:
    for place, narrow in enumerate(levels):
        above = [
            level
            for level in levels[:place]
            if narrow.key != NVLINK_DOMAIN or level.key not in _LEAVES
        ]
        if above:
            yield above[-1], narrow


def _crossing(
    broad: Level, narrow: Level, table: Table, passing: Collection[str]
) -> Iterator[CrossedLevels]:
    crossing, total = table.crossing(broad.key, narrow.key)
    several = _without(passing, crossing) if passing else crossing
    if not several:
        return
    reversed_order = table.nests(narrow.key, broad.key)
    reused = not reversed_order and 2 * len(several) > total
    name = min(several)
    first, second = nsmallest(2, several[name])
    if reversed_order:
        advice = f"each {broad.domain} lies within one {narrow.domain}: list them in spec.levels the other way round"
    elif reused:
        advice = (
            f"ordinary where each {broad.domain} uses the same names; where the two levels cut across each other, "
            "give each a ClusterTopology of its own"
        )
    else:
        advice = f"a reused name, a {narrow.domain} that spans several {broad.domain} domains, or a wrong cable"
    many = f" ({len(several)} of {total} values do so)" if len(several) > 1 else ""
    text = (
        f"{narrow.domain} {name!r} lies under {broad.domain} {first!r} and {second!r}{many}; "
        f"Grove, KAI and Kueue treat it as one {narrow.domain} domain in each, kube-scheduler's gangs and pod affinity "
        f"as one in all; {advice}"
    )
    turned = (
        reversed_order
        and _RACK in (broad.domain, narrow.domain)
        and bool({broad.domain, narrow.domain} & _NVLINK)
    )
    yield CrossedLevels(narrow.key, narrow.domain, reused, turned, text)


def _without(
    passing: Collection[str], crossing: Mapping[str, Collection[str]]
) -> dict[str, Collection[str]]:
    """The values that lie under several others that are not passing."""
    staying = {
        value: set(around).difference(passing)
        for value, around in crossing.items()
        if value not in passing
    }
    return {value: around for value, around in staying.items() if len(around) > 1}


@dataclass(frozen=True, slots=True)
class LevelSize:
    """GPUs on the nodes that carry a level, and in the largest of its domains."""

    level: Level
    gpus: int
    largest: int


def level_sizes(levels: Sequence[Level], nodes: Table) -> tuple[LevelSize, ...]:
    """The size of each level (broadest first), in its order.

    A domain is a whole path, as everywhere.
    """
    keys = [level.key for level in levels]
    nodes = nodes.expanded_for_levels(keys)
    gpus = [kind.hardware.gpus for kind in nodes.groups]
    totals = list(map(mul, gpus, nodes.weights))
    sizes = []
    for depth, level in enumerate(levels, 1):
        column = nodes.column(level.key)
        if column.unique:
            carried = [value is not None for value in column.values]
            largest = max(compress(gpus, carried), default=0)
            sizes.append(LevelSize(level, sum(compress(totals, carried)), largest))
            continue
        domains = zip(*[nodes.column(key).values for key in keys[:depth]], strict=True)
        by_domain: dict[tuple[str | None, ...], int] = {}
        alone = [0]
        for domain, value, one, all_of_them in zip(
            domains, column.values, gpus, totals, strict=True
        ):
            if value in OWN_VALUES:
                alone.append(one)
            elif value is not None:
                by_domain[domain] = by_domain.get(domain, 0) + all_of_them
        total = sum(compress(totals, [value is not None for value in column.values]))
        sizes.append(LevelSize(level, total, max(*alone, *by_domain.values())))
    return tuple(sizes)


def ambiguous_paths(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> list[str]:
    """The broadest level at which paths of values that nodes share read alike, as a sentence.

    None where none do.
    """
    table = table_of(nodes)
    dotted = sum(table.has_dots(level.key) for level in levels)
    for depth in range(len(levels)) if dotted > 1 else ():
        columns = [table.column(level.key).values for level in levels[: depth + 1]]
        read: dict[str, set[tuple[str, ...]]] = {}
        for path in set(zip(*columns, strict=True)):
            values = tuple(value for value in path if value is not None)
            if len(values) == len(path) and OWN_VALUES.isdisjoint(values):
                read.setdefault(".".join(values), set()).add(values)
        merged = sorted(joined for joined, paths in read.items() if len(paths) > 1)
        if merged:
            return [_sentence(levels[: depth + 1], sorted(read[merged[0]])[:2], merged)]
    return []


def _sentence(
    levels: Sequence[Level], paths: Sequence[tuple[str, ...]], merged: Sequence[str]
) -> str:
    apart = [level for level, one, other in zip(levels, *paths, strict=True) if one != other]
    one, other = (
        " > ".join(
            f"{level.domain} {value!r}"
            for level, value in zip(levels, path, strict=True)
            if level in apart
        )
        for path in paths
    )
    many = f" ({len(merged)} such names in all)" if len(merged) > 1 else ""
    return (
        f"{one} and {other} are one {levels[-1].domain} domain to KAI, which joins values by dots: "
        f"{merged[0]!r}{many}; write one of {apart[0].key} and {apart[-1].key} without dots, or leave one of these "
        "levels out of spec.levels"
    )
