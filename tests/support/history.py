"""One topology assessed again and again, each status the next one's past."""

from collections.abc import Sequence
from typing import Any

from tests.support.clock import START
from tests.support.cluster import topology
from toposcope.api.effective_levels import Absences
from toposcope.controller.assess.assessment import Assessment, assess
from toposcope.controller.segments import SegmentTopology
from toposcope.controller.status import conditions_of, status_of
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.node import NodeFacts


class History:
    """`spec` and `catalogue` may be changed between two looks."""

    def __init__(self, **spec: Any) -> None:
        self.spec = spec
        self.catalogue: Catalogue = BUILT_IN
        self.absences = Absences()
        self.now = 0.0
        self.status: dict[str, Any] = {}

    def look(
        self, nodes: Sequence[NodeFacts], after: float = 0.0, children: Sequence[SegmentTopology] = ()
    ) -> Assessment:
        """Assess `after` seconds later."""
        self.now += after
        current = topology(self.status, **self.spec)
        found = assess(current, nodes, self.absences, self.now, catalogue=self.catalogue)
        conditions = conditions_of(current, found, [], anything_served=True, children=children)
        self.status = status_of(current, found, [], START, conditions, children=children)
        return found

    def restart(self) -> None:
        """Forget what is not in the status."""
        self.absences = Absences()

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the status; empty when it is not there."""
        return next((c for c in self.status["conditions"] if c["type"] == kind), {})

    @property
    def segments(self) -> dict[str, int]:
        """Nodes of each segment by name."""
        return {entry["name"]: entry["nodes"] for entry in self.status.get("segments", ())}
