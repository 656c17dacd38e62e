"""The segments of a topology over time, and the ClusterTopology that each of them gets.

A segment becomes established when its nodes have carried its levels for the grace period; a node
that joined a minute before its labels does not make one. It keeps its name and its place in the
status, which is the only memory, as long as it has nodes. It is dropped when its nodes have carried
other levels for the grace period. If its nodes are gone altogether (scaled to zero), that says
nothing about it.

The ClusterTopology of a segment, its child, is an ordinary one with a node selector: its levels are
inferred from its own nodes, and status, publishing and requirements work as for any other. An
ownerReference ties it to its parent.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.conditions import SEGMENTS_PUBLISHED, Condition
from toposcope.api.label_keys import GPUS
from toposcope.api.levels import Level
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.coverage import MOST_NAMES, some_names
from toposcope.hierarchy.effective_levels import Absences
from toposcope.hierarchy.segments import Path, Segment, Segmentation, divide, whole
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.published import MANAGER, Target, owned_metadata
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import create
from toposcope.text import listing

log = logging.getLogger(__name__)

MOST: Final = 8
"""Segments in a status, which must stay below 16 KiB; smaller ones are summed up.

The CRD has room for 16.
"""
_MOST_BYTES: Final = 8 << 10
"""What the levels of all of them may take of the status: eight segments of a dozen levels with usual keys."""
_LEVEL_BYTES: Final = 26
"""JSON around the name and the key of a level."""
_MOST_DESCRIBED: Final = 4
"""Segments that a message describes; the status lists them all."""
_BASE: Final = "base"
"""Nodes that carry only the levels that all nodes carry."""
_HASH_DIGITS: Final = 6
_PARENT_HASH_DIGITS: Final = 10
_LONGEST_NAME: Final = 253
_NEW: Final = "new segment "
_LOST: Final = "lost segment "
UNCLAIMED: Final = "unclaimed child "
_JSON_PATCH: Final = "application/json-patch+json"
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """An established segment; without nodes it keeps its place."""

    name: str
    levels: Path
    nodes: int
    gpus: int
    examples: tuple[str, ...]
    selector: Mapping[str, Any]
    """The node selector of its ClusterTopology."""


@dataclass(frozen=True, slots=True)
class Segments:
    """How the nodes of one topology divide."""

    listed: tuple[ListedSegment, ...] = ()
    """Established segments, most nodes first."""
    dropped: tuple[str, ...] = ()
    """Names of segments that no longer exist."""
    others: tuple[Segment, ...] = ()
    """Segments that a status has no room for."""
    settling: tuple[Segment, ...] = ()
    """Segments that are not established yet."""
    unassigned: int = 0
    """Nodes that no listed segment selects."""
    unassigned_names: tuple[str, ...] = ()
    """Some of their names, sorted."""


@dataclass(frozen=True, slots=True)
class SegmentTopology:
    """The ClusterTopology of one segment; `reason` is empty if it is as it should be, else `Conflict` or `Rejected`."""

    name: str
    reason: str = ""
    message: str = ""


def reported_segments(topology: Topology) -> Segments | None:
    """The segments as the stored status has them: without nodes all stays."""
    before = _from_status(topology) if topology.levels is None else ()
    return Segments(before) if before else None


def observe(
    topology: Topology,
    nodes: Table,
    levels: Sequence[Level],
    absences: Absences,
    now: float,
    catalogue: Catalogue,
) -> Segments | None:
    """The segments of at least one node at the effective `levels`; None if all carry the same."""
    before = _from_status(topology)
    if topology.levels is not None:
        return None  # the admin decides; what is missing is a matter of coverage
    division = divide(nodes, catalogue, topology.min_coverage, levels) or (
        whole(nodes, catalogue, topology.min_coverage, levels) if before else None
    )
    if division is None:
        absences.keep_only(topology.uid, _NEW, ())
        return None
    known = {segment.levels: segment for segment in before}
    # Nodes that are all alike make no segment, but an established one continues.
    present = [
        segment
        for segment in division.segments
        if len(division.segments) > 1 or segment.levels in known
    ]
    new = [segment for segment in present if segment.levels not in known]
    absences.keep_only(topology.uid, _NEW, [_hash(segment.levels) for segment in new])
    settling = tuple(
        segment
        for segment in new
        if not absences.longer_than(
            topology.uid, _NEW + _hash(segment.levels), gone=True, grace=topology.grace, now=now
        )
    )
    present_levels = {segment.levels for segment in present}
    lost = [segment for segment in before if segment.levels not in present_levels]
    dropped = _dropped(topology, lost, nodes, absences, now)
    kept = [segment for segment in lost if segment not in dropped]
    absences.keep_only(topology.uid, _LOST, [segment.name for segment in kept])
    # Known ones come first: more nodes elsewhere must not take their place.
    settled = sorted(
        (segment for segment in present if segment not in settling),
        key=lambda segment: segment.levels not in known,
    )
    room = _room(kept, settled)
    listed, others = settled[:room], settled[room:]
    names = _names(listed, known, kept)
    if len(listed) + len(kept) + len(settling) < 2 and not topology.divided:  # noqa: PLR2004 - one segment is none
        listed, kept = [], []
    unassigned, unassigned_names = _unassigned(division, listed)
    everything = [
        *kept,
        *(
            ListedSegment(
                names[s.levels], s.levels, s.nodes, s.gpus, s.examples, _selector(topology, s)
            )
            for s in listed
        ),
    ]
    largest_first = tuple(sorted(everything, key=lambda segment: (-segment.nodes, segment.name)))
    return Segments(
        largest_first,
        tuple(segment.name for segment in dropped),
        tuple(others),
        settling,
        unassigned,
        unassigned_names,
    )


def _room(kept: Sequence[ListedSegment], settled: Sequence[Segment]) -> int:
    """How many of the `settled` segments a status has room for beside the `kept` ones."""
    left = _MOST_BYTES - sum(_bytes(segment.levels) for segment in kept)
    taken = accumulate(_bytes(segment.levels) for segment in settled)
    return min(sum(size <= left for size in taken), max(MOST - len(kept), 0))


def _bytes(path: Path) -> int:
    return sum(len(level.domain) + len(level.key) + _LEVEL_BYTES for level in path)


def _from_status(topology: Topology) -> tuple[ListedSegment, ...]:
    """The segments of the stored status, without nodes."""
    return tuple(
        ListedSegment(
            entry["name"],
            tuple(Level(level["domain"], level["key"]) for level in entry.get("levels") or ()),
            0,
            0,
            tuple(entry.get("firstNodes") or ()),
            entry.get("nodeSelector") or {},
        )
        for entry in topology.status.get("segments") or ()
    )


def _dropped(
    topology: Topology, lost: Sequence[ListedSegment], nodes: Table, absences: Absences, now: float
) -> list[ListedSegment]:
    """The lost segments whose nodes have carried other levels for the grace period."""
    if not lost or topology.retain:
        return []
    examples = {name for segment in lost for name in segment.examples}
    alive = {node.name for node in nodes if node.name in examples}
    return [
        segment
        for segment in lost
        if absences.longer_than(
            topology.uid,
            _LOST + segment.name,
            gone=not alive.isdisjoint(segment.examples),
            grace=topology.grace,
            now=now,
        )
    ]


def _names(
    listed: Sequence[Segment], known: Mapping[Path, ListedSegment], kept: Sequence[ListedSegment]
) -> dict[Path, str]:
    """A name for each segment: its present one, else its narrowest own level, with a hash if that name is taken.

    New segments that want the same name all get a hash, whatever their sizes, so that names do not change with counts.
    But a single node, which may carry any label, does not change the name that several nodes have without it.
    """
    names = {
        segment.levels: known[segment.levels].name for segment in listed if segment.levels in known
    }
    new = [
        (segment, segment.own[-1].domain if segment.own else _BASE)
        for segment in listed
        if segment.levels not in names
    ]
    taken = {*names.values(), *(segment.name for segment in kept)}
    all_wanting = Counter(name for _, name in new)
    several_nodes_wanting = Counter(name for segment, name in new if segment.nodes > 1)
    for segment, name in new:
        rivals = (several_nodes_wanting if segment.nodes > 1 else all_wanting)[name] - 1
        names[segment.levels] = (
            f"{name}-{_hash(segment.levels)}" if rivals or name in taken else name
        )
    return names


def _hash(path: Path) -> str:
    return hashlib.sha256("\n".join(level.key for level in path).encode()).hexdigest()[
        :_HASH_DIGITS
    ]


def _selector(topology: Topology, segment: Segment) -> dict[str, Any]:
    """The topology's node selector, narrowed down to the segment."""
    whole_selector = topology.spec.get("nodeSelector") or {
        "matchExpressions": [{"key": GPUS, "operator": "Exists"}]
    }
    expressions = list(whole_selector.get("matchExpressions") or ())
    for key in segment.has:
        expressions.append({"key": key, "operator": "Exists"})
        if key in segment.unlike:
            expressions.append(
                {"key": key, "operator": "NotIn", "values": list(segment.unlike[key])}
            )
    expressions += [{"key": key, "operator": "DoesNotExist"} for key in segment.lacks]
    labels = whole_selector.get("matchLabels")
    return ({"matchLabels": dict(labels)} if labels else {}) | {"matchExpressions": expressions}


