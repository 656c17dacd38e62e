"""Which segments a topology's nodes fall into, over time: slow to believe in a new one, slower to give one up.

A segment counts when its nodes have carried its levels for the grace period: a node that joined a minute before its
labels is none. It keeps its name and its place in the status, which is all the memory there is, as long as it has
nodes. It goes when nodes of it have carried other levels for the grace period; when they are gone altogether (scaled
to zero) that says nothing about it.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPUS
from toposcope.topology.catalogue import Catalogue
from toposcope.topology.hierarchy import MOST_NAMES
from toposcope.topology.levels import Level
from toposcope.topology.segments import Path, Segment, Segmentation, divide, whole
from toposcope.topology.table import Table

MOST: Final = 8
"""Segments in a status, which must stay below 16 KiB; those with fewer nodes are summed up. The CRD has room for 16."""
_MOST_BYTES: Final = 8 << 10
"""What the levels of all of these may take of it: enough for eight segments of a dozen levels with usual keys."""
_A_LEVEL: Final = 26
"""Bytes of JSON around the name and the key of a level."""
_BASE: Final = "base"
"""Nodes with no level but those that all nodes have."""
_HASH_DIGITS: Final = 6
_NEW: Final = "new segment "
_LOST: Final = "lost segment "


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment that counts; one that has no nodes just now keeps its place."""

    name: str
    levels: Path
    nodes: int
    gpus: int
    examples: tuple[str, ...]
    selector: Mapping[str, Any]
    """The node selector of a ClusterTopology for it."""


@dataclass(frozen=True, slots=True)
class Segments:
    """How the nodes of one topology divide."""

    listed: tuple[Listed, ...] = ()
    """Those that count, most nodes first."""
    dropped: tuple[str, ...] = ()
    """Names of those that count no longer."""
    others: tuple[Segment, ...] = ()
    """Those that a status has no room for."""
    young: tuple[Segment, ...] = ()
    """Those that do not count yet."""
    stray: int = 0
    """Nodes that no listed segment selects."""
    strays: tuple[str, ...] = ()
    """Some of their names, sorted."""


def observe(
    topology: Topology, nodes: Table, levels: Sequence[Level], absences: Absences, now: float, catalogue: Catalogue
) -> Segments | None:
    """The segments of the selected nodes; None when there is nothing to say: all nodes carry the same levels.

    `levels` are those in effect. Without nodes there is no evidence, and everything stays.
    """
    before = _remembered(topology)
    if topology.levels is not None:
        return None  # the admin's word; what is missing is coverage
    if not len(nodes):
        return Segments(before) if before else None
    found = divide(nodes, catalogue, levels) or (whole(nodes, catalogue, levels) if before else None)
    if found is None:
        absences.keep_only(topology.uid, _NEW, ())
        return None
    known = {each.levels: each for each in before}
    # Nodes that are all alike make no segment, but one that was known goes on being one.
    present = [each for each in found.segments if len(found.segments) > 1 or each.levels in known]
    new = [each for each in present if each.levels not in known]
    absences.keep_only(topology.uid, _NEW, [_hash(each.levels) for each in new])
    young = tuple(
        each
        for each in new
        if not absences.longer_than(topology.uid, _NEW + _hash(each.levels), gone=True, grace=topology.grace, now=now)
    )
    lost = [each for each in before if all(segment.levels != each.levels for segment in present)]
    dropped = _dropped(topology, lost, nodes, absences, now)
    absences.keep_only(topology.uid, _LOST, [each.name for each in lost if each not in dropped])
    kept = [each for each in lost if each not in dropped]
    # Those that are known come first: more nodes elsewhere must not take their place.
    settled = sorted((each for each in present if each not in young), key=lambda each: each.levels not in known)
    room = _room(kept, settled)
    listed, others = settled[:room], settled[room:]
    names = _names(listed, known, kept)
    if len(listed) + len(kept) + len(young) < 2 and not topology.divided:  # noqa: PLR2004 - one segment is none
        listed, kept = [], []
    stray, strays = _stray(found, listed)
    everything = (
        *kept,
        *(
            Listed(names[each.levels], each.levels, each.nodes, each.gpus, each.examples, _selector(topology, each))
            for each in listed
        ),
    )
    return Segments(
        tuple(sorted(everything, key=lambda each: (-each.nodes, each.name))),
        tuple(each.name for each in dropped),
        tuple(others),
        young,
        stray,
        strays,
    )


