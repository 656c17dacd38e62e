"""The ClusterTopology of each segment: created, updated, and deleted with its segment."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.memory import Memory
from toposcope.controller.segments import (
    ListedSegment,
    Segments,
    SegmentTopology,
    child_spec,
)
from toposcope.controller.writers.writer import WriteOutcome, is_outage
from toposcope.hierarchy.segments import child_name
from toposcope.integrations.framework.published import MANAGER, Target, owned_metadata
from toposcope.kube.client import Caller, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import create
from toposcope.kube.runtime import Runtime

log = logging.getLogger(__name__)

_JSON_PATCH: Final = "application/json-patch+json"


class SegmentWriter:
    """Creates, updates and deletes the children of ClusterTopologies."""

    def __init__(self, client: Caller, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    def write(self, look: Pass, findings: Findings) -> WriteOutcome:
        """Bring the children in line with the segments.

        Raises KubeError if the server does not answer.
        """
        children = self._write_children(look, findings)
        return WriteOutcome(written=replace(findings.written, children=children))

    def _write_children(self, look: Pass, findings: Findings) -> Sequence[SegmentTopology]:
        """The children of the segments that the status lists, now that they are written."""
        now = self._runtime.monotonic()
        parent, segments = findings.topology, findings.assessment.segments
        children = []
        for topology in look.topologies:
            if topology.owner == parent.uid:
                children.append(topology)
        if parent.problems or not (children or parent.is_divided):
            return ()
        if not parent.is_divided:
            self._delete(children, "spec.segments is Off")
            return ()
        written = self._write_all(parent, segments, look.topologies)
        idle = look.idle
        deletable = [child for child in children if child in idle]
        self._delete_dropped(parent, segments, deletable)
        self._delete_unclaimed(parent, segments, deletable, findings.memory, now)
        return written

    def _write_all(
        self, parent: Topology, segments: Segments | None, topologies: Iterable[Topology]
    ) -> list[SegmentTopology]:
        """Write the child of each listed segment."""
        if segments is None:
            return []
        existing = {topology.name: topology for topology in topologies}
        children = []
        for segment in segments.listed:
            name = child_name(parent.name, segment.name)
            child = self._write(parent, segment, name, existing.get(name))
            if child is not None:
                children.append(child)
        return children

    def _write(
        self, parent: Topology, segment: ListedSegment, name: str, old: Topology | None
    ) -> SegmentTopology | None:
        """Write the child of one segment; None if it has none yet and no nodes."""
        if old is not None and old.owner != parent.uid:
            return _name_taken(name)
        if not segment.nodes:  # left as it is until its nodes are back
            return None if old is None else SegmentTopology(name)
        spec = child_spec(parent, segment)
        if old is not None and _has_spec(old, spec):
            return SegmentTopology(name)
        request = _create(parent, name, spec) if old is None else _replace_spec(old, spec)
        try:
            self._client.call(request)
        except ApiError as error:
            return _refused(name, error, is_created=old is None)
        log.info("ClusterTopology %s: wrote %s for its segment %s", parent.name, name, segment.name)
        return SegmentTopology(name)

    def _delete_dropped(
        self, parent: Topology, segments: Segments | None, children: Iterable[Topology]
    ) -> None:
        """Delete children whose segment was dropped. Raises KubeError."""
        if segments is None:
            return
        dropped = {child_name(parent.name, name) for name in segments.dropped}
        without_segment = []
        for child in children:
            if child.name in dropped:
                without_segment.append(child)
        self._delete(without_segment, "its segment no longer exists")

    def _delete_unclaimed(
        self,
        parent: Topology,
        segments: Segments | None,
        children: Iterable[Topology],
        memory: Memory,
        now: float,
    ) -> None:
        """Delete children that no segment has claimed for the grace period.

        A status may have been lost. Raises KubeError.
        """
        claimed = _claimed_names(parent, segments) if segments else set()
        unclaimed = [child for child in children if child.name not in claimed]
        timers = memory.unclaimed_children
        timers.keep_only([child.name for child in unclaimed])
        if parent.is_retaining:
            return
        overdue = []
        for child in unclaimed:
            if timers.is_overdue(child.name, now, parent.grace_seconds):
                overdue.append(child)
        self._delete(overdue, "no segment has that name")

    def _delete(self, children: Iterable[Topology], why: str) -> None:
        """Garbage collection deletes what was published from them. Raises KubeError."""
        for child in children:
            try:
                self._client.call(_delete(child))
            except ApiError as error:
                if not (error.is_not_found or error.is_conflict):
                    raise
            else:
                log.info("ClusterTopology %s: deleted, because %s", child.name, why)


def _claimed_names(parent: Topology, segments: Segments) -> set[str]:
    """The names of children that have a segment, or were deleted with it."""
    names = set()
    for segment in segments.listed:
        names.add(child_name(parent.name, segment.name))
    for dropped in segments.dropped:
        names.add(child_name(parent.name, dropped))
    return names


def _refused(name: str, error: ApiError, *, is_created: bool) -> SegmentTopology:
    """A child that the API server refuses. Raises ApiError where it cannot answer now."""
    if is_outage(error):
        raise error
    if error.is_conflict and is_created:
        return _name_taken(name)
    refused = Target("", API_VERSION, KIND, "", name).failed(error)
    return SegmentTopology(name, "Rejected", refused.text)


def _has_spec(child: Topology, spec: Mapping[str, Any]) -> bool:
    """Whether a child has the spec already, and no levels of another owner."""
    return all(child.spec.get(field) == spec.get(field) for field in (*spec, "levels"))


def _create(parent: Topology, name: str, spec: Mapping[str, Any]) -> Request:
    """Not by server-side apply, which would merge with what was created since we looked."""
    metadata = {**owned_metadata(parent), "name": name}
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": spec,
    }
    return create(PATH, body, MANAGER)


def _replace_spec(child: Topology, spec: Mapping[str, Any]) -> Request:
    """Replace the whole spec, if the object is still the one that was looked at."""
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": child.uid},
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    path = f"{PATH}/{child.name}"
    query = {"fieldManager": MANAGER}
    return Request("PATCH", path, query, msgspec.json.encode(patch), _JSON_PATCH)


def _delete(child: Topology) -> Request:
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": child.uid},
    }
    path = f"{PATH}/{child.name}"
    return Request("DELETE", path, {}, msgspec.json.encode(options))


def _name_taken(name: str) -> SegmentTopology:
    text = (
        f"a {KIND} of that name exists and does not belong to this segment; "
        "delete it, or set spec.segments to Off"
    )
    return SegmentTopology(name, "Conflict", text)
