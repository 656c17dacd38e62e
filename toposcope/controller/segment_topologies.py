"""One ClusterTopology for each segment of another: made, kept equal, and taken back.

A child is an ordinary ClusterTopology with a node selector. Its levels are inferred from its own nodes, and status,
publishing and requirements work for it as for any other. It belongs to its parent by an ownerReference: deleted with
it, and recognised by it.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.effective_levels import Absences
from toposcope.controller.publishers.objects import Caller
from toposcope.controller.segments import Listed, Segments
from toposcope.integrations.framework.published import MANAGER, owned_metadata
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import create

log = logging.getLogger(__name__)

_LONGEST_NAME: Final = 253
_HASH_DIGITS: Final = 10
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
    digest = hashlib.sha256(parent.encode()).hexdigest()[:_HASH_DIGITS]
    room = _LONGEST_NAME - len(segment) - len(digest) - 2
    return f"{parent[:room].rstrip('-.')}-{digest}-{segment}"


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
