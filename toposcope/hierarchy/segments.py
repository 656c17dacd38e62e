"""Segments: nodes that share the same set of level keys, and how a node selector tells them apart.

Schedulers skip nodes that lack one of a topology's levels, so hardware that carries different keys
(GB200 racks beside H100 racks) needs a topology for each kind, or one with only the levels that all
kinds have.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from toposcope.api.label_keys import GPUS
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.coverage import widely_carried
from toposcope.hierarchy.fault_domains import written
from toposcope.hierarchy.table import Table

EXAMPLES: Final = 3
"""How many node names a segment has as examples."""
_BASE: Final = "base"
"""Nodes that carry only the levels that all nodes carry."""
_HASH_DIGITS: Final = 6
_PARENT_HASH_DIGITS: Final = 10
_LONGEST_NAME: Final = 253

Path = tuple[Level, ...]
"""Levels, broadest first: the identity of a segment, within a pass and across passes."""
_Carried = frozenset[str]
_Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes with the same levels, and what selects exactly these nodes."""

    levels: Path
    own: Path
    """The levels that some other node lacks."""
    nodes: int
    gpus: int
    examples: tuple[str, ...]
    """The first names, sorted."""
    has: tuple[str, ...]
    """Keys that the segment's nodes carry and some others do not."""
    lacks: tuple[str, ...]
    """Keys that its nodes do not carry, one for each other segment whose nodes carry all of `has`
    too."""
    unlike: Mapping[str, tuple[str, ...]]
    """Placeholders on nodes that are in no segment, by keys of `has`."""

    def takes(self, carried: _Carried) -> bool:
        """Whether it selects a node with these keys and no placeholder."""
        if not carried.issuperset(self.has):
            return False
        return carried.isdisjoint(self.lacks)


@dataclass(frozen=True, slots=True)
class Segmentation:
    """All segments, those with the most nodes first."""

    segments: tuple[Segment, ...]
    carried: Mapping[_Carried, int]
    """How many nodes carry each set of level keys, without the `doubtful` ones."""
    doubtful: tuple[str, ...]
    """Nodes whose value of a telling key is a placeholder, sorted: they neither have nor lack that
    level."""


def divide(
    nodes: Table, catalogue: Catalogue, percent: int, used: Iterable[Level] = ()
) -> Segmentation | None:
    """The segments of the nodes; None when all nodes carry the same levels.

    A node that lacks a key which at least `percent` of the nodes carry makes no segment, unless it
    has a key that none of those has: then it is of another kind. `used` are levels in effect: if a
    node has several keys for a domain, the one in effect counts.
    """
    level_keys = _level_keys(nodes, catalogue)
    carried = set(level_keys.values())
    if len(carried) < 2:  # noqa: PLR2004 - one kind of nodes, the usual case
        return None
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    rule = _PathRule(
        catalogue=catalogue,
        usual=usual,
        in_effect=_in_effect(used),
        beside=_keys_beside(usual, carried),
    )
    shared = _shared_levels(rule.paths(carried))
    # Where another kind lacks the level too, it tells nodes apart, and a selector cannot take those
    # that lack it.
    rule = replace(rule, usual=_of_levels(usual, shared))
    paths = rule.paths(carried)
    telling = frozenset(chain.from_iterable(paths.values())) - shared
    if not telling:
        return None

    unlike = _placeholders(nodes, telling)
    doubtful = _doubtful(nodes, unlike)
    kinds = _Kinds(nodes, level_keys, doubtful)
    division = _Division(
        kinds=kinds,
        shared=shared,
        telling=telling,
        unlike=unlike,
        catalogue=catalogue,
    )
    segments = []
    for path, members in _by_path(kinds.counts, paths).items():
        segment = division.segment(path, members)
        segments.append(segment)
    segments.sort(key=_most_nodes_first)
    return Segmentation(tuple(segments), kinds.counts, kinds.doubtful)