def _unassigned(division: Segmentation, listed: Sequence[Segment]) -> tuple[int, tuple[str, ...]]:
    """How many nodes no listed segment selects, and some of their names."""
    count = len(division.doubtful) + sum(
        nodes
        for carried, nodes in division.carried.items()
        if not any(s.takes(carried) for s in listed)
    )
    names = (
        *division.doubtful,
        *(
            name
            for segment in division.segments
            if segment not in listed
            for name in segment.examples
        ),
    )
    return count, tuple(sorted(set(names))[:MOST_NAMES])


def segments_condition(
    topology: Topology, segments: Segments | None, children: Sequence[SegmentTopology]
) -> Condition | None:
    """The `SegmentsPublished` condition; None if the nodes make one segment and the spec asks for no more."""
    listed, settling = (segments.listed, segments.settling) if segments else ((), ())
    if not topology.divided:
        return _suggestion(listed, settling)
    about = _about_nodes(topology, segments) if segments else ""
    bad = [child for child in children if child.reason]
    if bad:
        text = "; ".join(f"{child.name}: {child.message}" for child in bad)
        return Condition(SEGMENTS_PUBLISHED, "False", bad[0].reason, text + about)
    if listed:
        names = ", ".join(
            child_name(topology.name, segment.name) for segment in listed if segment.nodes
        )
        text = (
            f"Each segment has a ClusterTopology: {names}"
            if names
            else "No segment has nodes at the moment"
        )
        return Condition(SEGMENTS_PUBLISHED, "True", "InSync", text + about)
    if settling:
        return Condition(
            SEGMENTS_PUBLISHED, "Unknown", "Settling", "No segment is established yet" + about
        )
    return Condition(SEGMENTS_PUBLISHED, "True", "OneSegment", "All nodes carry the same levels")


