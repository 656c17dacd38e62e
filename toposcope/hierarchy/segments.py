"""Segments: nodes that share the same set of level keys, and how a node selector tells them apart.

Schedulers leave a node without one of a topology's levels out of it, so hardware that carries
different keys (GB200 racks beside H100 racks) needs a topology for each kind, or one with only the
levels that all of them have.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.coverage import widely_carried
from toposcope.hierarchy.table import Table

EXAMPLES: Final = 3
"""How many of a segment's nodes are named."""

Path = tuple[Level, ...]
"""Levels, broadest first: the identity of a segment, also from one pass to the next."""
_Carried = frozenset[str]
_Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes with the same levels, and what selects exactly these among the nodes looked at."""

    levels: Path
    own: Path
    """Those of the levels that some other node lacks."""
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
        return carried.issuperset(self.has) and carried.isdisjoint(self.lacks)


@dataclass(frozen=True, slots=True)
class Segmentation:
    """All segments, those with the most nodes first."""

    segments: tuple[Segment, ...]
    carried: Mapping[_Carried, int]
    """How many nodes carry each set of level keys, those with a placeholder in a telling place left
    out."""
    doubtful: tuple[str, ...]
    """Nodes whose value of a telling key is a placeholder, sorted: they neither have nor lack that
    level."""


def divide(
    nodes: Table, catalogue: Catalogue, percent: int, used: Iterable[Level] = ()
) -> Segmentation | None:
    """The segments of the nodes; None when all nodes carry the same levels.

    A node that lacks what at least `percent` of them carry makes no segment, unless it has a key
    that none of those has: then it is of another kind. `used` are levels in effect: where a node
    has several keys for a domain, the one in effect counts.
    """
    level_keys = _level_keys(nodes, catalogue)
    carried = set(level_keys.values())
    if len(carried) < 2:  # noqa: PLR2004 - one kind of nodes, the usual case
        return None
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    rule = _PathRule(
        catalogue=catalogue,
        usual=usual,
        in_effect={level.domain: level.key for level in used},
        beside=_keys_beside(usual, carried),
    )
    paths = rule.paths(carried)
    shared = frozenset.intersection(*map(frozenset, paths.values()))
    # Where another kind lacks the level too, it tells nodes apart, and a selector cannot take those
    # that lack it.
    shared_keys = {level.key for level in shared}
    rule = replace(rule, usual={key: usual[key] for key in usual if key in shared_keys})
    paths = rule.paths(carried)
    telling = frozenset(chain.from_iterable(paths.values())) - shared
    if not telling:
        return None
    unlike = _placeholders(nodes, telling)
    kinds = _Kinds(nodes, level_keys, _doubtful(nodes, unlike))
    division = _Division(kinds, shared, telling, unlike, catalogue)
    by_path = _by_path(kinds.counts, paths)
    segments = [division.segment(path, members) for path, members in by_path.items()]
    segments.sort(key=lambda segment: (-segment.nodes, segment.examples))
    return Segmentation(tuple(segments), kinds.counts, kinds.doubtful)


def whole(
    nodes: Table, catalogue: Catalogue, percent: int, used: Iterable[Level] = ()
) -> Segmentation:
    """Nodes that (nearly) all carry the same levels, as the one segment that they are."""
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    in_effect = {level.domain: level.key for level in used}
    rule = _PathRule(catalogue=catalogue, usual=usual, in_effect=in_effect, beside={})
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
    return {keys: catalogue.level_keys.intersection(keys) for keys in nodes.key_sets}


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
    """By domain, the keys of levels in effect."""
    beside: Mapping[str, _Carried]
    """By usual key, the keys that some node carries together with it."""

    @cached_property
    def _common(self) -> Mapping[str, str]:
        """By domain, the usual key that most nodes carry."""
        return {level.domain: level.key for level in self.catalogue.infer(self.usual)}

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
        """The key in effect comes before the one that most nodes carry, and that before others.

        A usual key is a level also of a node that lacks it, if that has no keys but those that are
        somewhere beside it.
        """
        keys = self.catalogue.keys[domain]
        candidates = [key for key in keys if key in carried]
        in_effect = self.in_effect.get(domain)
        if in_effect in candidates:
            return in_effect
        common = self._common.get(domain)
        if common is None:
            return candidates[0] if candidates else None
        if common in candidates or carried.issubset(self.beside[common]):
            return in_effect if in_effect in self.usual else common
        return candidates[0] if candidates else None


def _placeholders(nodes: Table, telling: Iterable[Level]) -> dict[str, tuple[str, ...]]:
    """The placeholders that nodes have as values of the telling levels, by their keys."""
    placeholders = {}
    for level in telling:
        unlike = nodes.placeholders.intersection(nodes.labels(level.key))
        if unlike:
            placeholders[level.key] = tuple(sorted(unlike))
    return placeholders


def _doubtful(nodes: Table, unlike: Mapping[str, tuple[str, ...]]) -> frozenset[int]:
    """Places of the kinds whose nodes are in no segment."""
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
        for place, group in enumerate(nodes.groups):
            keys = None if place in doubtful else level_keys[group.keys]
            self._of_group.append(keys)
        is_doubtful = [keys is None for keys in self._of_group]
        self.doubtful = tuple(sorted(nodes.names(is_doubtful)))
        self.counts = {}
        self._gpus: Counter[_Carried] = Counter()
        groups = zip(self._of_group, nodes.groups, nodes.weights, strict=True)
        for keys, group, weight in groups:
            if keys is not None:
                self.counts[keys] = self.counts.get(keys, 0) + weight
                self._gpus[keys] += weight * group.hardware.gpus

    def nodes_of(self, chosen: Iterable[_Carried]) -> int:
        """How many nodes have one of these sets of level keys."""
        return sum(self.counts[keys] for keys in chosen)

    def gpus_of(self, chosen: Iterable[_Carried]) -> int:
        """Their GPUs."""
        return sum(self._gpus[keys] for keys in chosen)

    def examples_of(self, chosen: Container[_Carried | None]) -> tuple[str, ...]:
        """The first of their names."""
        return self._nodes.first_names([keys in chosen for keys in self._of_group], EXAMPLES)


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
        own = tuple([level for level in path if level not in self.shared])
        has = tuple([level.key for level in own])
        return Segment(
            levels=path,
            own=own,
            nodes=self.kinds.nodes_of(members),
            gpus=self.kinds.gpus_of(members),
            examples=self.kinds.examples_of(members),
            has=has,
            lacks=self._lacks(has, members),
            unlike={key: self.unlike[key] for key in has if key in self.unlike},
        )

    def _lacks(self, has: _Keys, members: Collection[_Carried]) -> tuple[str, ...]:
        """Keys that keep out those that are no members and that `has` would let in."""
        rank = self.catalogue.rank.__getitem__
        usable = {level.key for level in self.telling}
        usable.difference_update(*members)
        lacking: list[str] = []
        for other in sorted(self.kinds.counts, key=sorted):
            if other in members or not other.issuperset(has) or not other.isdisjoint(lacking):
                continue
            candidates = usable & other
            if candidates:
                lacking.append(min(candidates, key=rank))
        return tuple(sorted(lacking, key=rank))
