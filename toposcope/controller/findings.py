"""What a pass knows of one topology: its assessment, then what was written because of it."""

from dataclasses import dataclass, replace

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import unavailable_levels
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.memory import Memory
from toposcope.controller.node_plan import ALL_WRITTEN, Unwritten
from toposcope.controller.requirements import Resolved
from toposcope.controller.status import Demand, rebuilds_before
from toposcope.controller.writers.writer import NOTHING_WRITTEN, Written
from toposcope.hierarchy.coverage import LevelSize, level_sizes
from toposcope.integrations.node_plan import PlannedTopology


@dataclass(frozen=True, slots=True)
class Findings:
    """The assessment of one topology, what belongs on its nodes, and what is written by now."""

    topology: Topology
    demanded: Resolved
    """The workloads that ask something of it."""
    demand: Demand
    """How many they are."""
    assessment: Assessment
    memory: Memory
    planned: PlannedTopology | None = None
    """What it asks for on nodes."""
    values: Unwritten = ALL_WRITTEN
    """Nodes whose labels of unique values are not up to date."""
    annotations: Unwritten = ALL_WRITTEN
    """Nodes whose Slinky annotation is not up to date."""
    sizes: tuple[LevelSize, ...] | None = None
    """The GPUs of each level; None: not counted yet, because no status needs them."""
    written: Written = NOTHING_WRITTEN
    """What this pass has written so far."""

    @property
    def is_urgent(self) -> bool:
        """Whether a required level went, or came back."""
        before = unavailable_levels(self.topology.status)
        return before != frozenset(self.assessment.unavailable)

    def level_sizes(self) -> tuple[LevelSize, ...]:
        """The GPUs of each level."""
        if self.sizes is not None:
            return self.sizes
        levels = self.assessment.effective.levels
        return level_sizes(levels, self.assessment.selected)

    def without_nodes(self) -> "Findings":
        """The same without the nodes.

        Findings of hundreds of topologies wait for their turn at a time.
        """
        stored = [entry["to"] for entry in rebuilds_before(self.topology.status)]
        assessment = self.assessment.without_nodes(stored)
        return replace(self, sizes=self.level_sizes(), assessment=assessment)
