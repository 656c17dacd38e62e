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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SEGMENTS_PUBLISHED, Condition
from toposcope.api.levels import Level
from toposcope.controller.memory import Memory
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.coverage import MOST_NAMES, some_names
from toposcope.hierarchy.segments import (
    Path,
    Segment,
    Segmentation,
    child_name,
    divide,
    names_of,
    selector_of,
    whole,
)
from toposcope.hierarchy.table import Table
from toposcope.text import listing, plural

MOST_SEGMENTS: Final = 8
"""Segments in a status, which must stay below 16 KiB; smaller ones are summed up.

The CRD has room for 16.
"""
_MOST_BYTES: Final = 8 << 10
"""What the levels of all of them may take of the status: eight segments of a dozen levels with
usual keys."""
_LEVEL_JSON_BYTES: Final = 26
"""JSON around the name and the key of a level."""
_INHERITED: Final = (
    "minCoveragePercent",
    "gracePeriod",
    "removalPolicy",
    "bindingSchedulers",
    "publish",
)
"""Fields that the ClusterTopology of a segment has from its parent."""
_MOST_DESCRIBED_SEGMENTS: Final = 4
"""Segments that a message describes; the status lists them all."""


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
    """The ClusterTopology of one segment.

    `reason` is empty if it is as it should be, else `Conflict` or `Rejected`.
    """

    name: str
    reason: str = ""
    message: str = ""


def reported_segments(topology: Topology) -> Segments | None:
    """The segments as the stored status has them: without nodes all stays."""
    if topology.levels is not None:
        return None
    before = _from_status(topology)
    return Segments(before) if before else None


def observe(
    topology: Topology,
    nodes: Table,
    levels: Sequence[Level],
    memory: Memory,
    *,
    now: float,
    catalogue: Catalogue,
) -> Segments | None:
    """The segments of at least one node at the effective `levels`; None if all carry the same."""
    if topology.levels is not None:
        return None  # the admin decides; what is missing is a matter of coverage
    before = _from_status(topology)
    division = divide(nodes, catalogue, topology.min_coverage_percent, levels)
    if division is None and before:
        division = whole(nodes, catalogue, topology.min_coverage_percent, levels)
    if division is None:
        memory.new_segments.clear()
        return None
    known_segments = {segment.levels: segment for segment in before}
    present = _present(division, known_segments)
    settling = _settling(topology, present, known_segments, memory, now)
    lost = _lost(present, before)
    dropped = _dropped(topology, lost, nodes, memory, now)
    kept = []
    for segment in lost:
        if segment not in dropped:
            kept.append(segment)
    memory.lost_segments.keep_only([segment.name for segment in kept])
    settled = _settled(present, settling, known_segments)
    room = _room(kept, settled)
    return _Selection(
        topology=topology,
        division=division,
        known_segments=known_segments,
        listed=settled[:room],
        kept=kept,
        dropped=dropped,
        others=settled[room:],
        settling=settling,
    ).segments()


def _present(division: Segmentation, known_segments: Mapping[Path, ListedSegment]) -> list[Segment]:
    """The segments that nodes are in.

    Nodes that are all alike make no segment, but an established one continues.
    """
    if len(division.segments) > 1:
        return list(division.segments)
    return [segment for segment in division.segments if segment.levels in known_segments]


def _settling(
    topology: Topology,
    present: Sequence[Segment],
    known_segments: Mapping[Path, ListedSegment],
    memory: Memory,
    now: float,
) -> list[Segment]:
    """The new segments that are not established yet."""
    timers = memory.new_segments
    new = [segment for segment in present if segment.levels not in known_segments]
    timers.keep_only([segment.levels for segment in new])
    settling = []
    for segment in new:
        established = timers.is_overdue(segment.levels, now, topology.grace_seconds)
        if not established:
            settling.append(segment)
    return settling


def _lost(present: Sequence[Segment], before: Sequence[ListedSegment]) -> list[ListedSegment]:
    """Established segments that no node is in."""
    levels = {segment.levels for segment in present}
    lost = []
    for segment in before:
        if segment.levels not in levels:
            lost.append(segment)
    return lost


def _dropped(
    topology: Topology,
    lost: Sequence[ListedSegment],
    nodes: Table,
    memory: Memory,
    now: float,
) -> list[ListedSegment]:
    """The lost segments whose nodes have carried other levels for the grace period."""
    if not lost or topology.is_retaining:
        return []
    examples: set[str] = set()
    for segment in lost:
        examples.update(segment.examples)
    alive = set()
    for node in nodes:
        if node.name in examples:
            alive.add(node.name)
    timers = memory.lost_segments
    dropped = []
    for segment in lost:
        has_changed = not alive.isdisjoint(segment.examples)
        if timers.is_overdue(segment.name, now, topology.grace_seconds, is_running=has_changed):
            dropped.append(segment)
    return dropped