def _room(kept: Sequence[Listed], settled: Sequence[Segment]) -> int:
    """How many of the `settled` segments a status has room for beside those that are `kept`."""
    left = _MOST_BYTES - sum(map(_bytes, (each.levels for each in kept)))
    taken = accumulate(map(_bytes, (each.levels for each in settled)))
    return min(sum(size <= left for size in taken), max(MOST - len(kept), 0))


def _bytes(path: Path) -> int:
    return sum(len(level.domain) + len(level.key) + _A_LEVEL for level in path)


def _remembered(topology: Topology) -> tuple[Listed, ...]:
    """The segments of the status, as those that no node is known of."""
    return tuple(
        Listed(
            entry["name"],
            tuple(Level(level["domain"], level["key"]) for level in entry.get("levels") or ()),
            0,
            0,
            tuple(entry.get("firstNodes") or ()),
            entry.get("nodeSelector") or {},
        )
        for entry in topology.status.get("segments") or ()
    )


def _dropped(topology: Topology, lost: Sequence[Listed], nodes: Table, absences: Absences, now: float) -> list[Listed]:
    """Those of the lost segments whose nodes have been seen with other levels for the grace period."""
    if not lost or topology.retain:
        return []
    examples = {name for each in lost for name in each.examples}
    there = {node.name for node in nodes if node.name in examples}
    return [
        each
        for each in lost
        if absences.longer_than(
            topology.uid, _LOST + each.name, gone=not there.isdisjoint(each.examples), grace=topology.grace, now=now
        )
    ]


def _names(listed: Sequence[Segment], known: Mapping[Path, Listed], kept: Sequence[Listed]) -> dict[Path, str]:
    """A name for each segment: the one that it has, else its narrowest own level, with a hash where that is taken.

    New ones that want the same name all have a hash, whatever their sizes: names are not to change with counts. But a
    single node, which may claim what it likes, does not change the name that several nodes have without it.
    """
    names = {each.levels: known[each.levels].name for each in listed if each.levels in known}
    newcomers = [(each, each.own[-1].domain if each.own else _BASE) for each in listed if each.levels not in names]
    taken = {*names.values(), *(each.name for each in kept)}
    everybody = Counter(name for _, name in newcomers)
    several = Counter(name for each, name in newcomers if each.nodes > 1)
    for each, name in newcomers:
        rivals = (several if each.nodes > 1 else everybody)[name] - 1
        names[each.levels] = f"{name}-{_hash(each.levels)}" if rivals or name in taken else name
    return names


def _hash(path: Path) -> str:
    return hashlib.sha256("\n".join(level.key for level in path).encode()).hexdigest()[:_HASH_DIGITS]


def _selector(topology: Topology, segment: Segment) -> dict[str, Any]:
    """What the topology selects, narrowed down to the segment."""
    whole_selector = topology.spec.get("nodeSelector") or {"matchExpressions": [{"key": GPUS, "operator": "Exists"}]}
    expressions = list(whole_selector.get("matchExpressions") or ())
    for key in segment.has:
        expressions.append({"key": key, "operator": "Exists"})
        if key in segment.unlike:
            expressions.append({"key": key, "operator": "NotIn", "values": list(segment.unlike[key])})
    expressions += [{"key": key, "operator": "DoesNotExist"} for key in segment.lacks]
    labels = whole_selector.get("matchLabels")
    return ({"matchLabels": dict(labels)} if labels else {}) | {"matchExpressions": expressions}


def _stray(found: Segmentation, listed: Sequence[Segment]) -> tuple[int, tuple[str, ...]]:
    """How many nodes no listed segment selects, and some of their names."""
    count = len(found.doubtful) + sum(
        nodes for carried, nodes in found.carried.items() if not any(each.takes(carried) for each in listed)
    )
    names = (
        *found.doubtful,
        *(name for segment in found.segments if segment not in listed for name in segment.examples),
    )
    return count, tuple(sorted(set(names))[:MOST_NAMES])
