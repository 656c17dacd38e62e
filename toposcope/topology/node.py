"""What the controller keeps of a Node: a few hundred bytes, whatever the Node object weighs.

NVLink across nodes: what the domain values of nodes say about their fabric.

A value is `<cluster UUID>.<clique id>` where NVLink leaves the node, else the node's own name. The pair is the
identity: one cluster UUID can hold several cliques, and unrelated fabrics show the same clique id (32766 is common).
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from toposcope.api.label_keys import HOSTNAME

_UUID_LENGTH: Final = 36
_NO_FABRIC: Final = "00000000-0000-0000-0000-000000000000"
"""Machines without a fabric between them report this one."""


def spans_nodes(value: str) -> bool:
    """Whether a domain value is that of a fabric, and not a node's name."""
    # Asked of every node: a look at one place costs a tenth of what the whole expression does.
    if value[_UUID_LENGTH : _UUID_LENGTH + 1] != "." or _CLIQUE.fullmatch(value) is None:
        return False
    return fabric_of(value) != _NO_FABRIC


def fabric_of(value: str) -> str:
    """The cluster UUID in a domain value that spans nodes."""
    return value[:_UUID_LENGTH]


_CLIQUE: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.[0-9]+", re.ASCII)


ITS_NAME: Final = "/"
"""Stands for a node's own name among what it shares with other nodes; no label can have this value."""
ITS_HOST: Final = "//"
"""Stands in the same way for the value of its hostname label, on a node on which that is not the node's name."""
OWN: Final = frozenset({ITS_NAME, ITS_HOST})
"""What stands for a value that a node has alone."""


class Hardware(NamedTuple):
    """What a node's agent says of its machine; nodes of which the same is said share one such tuple.

    So a cluster has one for each NVLink domain that spans nodes, and a handful for all other nodes.
    """

    domain: str | None = None
    """NVLink domain, where it spans nodes: `<cluster UUID>.<clique>`."""
    chassis: str = ""
    state: str = ""
    gpus: int = 0
    """GPUs that the agent counted, else those that the device plugin offers."""


NO_AGENT = Hardware()


class Labelled(Protocol):
    """Whatever carries labels: what selectors look at."""

    def label(self, key: str) -> str | None:
        """The value of a label, else None."""


class Traits(NamedTuple):
    """All that is kept of a node but its identity. Nodes that are alike share one such tuple, as those of a rack do.

    `keys` and `values` run in parallel; `ITS_NAME` and `ITS_HOST` among the values stand for what the node has alone.
    `gpus` is the number of allocatable `nvidia.com/gpu`.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    ready: bool
    schedulable: bool
    gpus: int
    hardware: Hardware = NO_AGENT

    @property
    def usable(self) -> bool:
        """Whether a scheduler would place a pod there."""
        return self.ready and self.schedulable

    def label(self, key: str) -> str | None:
        """The value of a label that is kept, else None."""
        try:
            return self.values[self.keys.index(key)]
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node; see `node_facts`. `host` is its hostname label where that is not its name, else empty."""

    name: str
    uid: str
    traits: Traits
    host: str = ""

    def label(self, key: str) -> str | None:
        """The value of a label that is kept, else None."""
        value = self.traits.label(key)
        return value if value is None else self.own(value)

    def own(self, value: str) -> str:
        """The value as it stands on this node."""
        return self.name if value == ITS_NAME else self.host if value == ITS_HOST else value

    def spelled_out(self) -> Traits:
        """What only this node has: its name and its host wherever they stand."""
        return self.traits._replace(values=self.values)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the labels that are kept."""
        return self.traits.keys

    @property
    def values(self) -> tuple[str, ...]:
        """Their values, in the same order."""
        values = self.traits.values
        return values if OWN.isdisjoint(values) else tuple(map(self.own, values))

    @property
    def labels(self) -> dict[str, str]:
        """The labels that are kept."""
        return dict(zip(self.keys, self.values, strict=True))

    @property
    def hardware(self) -> Hardware:
        """What its agent says of the machine."""
        return self.traits.hardware

    @property
    def gpus(self) -> int:
        """Allocatable `nvidia.com/gpu`."""
        return self.traits.gpus

    @property
    def ready(self) -> bool:
        """Whether its kubelet says that it is."""
        return self.traits.ready

    @property
    def schedulable(self) -> bool:
        """Whether nobody cordoned it."""
        return self.traits.schedulable

    @property
    def usable(self) -> bool:
        """Whether a scheduler would place a pod there."""
        return self.traits.usable


def node_facts(
    name: str,
    uid: str,
    keys: tuple[str, ...],
    values: tuple[str, ...],
    ready: bool,
    schedulable: bool,
    gpus: int,
    hardware: Hardware = NO_AGENT,
) -> NodeFacts:
    """A node from its parts; `values` as they stand on the node."""
    host = host_of(name, dict(zip(keys, values, strict=True)).get(HOSTNAME))
    shared = tuple([unsaid(value, name, host) for value in values])
    return NodeFacts(name, uid, Traits(keys, shared, ready, schedulable, gpus, hardware), host)


def host_of(name: str, label: str | None) -> str:
    """The hostname label's value where it is another than the node's name, else empty."""
    return "" if label is None or label == name else label


def unsaid(value: str, name: str, host: str) -> str:
    """A value without what only the node has."""
    return ITS_NAME if value == name else ITS_HOST if value == host and host else value
