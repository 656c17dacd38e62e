"""What a ClusterTopology's status says of its segments."""

from collections.abc import Sequence
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import SEGMENTS_PUBLISHED, Condition
from toposcope.controller.segment_topologies import Child, child_name
from toposcope.controller.segments import Listed, Segments
from toposcope.topology.hierarchy import some_names
from toposcope.topology.levels import Level
from toposcope.topology.segments import Segment

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
