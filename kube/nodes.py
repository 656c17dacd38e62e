"""Node objects decoded down to what the controller keeps: some 26 kB of JSON become a few hundred bytes."""

from collections.abc import Iterable
from typing import Final

import msgspec

from topology.keys import ALLOCATABLE_GPUS
from topology.node import NodeFacts

PATH: Final = "/api/v1/nodes"


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    unschedulable: bool = False


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []
    allocatable: dict[str, str] = {}


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class NodeDecoder:
    """Turns a Node's JSON into `NodeFacts`, keeping the labels in `tracked` and sharing every repeated string.

    A cluster has few distinct label values beside its host names, so equal strings are kept once.
    """

    def __init__(self, tracked: Iterable[str]) -> None:
        self._tracked = frozenset(tracked)
        self._decoder = msgspec.json.Decoder(_Node)
        self._strings: dict[str, str] = {}
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, raw: bytes | memoryview | msgspec.Raw) -> tuple[str, str, NodeFacts]:
        """Name, resourceVersion and facts of one Node. Raises msgspec.ValidationError for what is no Node."""
        node = self._decoder.decode(raw)
        labels = node.metadata.labels
        share = self._strings.setdefault
        found = tuple(sorted(self._tracked.intersection(labels)))
        keys = self._keys.setdefault(found, found)
        name = node.metadata.name
        facts = NodeFacts(
            name=name,
            uid=node.metadata.uid,
            keys=keys,
            # A host's own name is unique: sharing it would only fill the table of shared strings.
            values=tuple([name if labels[key] == name else share(labels[key], labels[key]) for key in keys]),
            ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions),
            schedulable=not node.spec.unschedulable,
            gpus=_count(node.status.allocatable.get(ALLOCATABLE_GPUS)),
        )
        return name, node.metadata.resource_version, facts

    def forget(self) -> None:
        """Drop the shared strings, so that values which left the cluster do not stay for ever; call it at a relist."""
        self._strings.clear()


def _count(quantity: str | None) -> int:
    """A device count; extended resources are whole numbers, anything else is no count of ours."""
    return int(quantity) if quantity and quantity.isascii() and quantity.isdigit() else 0
