"""What the controller keeps of a Node: a few hundred bytes, whatever the Node object weighs."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol


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


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `keys` and `values` run in parallel; nodes that carry the same keys share one `keys` tuple.

    `gpus` is the number of allocatable `nvidia.com/gpu`.
    """

    name: str
    uid: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    ready: bool
    schedulable: bool
    gpus: int
    hardware: Hardware = NO_AGENT

    def label(self, key: str) -> str | None:
        """The value of a label that is kept, else None."""
        try:
            return self.values[self.keys.index(key)]
        except ValueError:
            return None

    @property
    def labels(self) -> dict[str, str]:
        """The labels that are kept."""
        return dict(zip(self.keys, self.values, strict=True))

    @property
    def counted_gpus(self) -> int:
        """GPUs as the node's agent counted them, else as the device plugin offers them."""
        return self.hardware.gpus

    @property
    def usable(self) -> bool:
        """Whether a scheduler would place a pod there."""
        return self.ready and self.schedulable
