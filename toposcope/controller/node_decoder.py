"""Node objects decoded down to what the controller keeps.

Some 26 kB of JSON become a few hundred bytes.
"""

from collections.abc import Iterable
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from toposcope.api.label_keys import (
    ALLOCATABLE_GPUS,
    CHASSIS,
    HOSTNAME,
    NVLINK_DOMAIN,
    RAILS,
    SLINKY,
    SLINKY_KEPT,
    STATE,
)
from toposcope.hardware.rails import LeafSwitch, parse_rails
from toposcope.hierarchy.fault_domains import AZURE, ZONE_KEYS, zone_of
from toposcope.hierarchy.node import (
    OWN_NAME,
    Hardware,
    NodeFacts,
    Traits,
    host_of,
    shared_value,
    spans_nodes,
)
from toposcope.kube.gpu_shares import gpus_of

_GENERATION_NODES: Final = 1 << 15
"""Nodes decoded per generation. Many times the number of racks in a cluster, so that a list in
any order is fully shared; and no more than hours of heartbeats, so that values that come and go
do not pile up."""


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    rails: str | None = msgspec.field(default=None, name=RAILS)
    slinky: str | None = msgspec.field(default=None, name=SLINKY)


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False
    provider_id: str | None = msgspec.field(default=None, name="providerID")


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _Allocatable(msgspec.Struct, frozen=True, gc=False):
    gpus: str | None = msgspec.field(default=None, name=ALLOCATABLE_GPUS)


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: list[_Condition] | None = None
    allocatable: _Allocatable | None = None


