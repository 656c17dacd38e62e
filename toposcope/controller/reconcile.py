"""One pass of the controller.

Look at the cluster, assess each ClusterTopology, publish, write its status, record Events.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import Condition
from toposcope.api.levels import Level
from toposcope.controller.agent_pods import AgentPods
from toposcope.controller.assess.agents import NO_MISSING_PODS
from toposcope.controller.assess.assessment import Evidence, assess
from toposcope.controller.assess.diagnostics import Diagnostic
from toposcope.controller.assess.rebuilds import FabricHistory
from toposcope.controller.assess.selection import overlaps
from toposcope.controller.fence import NotLeaderError
from toposcope.controller.findings import Findings
from toposcope.controller.held_labels import HeldLabels
from toposcope.controller.look import MOST_TOPOLOGIES, Pass, Workloads, oldest_first
from toposcope.controller.memory import Memory
from toposcope.controller.metrics import Report, report
from toposcope.controller.node_plan import (
    plan_of,
    planned,
    slinky_condition,
    unwritten_annotations,
    unwritten_values,
    values_condition,
)
from toposcope.controller.publishing.dry_run import DryRunClient
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.requirements import resolve
from toposcope.controller.status import (
    conditions_of,
    demand_of,
    fresh_rebuilds,
    old_schema_summary,
    refused_summary,
    status_of,
)
from toposcope.controller.status_schema import StatusSchema
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.events import EventWriter
from toposcope.controller.writers.outcome import Outcome, Written
from toposcope.controller.writers.published import PublishedWriter
from toposcope.controller.writers.segments import SegmentWriter
from toposcope.controller.writers.status import StatusWriter
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.node import NodeFacts
from toposcope.hierarchy.table import Table, table_of
from toposcope.integrations.framework.published import Published
from toposcope.integrations.node_plan import PlannedTopology
from toposcope.kube.client import Caller
from toposcope.kube.errors import KubeError

log = logging.getLogger(__name__)

PATIENCE_SECONDS: Final = 2.0
"""After which a pass makes way for the next if there is news."""


@dataclass(frozen=True, slots=True)
class _Excess:
    """A topology beyond the supported number, which waits to be told so."""

    topology: Topology


class Reconciler:
    """Brings the API server up to date with the nodes, for one term of leadership."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._runtime = wiring.runtime
        self._memories: dict[str, Memory] = {}
        """By the uid of the topology."""
        self._held_labels = HeldLabels()
        self._fabric_history = FabricHistory()
        self._agent_pods = AgentPods(wiring.client, wiring.runtime)
        self._segments = SegmentWriter(_segment_client(wiring), wiring.runtime)
        self._published = PublishedWriter(wiring)
        self._status = StatusWriter(wiring)
        self._events = EventWriter(wiring)
        self._reported_rebuilds: dict[str, set[tuple[str, str]]] = {}
        """Rebuilds that an Event has told, by the uid of the topology."""
        self._logged_hints: set[tuple[str, str]] = set()
        self._postponed: list[str] = []
        """Topologies that the last pass did not come to, by name."""
        self._failure: KubeError | None = None
        """The first failure of this pass."""
        self._due: list[float] = []
        """When writers want another pass, in monotonic seconds."""
        self.catalogue = BUILT_IN
        self.reports: dict[str, Report] = {}
        """The findings of each topology's last pass, by name."""
        self.left_out = 0
        """How many topologies are beyond the supported number."""

    @property
    def schema(self) -> StatusSchema:
        """What the CRD in the cluster declares of a status."""
        return self._status.schema

    @schema.setter
    def schema(self, schema: StatusSchema) -> None:
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
        self._forget_deleted(topologies)
        self._due.clear()
        self._failure = None
        self.schema.look()
        look = self._look(topologies, nodes, workloads)
        self._keep_reports(look)
        began = self._runtime.monotonic()
        queue = self._assess_all(look)
        self._finish_all(look, queue, self._interruption(look, changed, began))
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
        graces = [topology.grace for topology in topologies]
        for wait in (
            self._next_overdue(topologies, now),
            self._held_labels.next_deadline(graces, now),
        ):
            if wait is not None:
                waits.append(wait)
        return min(waits, default=None)

    def _forget_deleted(self, topologies: Sequence[Topology]) -> None:
        """Drop what is remembered of topologies that are gone."""
        uids = frozenset(topology.uid for topology in topologies)
        for uid in self._memories.keys() - uids:
            del self._memories[uid]
        for uid in self._reported_rebuilds.keys() - uids:
            del self._reported_rebuilds[uid]
        self._status.keep_only(topologies)
        self._published.keep_only(uids)

    def _look(
        self,
        topologies: Sequence[Topology],
        nodes: Table | Sequence[NodeFacts],
        workloads: Workloads,
    ) -> Pass:
        """What this pass goes by."""
        everything = [self._status.latest(topology) for topology in oldest_first(topologies)]
        supported = everything[:MOST_TOPOLOGIES]
        table = table_of(nodes, self.catalogue.placeholders)
        self._held_labels.observe(table, self._runtime.monotonic())
        rebuilds = self._fabric_history.observe(table)
        levels = {topology.name: topology.last_levels for topology in supported}
        names = self._wiring.publishing.look(supported, table)
        return Pass(
            topologies=everything,
            supported=supported,
            nodes=table,
            catalogue=self.catalogue,
            demands=resolve(levels, workloads.level_requests(), self.catalogue, names),
            workloads_listed=workloads.synced,
            bound=self._bound(levels, workloads),
            by_value=workloads.by_value(),
            rebuilds=rebuilds,
            overlaps=overlaps(supported, table),
            missing_pods=self._agent_pods.look() if supported else NO_MISSING_PODS,
        )

    def _bound(
        self, levels: Mapping[str, Sequence[Level]], workloads: Workloads
    ) -> Mapping[str, Collection[str]] | None:
        """The domains that workloads require through Grove's binding; None: unknown."""
        requests = workloads.bound_requests()
        if requests is None:
            return None
        resolved = resolve(levels, requests, self.catalogue)
        return {name: demanded.required for name, demanded in resolved.items()}

    def _keep_reports(self, look: Pass) -> None:
        """Forget what was reported of other topologies."""
        self.left_out = len(look.excess)
        self._status.keep_refused(look.demands)
        for name in self.reports.keys() - look.demands.keys():
            del self.reports[name]

    def _assess_all(self, look: Pass) -> "deque[Findings | _Excess]":
        """Assess all topologies; what still waits for its turn to be written.

        What is urgent is written at once.
        """
        queue: deque[Findings | _Excess] = deque()
        plans: dict[str, PlannedTopology] = {}
        supported = look.supported
        for topology in self._in_turn(supported):
            findings = self._assess(look, topology)
            if findings.planned:
                plans[topology.name] = findings.planned
            if findings.urgent:
                with self._noting_failure(topology.name):
                    self._finish(look, findings)
            elif len(supported) > 1:
                queue.append(findings.without_nodes())
            else:
                queue.append(findings)
        self._write_node_plan(look, plans)
        queue.extend(_Excess(topology) for topology in look.excess)
        return queue

    def _in_turn(self, topologies: Sequence[Topology]) -> list[Topology]:
        """First those that the last pass did not come to."""
        turns = {name: turn for turn, name in enumerate(self._postponed)}
        return sorted(topologies, key=lambda topology: turns.get(topology.name, len(turns)))

    def _assess(self, look: Pass, topology: Topology) -> Findings:
        """What is known of one topology before anything is written."""
        demanded = look.demands[topology.name]
        demand = demand_of(demanded, topology.status, listed=look.workloads_listed)
        evidence = Evidence(
            nodes=look.nodes,
            now=self._runtime.monotonic(),
            required=demand.required.keys(),
            preferred=demand.preferred.keys(),
            bound=None if look.bound is None else look.bound[topology.name],
            by_value=look.by_value,
            held=self._held_labels.table(look.nodes, topology.grace),
            rebuilds=look.rebuilds,
            catalogue=look.catalogue,
            missing_pods=look.missing_pods,
        )
        memory = self._memory(topology)
        assessment = assess(topology, evidence, memory)
        self._wiring.publishing.draw(topology, assessment.publishable, assessment.selected)
        findings = Findings(topology, demanded, demand, assessment, memory)
        return _with_plan(look, findings)

    def _memory(self, topology: Topology) -> Memory:
        memory = self._memories.get(topology.uid)
        if memory is None:
            memory = self._memories[topology.uid] = Memory(single_look=self._wiring.single_look)
        return memory

    def _write_node_plan(self, look: Pass, plans: Mapping[str, PlannedTopology]) -> None:
        """Write the plan that agents follow on their Nodes."""
        if self._wiring.node_plan is None:
            return
        complete = not look.excess
        plan = plan_of(look.supported, plans, look.nodes.placeholders, complete=complete)
        with self._noting_failure("(node plan)"):
            self._note_due(self._wiring.node_plan.write(plan, look.topologies))

    def _interruption(
        self, look: Pass, changed: Callable[[], bool] | None, began: float
    ) -> Callable[[], bool]:
        """Whether a pass makes way for the next.

        It is long, and something changed or a timer is over.
        """
        now = self._runtime.monotonic()
        wait = self._next_overdue(look.supported, now)
        deadline = math.inf if wait is None else now + wait

        several = len(look.supported) > 1

        def is_due() -> bool:
            if changed is None or not several:
                return False
            now = self._runtime.monotonic()
            if now - began <= PATIENCE_SECONDS:
                return False
            return now > deadline or changed()

        return is_due

    def _finish_all(
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
            with self._noting_failure(waiting.topology.name):
                if isinstance(waiting, Findings):
                    self._finish(look, waiting)
                else:
                    self._status.leave_out(waiting.topology, most=len(look.supported))

    def _finish(self, look: Pass, findings: Findings) -> None:
        """Publish, write the status, record Events. Raises KubeError."""
        topology, assessment = findings.topology, findings.assessment
        segments = self._segments.write(look, findings)
        published = self._published.write(findings)
        self._note_due(published)
        written = Written(segments, published, self._on_nodes(findings))
        conditions = self._conditions(look, findings, written)

        reported = self._reported_rebuilds.setdefault(topology.uid, set())
        fresh = fresh_rebuilds(topology, assessment, reported)
        status = status_of(
            topology,
            assessment,
            published.resources,
            self._runtime.now(),
            conditions,
            demand=findings.demand,
            children=segments.children,
            told=reported,
        )
        status = self.schema.declared_part(status)
        self._log_hints(topology, assessment.diagnostics)
        outcome = Outcome()
        if status != topology.status:
            outcome = self._status.write(topology, status)
            self._events.write(findings, status)
        self._events.write_rebuilds(topology, fresh)
        reported.intersection_update(rebuild.pair for rebuild in look.rebuilds)
        reported.update(rebuild.pair for rebuild in fresh)
        self._fabric_history.report(fresh)
        self._report(findings, conditions, published.resources, outcome)
        if outcome.refusal:
            raise outcome.refusal

    def _on_nodes(self, findings: Findings) -> list[Condition]:
        """What agents have written to their Nodes for a topology, and what not yet."""
        topology, entry = findings.topology, findings.planned
        refusal = ""
        if self._wiring.node_plan:
            refusal = self._wiring.node_plan.refusal(topology.name)
        conditions = []
        for condition in (
            values_condition(topology, entry, findings.values, refusal),
            slinky_condition(topology, entry, findings.annotations, refusal),
        ):
            if condition is not None:
                conditions.append(condition)
        return conditions

    def _conditions(
        self, look: Pass, findings: Findings, written: Written
    ) -> tuple[Condition, ...]:
        """All conditions of the topology, `Ready` last."""
        conditions = conditions_of(
            findings.topology,
            findings.assessment,
            written.published.resources,
            anything_served=written.published.anything_served,
            shared=look.overlaps[findings.topology.name],
            children=written.segments.children,
            on_nodes=written.on_nodes,
        )
        if self.schema.missing:
            return (*conditions[:-1], old_schema_summary(self.schema.problem))
        return conditions

    def _report(
        self,
        findings: Findings,
        conditions: Sequence[Condition],
        resources: Sequence[Published],
        outcome: Outcome,
    ) -> None:
        """Show in metrics what the pass found."""
        topology = findings.topology
        if outcome.refusal:
            conditions = (*conditions[:-1], refused_summary(outcome.refusal))
        else:
            self._status.accepted(topology)
        workloads = {**dict.fromkeys(topology.required, 0), **findings.demand.required}
        self.reports[topology.name] = report(
            findings.assessment, conditions, resources, workloads, findings.level_sizes()
        )

    def _log_hints(self, topology: Topology, hints: Iterable[Diagnostic]) -> None:
        """Log each hint once for all topologies: mostly it is about the same nodes.

        Each has its own in its status.
        """
        for hint in hints:
            key = hint.key, hint.reason
            if key not in self._logged_hints:
                self._logged_hints.add(key)
                log.warning("ClusterTopology %s: %s", topology.name, hint.message)

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

    def _note_due(self, outcome: Outcome) -> None:
        """Remember when a writer wants another pass."""
        if outcome.due is not None:
            self._due.append(outcome.due)

    def _next_overdue(self, topologies: Iterable[Topology], now: float) -> float | None:
        """Seconds until something has been so for the grace period of its topology.

        None when nothing will.
        """
        waits = []
        for topology in topologies:
            memory = self._memories.get(topology.uid)
            wait = memory.next_deadline(topology.grace, now) if memory else None
            if wait is not None:
                waits.append(wait)
        return min(waits, default=None)

    def _watch_for_what_blocks(self) -> None:
        """Have the watch wake the loop at once if something goes that a publisher waits for."""
        if self._wiring.cached_reader is None:
            return
        blocked = False
        for topology_report in self.reports.values():
            for resource in topology_report.published:
                blocked = blocked or resource.reason == "Waiting"
        self._wiring.cached_reader.blocked = blocked


def _segment_client(wiring: Wiring) -> Caller:
    """What the topologies of segments are written through."""
    if wiring.show:
        return DryRunClient(wiring.client, wiring.show)
    return WriteBackoff(wiring.client, wiring.runtime)


def _with_plan(look: Pass, findings: Findings) -> Findings:
    """The findings with what belongs on the topology's nodes."""
    topology, nodes = findings.topology, findings.assessment.selected
    entry = planned(topology, findings.assessment)
    if entry is None:
        return findings
    findings = replace(findings, planned=entry)
    if topology.unique:
        values = unwritten_values(topology, entry, nodes, look.supported)
        findings = replace(findings, values=values)
    if topology.slinky:
        annotations = unwritten_annotations(topology, entry, nodes, look.supported)
        findings = replace(findings, annotations=annotations)
    return findings