def _suggestion(listed: Sequence[ListedSegment], settling: Sequence[Segment]) -> Condition | None:
    """Point out segments that the spec does not publish: all is as specified, and could be better."""
    if not listed and not settling:
        return None
    if listed:
        described = [
            _description(segment.name, segment.nodes, segment.levels) for segment in listed
        ]
        text = (
            "The nodes fall into segments that carry different levels: "
            f"{listing(described, _MOST_DESCRIBED)}. One ClusterTopology "
            "can only have the levels they share: set spec.segments to Auto to get one for each segment, or create "
            "your own with the selectors in status.segments"
        )
    else:
        text = "The nodes begin to fall into segments: " + _unnamed(settling)
    return Condition(SEGMENTS_PUBLISHED, "True", "SegmentsOff", text)


def _about_nodes(topology: Topology, segments: Segments) -> str:
    """Nodes that are in no segment's ClusterTopology, and why."""
    text = ""
    if segments.settling:
        grace = topology.spec.get("gracePeriod") or "10m"
        text += f"; not established yet, because newer than gracePeriod ({grace}): {_unnamed(segments.settling)}"
    if segments.others:
        text += f"; {len(segments.others)} more segments are left out: {len(segments.listed)} is the limit"
    if segments.unassigned:
        nodes = "1 node is" if segments.unassigned == 1 else f"{segments.unassigned} nodes are"
        text += (
            f"; {nodes} in no segment: {some_names(segments.unassigned_names, segments.unassigned)}"
        )
    return text


