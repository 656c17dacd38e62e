"""Writes the description on the agent's own Node: server-side apply, only on a difference, guarded by the Node's uid.

An apply names every label that shall stay; one that it leaves out is removed. So a label whose truth is unknown is
sent with the value that the Node has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agent.describe import Description
from agent.labels import ALL
from kube.apply import apply, get
from kube.client import ApiClient
from kube.errors import ApiError
from kube.nodes import PATH
from topology.keys import MATRIX

MANAGER: Final = "toposcope-agent"
_UNPROCESSABLE: Final = 422


@dataclass(frozen=True, slots=True)
class OwnNode:
    """What our Node carries of ours."""

    uid: str
    labels: Mapping[str, str]
    annotation: str | None


@dataclass(frozen=True, slots=True)
class Desired:
    """What our Node shall carry of ours."""

    labels: Mapping[str, str]
    annotation: str | None


def desired_on(description: Description, node: OwnNode) -> Desired:
    """What the Node shall carry: what is known, and what it carries of what is not."""
    kept = {key: value for key, value in node.labels.items() if key in description.labels.unknown}
    annotation = node.annotation if description.problem else description.annotation
    return Desired({**kept, **description.labels.known}, annotation)


class Publisher:
    """Keeps one Node's labels and annotation equal to the descriptions it is given."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._path = f"{PATH}/{node_name}"
        self._name = node_name
        self._node: OwnNode | None = None

    def refresh(self) -> None:
        """Read the Node, so that the next publish also repairs what others changed. Raises KubeError."""
        self._node = _own(self._client.call(get(self._path, metadata_only=True)))

    def publish(self, description: Description) -> bool:
        """Make the Node carry `description`; whether a write was needed. Raises KubeError.

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

    def _write(self, description: Description) -> bool:
        node = self._node
        if node is None:
            raise AssertionError("publish reads the Node first")
        desired = desired_on(description, node)
        if desired == Desired(node.labels, node.annotation):
            return False
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self._name,
                "uid": node.uid,
                "labels": desired.labels,
                "annotations": {} if desired.annotation is None else {MATRIX: desired.annotation},
            },
        }
        self._node = None  # what the Node carries is unknown until the server has answered
        answer = self._client.call(apply(self._path, body, MANAGER, force=True, metadata_only=True))
        written = _own(answer)
        # A key that somebody else owns too stays although we dropped it; asking again would not change that.
        self._node = OwnNode(written.uid, desired.labels, desired.annotation)
        return True


def _own(node: Any) -> OwnNode:
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    return OwnNode(
        uid=metadata["uid"],
        labels={key: value for key, value in labels.items() if key in ALL},
        annotation=(metadata.get("annotations") or {}).get(MATRIX),
    )
