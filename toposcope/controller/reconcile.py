"""One pass of the controller: look at the cluster, assess each ClusterTopology, write.

What is urgent is written first: a topology of which a required level went or came back as soon as
it is assessed, then the agents' plan and the paths of all nodes, then the other topologies, at last
those beyond the supported number. `toposcope.controller.writers.topology` has the order within a
topology.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.agent_watch import AgentWatch
from toposcope.controller.assessor import Assessor
from toposcope.controller.fence import NotLeaderError
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass, Workloads, oldest_first
from toposcope.controller.metrics import Report, report
from toposcope.controller.status_schema import StatusSchema
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.status import StatusWriter
from toposcope.controller.writers.topology import TopologyWriter
from toposcope.controller.writers.writer import WriteOutcome, Written
from toposcope.hierarchy.catalogue import Catalogue
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table, table_of
from toposcope.integrations.node_plan import PlannedTopology
from toposcope.kube.errors import KubeError

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 2.0
"""After which a pass makes way for the next if there is news."""


@dataclass(frozen=True, slots=True)
class _Excess:
    """A topology beyond the supported number, whose status does not say so yet."""

    topology: Topology


class Reconciler:
    """Brings the API server up to date with the nodes, for one term of leadership."""

    def __init__(self, wiring: Wiring) -> None:
        self._runtime = wiring.runtime
        self._node_plan = wiring.node_plan
        self._node_paths = wiring.node_paths
        self._cached_reader = wiring.cached_reader
        self._assessor = Assessor(wiring)
        self._status = StatusWriter(wiring)
        self._writer = TopologyWriter(wiring, self._status)
        self._postponed: list[str] = []
        """Topologies that the last pass did not come to, by name."""
        self._failure: KubeError | None = None
        """The first failure of this pass."""
        self._due: list[float] = []
        """When writers want another pass, in monotonic seconds."""
        self.reports: dict[str, Report] = {}
        """The findings of each topology's last pass, by name."""
        self.left_out = 0
        """How many topologies are beyond the supported number."""

    def use(
        self, catalogue: Catalogue, schema: StatusSchema, agents: AgentWatch | None = None
    ) -> None:
        """Go by these label keys, by the agents' pods, and by the status that the CRD declares."""
        self._assessor.catalogue = catalogue
        self._assessor.agents = agents
        self._status.schema = schema

    @property
    def refused(self) -> Mapping[str, str]:
        """Why the API server refuses a topology's status, by name, until it accepts a whole one."""
        return self._status.refused

    def reconcile(
        self,
        topologies: Sequence[Topology],
        nodes: Table | Sequence[NodeFacts],
        workloads: Workloads,
        changed: Callable[[], bool] | None = None,
    ) -> bool:
        """Reconcile all topologies, then raise the first KubeError; NotLeaderError at once.

        Fills `reports`.

        Where a required level went or came back comes first. With `changed`, False: the pass was
        long, and left some of the others to the next one, which begins with them, because something
        has changed or a grace period is over.
        """
        self._begin(topologies)
        latest = [self._status.latest(topology) for topology in oldest_first(topologies)]
        table = table_of(nodes, self._assessor.catalogue.placeholders)
        look = self._assessor.look(latest, table, workloads)
        self._keep_reports(look)
        began = self._runtime.monotonic()
        queue = self._assess_all(look)
        self._write_all(look, queue, self._interruption(look, changed, began))
        self._postponed = [waiting.topology.name for waiting in queue]
        self._watch_for_what_blocks()
        if self._failure:
            raise self._failure
        return not queue

    def wait_for_nodes(self, topologies: Iterable[Topology], why: KubeError) -> None:
        """Report on topologies without a status why nodes cannot be listed; others keep theirs.

        Raises KubeError.
        """
        for topology in topologies:
            self._status.wait_for_nodes(topology, why)

    def next_deadline(self, topologies: Sequence[Topology]) -> float | None:
        """Seconds until a timer is over or a writer wants another pass; None: neither."""
        now = self._runtime.monotonic()
        waits = [max(due - now, 0.0) for due in self._due]
        wait = self._assessor.next_deadline(topologies)
        if wait is not None:
            waits.append(wait)
        return min(waits, default=None)

    def _begin(self, topologies: Sequence[Topology]) -> None:
        """Forget the last pass, and what is remembered of topologies that are gone."""
        uids = frozenset(topology.uid for topology in topologies)
        self._assessor.keep_only(uids)
        self._writer.keep_only(uids)
        self._status.keep_only(uids)
        self._due.clear()
        self._failure = None
        self._status.schema.look()

    def _keep_reports(self, look: Pass) -> None:
        """Forget what was reported of other topologies."""
        self.left_out = len(look.excess)
        self._status.keep_refused(look.demands)
        others = self.reports.keys() - look.demands.keys()
        for name in others:
            del self.reports[name]

    def _assess_all(self, look: Pass) -> "deque[Findings | _Excess]":
        """Assess all topologies; what still waits for its turn to be written.

        What is urgent is written at once.
        """
        queue: deque[Findings | _Excess] = deque()
        plans: dict[str, PlannedTopology] = {}
        has_several = len(look.supported) > 1
        for topology in self._in_turn(look.supported):
            findings = self._assessor.assess(look, topology)
            if findings.planned:
                plans[topology.name] = findings.planned
            if findings.is_urgent:
                self._write(look, findings)
            elif has_several:
                queue.append(findings.without_nodes())
            else:
                queue.append(findings)
        self._write_node_plan(look, plans)
        self._write_node_paths(look)
        queue.extend(_Excess(topology) for topology in look.excess)
        return queue

    def _in_turn(self, topologies: Sequence[Topology]) -> list[Topology]:
        """First those that the last pass did not come to."""
        turns = {name: turn for turn, name in enumerate(self._postponed)}
        return sorted(topologies, key=lambda topology: turns.get(topology.name, len(turns)))

    def _write_node_plan(self, look: Pass, plans: Mapping[str, PlannedTopology]) -> None:
        """Write the plan that agents follow on their Nodes."""
        if self._node_plan is None:
            return
        with self._noting_failure("(node plan)"):
            outcome = self._node_plan.write(look, plans)
            self._note_due(outcome)

    def _write_node_paths(self, look: Pass) -> None:
        """Write where all nodes are, for the policy that labels pods; or delete that."""
        if self._node_paths is None or self._node_plan is None:
            return
        with self._noting_failure("(node paths)"):
            outcome = self._node_paths.write(look.nodes, self._node_plan.plan)
            self._note_due(outcome)

    def _interruption(
        self, look: Pass, changed: Callable[[], bool] | None, began: float
    ) -> Callable[[], bool]:
        """Whether a pass makes way for the next.

        It is long, and something changed or a timer is over.
        """
        now = self._runtime.monotonic()
        wait = self._assessor.next_overdue(look.supported)
        deadline = math.inf if wait is None else now + wait
        has_several = len(look.supported) > 1

        def is_due() -> bool:
            if changed is None or not has_several:
                return False
            now = self._runtime.monotonic()
            if now - began <= PATIENCE_SECONDS:
                return False
            return now > deadline or changed()

        return is_due

    def _write_all(
        self,
        look: Pass,
        queue: "deque[Findings | _Excess]",
        must_stop: Callable[[], bool],
    ) -> None:
        """Write what the pass found about each topology.

        What is left when it must stop stays in the queue.
        """
        while queue and not must_stop():
            waiting = queue.popleft()
            if isinstance(waiting, Findings):
                self._write(look, waiting)
                continue
            with self._noting_failure(waiting.topology.name):
                self._status.leave_out(waiting.topology, most=len(look.supported))

    def _write(self, look: Pass, findings: Findings) -> None:
        """Write what the pass found about one topology."""
        name = findings.topology.name
        with self._noting_failure(name):
            outcome = self._writer.write(look, findings)
            self._note_due(outcome)
            self._assessor.note_reported(outcome.written.rebuilds)
            self.reports[name] = _report(findings, outcome.written)
            if outcome.refusal:
                raise outcome.refusal

    @contextmanager
    def _noting_failure(self, name: str) -> Iterator[None]:
        """Go on after a failure, which is raised at the end of the pass. Raises NotLeaderError."""
        try:
            yield
        except NotLeaderError:
            raise
        except KubeError as error:
            log.warning("ClusterTopology %s: %s", name, error)
            self._failure = self._failure or error

    def _note_due(self, outcome: WriteOutcome) -> None:
        """Remember when a writer wants another pass."""
        if outcome.due is not None:
            self._due.append(outcome.due)

    def _watch_for_what_blocks(self) -> None:
        """Have the watch wake the loop at once if something goes that a publisher waits for."""
        if self._cached_reader is None:
            return
        is_blocked = False
        for shown in self.reports.values():
            for resource in shown.published:
                is_blocked = is_blocked or resource.reason == "Waiting"
        self._cached_reader.is_blocked = is_blocked


def _report(findings: Findings, written: Written) -> Report:
    """What metrics show of the pass."""
    workloads = dict.fromkeys(findings.topology.required, 0)
    workloads.update(findings.demand.required)
    return report(
        findings.assessment,
        written.conditions,
        written.resources,
        workloads,
        findings.level_sizes(),
    )
