"""What the controller keeps of a Node: a few hundred bytes, whatever the size of the Node object.

The value of an NVLink domain is `<cluster UUID>.<clique id>` if NVLink leaves the node, else the
node's own name. The pair is the identity: one cluster UUID can hold several cliques, and unrelated
fabrics have equal clique ids (32766 is common).
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from toposcope.api.label_keys import HOSTNAME
from toposcope.hardware.rails import LeafSwitch

_UUID_LENGTH: Final = 36
_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"
"""Reported by machines without a fabric between them."""


def spans_nodes(value: str) -> bool:
    """Whether a domain value names a fabric, not a node."""
    # Called for every node: looking at one character costs a tenth of matching the whole
    # expression.
    if value[_UUID_LENGTH : _UUID_LENGTH + 1] != ".":
        return False
    if _CLIQUE.fullmatch(value) is None:
        return False
    return fabric_of(value) != _NO_FABRIC


def fabric_of(value: str) -> str:
    """The cluster UUID in a domain value that spans nodes."""
    return value[:_UUID_LENGTH]


_CLIQUE: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.[0-9]+", re.ASCII)


OWN_NAME: Final = "/"
"""Placeholder for the node's own name in `Traits.values`; no label can have this value."""
OWN_HOSTNAME: Final = "//"
"""Placeholder for the value of the node's hostname label, if that is not its name."""
OWN_VALUES: Final = frozenset({OWN_NAME, OWN_HOSTNAME})
"""Placeholders for values that only the node itself has."""


class Hardware(NamedTuple):
    """What an agent reports about its machine.

    Nodes with equal reports share one tuple, so a cluster has few.
    """

    domain: str | None = None
    """NVLink domain if it spans nodes: `<cluster UUID>.<clique>`."""
    chassis: str = ""
    state: str = ""
    gpus: int = 0
    """GPUs that the agent counted, else those that the device plugin offers."""


NO_AGENT = Hardware()


class Traits(NamedTuple):
    """Everything that is kept of a node except its identity.

    Equal nodes, such as those of a rack, share one such tuple.

    `keys` and `values` run in parallel; `OWN_NAME` and `OWN_HOSTNAME` replace values that only the
    node itself has. `gpus` is the number of allocatable `nvidia.com/gpu`.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    is_ready: bool
    is_schedulable: bool
    gpus: int
    hardware: Hardware = NO_AGENT
    switches: tuple[LeafSwitch | None, ...] = ()
    """The leaf switch that each rail is cabled to, None where unknown; empty if never discovered.
    """

    @property
    def is_usable(self) -> bool:
        """Whether a scheduler would place a pod there."""
        return self.is_ready and self.is_schedulable

    def label(self, key: str) -> str | None:
        """The value of a label that is kept; None if there is none."""
        try:
            return self.values[self.keys.index(key)]
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node; see `node_facts`. `host` is its hostname label if that is not its name, else empty.

    `ports`: NIC and switch port of each rail in `traits.switches`; nodes at the same position of
    two racks share them.
    """

    name: str
    uid: str
    traits: Traits
    host: str = ""
    ports: tuple[tuple[str, str] | None, ...] = ()

    def label(self, key: str) -> str | None:
        """The value of a label that is kept; None if there is none."""
        value = self.traits.label(key)
        if value is None:
            return None
        return self.own(value)

    def own(self, value: str) -> str:
        """The value with this node's name or hostname filled in."""
        if value == OWN_NAME:
            return self.name
        if value == OWN_HOSTNAME:
            return self.host
        return value

    def expanded(self) -> Traits:
        """The traits with this node's name and hostname filled in."""
        return self.traits._replace(values=self.values)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the labels that are kept."""
        return self.traits.keys

    @property
    def values(self) -> tuple[str, ...]:
        """Their values, in the same order."""
        values = self.traits.values
        if OWN_VALUES.isdisjoint(values):
            return values
        return tuple(map(self.own, values))

    @property
    def labels(self) -> dict[str, str]:
        """The labels that are kept."""
        return dict(zip(self.keys, self.values, strict=True))

    @property
    def gpus(self) -> int:
        """Allocatable `nvidia.com/gpu`."""
        return self.traits.gpus


def node_facts(
    name: str,
    uid: str,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    *,
    is_ready: bool,
    is_schedulable: bool,
    gpus: int,
    hardware: Hardware = NO_AGENT,
) -> NodeFacts:
    """A node from its parts; `values` are the label values of the node."""
    labels = dict(zip(keys, values, strict=True))
    host = host_of(name, labels.get(HOSTNAME))
    traits = Traits(
        keys=keys,
        values=tuple([shared_value(value, name, host) for value in values]),
        is_ready=is_ready,
        is_schedulable=is_schedulable,
        gpus=gpus,
        hardware=hardware,
    )
    return NodeFacts(name, uid, traits, host)


def host_of(name: str, label: str | None) -> str:
    """The hostname label's value if it differs from the node's name, else empty."""
    if label is None or label == name:
        return ""
    return label


def shared_value(value: str, name: str, host: str) -> str:
    """The value as nodes can share it: a placeholder for the node's own name or hostname."""
    if value == name:
        return OWN_NAME
    if host and value == host:
        return OWN_HOSTNAME
    return value
