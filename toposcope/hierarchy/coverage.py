"""How nodes fall into the levels: coverage, domains, and whether the levels nest.

The identity of a domain is the tuple of values from the broadest level down: rack names are reused
across blocks.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, compress
from operator import not_
from typing import Final, NamedTuple, TypeVar

from toposcope.api.label_keys import HOSTNAME, LEAF, LEAF_GROUP, NVLINK_DOMAIN
from toposcope.api.levels import JOINING_BY_DOTS, NESTING, Level
from toposcope.api.requirement import Labelled
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.fault_domains import written
from toposcope.hierarchy.node import OWN_VALUES, NodeFacts
from toposcope.hierarchy.platforms import PLACEHOLDERS
from toposcope.hierarchy.table import Crossing, Path, Table, table_of
from toposcope.text import enumerated, listing

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
    """Nodes that carry the level and accept pods (Ready, not cordoned)."""
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
    if value is None or value in placeholders:
        return None
    return value


def some_names(names: Sequence[str], total: int | None = None) -> str:
    """The first `MOST_NAMES` names in one line, as in `listing`."""
    return listing(names, MOST_NAMES, total)


def placeholder_words(nodes: Table, key: str) -> str:
    """The placeholders that nodes carry as a label's value, with node counts, in parentheses.

    Empty if there are none.
    """
    if nodes.no_places.isdisjoint(nodes.distinct(key)):
        return ""
    counts: dict[str, int] = {}
    labels = nodes.labels(key)
    for label, count in zip(labels, nodes.weights, strict=True):
        if label in nodes.no_places:
            value = repr(written(label))
            before = counts.get(value, 0)
            counts[value] = before + count
    words = []
    for value in sorted(counts):
        text = f"{counts[value]:,} with the placeholder {value}"
        words.append(text)
    listed = ", ".join(words)
    return f" ({listed})"


def cover(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> tuple[Coverage, ...]:
    """The coverage of each level over `nodes`, in the order of `levels`."""
    table = table_of(nodes)
    domains = table.domains([level.key for level in levels])
    coverage = []
    for level, count in zip(levels, domains, strict=True):
        of_level = _coverage(level, count, table)
        coverage.append(of_level)
    return tuple(coverage)


def _coverage(level: Level, domains: int, table: Table) -> Coverage:
    column = table.column(level.key)
    carrying = len(table) - column.missing
    if not column.missing:
        return Coverage(
            level=level,
            domains=domains,
            nodes=carrying,
            usable=table.usable_nodes,
            missing=0,
            missing_nodes=(),
        )
    is_carried = [value is not None for value in column.values]
    return Coverage(
        level=level,
        domains=domains,
        nodes=carrying,
        usable=sum(compress(table.usable, is_carried)),
        missing=column.missing,
        missing_nodes=table.first_names(map(not_, is_carried), MOST_NAMES),
        placeholders=placeholder_words(table, level.key),
    )


def lacking_any(levels: Sequence[Level], nodes: Table) -> Sequence[bool]:
    """Whether each group of the table lacks one of the levels; empty if none does."""
    incomplete = []
    for level in levels:
        column = nodes.column(level.key)
        if column.missing:
            incomplete.append(column.values)
    paths = zip(*incomplete, strict=True)
    return [None in path for path in paths]


def nodes_needed(total: int, percent: int) -> int:
    """How many of `total` nodes must carry a key for it to become a level."""
    return -(-total * percent // 100)


def widely_carried(
    keys: Collection[str], nodes: Iterable[NodeFacts], percent: int
) -> dict[str, int]:
    """The `keys` that at least `percent` of the nodes carry, and how many do.

    A placeholder counts as no value.
    """
    table = table_of(nodes)
    needed = max(nodes_needed(len(table), percent), 1)
    labelled: Counter[str] = Counter()
    for key_set, count in table.key_sets.items():
        for key in key_set:
            labelled[key] += count
    wide = {}
    for key in keys:
        if labelled[key] < needed:
            continue
        carrying = len(table) - table.column(key).missing
        if carrying >= needed:
            wide[key] = carrying
    return wide


def idle_levels(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> tuple[Level, ...]:
    """The broadest levels that add nothing above the host: each of their domains is one node.

    Such a domain has the node's own name, like an NVLink domain that no NVLink leaves. A domain
    with another name, such as a rack with only one node so far, is not idle.
    """
    table = table_of(nodes)
    if not levels or levels[-1].key != HOSTNAME:
        return ()
    idle = []
    for level in levels[:-1]:
        column = table.column(level.key)
        carrying = len(table) - column.missing
        if not carrying or column.own < carrying:
            break
        idle.append(level)
    return tuple(idle)


def partly_carried(
    levels: Iterable[Level], nodes: Iterable[NodeFacts], catalogue: Catalogue
) -> tuple[Level, ...]:
    """Candidates for further levels: the best covered key of each domain without a level."""
    table = table_of(nodes)
    carried = chain.from_iterable(table.key_sets)
    present = catalogue.level_keys.intersection(carried)
    level_domains = {level.domain for level in levels}
    further = []
    for domain, keys in catalogue.keys.items():
        if domain in level_domains:
            continue
        counts = {}
        for key in keys:
            if key not in present:
                continue
            carrying = len(table) - table.column(key).missing
            if carrying:
                counts[key] = carrying
        if counts:
            best = max(counts, key=counts.__getitem__)
            further.append(Level(domain, best))
    return tuple(further)


def carried_by_others(
    level: Level, nodes: Iterable[NodeFacts], catalogue: Catalogue
) -> tuple[Level, ...]:
    """The same level by other keys, which nodes without the level's own key carry."""
    table = table_of(nodes)
    ours = table.column(level.key).values
    others = []
    for key in catalogue.keys.get(level.domain, ()):
        if key == level.key:
            continue
        theirs = table.column(key).values
        beside = zip(ours, theirs, strict=True)
        if any(own is None and other is not None for own, other in beside):
            others.append(Level(level.domain, key))
    return tuple(others)