class _Node(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


NODE_JSON: Final = msgspec.json.Decoder(_Node)
"""The fields of a Node that are used; raises msgspec.ValidationError for anything but a Node."""

_Switches: TypeAlias = tuple[LeafSwitch | None, ...]
"""Of each rail."""
_Ports: TypeAlias = tuple[tuple[str, str] | None, ...]
"""Of each rail, its NIC and the port of the switch."""

_INT64_DIGITS: Final = 19
_T = TypeVar("_T")


class _Shared(Generic[_T]):
    """Equal values stored once; a value that two generations have not seen is forgotten."""

    def __init__(self) -> None:
        self.now: dict[_T, _T] = {}
        self.before: dict[_T, _T] = {}

    def share(self, item: _T) -> _T:
        """The stored value that equals this one."""
        shared = self.now.get(item)
        if shared is None:
            shared = self.now[item] = self.before.get(item, item)
        return shared

    def age(self) -> None:
        """Start the next generation."""
        self.before, self.now = self.now, {}


class NodeDecoder:
    """Turns a Node's JSON into `NodeFacts`, keeping the labels in `tracked`.

    Nodes that are alike share their traits. A cluster has as many different traits as it has racks,
    and few distinct label values beside its host names, so equal strings are kept once too.
    """

    def __init__(self, tracked: Iterable[str]) -> None:
        self._tracked = frozenset(tracked)
        self._strings: _Shared[str] = _Shared()
        self._hardware: _Shared[Hardware] = _Shared()
        self._keys: _Shared[tuple[str, ...]] = _Shared()
        self._traits: _Shared[Traits] = _Shared()
        self._switches: _Shared[_Switches] = _Shared()
        self._ports: _Shared[_Ports] = _Shared()
        self._nodes_left = _GENERATION_NODES
        """Nodes until the next generation begins."""

    def __call__(  # dense: each call more for each of 100,000 nodes was measured
        self, raw: bytes | memoryview | msgspec.Raw
    ) -> tuple[str, str, NodeFacts]:
        """Name, resourceVersion and facts of one Node.

        Raises msgspec.ValidationError for anything but a Node.
        """
        node = NODE_JSON.decode(raw)
        name = node.metadata.name
        labels = node.metadata.labels or {}
        annotations = node.metadata.annotations
        provider = node.spec.provider_id
        if provider and provider.startswith(AZURE):
            labels = _without_fault_domain(labels)
        switches: _Switches = ()
        ports: _Ports = ()
        if annotations:
            if annotations.slinky is not None:
                labels = {**labels, SLINKY_KEPT: annotations.slinky}
            if annotations.rails:
                switches, ports = self._cabling(annotations.rails)
        allocatable = node.status.allocatable
        offered = _count(allocatable.gpus) if allocatable else 0
        keys = tuple(sorted(self._tracked.intersection(labels)))
        host = host_of(name, labels.get(HOSTNAME))
        if host:
            values = tuple([shared_value(labels[key], name, host) for key in keys])
        else:
            carried = map(labels.__getitem__, keys)
            values = tuple([OWN_NAME if value == name else value for value in carried])
        is_ready = False
        for condition in node.status.conditions or ():
            if condition.type == "Ready" and condition.status == "True":
                is_ready = True
        self._nodes_left -= 1
        traits = Traits(
            keys,
            values,
            is_ready,
            not node.spec.unschedulable,
            offered,
            _hardware(labels, offered),
            switches,
        )
        shared = self._traits.now.get(traits) or self._share(traits)
        facts = NodeFacts(name, node.metadata.uid, shared, host, ports)
        return name, node.metadata.resource_version, facts

    def _share(self, traits: Traits) -> Traits:
        """Store traits that are new in this generation, built from shared parts."""
        self._age()
        # Nodes share the traits of equal nodes decoded before.
        earlier = self._traits.before.get(traits, traits)
        values = tuple([self._strings.share(value) for value in earlier.values])
        shared = earlier._replace(
            keys=self._keys.share(earlier.keys),
            values=values,
            hardware=self._hardware.share(earlier.hardware),
        )
        return self._traits.share(shared)

    def _cabling(self, annotation: str) -> tuple[_Switches, _Ports]:
        """Switches of the rails, and NICs with their ports.

        Nothing of an annotation that no agent writes.
        """
        try:
            rails = parse_rails(annotation)
        except ValueError:
            return (), ()
        self._age()
        switches = tuple([rail and LeafSwitch(rail.switch, rail.id) for rail in rails])
        ports = tuple([rail and (rail.nic, rail.port) for rail in rails])
        return self._switches.share(switches), self._ports.share(ports)

    def _age(self) -> None:
        if self._nodes_left >= 0:
            return
        self._nodes_left = _GENERATION_NODES
        self._strings.age()
        self._hardware.age()
        self._keys.age()
        self._traits.age()
        self._switches.age()
        self._ports.age()

    def track(self, keys: Iterable[str]) -> bool:
        """Keep these labels too, from the next Node on; whether any of them is new."""
        tracked = self._tracked.union(keys)
        has_grown = tracked != self._tracked
        self._tracked = tracked
        return has_grown


def _without_fault_domain(labels: dict[str, str]) -> dict[str, str]:
    """The labels of a node of Azure, with words for a fault domain in place of a zone."""
    zones = {}
    for key in ZONE_KEYS:
        value = labels.get(key)
        if value is not None:
            zones[key] = zone_of(value)
    return {**labels, **zones}


def _hardware(labels: dict[str, str], offered: int) -> Hardware:
    domain = labels.get(NVLINK_DOMAIN)
    if domain is not None and not spans_nodes(domain):
        domain = None
    chassis = labels.get(CHASSIS, "")
    state = labels.get(STATE, "")
    allocatable = {ALLOCATABLE_GPUS: offered}
    gpus = gpus_of(labels.get, allocatable)
    return Hardware(domain, chassis, state, gpus)


def _count(quantity: str | None) -> int:
    """A device count: extended resources are whole numbers of 64 bits.

    Anything else counts as 0.
    """
    if not quantity or len(quantity) > _INT64_DIGITS:
        return 0
    if not (quantity.isascii() and quantity.isdigit()):
        return 0
    return int(quantity)