def _settled(
    present: Sequence[Segment],
    settling: Sequence[Segment],
    known_segments: Mapping[Path, ListedSegment],
) -> list[Segment]:
    """The established segments that nodes are in.

    Known ones come first: more nodes elsewhere must not take their place.
    """
    settled = [segment for segment in present if segment not in settling]
    return sorted(settled, key=lambda segment: segment.levels not in known_segments)


def _room(kept: Sequence[ListedSegment], settled: Sequence[Segment]) -> int:
    """How many of the `settled` segments a status has room for beside the `kept` ones."""
    bytes_left = _MOST_BYTES
    for lost in kept:
        bytes_left -= _bytes(lost.levels)
    room = 0
    for segment in settled:
        bytes_left -= _bytes(segment.levels)
        if bytes_left < 0:
            break
        room += 1
    return min(room, max(MOST_SEGMENTS - len(kept), 0))


def _bytes(path: Path) -> int:
    size = 0
    for level in path:
        size += len(level.domain) + len(level.key)
        size += _LEVEL_JSON_BYTES
    return size


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which segments of one look a status lists."""

    topology: Topology
    division: Segmentation
    known_segments: Mapping[Path, ListedSegment]
    listed: Sequence[Segment]
    kept: Sequence[ListedSegment]
    dropped: Sequence[ListedSegment]
    others: Sequence[Segment]
    settling: Sequence[Segment]

    def segments(self) -> Segments:
        listed, kept = self.listed, self.kept
        has_several = len(listed) + len(kept) + len(self.settling) > 1
        if not has_several and not self.topology.is_divided:
            listed, kept = [], []
        present_names = {path: segment.name for path, segment in self.known_segments.items()}
        taken_names = [segment.name for segment in kept]
        names = names_of(listed, present_names, taken_names)
        entries = list(kept)
        for segment in listed:
            entry = ListedSegment(
                name=names[segment.levels],
                levels=segment.levels,
                nodes=segment.nodes,
                gpus=segment.gpus,
                examples=segment.examples,
                selector=selector_of(self.topology.spec, segment),
            )
            entries.append(entry)
        largest_first = sorted(entries, key=lambda entry: (-entry.nodes, entry.name))
        return Segments(
            listed=tuple(largest_first),
            dropped=tuple(segment.name for segment in self.dropped),
            others=tuple(self.others),
            settling=tuple(self.settling),
            unassigned=_unassigned(self.division, listed),
            unassigned_names=_unassigned_names(self.division, listed),
        )


def _from_status(topology: Topology) -> tuple[ListedSegment, ...]:
    """The segments of the stored status, without nodes."""
    segments = []
    for entry in topology.status.get("segments") or ():
        levels = []
        for level in entry.get("levels") or ():
            levels.append(Level(level["domain"], level["key"]))
        segment = ListedSegment(
            name=entry["name"],
            levels=tuple(levels),
            nodes=0,
            gpus=0,
            examples=tuple(entry.get("firstNodes") or ()),
            selector=entry.get("nodeSelector") or {},
        )
        segments.append(segment)
    return tuple(segments)


def _unassigned(division: Segmentation, listed: Sequence[Segment]) -> int:
    """How many nodes no listed segment selects."""
    count = len(division.doubtful)
    for carried, nodes in division.carried.items():
        is_assigned = any(segment.takes(carried) for segment in listed)
        if not is_assigned:
            count += nodes
    return count


def _unassigned_names(division: Segmentation, listed: Sequence[Segment]) -> tuple[str, ...]:
    """Some names of the nodes that no listed segment selects."""
    names = set(division.doubtful)
    for segment in division.segments:
        if segment not in listed:
            names.update(segment.examples)
    return tuple(sorted(names)[:MOST_NAMES])


def segments_condition(
    topology: Topology, segments: Segments | None, children: Sequence[SegmentTopology]
) -> Condition | None:
    """The `SegmentsPublished` condition.

    None if the nodes make one segment and the spec asks for no more.
    """
    if not topology.is_divided:
        return _suggestion(segments) if segments else None
    about = _about_nodes(topology, segments) if segments else ""
    failures = []
    reason = ""
    for child in children:
        if child.reason:
            reason = reason or child.reason
            failures.append(f"{child.name}: {child.message}")
    if failures:
        text = "; ".join(failures) + about
        return Condition(SEGMENTS_PUBLISHED, "False", reason, text)
    return _published(topology, segments or Segments(), about)


def _published(topology: Topology, segments: Segments, about: str) -> Condition:
    """The condition where every segment has its ClusterTopology; `about` describes other nodes."""
    if segments.listed:
        text = _published_names(topology, segments) + about
        return Condition(SEGMENTS_PUBLISHED, "True", "InSync", text)
    if segments.settling:
        text = "No segment is established yet" + about
        return Condition(SEGMENTS_PUBLISHED, "Unknown", "Settling", text)
    text = "All nodes carry the same levels"
    return Condition(SEGMENTS_PUBLISHED, "True", "OneSegment", text)


def _published_names(topology: Topology, segments: Segments) -> str:
    names = []
    for segment in segments.listed:
        if segment.nodes:
            names.append(child_name(topology.name, segment.name))
    if not names:
        return "No segment has any nodes now"
    return f"Each segment has a ClusterTopology: {', '.join(names)}"


def _suggestion(segments: Segments) -> Condition | None:
    """Point out segments that the spec does not publish.

    All is as specified, and could be better.
    """
    if segments.listed:
        described = []
        for segment in segments.listed:
            described.append(_description(segment.name, segment.nodes, segment.levels))
        text = (
            "Groups of nodes carry different levels: "
            f"{listing(described, _MOST_DESCRIBED_SEGMENTS)}. "
            "This ClusterTopology has only the levels that all share: "
            "set spec.segments to Auto to get one ClusterTopology for each group, "
            "or create your own with the selectors in status.segments"
        )
        return Condition(SEGMENTS_PUBLISHED, "True", "SegmentsOff", text)
    if segments.settling:
        text = "Groups of nodes begin to carry different levels: " + _unnamed(segments.settling)
        return Condition(SEGMENTS_PUBLISHED, "True", "SegmentsOff", text)
    return None


def _about_nodes(topology: Topology, segments: Segments) -> str:
    """Nodes that are in no segment's ClusterTopology, and why."""
    text = ""
    if segments.settling:
        grace = topology.spec.get("gracePeriod") or "10m"
        text += (
            f"; not published until they are older than gracePeriod ({grace}): "
            f"{_unnamed(segments.settling)}"
        )
    if segments.others:
        text += (
            f"; {len(segments.others)} more segments are not published: "
            f"the limit is {len(segments.listed)}"
        )
    if segments.unassigned:
        count = segments.unassigned
        nodes_are = plural(count, "node is", "nodes are")
        names = some_names(segments.unassigned_names, count)
        text += f"; {count} {nodes_are} in no segment: {names}"
    return text


