"""The status of each ClusterTopology, which tells of what was written before it.

What was written last is remembered until the watch shows it, or should have shown it, so that one
change is written once.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from toposcope.api.cluster_topology import API_VERSION, KIND, PATH, Topology
from toposcope.api.conditions import LEVELS_AVAILABLE, Condition, previous, stamped
from toposcope.controller.assess.availability import unsynced
from toposcope.controller.assess.diagnostics import Diagnostic
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.node_plan import slinky_condition, values_condition
from toposcope.controller.publishing.dry_run import unified
from toposcope.controller.status import (
    conditions_of,
    left_out,
    old_schema_summary,
    reduced,
    refused_summary,
    status_of,
)
from toposcope.controller.status_schema import StatusSchema
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.writer import WriteOutcome
from toposcope.integrations.framework.published import MANAGER
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import apply

log = logging.getLogger(__name__)

_UNPROCESSABLE: Final = 422
"""The API server's answer to a status that its schema refuses."""
_UNDECLARED: Final = 500
"""Its answer to a status with a field that it does not know."""
_LAG_SECONDS: Final = 60.0
"""How long the watch may take to show what was written. A status that it does not show by then was
undone: by an etcd that was restored, or by somebody who put the older status back."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A status that the watch showed or that was written, and when, in monotonic seconds."""

    status: Mapping[str, Any]
    at: float


class StatusWriter:
    """Writes statuses as the CRD in the cluster declares them."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._pending: dict[str, list[_Known]] = {}
        """By the uid of the topology: the status that the watch shows, and those written since."""
        self.schema = StatusSchema(wiring.client, wiring.runtime)
        """What the CRD in the cluster declares of a status."""
        self.refused: dict[str, str] = {}
        """Why the API server refuses a topology's status, by name, until it accepts a whole one."""
        self._logged_hints: set[tuple[str, str]] = set()

    def write(self, look: Pass, findings: Findings) -> WriteOutcome:
        """Write the status if it has changed, or only its conditions where it is refused.

        Raises KubeError where nothing was written, but not if the topology is gone.
        """
        topology = findings.topology
        conditions = self._conditions(look, findings)
        self._log_hints(topology, findings.assessment.diagnostics)
        written = replace(findings.written, conditions=conditions)
        complete_status: dict[str, Any] = status_of(
            topology,
            findings.assessment,
            written.resources,
            self._wiring.runtime.now(),
            conditions,
            demand=findings.demand,
            children=written.children,
            told=findings.memory.told_rebuilds,
        )
        status = self.schema.declared_part(complete_status)
        refusal = None
        if status != topology.status:
            written = replace(written, status=status)
            refusal = self._write(topology, status)
        if refusal is None:
            self.refused.pop(topology.name, None)
            return WriteOutcome(written=written)
        conditions = (*conditions[:-1], refused_summary(refusal))
        return WriteOutcome(refusal=refusal, written=replace(written, conditions=conditions))

    def latest(self, topology: Topology) -> Topology:
        """The topology with the status that we wrote last.

        The watch may still show an older one.
        """
        now = self._wiring.runtime.monotonic()
        pending = self._pending.setdefault(topology.uid, [])
        statuses = [known.status for known in pending]
        if topology.status not in statuses:  # somebody else wrote it, or this is the first pass
            pending[:] = [_Known(topology.status, now)]
            return topology

        shown = statuses.index(topology.status)
        # ours goes: one copy is enough
        pending[: shown + 1] = [_Known(topology.status, pending[shown].at)]
        if now - pending[-1].at > _LAG_SECONDS:
            del pending[1:]
        return replace(topology, status=pending[-1].status)

    def keep_only(self, uids: frozenset[str]) -> None:
        """Forget the topologies that are gone."""
        for uid in self._pending.keys() - uids:
            del self._pending[uid]

    def keep_refused(self, names: Mapping[str, object]) -> None:
        """Forget refusals of other topologies."""
        for name in self.refused.keys() - names.keys():
            del self.refused[name]

    def _conditions(self, look: Pass, findings: Findings) -> tuple[Condition, ...]:
        """All conditions of the topology, `Ready` last."""
        conditions = conditions_of(
            findings.topology,
            findings.assessment,
            findings.written.resources,
            is_any_served=findings.written.is_any_served,
            shared=look.overlaps[findings.topology.name],
            children=findings.written.children,
            on_nodes=self._on_nodes(findings),
        )
        if self.schema.missing:
            return (*conditions[:-1], old_schema_summary(self.schema.problem))
        return conditions

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

    def _log_hints(self, topology: Topology, hints: Iterable[Diagnostic]) -> None:
        """Log each hint once for all topologies: mostly it is about the same nodes.

        Every topology has its own hints in its status.
        """
        for hint in hints:
            key = hint.key, hint.reason
            if key not in self._logged_hints:
                self._logged_hints.add(key)
                log.warning("ClusterTopology %s: %s", topology.name, hint.message)

    def _write(self, topology: Topology, status: dict[str, Any]) -> ApiError | None:
        """Write a status; why the API server refuses it, so that only its conditions are written.

        Raises KubeError where nothing was written, but not if the topology is gone.
        """
        if self._wiring.show:
            self._show(topology, status)
            return None
        try:
            self._apply(topology, status)
        except ApiError as error:
            if error.status == _UNDECLARED:
                self.schema.look_again()  # the next pass writes what the CRD declares
            if error.status != _UNPROCESSABLE:
                raise
            self.refused[topology.name] = error.message
            less = reduced(topology, status, error, self._wiring.runtime.now())
            if less != topology.status:
                self._apply(topology, less)
            return error
        return None

    def leave_out(self, topology: Topology, *, most: int) -> None:
        """Say of one beyond the supported number, `most`, that it is. Raises KubeError."""
        status = left_out(topology, most, self._wiring.runtime.now())
        if status != topology.status:
            self._write_or_raise(topology, status)

    def wait_for_nodes(self, topology: Topology, why: KubeError) -> None:
        """Say of a topology without a verdict why nodes cannot be listed; others keep theirs.

        Raises KubeError.
        """
        topology = self.latest(topology)
        if previous(topology.status, LEVELS_AVAILABLE) is not None:
            return
        condition = unsynced(str(why))
        now = self._wiring.runtime.now()
        conditions = stamped([condition], topology.status, topology.generation, now)
        status = {
            **topology.status,
            "observedGeneration": topology.generation,
            "conditions": conditions,
        }
        self._write_or_raise(topology, status)

    def _write_or_raise(self, topology: Topology, status: dict[str, Any]) -> None:
        refusal = self._write(topology, status)
        if refusal:
            raise refusal

    def _show(self, topology: Topology, status: dict[str, Any]) -> None:
        """Show what would change, and go on as if it had been written."""
        assert self._wiring.show  # noqa: S101 - for the type checker
        name = f"{KIND.lower()}/{topology.name}"
        before = {"status": topology.status}
        after = {"status": status}
        self._wiring.show(unified(before, after, name))
        self._pending[topology.uid].append(_Known(status, inf))  # no watch will ever show it

    def _apply(self, topology: Topology, status: dict[str, Any]) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": topology.name, "uid": topology.uid},
            "status": status,
        }
        request = apply(f"{PATH}/{topology.name}/status", body, MANAGER, force=True)
        try:
            self._wiring.client.call(request)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise
            log.info("ClusterTopology %s was deleted", topology.name)
            return
        written = _Known(status, self._wiring.runtime.monotonic())
        self._pending[topology.uid].append(written)
