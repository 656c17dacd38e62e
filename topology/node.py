"""What the controller keeps of a Node: a few hundred bytes, whatever the Node object weighs."""

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

ITS_NAME: Final = "/"
"""Stands for a node's own name among what it shares with other nodes; no label can have this value."""


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

    `keys` and `values` run in parallel; `ITS_NAME` among the values stands for the node's own name. `gpus` is the
    number of allocatable `nvidia.com/gpu`.
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

    def spelled_out(self, name: str) -> "Traits":
        """What only the node of this name has: its name wherever it stands."""
        return self._replace(values=_said(self.values, ITS_NAME, name))


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node; see `node_facts`."""

    name: str
    uid: str
    traits: Traits

    def label(self, key: str) -> str | None:
        """The value of a label that is kept, else None."""
        value = self.traits.label(key)
        return self.name if value == ITS_NAME else value

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the labels that are kept."""
        return self.traits.keys

    @property
    def values(self) -> tuple[str, ...]:
        """Their values, in the same order."""
        return _said(self.traits.values, ITS_NAME, self.name)

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
    return NodeFacts(name, uid, Traits(keys, _said(values, name, ITS_NAME), ready, schedulable, gpus, hardware))


def _said(values: tuple[str, ...], this: str, instead: str) -> tuple[str, ...]:
    return tuple([instead if value == this else value for value in values]) if this in values else values
