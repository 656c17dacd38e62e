"""All that is written for one topology: its segments, published resources, status and Events."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import Condition
from toposcope.controller.assess.diagnostics import Diagnostic
from toposcope.controller.assess.rebuilds import Rebuild
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.metrics import Report, report
from toposcope.controller.node_plan import slinky_condition, values_condition
from toposcope.controller.publishing.dry_run import DryRunClient
from toposcope.controller.publishing.write_backoff import WriteBackoff
from toposcope.controller.status import (
    conditions_of,
    fresh_rebuilds,
    old_schema_summary,
    refused_summary,
    status_of,
)
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.events import EventWriter
from toposcope.controller.writers.outcome import Outcome, Written
from toposcope.controller.writers.published import PublishedWriter
from toposcope.controller.writers.segments import SegmentWriter
from toposcope.controller.writers.status import StatusWriter
from toposcope.kube.client import Caller

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOutcome(Outcome):
    """What came of one topology; the refusal is that of its status."""

    report: Report
    rebuilds: Sequence[Rebuild]
    """Rebuilt fabrics that an Event has told now."""


class TopologyWriter:
    """Calls the writers in their order: the status tells of what was written before it."""

    def __init__(self, wiring: Wiring, status: StatusWriter) -> None:
        self._wiring = wiring
        self._segments = SegmentWriter(_segment_client(wiring), wiring.runtime)
        self._published = PublishedWriter(wiring)
        self._status = status
        self._events = EventWriter(wiring)
        self._told: dict[str, set[tuple[str, str]]] = {}
        """Rebuilds that an Event has told, by the uid of the topology."""
        self._logged_hints: set[tuple[str, str]] = set()

    def write(self, look: Pass, findings: Findings) -> TopologyOutcome:
        """Publish, write the status, record Events. Raises KubeError."""
        topology = findings.topology
        written = Written(
            segments=self._segments.write(look, findings),
            published=self._published.write(findings),
            on_nodes=self._on_nodes(findings),
        )
        conditions = self._conditions(look, findings, written)
        told = self._told.setdefault(topology.uid, set())
        fresh = fresh_rebuilds(topology, findings.assessment, told)
        self._log_hints(topology, findings.assessment.diagnostics)
        outcome = self._write_status(findings, conditions, written)
        self._events.write_rebuilds(topology, fresh)
        told.intersection_update(rebuild.pair for rebuild in look.rebuilds)
        told.update(rebuild.pair for rebuild in fresh)
        if outcome.refusal:
            conditions = (*conditions[:-1], refused_summary(outcome.refusal))
        return TopologyOutcome(
            due=written.published.due,
            refusal=outcome.refusal,
            report=_report(findings, conditions, written),
            rebuilds=fresh,
        )

    def keep_only(self, uids: frozenset[str]) -> None:
        """Forget the topologies that are gone."""
        for uid in self._told.keys() - uids:
            del self._told[uid]
        self._published.keep_only(uids)

    def _write_status(
        self, findings: Findings, conditions: Sequence[Condition], written: Written
    ) -> Outcome:
        """Write the status if it has changed, and record what turned. Raises KubeError."""
        topology = findings.topology
        whole: dict[str, Any] = status_of(
            topology,
            findings.assessment,
            written.published.resources,
            self._wiring.runtime.now(),
            conditions,
            demand=findings.demand,
            children=written.segments.children,
            told=self._told[topology.uid],
        )
        status = self._status.schema.declared_part(whole)
        outcome = Outcome()
        if status != topology.status:
            outcome = self._status.write(topology, status)
            self._events.write(findings, status)
        if not outcome.refusal:
            self._status.accepted(topology)
        return outcome

    def _on_nodes(self, findings: Findings) -> list[Condition]:
        """What agents have written to their Nodes for a topology, and what not yet."""
        topology, entry = findings.topology, findings.planned
        refusal = ""
        if self._wiring.node_plan:
            refusal = self._wiring.node_plan.refusal(topology.name)
        values = values_condition(topology, entry, findings.values, refusal)
        annotations = slinky_condition(topology, entry, findings.annotations, refusal)
        conditions = []
        if values:
            conditions.append(values)
        if annotations:
            conditions.append(annotations)
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
        schema = self._status.schema
        if schema.missing:
            return (*conditions[:-1], old_schema_summary(schema.problem))
        return conditions

    def _log_hints(self, topology: Topology, hints: Iterable[Diagnostic]) -> None:
        """Log each hint once for all topologies: mostly it is about the same nodes.

        Each has its own in its status.
        """
        for hint in hints:
            key = hint.key, hint.reason
            if key not in self._logged_hints:
                self._logged_hints.add(key)
                log.warning("ClusterTopology %s: %s", topology.name, hint.message)


def _segment_client(wiring: Wiring) -> Caller:
    """What the topologies of segments are written through."""
    if wiring.show:
        return DryRunClient(wiring.client, wiring.show)
    return WriteBackoff(wiring.client, wiring.runtime)


def _report(findings: Findings, conditions: Sequence[Condition], written: Written) -> Report:
    """What metrics show of the pass."""
    workloads = dict.fromkeys(findings.topology.required, 0)
    workloads.update(findings.demand.required)
    return report(
        findings.assessment,
        conditions,
        written.published.resources,
        workloads,
        findings.level_sizes(),
    )
