"""Which segments a topology's nodes fall into, over time: slow to believe in a new one, slower to give one up.

A segment counts when its nodes have carried its levels for the grace period: a node that joined a minute before its
labels is none. It keeps its name and its place in the status, which is all the memory there is, as long as it has
nodes. It goes when nodes of it have carried other levels for the grace period; when they are gone altogether (scaled
to zero) that says nothing about it.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.conditions import SEGMENTS_PUBLISHED, Condition
from toposcope.api.effective_levels import Absences
from toposcope.api.label_keys import GPUS
from toposcope.integrations.framework.published import MANAGER, owned_metadata
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import create
from toposcope.topology.catalogue import Catalogue
from toposcope.topology.hierarchy import MOST_NAMES, some_names
from toposcope.topology.levels import Level
from toposcope.topology.segments import Path, Segment, Segmentation, divide, whole
from toposcope.topology.table import Table

log = logging.getLogger(__name__)

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
_LONGEST_NAME: Final = 253
_PARENT_HASH_DIGITS: Final = 10
_UNCLAIMED: Final = "unclaimed child "
_JSON_PATCH: Final = "application/json-patch+json"
_BUSY: Final = 429
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Child:
    """The ClusterTopology of one segment; `reason` is empty when it is as it should be.

    Else it is `Conflict` or `Rejected`.
    """

    name: str
    reason: str = ""
    message: str = ""


def child_name(parent: str, segment: str) -> str:
    """`<parent>-<segment>`, with a hash in the place of the end of a parent's name that is too long for that."""
    if len(parent) + 1 + len(segment) <= _LONGEST_NAME:
        return f"{parent}-{segment}"
    digest = hashlib.sha256(parent.encode()).hexdigest()[:_PARENT_HASH_DIGITS]
    room = _LONGEST_NAME - len(segment) - len(digest) - 2
    return f"{parent[:room].rstrip('-.')}-{digest}-{segment}"


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


_MOST_TOLD: Final = 4
"""Segments that a message describes; the status lists them all."""


def segments_condition(topology: Topology, segments: Segments | None, children: Sequence[Child]) -> Condition | None:
    """The `SegmentsPublished` condition; None where the nodes make one segment and nobody asked for more."""
    listed, young = (segments.listed, segments.young) if segments else ((), ())
    if not topology.divided:
        return _offered(listed, young)
    about = _about_nodes(topology, segments) if segments else ""
    bad = [child for child in children if child.reason]
    if bad:
        text = "; ".join(f"{child.name}: {child.message}" for child in bad)
        return Condition(SEGMENTS_PUBLISHED, "False", bad[0].reason, text + about)
    if listed:
        names = ", ".join(child_name(topology.name, each.name) for each in listed if each.nodes)
        text = f"Each segment has a ClusterTopology: {names}" if names else "No segment has nodes just now"
        return Condition(SEGMENTS_PUBLISHED, "True", "InSync", text + about)
    if young:
        return Condition(SEGMENTS_PUBLISHED, "Unknown", "Settling", "No segment is sure yet" + about)
    return Condition(SEGMENTS_PUBLISHED, "True", "OneSegment", "All nodes carry the same levels")


def _offered(listed: Sequence[Listed], young: Sequence[Segment]) -> Condition | None:
    """Word of segments that nobody asked to publish: all is as the spec has it, and could be better."""
    if not listed and not young:
        return None
    if listed:
        text = (
            "The nodes fall into segments that carry different levels: "
            f"{_some([_description(each.name, each.nodes, each.levels) for each in listed])}. One ClusterTopology "
            "can only have what they share: set spec.segments to Auto to have one made for each, or make your own with "
            "the selectors in status.segments"
        )
    else:
        text = "The nodes begin to fall into segments: " + _some(
            [_description(some_names(each.examples, each.nodes), each.nodes, each.levels) for each in young]
        )
    return Condition(SEGMENTS_PUBLISHED, "True", "SegmentsOff", text)


def _about_nodes(topology: Topology, segments: Segments) -> str:
    """Nodes that are in no ClusterTopology of a segment, and why."""
    text = ""
    if segments.young:
        each = [_description(some_names(x.examples, x.nodes), x.nodes, x.levels) for x in segments.young]
        grace = topology.spec.get("gracePeriod") or "10m"
        text += f"; not sure yet, because it has been so for less than gracePeriod ({grace}): {_some(each)}"
    if segments.others:
        text += f"; {len(segments.others)} more segments are left out: {len(segments.listed)} is the most"
    if segments.stray:
        nodes = "1 node is" if segments.stray == 1 else f"{segments.stray} nodes are"
        text += f"; {nodes} in no segment: {some_names(segments.strays, segments.stray)}"
    return text


