"""Segments: nodes that share the same set of level keys, and how a node selector tells them apart.

Schedulers leave a node without one of a topology's levels out of it, so hardware that carries
different keys (GB200 racks beside H100 racks) needs a topology for each kind, or one with only the
levels that all of them have.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
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
    """Nodes with the same levels, and what selects exactly these among the nodes that were looked at."""

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
    carried = {keys: catalogue.level_keys.intersection(keys) for keys in nodes.key_sets}
    if len(set(carried.values())) < 2:  # noqa: PLR2004 - one kind of nodes, the usual case
        return None
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    beside = {
        key: frozenset[str]().union(*(keys for keys in carried.values() if key in keys))
        for key in usual
    }
    standing = {level.domain: level.key for level in used}
    paths = {
        keys: _path(keys, usual, standing, catalogue, beside) for keys in set(carried.values())
    }
    shared = frozenset.intersection(*map(frozenset, paths.values()))
    # Where another kind lacks the level too, it tells nodes apart, and a selector cannot take those
    # that lack it.
    usual = {level.key: usual[level.key] for level in shared if level.key in usual}
    paths = {keys: _path(keys, usual, standing, catalogue, beside) for keys in paths}
    telling = frozenset(chain.from_iterable(paths.values())) - shared
    if not telling:
        return None
    unlike = _placeholders(nodes, telling)
    kinds = _Kinds(nodes, carried, _doubtful(nodes, unlike))
    by_path: dict[Path, list[_Carried]] = {}
    for count in kinds.counts:
        by_path.setdefault(paths[count], []).append(count)
    segments = []
    for path, members in by_path.items():
        own = tuple(level for level in path if level not in shared)
        has = tuple(level.key for level in own)
        others = [count for count in kinds.counts if count not in members]
        lacks = _lacks(has, members, others, telling, catalogue)
        seen = {key: unlike[key] for key in has if key in unlike}
        segments.append(Segment(path, own, *kinds.of(members), has, lacks, seen))
    segments.sort(key=lambda segment: (-segment.nodes, segment.examples))
    return Segmentation(tuple(segments), kinds.counts, kinds.doubtful)


def whole(
    nodes: Table, catalogue: Catalogue, percent: int, used: Iterable[Level] = ()
) -> Segmentation:
    """Nodes that (nearly) all carry the same levels, as the one segment that they are."""
    carried = {keys: catalogue.level_keys.intersection(keys) for keys in nodes.key_sets}
    usual = widely_carried(catalogue.level_keys, nodes, percent)
    path = _path(
        frozenset(usual), usual, {level.domain: level.key for level in used}, catalogue, {}
    )
    kinds = _Kinds(nodes, carried, frozenset())
    return Segmentation((Segment(path, (), *kinds.of(kinds.counts), (), (), {}),), kinds.counts, ())


def _path(
    carried: _Carried,
    usual: Mapping[str, int],
    standing: Mapping[str, str],
    catalogue: Catalogue,
    beside: Mapping[str, _Carried],
) -> Path:
    """The levels of a node.

    One key a domain, the one in effect before the one that most nodes carry before others. A
    `usual` key is a level also of a node that lacks it, if it has no keys but those that are
    somewhere `beside` it.
    """
    path = []
    common = {level.domain: level.key for level in catalogue.infer(usual)}
    for domain, keys in catalogue.keys.items():
        mine = [key for key in keys if key in carried]
        if standing.get(domain) in mine:
            path.append(Level(domain, standing[domain]))
        elif domain in common and (
            common[domain] in mine or carried.issubset(beside[common[domain]])
        ):
            path.append(
                Level(domain, standing[domain] if standing.get(domain) in usual else common[domain])
            )
        elif mine:
            path.append(Level(domain, mine[0]))
    return tuple(path)


def _placeholders(nodes: Table, telling: Iterable[Level]) -> dict[str, tuple[str, ...]]:
    placeholders = {}
    for level in telling:
        unlike = nodes.placeholders.intersection(nodes.labels(level.key))
        if unlike:
            placeholders[level.key] = tuple(sorted(unlike))
    return placeholders


def _doubtful(nodes: Table, unlike: Mapping[str, tuple[str, ...]]) -> frozenset[int]:
    """Places of the kinds whose nodes are in no segment."""
    return frozenset(
        i
        for key, values in unlike.items()
        for i, label in enumerate(nodes.labels(key))
        if label in values
    )


def _lacks(
    has: _Keys,
    members: Iterable[_Carried],
    others: Iterable[_Carried],
    telling: Iterable[Level],
    catalogue: Catalogue,
) -> tuple[str, ...]:
    """Keys that keep out the `others` that `has` would let in."""
    mine = frozenset().union(*members)
    usable = frozenset(level.key for level in telling) - mine
    lacking: list[str] = []
    for other in sorted(others, key=sorted):
        if other.issuperset(has) and other.isdisjoint(lacking) and not usable.isdisjoint(other):
            lacking.append(min(usable & other, key=catalogue.rank.__getitem__))
    return tuple(sorted(lacking, key=catalogue.rank.__getitem__))


class _Kinds:
    """Counts of the nodes by the level keys that they carry, those at the `doubtful` places left out."""

    def __init__(
        self, nodes: Table, carried: Mapping[_Keys, _Carried], doubtful: frozenset[int]
    ) -> None:
        self._nodes = nodes
        self._sets: list[_Carried | None] = [
            None if i in doubtful else carried[group.keys] for i, group in enumerate(nodes.groups)
        ]
        self.doubtful = tuple(sorted(nodes.names(i in doubtful for i in range(len(nodes.groups)))))
        self.counts: dict[_Carried, int] = {}
        self._gpus: Counter[_Carried] = Counter()
        for keys, group, weight in zip(self._sets, nodes.groups, nodes.weights, strict=True):
            if keys is not None:
                self.counts[keys] = self.counts.get(keys, 0) + weight
                self._gpus[keys] += weight * group.hardware.gpus

    def of(self, chosen: Collection[_Carried]) -> tuple[int, int, tuple[str, ...]]:
        """Nodes, GPUs and the first names of those with one of these sets of level keys."""
        names = self._nodes.first_names([set_ in chosen for set_ in self._sets], EXAMPLES)
        return (
            sum(self.counts[keys] for keys in chosen),
            sum(self._gpus[keys] for keys in chosen),
            names,
        )