def _shared_levels(paths: Mapping[_Carried, Path]) -> frozenset[Level]:
    """The levels that all of the paths have."""
    levels_of_each = map(frozenset, paths.values())
    return frozenset.intersection(*levels_of_each)


def _of_levels(usual: Mapping[str, int], levels: Iterable[Level]) -> dict[str, int]:
    """Those of the usual keys that are keys of these levels."""
    wanted = {level.key for level in levels}
    kept = {}
    for key, count in usual.items():
        if key in wanted:
            kept[key] = count
    return kept


def _in_effect(used: Iterable[Level]) -> dict[str, str]:
    """The keys of the levels in effect, by domain."""
    return {level.domain: level.key for level in used}


def _most_nodes_first(segment: Segment) -> tuple[int, tuple[str, ...]]:
    return -segment.nodes, segment.examples


def whole(
    nodes: Table, catalogue: Catalogue, percent: int, used: Iterable[Level] = ()
) -> Segmentation:
    """Nodes that (nearly) all carry the same levels, as a single segment."""
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    rule = _PathRule(
        catalogue=catalogue,
        usual=usual,
        in_effect=_in_effect(used),
        beside={},
    )
    kinds = _Kinds(nodes, _level_keys(nodes, catalogue), frozenset())
    segment = Segment(
        levels=rule.path(frozenset(usual)),
        own=(),
        nodes=kinds.nodes_of(kinds.counts),
        gpus=kinds.gpus_of(kinds.counts),
        examples=kinds.examples_of(kinds.counts),
        has=(),
        lacks=(),
        unlike={},
    )
    return Segmentation((segment,), kinds.counts, ())


def _by_path(
    carried: Iterable[_Carried], paths: Mapping[_Carried, Path]
) -> dict[Path, list[_Carried]]:
    """The sets of level keys by the levels that they make."""
    by_path: dict[Path, list[_Carried]] = {}
    for keys in carried:
        by_path.setdefault(paths[keys], []).append(keys)
    return by_path


def _level_keys(nodes: Table, catalogue: Catalogue) -> dict[_Keys, _Carried]:
    """The level keys among each set of keys that nodes carry."""
    level_keys = {}
    for keys in nodes.key_sets:
        level_keys[keys] = catalogue.level_keys.intersection(keys)
    return level_keys


def _keys_beside(usual: Iterable[str], carried: Iterable[_Carried]) -> dict[str, _Carried]:
    """The keys that some node carries together with each of the usual ones."""
    beside: dict[str, _Carried] = dict.fromkeys(usual, frozenset())
    for keys in carried:
        for key in beside.keys() & keys:
            beside[key] |= keys
    return beside


@dataclass(frozen=True, kw_only=True)
class _PathRule:
    """Which of the keys that a node carries are its levels: one a domain."""

    catalogue: Catalogue
    usual: Mapping[str, int]
    """Keys that nearly all nodes carry, and how many do."""
    in_effect: Mapping[str, str]
    """The keys of levels in effect, by domain."""
    beside: Mapping[str, _Carried]
    """The keys that some node carries together with a usual key, by that key."""

    @cached_property
    def _common(self) -> Mapping[str, str]:
        """The usual key that most nodes carry, by domain."""
        levels = self.catalogue.infer(self.usual)
        return _in_effect(levels)

    def paths(self, carried: Iterable[_Carried]) -> dict[_Carried, Path]:
        """The levels of nodes with each of these sets of level keys."""
        return {keys: self.path(keys) for keys in carried}

    def path(self, carried: _Carried) -> Path:
        """The levels of a node with these level keys."""
        path = []
        for domain in self.catalogue.keys:
            key = self._key(domain, carried)
            if key is not None:
                path.append(Level(domain, key))
        return tuple(path)

    def _key(self, domain: str, carried: _Carried) -> str | None:
        """The key in effect, else the key that most nodes carry, else the first one.

        A usual key is also a level of a node that lacks it, if all keys of that node occur beside
        the usual key on some other node.
        """
        keys = self.catalogue.keys[domain]
        candidates = [key for key in keys if key in carried]
        in_effect = self.in_effect.get(domain)
        if in_effect in candidates:
            return in_effect
        common = self._common.get(domain)
        is_common = common in candidates
        if common is not None and not is_common:
            beside = self.beside[common]
            is_common = carried.issubset(beside)
        if is_common:
            return in_effect if in_effect in self.usual else common
        return candidates[0] if candidates else None


