"""The status of a ClusterTopology: counts and a few names, so that its size does not grow with the cluster."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import (
    IN_SYNC,
    LEVELS_AVAILABLE,
    PUBLISHED,
    READY,
    Condition,
    ready,
    stamped,
    utc,
)
from toposcope.api.levels import Level
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.diagnostics import Diagnostic
from toposcope.controller.assess.health import MOST_FINDINGS, DegradedLevel, Health
from toposcope.controller.assess.rails import rails_status
from toposcope.controller.assess.rebuilds import MOST_REBUILDS, Rebuild, fabrics
from toposcope.controller.assess.selection import Overlaps, disjoint_condition
from toposcope.controller.publishing.dry_run import DRY_RUN
from toposcope.controller.requirements import Resolved, WorkloadsByLevel
from toposcope.controller.segments import SegmentTopology, segments_condition, segments_status
from toposcope.controller.status_size import fit_to_size
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import Coverage
from toposcope.integrations.framework.published import Published
from toposcope.kube.errors import ApiError

_INT32: Final = 2**31 - 1
_MOST: Final = 64
"""As in the CRD."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Number of workloads by level: those that require it, and those that only prefer it."""

    required: Mapping[str, int] = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)


def demand_of(asked: Resolved, status: Mapping[str, Any], *, listed: bool) -> Demand:
    """The demand on a topology, missing levels included.

    Until all workloads are `listed`, the status's own stands.
    """
    required = _counts(asked.required, asked.missing)
    preferred = _counts(asked.preferred)
    if not listed:
        required = _before(status.get("requiredBy")) | required
        preferred = _before(status.get("preferredBy")) | preferred
    return Demand(_bounded(required), _bounded(preferred))


def _counts(*askers: WorkloadsByLevel) -> dict[str, int]:
    return {level: len(workloads) for asker in askers for level, workloads in asker.items()}


def _before(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    return {entry["domain"]: entry["workloads"] for entry in entries or ()}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items())[:_MOST])


INVALID: Final = "InvalidSpec"
TOO_MANY: Final = "TooManyTopologies"
_NO_DEMAND: Final = Demand()
_MOST_DEGRADED: Final = 3
_MOST_PROBLEMS: Final = 10
_LONGEST_NAME: Final = 128
"""Both as in the CRD: domains whose levels do not nest are named by their whole path."""


def published_condition(
    topology: Topology, published: Sequence[Published], *, anything_served: bool
) -> Condition:
    """The `Published` condition."""
    if topology.problems:
        shown, more = topology.problems[:_MOST_PROBLEMS], len(topology.problems) - _MOST_PROBLEMS
        text = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
        return Condition(PUBLISHED, "False", INVALID, text)
    bad = [
        resource for resource in published if not resource.in_sync and resource.reason != DRY_RUN
    ]
    if bad:
        text = "; ".join(f"{resource.handle}: {resource.text}" for resource in bad)
        return Condition(PUBLISHED, "False", bad[0].reason, text)
    if published:
        return _in_sync(published)
    if set(topology.publish.values()) == {"Never"}:
        return Condition(
            PUBLISHED, "True", "PublishingOff", "spec.publish says Never for every target"
        )
    if anything_served:
        return Condition(PUBLISHED, "Unknown", "NoLevels", "There is no level to publish yet")
    text = (
        "This cluster serves no resource of Grove, KAI, Kueue or Volcano that spec.publish allows"
    )
    return Condition(
        PUBLISHED, "True", "NothingServed", f"{text}; install one of them to have it published"
    )


def _in_sync(published: Sequence[Published]) -> Condition:
    dry_run = [resource for resource in published if resource.reason == DRY_RUN]
    if dry_run:  # as the spec says: no failure
        text = "; ".join(
            f"{resource.handle} {resource.message.splitlines()[0].rstrip(':')}"
            for resource in dry_run
        )
        return Condition(PUBLISHED, "True", DRY_RUN, f"Dry run, nothing is written: {text}")
    names = ", ".join(resource.handle for resource in published)
    return Condition(PUBLISHED, "True", IN_SYNC, f"In sync: {names}")


