"""What one pass looks at: topologies, nodes, and what workloads ask for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol

from toposcope.api.cluster_topology import Topology
from toposcope.controller.assess.agents import AgentPodsSeen
from toposcope.controller.assess.rebuilds import Rebuild
from toposcope.controller.assess.selection import Overlaps
from toposcope.controller.requirements import Resolved
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef

MOST_TOPOLOGIES: Final = 250
"""How many ClusterTopologies are kept up to date, the oldest: more would outgrow the memory and
the time of a pass."""


class Workloads(Protocol):
    """The level requests of the cluster's workloads."""

    @property
    def is_synced(self) -> bool:
        """Whether all workloads have been listed: only then is a missing request no request."""

    def level_requests(self) -> Mapping[WorkloadRef, Sequence[LevelRequest]]:
        """The requests of each workload that has some."""

    def bound_requests(self) -> Mapping[WorkloadRef, Sequence[LevelRequest]] | None:
        """The requests of workloads whose constraints depend on a binding that translates levels.

        None: not all can be read now.
        """

    def by_value(self) -> Mapping[str, str]:
        """The workload that groups by a label's value alone, by the label's key."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One look at the cluster; nothing of it changes until the next one."""

    topologies: Sequence[Topology]
    """All ClusterTopologies, the oldest first, each with the status that was written last."""
    supported: Sequence[Topology]
    """Those that are kept up to date."""
    nodes: Table
    catalogue: Catalogue
    demands: Mapping[str, Resolved]
    """What workloads ask of each topology, by its name."""
    has_listed_workloads: bool
    """Whether all workloads have been listed: only then is a missing request no request."""
    bound: Mapping[str, Collection[str]] | None
    """By topology: the domains that workloads require through a binding; None: unknown."""
    by_value: Mapping[str, str]
    """Workload that groups by this label's value alone, per label key."""
    rebuilds: Sequence[Rebuild]
    """NVLink fabrics that were rebuilt, of all nodes."""
    overlaps: Mapping[str, Overlaps]
    """What each topology shares with the others, by its name."""
    agent_pods: AgentPodsSeen
    """Why agents have no pods, and whose are not Ready."""

    @property
    def excess(self) -> Sequence[Topology]:
        """The topologies beyond the supported number."""
        return self.topologies[len(self.supported) :]

    @property
    def idle(self) -> Sequence[Topology]:
        """The topologies that may be deleted with their segment.

        What workloads are bound to is no more deleted than its levels are removed.
        """
        if self.bound is None:
            return ()
        idle = []
        for topology in self.supported:
            if not self.bound[topology.name]:
                idle.append(topology)
        return idle


def oldest_first(topologies: Sequence[Topology]) -> list[Topology]:
    """The order in which topologies take precedence."""
    return sorted(topologies, key=attrgetter("created", "name"))
