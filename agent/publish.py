"""Writes the description on the agent's own Node: server-side apply, only on a difference, guarded by the Node's uid.

An apply names every label that shall stay; one that it leaves out is removed. So a label whose truth is unknown is
sent with the value that the Node has.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from agent.describe import Description
from agent.labels import ALL
from agent.news import News, news
from kube.apply import apply, get
from kube.client import ApiClient
from kube.errors import ApiError
from kube.events import event
from kube.paths import NODES
from topology.keys import MATRIX, REFERENCE

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
        self._reference: str | None = None
        self.metadata: Mapping[str, Any] = {}
        """The Node's metadata, as last read or written."""

    @property
    def remembered(self) -> str | None:
        """The annotation with the best that the node has shown, as last read or written."""
        return self._reference

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
        self._reference = self._node.annotations.get(REFERENCE)
        return self._node

    def pending(self, description: Description) -> bool:
        """Whether the Node, as far as it is known, carries something else."""
        return self._node is None or desired(description, self._node) != self._node

    def publish(self, description: Description) -> list[News] | None:
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

    def _write(self, description: Description) -> list[News] | None:
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
        return news(before.labels, after.labels, [reason for reason in reasons if reason])

    def tell(self, item: News) -> None:
        """Record an Event on the Node. Raises KubeError."""
        regarding = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
        self._client.call(event(regarding, item.kind, item.reason, item.note, REPORTER, self._name, self._now()))

    def cleanup(self) -> int:
        """Remove what this agent, or one before it, wrote on the Node; how many keys that were. Raises KubeError."""
        from agent.removal import removal  # noqa: PLC0415 - an agent that keeps labels never needs it

        found = removal(self._client.call(get(self._path, metadata_only=True))["metadata"])
        for request in found.requests:
            self._client.call(request)
        return found.keys
