"""How the controller writes a system's resource: what its `publisher.py` returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.published import Published
from toposcope.kube.client import Caller
from toposcope.kube.runtime import REAL, Runtime

DELAY_SECONDS = 30.0
"""How long the same levels must have been wanted before an existing object is changed."""

LevelNames = Mapping[str, Mapping[str, str]]
"""By the name of a topology: other names that requests have for its levels, to their domains."""


class Publisher(Protocol):
    """One target of publishing; called in the order of the registry."""

    name: str
    """Its field in `spec.publish`."""
    group: str
    """API group of what it writes."""
    keeps_retained_levels: bool
    """Whether workloads are bound to the levels of its resource, so that it keeps retained ones."""

    def served(self) -> bool:
        """Whether the API server serves the target's kind. Raises KubeError."""

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the target these levels. Raises KubeError if the server does not answer."""

    def retract(self, topology: Topology) -> Published | None:
        """Delete what was published before; None if nothing of ours is left.

        Raises KubeError as above.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """How a controller publishes."""

    delay: float = DELAY_SECONDS
    """As `DELAY_SECONDS`; 0 in a single pass and in a dry run."""
    at_once: bool = False
    """Whether everything is written in one pass, however long it takes."""
    runtime: Runtime = field(default=REAL)


class Publishing(Protocol):
    """One system's publishing during one term of leadership."""

    def look(self, topologies: Sequence[Topology], nodes: Table) -> LevelNames:
        """Look at all ClusterTopologies, at the beginning of a pass."""

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        """Look at the nodes of one topology while they are at hand, and the levels to publish."""

    def publisher(self, client: Caller, settings: PublishSettings) -> Publisher:
        """A publisher that writes with this client; all of one term share what was drawn."""
