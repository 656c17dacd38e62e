"""The resources that schedulers read, through one publisher for each system."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.controller.findings import Findings
from toposcope.controller.look import Pass
from toposcope.controller.publishing.dry_run import DRY_RUN
from toposcope.controller.wiring import Wiring
from toposcope.controller.writers.writer import WriteOutcome, Written
from toposcope.integrations.framework.published import Published
from toposcope.integrations.framework.publishing.publisher import Publisher

log = logging.getLogger(__name__)

EXPECTED_REASONS: Final = frozenset({"", "Waiting"})
"""Reasons that need no action, unless a write was rejected."""


class PublishedWriter:
    """Gives each publisher the levels of a topology, and logs what comes of it, each news once."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._logged: dict[tuple[str, str], str] = {}
        """What was logged last about each resource, by the topology's uid and the resource's
        handle."""

    def write(self, _: Pass, findings: Findings) -> WriteOutcome:
        """Publish the levels of one topology. Raises KubeError."""
        written = self._publish(findings)
        due = self._due(written.resources)
        for resource in written.resources:
            self._log(findings.topology, resource)
        return WriteOutcome(due=due, written=written)

    def keep_only(self, uids: frozenset[str]) -> None:
        """Forget the topologies that are gone."""
        for uid, handle in [*self._logged]:
            if uid not in uids:
                del self._logged[uid, handle]

    def _publish(self, findings: Findings) -> Written:
        topology = findings.topology
        cached_reader, backoff = self._wiring.cached_reader, self._wiring.backoff
        if backoff:
            schemas = cached_reader.schemas if cached_reader else 0
            backoff.subject = (topology.uid, topology.generation, schemas)

        def decided() -> Written:
            return self._publish_served(findings)

        return cached_reader.decide(decided) if cached_reader else decided()

    def _publish_served(self, findings: Findings) -> Written:
        topology, assessment = findings.topology, findings.assessment
        served = [publisher for publisher in self._wiring.publishers if publisher.served()]
        resources: list[Published] = []
        is_any_served = False
        for publisher in served:
            levels = assessment.publishable
            if publisher.keeps_retained_levels:
                levels = assessment.bindable
            resources += self._publish_with(publisher, topology, levels)
            if topology.mode(publisher.name) != "Never":
                is_any_served = True
        return replace(findings.written, resources=resources, is_any_served=is_any_served)

    def _due(self, resources: Sequence[Published]) -> float | None:
        """When the first publisher wants another pass."""
        now = self._wiring.runtime.monotonic()
        due = None
        for resource in resources:
            if resource.again_in is not None:
                again_at = now + resource.again_in
                due = again_at if due is None else min(due, again_at)
        return due

    def _publish_with(
        self, publisher: Publisher, topology: Topology, levels: Sequence[Level] | None
    ) -> list[Published]:
        mode = topology.mode(publisher.name)
        if mode == "Never":
            remaining = self._retract(publisher, topology)
            return [remaining] if remaining else []
        dry_run = self._wiring.dry_run
        wanted = mode == DRY_RUN or self._wiring.show is not None
        if not levels or (mode == DRY_RUN and dry_run is None):
            return _from_status(publisher, topology)
        if dry_run and wanted:
            resource = dry_run.publish(publisher.name, topology, levels)
        else:
            resource = publisher.publish(topology, levels)
        return [resource]

    def _retract(self, publisher: Publisher, topology: Topology) -> Published | None:
        if self._wiring.dry_run and self._wiring.show:
            return self._wiring.dry_run.retract(publisher.name, topology)
        return publisher.retract(topology)

    def _log(self, topology: Topology, resource: Published) -> None:
        """Log what keeps a resource from being in sync, and show what a dry run found."""
        first_line, *_ = resource.message.splitlines() or [""]
        if resource.reason == DRY_RUN:
            text = f"{resource.handle} {first_line}\n{resource.diff}".rstrip()
        else:
            text = resource.message if resource.reason else ""
        key = topology.uid, resource.handle
        if self._logged.get(key, "") == text:
            return
        self._logged[key] = text
        if resource.reason == DRY_RUN:
            show = self._wiring.show or log.info
            show(text)
            return
        expected = resource.reason in EXPECTED_REASONS and not resource.retry_at
        log.log(
            logging.INFO if expected else logging.WARNING,
            "ClusterTopology %s: %s: %s",
            topology.name,
            resource.handle,
            resource.text if resource.reason else "is in sync",
        )


def _from_status(publisher: Publisher, topology: Topology) -> list[Published]:
    """The published resources of the stored status.

    They are left as they are, because there are no levels to replace theirs.
    """
    reason = DRY_RUN if topology.mode(publisher.name) == DRY_RUN else "Waiting"
    resources = []
    for entry in topology.status.get("published") or ():
        group = entry["apiVersion"].partition("/")[0]
        if group == publisher.group:
            resources.append(
                Published(
                    api_version=entry["apiVersion"],
                    kind=entry["kind"],
                    name=entry["name"],
                    reason="" if entry["inSync"] else reason,
                    message=entry.get("message", ""),
                )
            )
    return resources
