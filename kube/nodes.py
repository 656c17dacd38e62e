"""Node objects decoded down to what the controller keeps: some 26 kB of JSON become a few hundred bytes."""

from collections.abc import Iterable
from typing import Final

import msgspec

from topology.fabric import spans_nodes
from topology.keys import ALLOCATABLE_GPUS, CHASSIS, GPUS, NVLINK_DOMAIN, STATE
from topology.node import Hardware, NodeFacts

_MOST_SHARED: Final = 1 << 16
"""Far more values than a cluster has racks; values that come and go for months must not pile up."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None
    allocatable: dict[str, str] | None = None


class _Node(msgspec.Struct, frozen=True, gc=False):
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
        self._hardware: dict[Hardware, Hardware] = {}
        self._keys: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __call__(self, raw: bytes | memoryview | msgspec.Raw) -> tuple[str, str, NodeFacts]:
        """Name, resourceVersion and facts of one Node. Raises msgspec.ValidationError for what is no Node."""
        node = self._decoder.decode(raw)
        labels = node.metadata.labels or {}
        if len(self._strings) > _MOST_SHARED:
            self._strings.clear()
        share = self._strings.setdefault
        found = tuple(sorted(self._tracked.intersection(labels)))
        keys = self._keys.setdefault(found, found)
        name = node.metadata.name
        offered = _count((node.status.allocatable or {}).get(ALLOCATABLE_GPUS))
        facts = NodeFacts(
            name=name,
            uid=node.metadata.uid,
            keys=keys,
            # A host's own name is unique: sharing it would only fill the table of shared strings.
            values=tuple([name if labels[key] == name else share(labels[key], labels[key]) for key in keys]),
            ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ()),
            schedulable=not node.spec.unschedulable,
            gpus=offered,
            hardware=self._shared_hardware(labels, offered),
        )
        return name, node.metadata.resource_version, facts

    def _shared_hardware(self, labels: dict[str, str], offered: int) -> Hardware:
        """What the agent's labels say of the machine, the same object for the same words."""
        domain = labels.get(NVLINK_DOMAIN)
        counted = labels.get(GPUS, "")
        hardware = Hardware(
            domain if domain is not None and spans_nodes(domain) else None,
            labels.get(CHASSIS, ""),
            labels.get(STATE, ""),
            _count(counted) if counted.isascii() and counted.isdigit() else offered,
        )
        if len(self._hardware) > _MOST_SHARED:
            self._hardware.clear()
        return self._hardware.setdefault(hardware, hardware)

    def track(self, keys: Iterable[str]) -> bool:
        """Keep these labels too, from the next Node on; whether one of them was not kept so far."""
        tracked = self._tracked.union(keys)
        grew = tracked != self._tracked
        self._tracked = tracked
        return grew


def _count(quantity: str | None) -> int:
    """A device count; extended resources are whole numbers, anything else is no count of ours."""
    return int(quantity) if quantity and quantity.isascii() and quantity.isdigit() else 0