def _unnamed(segments: Sequence[Segment]) -> str:
    texts = [_description(some_names(s.examples, s.nodes), s.nodes, s.levels) for s in segments]
    return listing(texts, _MOST_DESCRIBED)


def _description(name: str, nodes: int, levels: Sequence[Level]) -> str:
    path = " > ".join(level.domain for level in levels)
    return f"{name} ({nodes} {'node' if nodes == 1 else 'nodes'}: {path})"


def segments_status(
    topology: Topology, segments: Segments, children: Sequence[SegmentTopology]
) -> dict[str, Any]:
    """The part of a status about segments: `segments`, and `otherSegments` if there are too many."""
    written = {child.name for child in children if not child.reason}
    status: dict[str, Any] = {}
    if segments.listed:
        status["segments"] = [_entry(topology, segment, written) for segment in segments.listed]
    if segments.others:
        status["otherSegments"] = {
            "segments": len(segments.others),
            "nodes": sum(other.nodes for other in segments.others),
            "gpus": sum(other.gpus for other in segments.others),
        }
    return status


def _entry(topology: Topology, segment: ListedSegment, written: set[str]) -> dict[str, Any]:
    child = child_name(topology.name, segment.name)
    entry: dict[str, Any] = {
        "name": segment.name,
        "nodes": segment.nodes,
        "gpus": segment.gpus,
        "firstNodes": list(segment.examples),
        "levels": [{"domain": level.domain, "key": level.key} for level in segment.levels],
    }
    if segment.selector:  # unknown without nodes if the selector was too large for the status
        entry["nodeSelector"] = segment.selector
    return entry | ({"clusterTopology": child} if child in written else {})


def child_name(parent: str, segment: str) -> str:
    """`<parent>-<segment>`; the end of a parent's name that is too long for that is replaced by a hash."""
    if len(parent) + 1 + len(segment) <= _LONGEST_NAME:
        return f"{parent}-{segment}"
    digest = hashlib.sha256(parent.encode()).hexdigest()[:_PARENT_HASH_DIGITS]
    room = _LONGEST_NAME - len(segment) - len(digest) - 2
    return f"{parent[:room].rstrip('-.')}-{digest}-{segment}"


def child_spec(parent: Topology, segment: ListedSegment) -> dict[str, Any]:
    """The spec of a child: the parent's settings for the segment's nodes, and those required levels that they carry."""
    domains = {level.domain for level in segment.levels}
    required = [domain for domain in parent.required if domain in domains]
    wanted = {"nodeSelector": segment.selector, "required": required, "segments": "Off"}
    inherited = ("minCoveragePercent", "gracePeriod", "removalPolicy", "publish")
    return wanted | {name: parent.spec[name] for name in inherited if name in parent.spec}