def _placeholders(nodes: Table, telling: Iterable[Level]) -> dict[str, tuple[str, ...]]:
    """The placeholders that nodes have as values of the telling levels, by their keys."""
    placeholders = {}
    for level in telling:
        unlike = nodes.no_places.intersection(nodes.labels(level.key))
        if unlike:
            placeholders[level.key] = tuple(sorted(unlike))
    return placeholders


def _doubtful(nodes: Table, unlike: Mapping[str, tuple[str, ...]]) -> frozenset[int]:
    """Positions of the groups whose nodes are in no segment."""
    doubtful: set[int] = set()
    for key, values in unlike.items():
        for place, label in enumerate(nodes.labels(key)):
            if label in values:
                doubtful.add(place)
    return frozenset(doubtful)


class _Kinds:
    """Counts of the nodes by the level keys that they carry, without those at `doubtful` places."""

    counts: dict[_Carried, int]
    """How many nodes have each set."""
    doubtful: tuple[str, ...]
    """Names of the nodes left out."""

    def __init__(
        self, nodes: Table, level_keys: Mapping[_Keys, _Carried], doubtful: Collection[int]
    ) -> None:
        self._nodes = nodes
        self._of_group: list[_Carried | None] = []
        """The level keys of each group; None for doubtful ones."""
        self.counts = {}
        self._gpus: Counter[_Carried] = Counter()
        is_doubtful = []
        groups = zip(nodes.groups, nodes.weights, strict=True)
        for place, (group, weight) in enumerate(groups):
            is_left_out = place in doubtful
            is_doubtful.append(is_left_out)
            if is_left_out:
                self._of_group.append(None)
                continue
            keys = level_keys[group.keys]
            self._of_group.append(keys)
            self.counts[keys] = self.counts.get(keys, 0) + weight
            self._gpus[keys] += weight * group.hardware.gpus
        names = nodes.names(is_doubtful)
        self.doubtful = tuple(sorted(names))

    def nodes_of(self, chosen: Iterable[_Carried]) -> int:
        """How many nodes have one of these sets of level keys."""
        counts = map(self.counts.__getitem__, chosen)
        return sum(counts)

    def gpus_of(self, chosen: Iterable[_Carried]) -> int:
        """Their GPUs."""
        gpus = map(self._gpus.__getitem__, chosen)
        return sum(gpus)

    def examples_of(self, chosen: Container[_Carried | None]) -> tuple[str, ...]:
        """The first of their names."""
        is_chosen = [keys in chosen for keys in self._of_group]
        return self._nodes.first_names(is_chosen, EXAMPLES)


@dataclass(frozen=True, slots=True)
class _Division:
    """What tells the segments of some nodes apart."""

    kinds: _Kinds
    shared: frozenset[Level]
    """Levels that all nodes carry."""
    telling: frozenset[Level]
    """Levels that some nodes carry."""
    unlike: Mapping[str, tuple[str, ...]]
    """Placeholders among the values of telling levels, by key."""
    catalogue: Catalogue

    def segment(self, path: Path, members: Collection[_Carried]) -> Segment:
        """The segment of the nodes with these levels, which carry one of these sets of keys."""
        own = []
        has = []
        unlike = {}
        for level in path:
            if level in self.shared:
                continue
            own.append(level)
            has.append(level.key)
            if level.key in self.unlike:
                unlike[level.key] = tuple(map(written, self.unlike[level.key]))
        return Segment(
            levels=path,
            own=tuple(own),
            nodes=self.kinds.nodes_of(members),
            gpus=self.kinds.gpus_of(members),
            examples=self.kinds.examples_of(members),
            has=tuple(has),
            lacks=self._lacks(tuple(has), members),
            unlike=unlike,
        )

    def _lacks(self, has: _Keys, members: Collection[_Carried]) -> tuple[str, ...]:
        """Keys that exclude non-members which `has` would select."""
        rank = self.catalogue.rank.__getitem__
        usable = {level.key for level in self.telling}
        usable.difference_update(*members)
        lacking: list[str] = []
        for other in sorted(self.kinds.counts, key=sorted):
            if other in members or not other.issuperset(has):
                continue
            if not other.isdisjoint(lacking):
                continue
            candidates = usable & other
            if candidates:
                first = min(candidates, key=rank)
                lacking.append(first)
        lacking.sort(key=rank)
        return tuple(lacking)