def tree(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> Domain:
    """The domain tree; a node that lacks a level leaves the tree at that level's parent."""
    root = Domain()
    for node in nodes:
        root.nodes += 1
        root.gpus += node.gpus
        parent = root
        for level in levels:
            value = level_value(node, level.key)
            if value is None:
                break
            parent = parent.children.setdefault(value, Domain())
            parent.nodes += 1
            parent.gpus += node.gpus
    return root


def lies_around(level: Level, rack: Level, above: Level | None, nodes: Table) -> bool | None:
    """Whether all domains of `level` span racks (True), or all lie within racks (False).

    None if the labels do not tell: both levels have the same domains; some span racks and some
    divide them; or one also spans several domains of the level `above`, so that no order makes
    the levels nest.
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
    """The levels with each NVLink level above the racks if `is_around` is true, else below them.

    `is_around` gets the level, the racks, and the level above the racks. One NVLink domain may
    span several racks, as in NVL36x2. It may always span leaf switches.
    """
    rack = _rack(levels)
    if rack is None:
        return tuple(levels)
    place = levels.index(rack)
    above = _above(rack, levels)
    around: list[Level] = []
    within: list[Level] = []
    below = levels[place + 1 :]
    for level in below:
        if level.domain in _NVLINK and is_around(level, rack, above):
            around.append(level)
        else:
            within.append(level)
    broader = levels[:place]
    return (*broader, *around, rack, *within)


def will_turn(levels: Sequence[Level], nodes: Table) -> bool:
    """Whether the labels show another order of racks and an NVLink level than `levels`."""
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
    for level in levels:
        if level.domain == _RACK:
            return level
    return None


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
    is_reused: bool
    """Whether most of its values do, as where each block numbers its racks from 1: normal for
    schedulers that identify a domain by its path."""
    is_turned: bool
    """Whether these are a rack and an NVLink level that nest the other way round."""
    sentence: str


def crossings(
    levels: Sequence[Level], nodes: Iterable[NodeFacts], passing: Collection[str] = ()
) -> list[CrossedLevels]:
    """The levels with values that lie in two domains of the level above.

    Each sentence names the first such value, and their number. A domain is its whole path: where
    superpod 1 is in two fabrics, leaf 0 of superpod 1 is in two superpods. Most schedulers treat
    such a value as two domains. This is reported, not corrected: only an admin can tell a reused
    name from a cable in the wrong switch. NVLink needs no leaf switch, so an NVLink domain may span
    several: there the next level above counts. `passing` values, which nodes are leaving or
    joining, are skipped.
    """
    table = table_of(nodes)
    crossed: list[CrossedLevels] = []
    has_crossed_above = False
    for place, narrow in enumerate(levels):
        path = _path_around(levels, place)
        if not path or table.column(narrow.key).is_unique:
            continue
        around = path if has_crossed_above else path[-1:]
        if _nests_in_all(table, around, narrow):
            continue
        has_crossed_above = True
        keys = [level.key for level in path]
        expanded = table.expanded_for_levels([*keys, narrow.key])
        crossing = _crossing(path, narrow, expanded, passing)
        if crossing:
            crossed.append(crossing)
    return crossed


def _nests_in_all(table: Table, around: Iterable[Level], narrow: Level) -> bool:
    """Whether each value of the narrow level lies in one domain of these levels."""
    for level in around:
        if not table.nests(level.key, narrow.key):
            return False
    return True


def _path_around(levels: Sequence[Level], place: int) -> Sequence[Level]:
    """The levels above a level in which its domains have to lie, broadest first."""
    above = levels[:place]
    down_to_here = levels[: place + 1]
    knows_nvlink = False
    for level in down_to_here:
        if level.key == NVLINK_DOMAIN:
            knows_nvlink = True
    if not knows_nvlink:
        return above

    around = []
    for level in above:
        if level.key not in _LEAVES:
            around.append(level)
    return around


def _crossing(
    path: Sequence[Level], narrow: Level, table: Table, passing: Collection[str]
) -> CrossedLevels | None:
    """How a level crosses the one above; None if it does not."""
    broad = path[-1]
    crossing = table.crossing([level.key for level in path], narrow.key)
    several = _without(passing, crossing.parents) if passing else crossing.parents
    if not several:
        return None

    crossing = crossing._replace(parents=several)
    is_reversed = _is_reversed(path, narrow, table)
    # NVLink domains have unique names.
    may_repeat = not is_reversed and narrow.domain not in _NVLINK
    is_reused = may_repeat and _are_reused(crossing, len(path))
    name = min(several)
    first, second = _two_names(several[name])
    many = ""
    if len(several) > 1:
        many = f" ({len(several)} of {crossing.total} values do so)"
    if is_reversed:
        advice = (
            f"each {broad.domain} lies within one {narrow.domain}: "
            "list them in spec.levels the other way round"
        )
    else:
        advice = _advice(broad, narrow, crossing, is_reused=is_reused)
    sentence = (
        f"{narrow.domain} {name!r} lies under {broad.domain} {first!r} and {second!r}{many}; "
        f"{enumerated(NESTING)} treat it as one {narrow.domain} domain in each, "
        f"kube-scheduler's gangs and pod affinity as a single one; {advice}"
    )
    return CrossedLevels(
        key=narrow.key,
        domain=narrow.domain,
        is_reused=is_reused,
        is_turned=is_reversed and _are_rack_and_nvlink(broad, narrow),
        sentence=sentence,
    )


def _is_reversed(path: Sequence[Level], narrow: Level, table: Table) -> bool:
    """Whether the level and the one above nest the other way round.

    Not if repeated names would become one domain: if the narrow level would cross another level in
    its new place, has the same value on all nodes, or has numbers for names.
    """
    *above, broad = path
    if not table.nests(narrow.key, broad.key):
        return False
    if _are_rack_and_nvlink(broad, narrow):
        return True
    column = table.column(narrow.key)
    if column.is_uniform or _are_numbers(column.values):
        return False
    return _nests_in_all(table, above, narrow)


def _are_numbers(values: Iterable[str | None]) -> bool:
    for value in values:
        if value is None:
            continue
        if not value.isdecimal():
            return False
    return True


def _are_reused(crossing: Crossing, depth: int) -> bool:
    """Whether each domain of some level above reuses these values as names.

    Then most values are in at least half of those domains, and in each of these in only one domain
    of the level directly above. `depth` is the number of levels above.
    """
    if not _do_most_cross(crossing):
        return False
    for end in range(1, depth + 1):
        users = _cut(crossing.domains, end)
        if _are_used_by(crossing, users, end):
            return True
    return False


def _cut(domains: Iterable[Path], depth: int) -> set[Path]:
    """The domains of the level at this depth that contain these."""
    return {domain[:depth] for domain in domains}


def _are_used_by(crossing: Crossing, users: Collection[Path], depth: int) -> bool:
    """Whether each of these domains, paths of this depth, uses the crossing values once."""
    widespread = 0
    for domains in crossing.parents.values():
        using = _cut(domains, depth)
        count = len(using)
        if count < len(domains):
            return False
        is_widespread = 2 * count >= len(users)
        if count > 1 and is_widespread:
            widespread += 1
    total = len(crossing.parents)
    return 2 * widespread > total


def _do_most_cross(crossing: Crossing) -> bool:
    """Whether more than half of the values lie in several domains."""
    return 2 * len(crossing.parents) > crossing.total


def _two_names(domains: Iterable[Path]) -> tuple[str, str]:
    """The first two domains by name: their own values, after those of broader levels if equal.

    For example `block-1/rack-3`.
    """
    first, second = nsmallest(2, domains, key=_from_the_narrowest)
    length = 1
    while first[-length:] == second[-length:]:
        length += 1
    end_of_first = first[-length:]
    end_of_second = second[-length:]
    return "/".join(end_of_first), "/".join(end_of_second)


def _from_the_narrowest(domain: Path) -> Path:
    return domain[::-1]


def _advice(broad: Level, narrow: Level, crossing: Crossing, *, is_reused: bool) -> str:
    if is_reused:
        return (
            f"normal if each {broad.domain} uses the same names; "
            "if the two levels cut across each other, give each its own ClusterTopology"
        )
    if _do_most_cross(crossing):
        return (
            "the two levels cut across each other: "
            "leave one of them out of spec.levels, or give each its own ClusterTopology"
        )
    spanning = f"a {narrow.domain} that spans several {broad.domain} domains"
    return f"a reused name, {spanning}, or a wrong cable"


def _are_rack_and_nvlink(broad: Level, narrow: Level) -> bool:
    domains = {broad.domain, narrow.domain}
    if _RACK not in domains:
        return False
    return not domains.isdisjoint(_NVLINK)


def _without(
    passing: Collection[str], crossing: Mapping[str, Collection[Path]]
) -> dict[str, Collection[Path]]:
    """The values that still lie in several domains once passing values are left out."""
    staying: dict[str, Collection[Path]] = {}
    for value, around in crossing.items():
        if value in passing:
            continue
        others = [domain for domain in around if domain[-1] not in passing]
        if len(others) > 1:
            staying[value] = others
    return staying


@dataclass(frozen=True, slots=True)
class LevelSize:
    """GPUs on the nodes that carry a level, and in the largest of its domains."""

    level: Level
    gpus: int
    largest: int


PerLevel = TypeVar("PerLevel", Coverage, LevelSize)


def once_by_domain(measures: Sequence[PerLevel]) -> tuple[PerLevel, ...]:
    """The first measure of each domain, at the position of its last one.

    A spec may name a domain twice; a status and a metric's series must not.
    """
    by_domain: dict[str, PerLevel] = {}
    for measure in reversed(measures):
        by_domain[measure.level.domain] = measure
    return tuple(reversed(by_domain.values()))


def level_sizes(levels: Sequence[Level], nodes: Table) -> tuple[LevelSize, ...]:
    """The size of each level, in the order of `levels` (broadest first).

    A domain is a whole path of values.
    """
    keys = [level.key for level in levels]
    nodes = nodes.expanded_for_levels(keys)
    sizes = []
    for depth, level in enumerate(levels, 1):
        column = nodes.column(level.key)
        if column.is_unique:
            size = _size_of_hosts(level, nodes)
        else:
            path_keys = keys[:depth]
            size = _size_of_domains(level, path_keys, nodes)
        sizes.append(size)
    return tuple(sizes)


def _size_of_hosts(level: Level, nodes: Table) -> LevelSize:
    """The size of a level at which every node is a domain of its own."""
    values = nodes.column(level.key).values
    groups = zip(values, nodes.groups, nodes.weights, strict=True)
    total = 0
    largest = 0
    for value, group, weight in groups:
        if value is None:
            continue
        gpus = group.hardware.gpus
        total += gpus * weight
        largest = max(largest, gpus)
    return LevelSize(level, total, largest)


def _size_of_domains(level: Level, path_keys: Sequence[str], nodes: Table) -> LevelSize:
    """The size of a level; a domain is a path of values of `path_keys`."""
    columns = [nodes.column(key).values for key in path_keys]
    paths = zip(*columns, strict=True)
    groups = zip(paths, nodes.groups, nodes.weights, strict=True)
    by_path: dict[tuple[str | None, ...], int] = {}
    total = 0
    largest_host = 0
    for path, group, weight in groups:
        value = path[-1]
        if value is None:
            continue
        gpus = group.hardware.gpus
        gpus_of_group = gpus * weight
        total += gpus_of_group
        if value in OWN_VALUES:
            largest_host = max(largest_host, gpus)
        else:
            before = by_path.get(path, 0)
            by_path[path] = before + gpus_of_group
    largest = max(by_path.values(), default=0)
    return LevelSize(level, gpus=total, largest=max(largest, largest_host))


def ambiguous_paths(levels: Sequence[Level], nodes: Iterable[NodeFacts]) -> list[str]:
    """A sentence on the broadest level whose paths look the same joined by dots; empty if none."""
    table = table_of(nodes)
    dotted = 0
    for level in levels:
        dotted += table.has_dots(level.key)
    if dotted < 2:  # noqa: PLR2004 - one dot alone cannot be taken for another
        return []
    for depth in range(len(levels)):
        down_to_here = levels[: depth + 1]
        ambiguous = _ambiguous_readings(down_to_here, table)
        if ambiguous:
            return [_sentence(down_to_here, ambiguous)]
    return []


def _ambiguous_readings(levels: Sequence[Level], table: Table) -> dict[str, list[Path]]:
    """The paths of shared values that look the same joined by dots, by the joined text."""
    columns = [table.column(level.key).values for level in levels]
    different = set(zip(*columns, strict=True))
    by_reading: dict[str, list[Path]] = {}
    for path in different:
        if None in path or not OWN_VALUES.isdisjoint(path):
            continue
        values = tuple(map(str, path))
        reading = ".".join(values)
        paths = by_reading.setdefault(reading, [])
        paths.append(values)

    ambiguous = {}
    for reading, paths in by_reading.items():
        if len(paths) > 1:
            ambiguous[reading] = sorted(paths)
    return ambiguous


def _sentence(levels: Sequence[Level], ambiguous: Mapping[str, Sequence[Path]]) -> str:
    reading = min(ambiguous)
    first, second = ambiguous[reading][:2]
    differing = []
    pairs = zip(first, second, strict=True)
    for depth, (value, other) in enumerate(pairs):
        if value != other:
            differing.append(depth)
    broadest = levels[differing[0]]
    narrowest = levels[differing[-1]]
    domain = levels[-1].domain

    first_words = _path_words(levels, first, differing)
    second_words = _path_words(levels, second, differing)
    many = ""
    if len(ambiguous) > 1:
        many = f" ({len(ambiguous)} such names in all)"
    return (
        f"{first_words} and {second_words} "
        f"are one {domain} domain to {JOINING_BY_DOTS}, "
        "which joins values by dots: "
        f"{reading!r}{many}; "
        f"write one of {broadest.key} and {narrowest.key} without dots, "
        "or leave one of these levels out of spec.levels"
    )


def _path_words(levels: Sequence[Level], path: Path, depths: Iterable[int]) -> str:
    """The values of a path at some of the levels."""
    words = []
    for depth in depths:
        domain = levels[depth].domain
        words.append(f"{domain} {path[depth]!r}")
    return " > ".join(words)