def conditions_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    *,
    anything_served: bool,
    shared: Overlaps | None = None,
    children: Sequence[SegmentTopology] = (),
    on_nodes: Sequence[Condition] = (),
) -> tuple[Condition, ...]:
    """All conditions, `Ready` last.

    `shared` are the topologies that share nodes with this one, `on_nodes` are about what agents
    write to Nodes.
    """
    divided = segments_condition(topology, assessment.segments, children)
    conditions = (
        *assessment.conditions,
        *([divided] if divided else []),
        *on_nodes,
        disjoint_condition(shared or {}, assessment.nodes),
        published_condition(topology, published, anything_served=anything_served),
    )
    return (*conditions, ready(conditions))


def status_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    now: datetime,
    conditions: Sequence[Condition],
    demand: Demand = _NO_DEMAND,
    children: Sequence[SegmentTopology] = (),
    *,
    told: Container[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The whole status, as it is applied, within its size limit.

    `told`: rebuilds of fabrics that an Event has told, by their cluster UUIDs before and after.
    """
    status: dict[str, Any] = {
        "observedGeneration": topology.generation,
        "nodes": assessment.nodes,
        "gpus": assessment.gpus,
        "leftOutNodes": assessment.left_out[0],
        "leftOutGpus": assessment.left_out[1],
        "levelPath": assessment.effective.path,
        "levels": _levels(assessment),
        "conditions": stamped(conditions, topology.status, topology.generation, now),
    }
    if assessment.segments:
        status |= segments_status(topology, assessment.segments, children)
    if assessment.diagnostics:
        status["hints"] = [_hint(diagnostic) for diagnostic in assessment.diagnostics]
    if assessment.nodes:
        status["fabric"] = _fabric(assessment.health, _rebuilds(topology, assessment, told, now))
    if assessment.rails.nodes:
        status["rails"] = rails_status(assessment.rails)
    if demand.required:
        status["requiredBy"] = [
            {"domain": domain, "workloads": n} for domain, n in demand.required.items()
        ]
    if demand.preferred:
        status["preferredBy"] = [
            {"domain": domain, "workloads": n, "available": domain not in assessment.missed}
            for domain, n in demand.preferred.items()
        ]
    if published:
        status["published"] = [_published(resource) for resource in published]
    bounded: dict[str, Any] = _within_int32(fit_to_size(status))
    return bounded | {"observedGeneration": topology.generation}


def _within_int32(value: Any) -> Any:
    """The value with each number in it cut to what the CRD's `format: int32` takes: sums depend on what nodes claim."""
    if isinstance(value, dict):
        return {name: _within_int32(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [*map(_within_int32, value)]
    return min(value, _INT32) if isinstance(value, int) else value


def left_out(topology: Topology, most: int, now: datetime) -> dict[str, Any]:
    """The status of one that isn't kept up to date because there are more than `most`."""
    text = (
        f"Toposcope keeps the {most} oldest ClusterTopologies up to date, and this is a younger one; what was "
        "published from it stays as it was; delete ClusterTopologies that nobody needs"
    )
    kinds = dict.fromkeys(
        [LEVELS_AVAILABLE, *(known["type"] for known in topology.status.get("conditions") or ())]
    )
    conditions = [Condition(kind, "Unknown", TOO_MANY, text) for kind in kinds if kind != READY]
    summary = Condition(READY, "False", TOO_MANY, text)
    stamps = stamped([*conditions, summary], topology.status, topology.generation, now)
    return {**topology.status, "observedGeneration": topology.generation, "conditions": stamps}


def refused_summary(refusal: ApiError) -> Condition:
    """The `Ready` of a topology whose status the API server refuses."""
    text = (
        "The API server refuses the status, so everything but its conditions is stale; apply the CRD of this "
        f"version (manifests/crds), and if that does not help, report a bug with this message: {refusal.message}"
    )
    return Condition(READY, "False", "StatusRefused", text)


def old_schema_summary(problem: str) -> Condition:
    """The `Ready` of a topology whose status is not written whole, because the CRD is older than the controller."""
    return Condition(READY, "False", "OldSchema", problem)


def reduced(
    topology: Topology, refused: Mapping[str, Any], refusal: ApiError, now: datetime
) -> dict[str, Any]:
    """The status that was accepted before with the conditions of one that was refused.

    Only conditions, because a number is what is refused; the rest stays, because the next pass
    reads the levels back.
    """
    summary = stamped([refused_summary(refusal)], topology.status, topology.generation, now)
    others = [condition for condition in refused["conditions"] if condition["type"] != READY]
    return {**topology.status, "conditions": others + summary}


def _levels(assessment: Assessment) -> list[dict[str, Any]]:
    """Each domain once: the API server refuses a status that names one twice, as a spec may."""
    once = {coverage.level.domain: coverage for coverage in reversed(assessment.coverage)}
    degraded = {level.level: level for level in assessment.health.levels}
    return [_level(coverage, assessment, degraded) for coverage in reversed(once.values())]


def _level(
    coverage: Coverage, assessment: Assessment, degraded: Mapping[Level, DegradedLevel]
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "domain": coverage.level.domain,
        "key": coverage.level.key,
        "domains": coverage.domains,
        "nodes": coverage.nodes,
        "missing": coverage.missing,
        "available": coverage.usable > 0 and coverage.level.domain not in assessment.unavailable,
    }
    if coverage.level in assessment.effective.expired:
        entry["expired"] = True
    if coverage.level in assessment.effective.retained:
        entry["retained"] = True
    if coverage.missing_nodes:
        entry["missingNodes"] = list(coverage.missing_nodes)
    bad = degraded.get(coverage.level)
    if bad:
        entry["degradedDomains"] = bad.domains
        if bad.worst:
            entry["degraded"] = [
                {"name": domain.name[-_LONGEST_NAME:], "nodes": domain.degraded}
                for domain in bad.worst[:_MOST_DEGRADED]
            ]
    return entry


def _hint(diagnostic: Diagnostic) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": diagnostic.key,
        "reason": diagnostic.reason,
        "nodes": diagnostic.nodes,
        "message": diagnostic.message,
    }
    return entry | ({"domain": diagnostic.domain} if diagnostic.domain else {})


def fresh_rebuilds(
    topology: Topology, assessment: Assessment, told: Container[tuple[str, str]] = ()
) -> tuple[Rebuild, ...]:
    """The rebuilds that are over and neither in the stored status nor among those that were `told`."""
    before = {(entry["from"], entry["to"]) for entry in _rebuilds_before(topology.status)}
    over = assessment.health.fabric.rebuilds.over
    return tuple(
        rebuild for rebuild in over if rebuild.pair not in before and rebuild.pair not in told
    )


def _rebuilds_before(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    fabric = status.get("fabric") or {}
    return fabric.get("rebuilds") or ()


def _rebuilds(
    topology: Topology, assessment: Assessment, told: Container[tuple[str, str]], now: datetime
) -> list[dict[str, Any]]:
    """The latest rebuilds, newest first; one leaves the list when no selected node is in its new fabric any more."""
    entries = [
        _rebuild(rebuild, utc(now)) for rebuild in fresh_rebuilds(topology, assessment, told)
    ]
    here = fabrics(assessment.selected)
    over = {rebuild.pair: rebuild for rebuild in assessment.health.fabric.rebuilds.over}
    for entry in _rebuilds_before(topology.status):
        known = over.get((entry["from"], entry["to"]))
        if known is not None:
            entries.append(_rebuild(known, entry["time"]))
        elif entry["to"] in here:
            entries.append(dict(entry))
    return entries[:MOST_REBUILDS]


def _rebuild(rebuild: Rebuild, since: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "from": rebuild.before,
        "to": rebuild.after,
        "nodes": rebuild.nodes,
        "time": since,
    }
    if rebuild.left:
        entry["left"] = rebuild.left
    if rebuild.chassis:
        entry["chassis"] = list(rebuild.chassis)
    return entry


def _fabric(health: Health, rebuilds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    fabric: dict[str, Any] = {
        "degradedNodes": health.count(State.DEGRADED),
        "unknownNodes": health.count(State.UNKNOWN),
        "splitDomains": len(health.fabric.splits),
        "smallDomains": len(health.fabric.small),
    }
    if health.fabric.splits:
        fabric["splits"] = [
            {"by": split.by, "name": split.name, "domains": split.domains, "nodes": split.nodes}
            for split in health.fabric.splits[:MOST_FINDINGS]
        ]
    if health.fabric.small:
        small = health.fabric.small[:MOST_FINDINGS]
        fabric["small"] = [
            {"name": domain.name, "gpus": domain.gpus, "usual": domain.usual} for domain in small
        ]
    if rebuilds:
        fabric["rebuilds"] = list(rebuilds)
    return fabric


def _published(resource: Published) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": resource.name,
        "inSync": resource.in_sync,
    }
    if resource.message:
        entry["message"] = resource.text
    return entry