def names_of(
    segments: Sequence[Segment],
    present: Mapping[Path, str] = MappingProxyType({}),
    others: Iterable[str] = (),
) -> dict[Path, str]:
    """A name for each segment, by its levels.

    Its present name, else its narrowest own level, with a hash if a segment with a present name or
    one of `others` has that name already.

    New segments that want the same name all get a hash, whatever their sizes, so that names do not
    change with counts. But a single node, which may carry any label, does not change the name of a
    segment with several nodes.
    """
    names = {}
    new = []
    for segment in segments:
        if segment.levels in present:
            names[segment.levels] = present[segment.levels]
        else:
            new.append(segment)
    taken_names = {*names.values(), *others}
    wanted = _Wanted(new)
    for segment in new:
        name = _wanted_name(segment)
        if name in taken_names or wanted.is_wanted_by_rivals(segment):
            name = f"{name}-{_hash(segment.levels)}"
        names[segment.levels] = name
    return names


class _Wanted:
    """How many new segments want each name."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._by_any: Counter[str] = Counter()
        self._by_several_nodes: Counter[str] = Counter()
        for segment in segments:
            name = _wanted_name(segment)
            self._by_any[name] += 1
            if segment.nodes > 1:
                self._by_several_nodes[name] += 1

    def is_wanted_by_rivals(self, segment: Segment) -> bool:
        """Whether another segment that counts wants the same name."""
        counts = self._by_several_nodes if segment.nodes > 1 else self._by_any
        return counts[_wanted_name(segment)] > 1


def _wanted_name(segment: Segment) -> str:
    return segment.own[-1].domain if segment.own else _BASE


def _hash(path: Path) -> str:
    keys = [level.key for level in path]
    text = "\n".join(keys)
    digest = hashlib.sha256(text.encode())
    return digest.hexdigest()[:_HASH_DIGITS]


def selector_of(parent: Mapping[str, Any], segment: Segment) -> dict[str, Any]:
    """The node selector of the parent's spec, narrowed to the segment."""
    whole_selector = parent.get("nodeSelector")
    if not whole_selector:
        every_gpu_node = {"key": GPUS, "operator": "Exists"}
        whole_selector = {"matchExpressions": [every_gpu_node]}
    expressions = list(whole_selector.get("matchExpressions") or ())
    for key in segment.has:
        expressions.append({"key": key, "operator": "Exists"})
        if key in segment.unlike:
            values = list(segment.unlike[key])
            expressions.append({"key": key, "operator": "NotIn", "values": values})
    for key in segment.lacks:
        expressions.append({"key": key, "operator": "DoesNotExist"})
    selector: dict[str, Any] = {}
    labels = whole_selector.get("matchLabels")
    if labels:
        selector["matchLabels"] = dict(labels)
    selector["matchExpressions"] = expressions
    return selector


def child_name(parent: str, segment: str) -> str:
    """The name of a segment's ClusterTopology: `<parent>-<segment>`.

    The end of a parent's name that is too long for that is replaced by a hash.
    """
    name = f"{parent}-{segment}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(parent.encode()).hexdigest()
    end = f"-{digest[:_PARENT_HASH_DIGITS]}-{segment}"
    room = _LONGEST_NAME - len(end)
    beginning = parent[:room].rstrip("-.")
    return beginning + end
