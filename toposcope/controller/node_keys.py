"""Writes labels and annotations of Nodes that topologies ask for, some seconds' worth each pass."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.label_keys import SLINKY, SLINKY_KEPT, unique_key
from toposcope.integrations.framework.published import MANAGER
from toposcope.kube.client import MERGE, Caller, Request
from toposcope.kube.errors import ApiError
from toposcope.kube.requests import NODES, apply
from toposcope.topology.table import Table

_PATIENCE: Final = 2.0
"""Seconds of writing in one pass; the next goes on."""
_ECHO: Final = 60.0
"""Seconds in which the watch should show what was written."""
_FOREIGN: Final = 3600.0
"""The same of an annotation that was given up: another owner's stays, and need not be given up with every pass."""
_UNPROCESSABLE: Final = 422
_OWNED: Final = "Apply failed"
"""How the API server begins where a field has another owner; other conflicts are about the uid."""


@dataclass(frozen=True, slots=True)
class Change:
    """What keys of one node should become, and `before`: what they are; None: none of that key.

    Labels under our prefix are ours whoever wrote them. Other projects' annotations may have another owner, who keeps
    them: they are applied.
    """

    node: str
    uid: str
    values: Mapping[str, str | None]
    before: Mapping[str, str | None]
    field: Literal["labels", "annotations"] = "labels"

    @property
    def request(self) -> Request:
        """The request that makes it so; an apply gives up what it does not name."""
        path = f"{NODES}/{self.node}"
        if self.field == "labels":
            merged = msgspec.json.encode({"metadata": {"uid": self.uid, "labels": self.values}})
            return Request("PATCH", path, {"fieldManager": MANAGER}, merged, MERGE)
        kept = {key: value for key, value in self.values.items() if value is not None}
        metadata = {"name": self.node, "uid": self.uid, self.field: kept}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        return apply(path, body, MANAGER, force=False, metadata_only=True)

    @property
    def memory(self) -> float:
        """Seconds in which it is not written again."""
        return _FOREIGN if self.field == "annotations" and None in self.values.values() else _ECHO


def unasked(nodes: Table, topologies: Iterable[Topology]) -> set[str]:
    """Keys on nodes that no ClusterTopology asks for; annotations only if one has while this process ran."""
    there = {key for keys in nodes.key_sets for key in keys if key == SLINKY_KEPT or key.startswith(unique_key(""))}
    return there.difference(*(topology.label_keys() for topology in topologies))


def removals(nodes: Table, keys: Collection[str]) -> Iterator[Change]:
    """What takes these keys from the nodes; another owner's annotations stay."""
    for node in nodes if keys else ():
        labels = {key: value for key in keys if (value := node.label(key)) is not None}
        if annotation := labels.pop(SLINKY_KEPT, None):
            yield Change(node.name, node.uid, {SLINKY: None}, {SLINKY: annotation}, "annotations")
        if labels:
            yield Change(node.name, node.uid, dict.fromkeys(labels), labels)


class NodeKeys:
    """Writes changes, and remembers what the watch does not show yet."""

    def __init__(self, client: Caller, monotonic: Callable[[], float], *, at_once: bool = False) -> None:
        """`at_once`: in one pass, however long it takes."""
        self._client = client
        self._monotonic = monotonic
        self._patience = math.inf if at_once else _PATIENCE
        self._written: dict[tuple[str, str], tuple[Change, float]] = {}

    def write(self, wanted: Sequence[Change]) -> tuple[int, ApiError | None, str]:
        """How many changes are left for the next pass, what was refused, and on which node.

        Raises KubeError without an answer.
        """
        began = self._monotonic()
        self._written = {name: write for name, write in self._written.items() if began - write[1] < write[0].memory}
        todo = [change for change in wanted if self._written.get((change.field, change.node), (None, 0.0))[0] != change]
        owned, first, where = 0, None, ""
        for done, change in enumerate(todo):
            if self._monotonic() - began > self._patience:
                return owned + len(todo) - done, None, ""
            try:
                self._client.call(change.request)
            except ApiError as error:
                if error.conflict and error.message.startswith(_OWNED):
                    owned, first, where = owned + 1, first or error, where or change.node
                    continue
                if error.not_found or error.conflict or error.status == _UNPROCESSABLE:
                    continue  # it is gone, or another one by now: the watch will say
                return owned + len(todo) - done, error, change.node
            self._written[change.field, change.node] = change, self._monotonic()
        return owned, first, where
