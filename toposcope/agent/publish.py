"""Writes the description on the agent's own Node: server-side apply, only on a difference, guarded by the Node's uid.

An apply names every label that shall stay; one that it leaves out is removed. So a label whose truth is unknown is
sent with the value that the Node has.

Taking back what an agent has written on a Node: the requests, built from the Node's metadata.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from toposcope.agent.describe import Description
from toposcope.agent.events import NodeEvent, node_events
from toposcope.agent.labels import ALL
from toposcope.agent.nvidia_labels import MANAGER as NVIDIA_MANAGER
from toposcope.agent.nvidia_labels import owners
from toposcope.api.label_keys import MATRIX, PREFIX, REFERENCE
from toposcope.kube.client import METADATA, ApiClient, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import NODES, apply, event, get
from toposcope.topology.text import compact


class Removal(NamedTuple):
    """What has to be sent for one Node, in this order, and how many labels and annotations that removes."""

    requests: tuple[Request, ...]
    keys: int


def removal(metadata: Mapping[str, Any]) -> Removal:
    """Everything under our prefix, whoever else owns it too, and those labels under `nvidia.com/` that only we own."""
    gone = {
        field: {key: None for key in metadata.get(field) or {} if key.startswith(PREFIX)}
        for field in ("labels", "annotations")
    }
    keys = sum(map(len, gone.values()))
    requests = []
    path, uid = f"{NODES}/{metadata['name']}", metadata["uid"]
    if keys:
        # A merge patch, because an apply cannot remove what another manager co-owns.
        body = compact({"metadata": {"uid": uid, **gone}}).encode()
        query = {"fieldManager": MANAGER}
        requests.append(Request("PATCH", path, query, body, "application/merge-patch+json", METADATA))
    ours, theirs = owners(metadata)
    if ours:
        # An apply that names none: the server removes those that nobody else owns, and only gives up the others.
        nothing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": metadata["name"], "uid": uid}}
        requests.append(apply(path, nothing, NVIDIA_MANAGER, force=False, metadata_only=True))
    return Removal(tuple(requests), keys + len(ours - theirs))


MANAGER: Final = "toposcope-agent"
REPORTER: Final = "agent"
_ANNOTATIONS: Final = frozenset({MATRIX, REFERENCE})
_UNPROCESSABLE: Final = 422


class Ours(NamedTuple):
    """What a Node carries, or shall carry, of ours."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def desired(description: Description, node: Ours) -> Ours:
    """What the Node shall carry: what is known, and what it carries of what is not."""
    kept = {key: value for key, value in node.labels.items() if key in description.labels.unknown}
    annotations = node.annotations if description.problem else description.annotations
    return Ours({**kept, **description.labels.known}, dict(annotations))


class Publisher:
    """Keeps one Node's labels and annotations equal to the descriptions it is given."""

    def __init__(
        self, client: ApiClient, node_name: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._path = f"{NODES}/{node_name}"
        self._name = node_name
        self._now = now
        self._uid = ""
        self._node: Ours | None = None
        self._baseline: str | None = None
        self.metadata: Mapping[str, Any] = {}
        """The Node's metadata, as last read or written."""

    @property
    def baseline(self) -> str | None:
        """The annotation with the best that the node has shown, as last read or written."""
        return self._baseline

    def refresh(self) -> None:
        """Read the Node, so that the next publish also repairs what others changed. Raises KubeError."""
        self._take(self._client.call(get(self._path, metadata_only=True)))

    def _take(self, node: Any) -> Ours:
        self.metadata = metadata = node["metadata"]
        self._uid = metadata["uid"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        self._node = Ours(
            {key: value for key, value in labels.items() if key in ALL},
            {key: value for key, value in annotations.items() if key in _ANNOTATIONS},
        )
        self._baseline = self._node.annotations.get(REFERENCE)
        return self._node

    def pending(self, description: Description) -> bool:
        """Whether the Node, as far as it is known, carries something else."""
        return self._node is None or desired(description, self._node) != self._node

    def publish(self, description: Description) -> list[NodeEvent] | None:
        """Make the Node carry `description`; what is news about it, None when no write was needed. Raises KubeError.

        A Node that was deleted and made again under our name is another one: it is read anew and then written.
        """
        if self._node is None:
            self.refresh()
        try:
            return self._write(description)
        except ApiError as error:
            if not error.conflict and error.status != _UNPROCESSABLE:
                raise
            self.refresh()
            return self._write(description)

    def _write(self, description: Description) -> list[NodeEvent] | None:
        before = self._node
        if before is None:
            raise AssertionError("publish reads the Node first")
        after = desired(description, before)
        if after == before:
            return None
        metadata = {"name": self._name, "uid": self._uid, "labels": after.labels, "annotations": after.annotations}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        self._node = None  # what the Node carries is unknown until the server has answered
        self._take(self._client.call(apply(self._path, body, MANAGER, force=True, metadata_only=True)))
        # A key that somebody else owns too stays although we dropped it; asking again would not change that.
        self._node = after
        reasons = description.topology.reasons if description.topology else (description.problem,)
        return node_events(before.labels, after.labels, [reason for reason in reasons if reason])

    def record_event(self, item: NodeEvent) -> None:
        """Record an Event on the Node. Raises KubeError."""
        regarding = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
        self._client.call(event(regarding, item.kind, item.reason, item.note, REPORTER, self._name, self._now()))

    def cleanup(self) -> int:
        """Remove what this agent, or one before it, wrote on the Node; how many keys that were. Raises KubeError."""
        from toposcope.agent.publish import removal  # noqa: PLC0415 - an agent that keeps labels never needs it

        found = removal(self._client.call(get(self._path, metadata_only=True))["metadata"])
        for request in found.requests:
            self._client.call(request)
        return found.keys
