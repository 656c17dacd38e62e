"""Events, no more than the API server can take.

Those on Workloads and Nodes go through here too.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.controller.events import (
    EventRateLimit,
    LevelEvent,
    condition_events,
    level_events,
    rail_events,
    rebuild_events,
)
from toposcope.controller.fence import NotLeaderError
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.status import fresh_rebuilds
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.writer import WriteOutcome
from toposcope.kube.errors import KubeError
from toposcope.kube.requests import event

log = logging.getLogger(__name__)

REPORTER: Final = "controller"


class EventWriter:
    """Records Events: a rate limit for levels, and one for everything else.

    One node without labels is news for each of many topologies, and must not silence a lost level.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._instance = wiring.runtime.instance()
        self._level_limit = EventRateLimit()
        self._condition_limit = EventRateLimit()

    def write(self, look: Pass, findings: Findings) -> WriteOutcome:
        """Record what turned with the new status, and fabrics that were rebuilt."""
        topology, told = findings.topology, findings.memory.told_rebuilds
        if findings.written.status is not None:
            self._record_turned(findings, findings.written.status)
        fresh = fresh_rebuilds(topology, findings.assessment, told)
        self._record_some(topology, rebuild_events(topology, fresh), self._condition_limit)
        told.intersection_update(rebuild.pair for rebuild in look.rebuilds)
        told.update(rebuild.pair for rebuild in fresh)
        return WriteOutcome(written=replace(findings.written, rebuilds=fresh))

    def _record_turned(self, findings: Findings, status: Mapping[str, Any]) -> None:
        """Record what turned between the topology's last status and `status`."""
        topology = findings.topology
        due = level_events(topology, status, findings.demanded)
        self._record_some(topology, due, self._level_limit)
        due = condition_events(topology, status)
        due += rail_events(topology, findings.assessment.rails)
        self._record_some(topology, due, self._condition_limit)

    def _record_some(
        self, topology: Topology, due: Sequence[LevelEvent], limit: EventRateLimit
    ) -> None:
        """Record as many Events as the rate limit allows; the condition covers the rest."""
        allowed = []
        for change in due:
            now = self._wiring.runtime.monotonic()
            if limit.allow(now):
                allowed.append(change)
        for change in allowed:
            self._record(topology, change)
        refused = len(due) - len(allowed)
        if refused:
            text = "ClusterTopology %s: %d Events of %d are not recorded: too many in a short time"
            log.warning(text, topology.name, refused, len(due))

    def _record(self, topology: Topology, due: LevelEvent) -> None:
        regarding = due.regarding
        about = _handle(regarding)
        severity = logging.WARNING if due.is_warning else logging.INFO
        note = due.note
        if regarding.get("uid") != topology.uid:
            note = f"{about}: {note}"
        log.log(severity, "ClusterTopology %s: %s", topology.name, note)
        if self._wiring.show:
            return
        request = event(
            dict(regarding),
            "Warning" if due.is_warning else "Normal",
            due.reason,
            due.note,
            REPORTER,
            instance=self._instance,
            now=self._wiring.runtime.now(),
        )
        try:
            self._wiring.client.call(request)
        except NotLeaderError:
            raise
        except KubeError as error:
            # Losing an Event must not stop the pass.
            log.warning("cannot record an Event about %s: %s", about, error)


def _handle(regarding: Mapping[str, str]) -> str:
    """Kind and name of an object, with its namespace if it has one."""
    name = regarding["name"]
    namespace = regarding.get("namespace")
    if namespace:
        name = f"{namespace}/{name}"
    return f"{regarding['kind']} {name}"