def _unnamed(segments: Sequence[Segment]) -> str:
    described = []
    for segment in segments:
        names = some_names(segment.examples, segment.nodes)
        described.append(_description(names, segment.nodes, segment.levels))
    return listing(described, _MOST_DESCRIBED_SEGMENTS)


def _description(name: str, nodes: int, levels: Sequence[Level]) -> str:
    path = " > ".join([level.domain for level in levels])
    return f"{name} ({nodes} {plural(nodes, 'node')}: {path})"


def segments_status(
    topology: Topology, segments: Segments, children: Iterable[SegmentTopology]
) -> dict[str, Any]:
    """The part of a status about segments.

    `segments`, and `otherSegments` if there are too many.
    """
    written = set()
    for child in children:
        if not child.reason:
            written.add(child.name)
    status: dict[str, Any] = {}
    if segments.listed:
        status["segments"] = [_entry(topology, segment, written) for segment in segments.listed]
    if segments.others:
        nodes = gpus = 0
        for segment in segments.others:
            nodes += segment.nodes
            gpus += segment.gpus
        count = len(segments.others)
        status["otherSegments"] = {"segments": count, "nodes": nodes, "gpus": gpus}
    return status


def _entry(topology: Topology, segment: ListedSegment, written: set[str]) -> dict[str, Any]:
    levels = []
    for level in segment.levels:
        levels.append({"domain": level.domain, "key": level.key})
    entry: dict[str, Any] = {
        "name": segment.name,
        "nodes": segment.nodes,
        "gpus": segment.gpus,
        "firstNodes": list(segment.examples),
        "levels": levels,
    }
    if segment.selector:  # unknown without nodes if the selector was too large for the status
        entry["nodeSelector"] = segment.selector
    child = child_name(topology.name, segment.name)
    if child in written:
        entry["clusterTopology"] = child
    return entry


def child_spec(parent: Topology, segment: ListedSegment) -> dict[str, Any]:
    """The spec of a child.

    The parent's settings for the segment's nodes, and those required levels that they carry.
    """
    domains = {level.domain for level in segment.levels}
    required = []
    for domain in parent.required:
        if domain in domains:
            required.append(domain)
    spec: dict[str, Any] = {
        "nodeSelector": segment.selector,
        "required": required,
        "segments": "Off",
    }
    for name in _INHERITED:
        if name in parent.spec:
            spec[name] = parent.spec[name]
    return spec