def _description(name: str, nodes: int, levels: Sequence[Level]) -> str:
    path = " > ".join(level.domain for level in levels)
    return f"{name} ({nodes} {'node' if nodes == 1 else 'nodes'}: {path})"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_TOLD
    return ", ".join(texts[:_MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def segments_status(topology: Topology, segments: Segments, children: Sequence[Child]) -> dict[str, Any]:
    """The part of a status that is about segments: `segments`, and `otherSegments` where there are too many."""
    made = {child.name for child in children if not child.reason}
    status: dict[str, Any] = {}
    if segments.listed:
        status["segments"] = [_entry(topology, each, made) for each in segments.listed]
    if segments.others:
        status["otherSegments"] = {
            "segments": len(segments.others),
            "nodes": sum(other.nodes for other in segments.others),
            "gpus": sum(other.gpus for other in segments.others),
        }
    return status


def _entry(topology: Topology, segment: Listed, made: set[str]) -> dict[str, Any]:
    child = child_name(topology.name, segment.name)
    entry: dict[str, Any] = {
        "name": segment.name,
        "nodes": segment.nodes,
        "gpus": segment.gpus,
        "firstNodes": list(segment.examples),
        "levels": [{"domain": level.domain, "key": level.key} for level in segment.levels],
    }
    if segment.selector:  # not known of one without nodes whose selector was too large for the status
        entry["nodeSelector"] = segment.selector
    return entry | ({"clusterTopology": child} if child in made else {})


def child_spec(parent: Topology, segment: Listed) -> dict[str, Any]:
    """What a child is to be: the parent's settings for the segment's nodes, and of its required levels those there."""
    domains = {level.domain for level in segment.levels}
    wanted = {
        "nodeSelector": segment.selector,
        "required": [domain for domain in parent.required if domain in domains],
        "segments": "Off",
    }
    return wanted | {
        name: parent.spec[name] for name in ("gracePeriod", "removalPolicy", "publish") if name in parent.spec
    }


class Children:
    """Writes the children of ClusterTopologies."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    def keep(
        self,
        parent: Topology,
        segments: Segments | None,
        everything: Iterable[Topology],
        absences: Absences,
        now: float,
    ) -> list[Child]:
        """Make the children what `segments` says; None: nothing is known that should change them.

        `everything` are all ClusterTopologies. Raises KubeError when the server does not answer.
        """
        there = {topology.name: topology for topology in everything}
        mine = [topology for topology in there.values() if topology.owner == parent.uid]
        if parent.problems or not (mine or parent.divided):
            return []
        if not parent.divided:
            self._delete(mine, "spec.segments is Off")
            return []
        listed = segments.listed if segments else ()
        children = [self._bring_about(parent, each, there) for each in listed]
        claimed = {child_name(parent.name, each.name) for each in listed}
        dropped = {child_name(parent.name, name) for name in segments.dropped} if segments else set[str]()
        self._delete([x for x in mine if x.name in dropped], "its segment is no more")
        self._clear(parent, [x for x in mine if x.name not in claimed | dropped], absences, now)
        return [child for child in children if child is not None]

    def _bring_about(self, parent: Topology, segment: Listed, there: Mapping[str, Topology]) -> Child | None:
        name = child_name(parent.name, segment.name)
        old = there.get(name)
        if old is not None and old.owner != parent.uid:
            return _taken(name)
        if not segment.nodes:  # kept as it is until its nodes are back
            return None if old is None else Child(name)
        spec = child_spec(parent, segment)
        if old is not None and all(old.spec.get(field) == spec.get(field) for field in (*spec, "levels")):
            return Child(name)
        try:
            self._client.call(_made(parent, name, spec) if old is None else _changed(old, spec))
        except ApiError as error:
            if error.status >= _SERVER_ERROR or error.status == _BUSY:
                raise
            return _taken(name) if error.conflict and old is None else Child(name, "Rejected", error.message)
        log.info("ClusterTopology %s: %s is for its segment %s", parent.name, name, segment.name)
        return Child(name)

    def _clear(self, parent: Topology, unclaimed: Sequence[Topology], absences: Absences, now: float) -> None:
        """Take back children that no segment has asked for during the grace period: a status may have been lost."""
        absences.keep_only(parent.uid, _UNCLAIMED, [child.name for child in unclaimed])
        if parent.retain:
            return
        old = [
            child
            for child in unclaimed
            if absences.longer_than(parent.uid, _UNCLAIMED + child.name, gone=True, grace=parent.grace, now=now)
        ]
        self._delete(old, "no segment of that name has been seen")

    def _delete(self, children: Iterable[Topology], why: str) -> None:
        """What was published from them is collected with them. Raises KubeError."""
        for child in children:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": child.uid}}
            try:
                self._client.call(Request("DELETE", f"{PATH}/{child.name}", {}, msgspec.json.encode(options)))
            except ApiError as error:
                if not (error.not_found or error.conflict):
                    raise
            else:
                log.info("ClusterTopology %s: deleted, because %s", child.name, why)


def _made(parent: Topology, name: str, spec: Mapping[str, Any]) -> Request:
    """Not by server-side apply, which would merge with what somebody made since we looked."""
    metadata = {**owned_metadata(parent), "name": name}
    return create(PATH, {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}, MANAGER)


def _changed(child: Topology, spec: Mapping[str, Any]) -> Request:
    """The whole spec anew, if it still is the object that was looked at."""
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": child.uid},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    return Request("PATCH", f"{PATH}/{child.name}", {"fieldManager": MANAGER}, msgspec.json.encode(patch), _JSON_PATCH)


def _taken(name: str) -> Child:
    text = f"a {KIND} of that name exists and was not made for this segment; delete it, or set spec.segments to Off"
    return Child(name, "Conflict", text)
