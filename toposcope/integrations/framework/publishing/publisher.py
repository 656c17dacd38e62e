"""How the controller writes a system's resource: what its `publisher.py` returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.published import Published, finalizers
from toposcope.kube.client import Caller
from toposcope.kube.runtime import REAL, Runtime

DELAY_SECONDS: Final = 30.0
"""How long levels must be stable before an existing object is changed."""

LevelNames = Mapping[str, Mapping[str, str]]
"""For each topology: other names that requests use for its levels, and their domains."""


class Publisher(Protocol):
    """One published resource. Publishers run in the order of the registry."""

    name: str
    """Its field in `spec.publish`."""
    group: str
    """API group of the resources that it writes."""
    keeps_retained_levels: bool
    """Whether workloads depend on the levels of its resource, so that it keeps retained ones."""

    def served(self) -> bool:
        """Whether the API server serves the target's kind. Raises KubeError."""

    def publish(self, topology: Topology, levels: Sequence[Level]) -> Published:
        """Give the resource these levels. Raises KubeError if the server does not answer."""

    def retract(self, topology: Topology) -> Published | None:
        """Delete what was published before.

        Returns None once it is gone. Raises KubeError as above.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """How a controller publishes."""

    runtime: Runtime = REAL
    delay: float = DELAY_SECONDS
    """As `DELAY_SECONDS`; 0 in a single pass."""
    at_once: bool = False
    """Whether everything is written in one pass, however long it takes."""


class SystemPublishing:
    """How one system publishes during a term of leadership. Its memory ends with the term.

    A system overrides what it has.
    """

    def __init__(self, settings: PublishSettings) -> None:
        self.settings = settings

    @staticmethod
    def holders(client: Caller, document: Mapping[str, Any]) -> list[str]:
        """What must release an object before it can be deleted. Raises KubeError."""
        del client
        return finalizers(document)

    def look(self, topologies: Sequence[Topology], nodes: Table) -> LevelNames:
        """Look at all ClusterTopologies, at the beginning of a pass."""
        del topologies, nodes
        return {}

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        """Look at the nodes of one topology while they are in memory, and at the levels."""
        del topology, levels, nodes

    def publisher(self, client: Caller, delay: float) -> Publisher:
        """A publisher that writes with this client.

        All publishers of a term share what `draw` kept.
        """
        raise NotImplementedError


class Publishing:
    """The publishing of all systems during a term of leadership."""

    def __init__(self, systems: Sequence[SystemPublishing], settings: PublishSettings) -> None:
        self._systems = systems
        self._settings = settings

    def publishers(self, client: Caller) -> tuple[Publisher, ...]:
        """Publishers that write with this client, in the order in which they are called."""
        delay = self._settings.delay
        return tuple(system.publisher(client, delay) for system in self._systems)

    def dry_run_publishers(self, client: Caller) -> tuple[Publisher, ...]:
        """Publishers for a client that writes nothing, without waiting times."""
        return tuple(system.publisher(client, 0.0) for system in self._systems)

    def look(self, topologies: Sequence[Topology], nodes: Table) -> LevelNames:
        """Look at all ClusterTopologies, at the beginning of a pass."""
        names: dict[str, dict[str, str]] = {}
        for system in self._systems:
            for topology, domains in system.look(topologies, nodes).items():
                names.setdefault(topology, {}).update(domains)
        return names

    def draw(self, topology: Topology, levels: Sequence[Level] | None, nodes: Table) -> None:
        """Look at the nodes of one topology while they are in memory, and at the levels."""
        for system in self._systems:
            system.draw(topology, levels, nodes)