class SegmentTopologies:
    """Creates, updates and deletes the children of ClusterTopologies."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    def sync(
        self,
        parent: Topology,
        segments: Segments | None,
        topologies: Iterable[Topology],
        absences: Absences,
        now: float,
        idle: Container[Topology],
    ) -> list[SegmentTopology]:
        """Bring the children in line with `segments`; None: nothing is known that should change them.

        `topologies` are all ClusterTopologies; those in `idle` may go with their segment. Raises KubeError if the
        server does not answer.
        """
        existing = {topology.name: topology for topology in topologies}
        mine = [topology for topology in existing.values() if topology.owner == parent.uid]
        if parent.problems or not (mine or parent.divided):
            return []
        if not parent.divided:
            self._delete(mine, "spec.segments is Off")
            return []
        listed = segments.listed if segments else ()
        children = [self._write(parent, segment, existing) for segment in listed]
        claimed = {child_name(parent.name, segment.name) for segment in listed}
        dropped = (
            {child_name(parent.name, name) for name in segments.dropped} if segments else set[str]()
        )
        mine = [child for child in mine if child in idle]
        self._delete(
            [child for child in mine if child.name in dropped], "its segment no longer exists"
        )
        self._clean_up(
            parent, [child for child in mine if child.name not in claimed | dropped], absences, now
        )
        return [child for child in children if child is not None]

    def _write(
        self, parent: Topology, segment: ListedSegment, existing: Mapping[str, Topology]
    ) -> SegmentTopology | None:
        name = child_name(parent.name, segment.name)
        old = existing.get(name)
        if old is not None and old.owner != parent.uid:
            return _name_taken(name)
        if not segment.nodes:  # left as it is until its nodes are back
            return None if old is None else SegmentTopology(name)
        spec = child_spec(parent, segment)
        if old is not None and all(
            old.spec.get(field) == spec.get(field) for field in (*spec, "levels")
        ):
            return SegmentTopology(name)
        try:
            self._client.call(
                _create(parent, name, spec) if old is None else _replace_spec(old, spec)
            )
        except ApiError as error:
            if error.status >= _SERVER_ERROR or error.status == _TOO_MANY_REQUESTS:
                raise
            if error.conflict and old is None:
                return _name_taken(name)
            refused = Target("", API_VERSION, KIND, "", name).failed(error)
            return SegmentTopology(name, "Rejected", refused.text)
        log.info("ClusterTopology %s: wrote %s for its segment %s", parent.name, name, segment.name)
        return SegmentTopology(name)

    def _clean_up(
        self, parent: Topology, unclaimed: Sequence[Topology], absences: Absences, now: float
    ) -> None:
        """Delete children that no segment has claimed for the grace period: a status may have been lost."""
        absences.keep_only(parent.uid, UNCLAIMED, [child.name for child in unclaimed])
        if parent.retain:
            return
        old = [
            child
            for child in unclaimed
            if absences.longer_than(
                parent.uid, UNCLAIMED + child.name, gone=True, grace=parent.grace, now=now
            )
        ]
        self._delete(old, "no segment has that name")

    def _delete(self, children: Iterable[Topology], why: str) -> None:
        """Garbage collection deletes what was published from them. Raises KubeError."""
        for child in children:
            options = {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": child.uid},
            }
            try:
                self._client.call(
                    Request("DELETE", f"{PATH}/{child.name}", {}, msgspec.json.encode(options))
                )
            except ApiError as error:
                if not (error.not_found or error.conflict):
                    raise
            else:
                log.info("ClusterTopology %s: deleted, because %s", child.name, why)


def _create(parent: Topology, name: str, spec: Mapping[str, Any]) -> Request:
    """Not by server-side apply, which would merge with what somebody created since we looked."""
    metadata = {**owned_metadata(parent), "name": name}
    return create(
        PATH, {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}, MANAGER
    )


def _replace_spec(child: Topology, spec: Mapping[str, Any]) -> Request:
    """Replace the whole spec, if the object is still the one that was looked at."""
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": child.uid},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    return Request(
        "PATCH",
        f"{PATH}/{child.name}",
        {"fieldManager": MANAGER},
        msgspec.json.encode(patch),
        _JSON_PATCH,
    )


def _name_taken(name: str) -> SegmentTopology:
    text = f"a {KIND} of that name exists and does not belong to this segment; delete it, or set spec.segments to Off"
    return SegmentTopology(name, "Conflict", text)
