"""The status of a ClusterTopology.

Counts and a few names, so that its size does not grow with the cluster.
"""

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
    STATUS_REFUSED,
    UNAVAILABLE_LEVELS,
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
from toposcope.controller.assess.rebuilds import MOST_REBUILDS, Rebuild
from toposcope.controller.assess.selection import Overlaps, disjoint_condition
from toposcope.controller.publishing.dry_run import DRY_RUN
from toposcope.controller.requirements import Resolved, WorkloadsByLevel
from toposcope.controller.segments import SegmentTopology, segments_condition, segments_status
from toposcope.controller.status_size import fit_to_size
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import Coverage, once_by_domain
from toposcope.integrations.framework.published import Published
from toposcope.integrations.registry import PUBLISHING_TITLES
from toposcope.kube.errors import ApiError
from toposcope.text import enumerated

_MOST_INT32: Final = 2**31 - 1
_MOST_ENTRIES: Final = 64
"""As in the CRD."""


INVALID: Final = "InvalidSpec"
TOO_MANY: Final = "TooManyTopologies"
_MOST_DEGRADED_DOMAINS: Final = 3
_MOST_PROBLEMS: Final = 10
_MOST_NAME_CHARACTERS: Final = 128
"""Both as in the CRD: domains whose levels do not nest are named by their whole path."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Number of workloads by level: those that require it, and those that only prefer it."""

    required: Mapping[str, int] = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)


_NO_DEMAND: Final = Demand()


def demand_of(requirements: Resolved, status: Mapping[str, Any], *, is_listed: bool) -> Demand:
    """The demand on a topology, missing levels included.

    Until all workloads are listed (`is_listed`), the status's own stands.
    """
    required = _counts(requirements.required, requirements.missing)
    preferred = _counts(requirements.preferred)
    if not is_listed:
        required_before = _before(status, "requiredBy")
        preferred_before = _before(status, "preferredBy")
        required = required_before | required
        preferred = preferred_before | preferred
    return Demand(
        required=_bounded(required),
        preferred=_bounded(preferred),
    )


def _counts(*askers: WorkloadsByLevel) -> dict[str, int]:
    counts = {}
    for asker in askers:
        for level, workloads in asker.items():
            counts[level] = len(workloads)
    return counts


def _before(status: Mapping[str, Any], field_name: str) -> dict[str, int]:
    entries = status.get(field_name) or ()
    return {entry["domain"]: entry["workloads"] for entry in entries}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items())[:_MOST_ENTRIES])


def published_condition(
    topology: Topology, published: Sequence[Published], *, is_any_served: bool
) -> Condition:
    """The `Published` condition."""
    if topology.problems:
        return Condition(PUBLISHED, "False", INVALID, _problems(topology.problems))
    failures = []
    reason = ""
    for resource in published:
        if not resource.is_in_sync and resource.reason != DRY_RUN:
            reason = reason or resource.reason
            failures.append(f"{resource.handle}: {resource.text}")
    if failures:
        return Condition(PUBLISHED, "False", reason, "; ".join(failures))
    if published:
        return _in_sync(published)
    if set(topology.publish.values()) == {"Never"}:
        text = "spec.publish is Never for every target"
        return Condition(PUBLISHED, "True", "PublishingOff", text)
    if is_any_served:
        return Condition(
            PUBLISHED, "Unknown", "NoLevels", "No level is in effect yet, so nothing is published"
        )
    systems = enumerated(PUBLISHING_TITLES, "or")
    text = (
        f"The cluster has no CRD of {systems} that spec.publish allows, so nothing is published; "
        "install the scheduler first"
    )
    return Condition(PUBLISHED, "True", "NothingServed", text)


def _problems(problems: Sequence[str]) -> str:
    texts = list(problems[:_MOST_PROBLEMS])
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        texts.append(f"and {more} more")
    return "; ".join(texts)


def _in_sync(published: Sequence[Published]) -> Condition:
    handles, dry_runs = [], []
    for resource in published:
        handles.append(resource.handle)
        if resource.reason == DRY_RUN:
            dry_runs.append(_dry_run(resource))
    if dry_runs:  # as the spec says: no failure
        text = "Dry run, nothing is written: " + "; ".join(dry_runs)
        return Condition(PUBLISHED, "True", DRY_RUN, text)
    text = "In sync: " + ", ".join(handles)
    return Condition(PUBLISHED, "True", IN_SYNC, text)


def _dry_run(resource: Published) -> str:
    first_line = resource.message.splitlines()[0]
    return f"{resource.handle} {first_line.rstrip(':')}"


def conditions_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    *,
    is_any_served: bool,
    shared: Overlaps | None = None,
    children: Sequence[SegmentTopology] = (),
    on_nodes: Sequence[Condition] = (),
) -> tuple[Condition, ...]:
    """All conditions, `Ready` last.

    `shared` are the topologies that share nodes with this one, `on_nodes` are about what agents
    write to Nodes.
    """
    conditions = list(assessment.conditions)
    divided = segments_condition(topology, assessment.segments, children)
    if divided:
        conditions.append(divided)
    conditions += on_nodes
    conditions.append(disjoint_condition(shared or {}, assessment.nodes))
    conditions.append(published_condition(topology, published, is_any_served=is_any_served))
    return (*conditions, ready(conditions))


def status_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    now: datetime,
    conditions: Sequence[Condition],
    *,
    demand: Demand = _NO_DEMAND,
    children: Sequence[SegmentTopology] = (),
    told: Container[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The whole status, as it is applied, within its size limit.

    `told`: rebuilds of fabrics that an Event has told, by their cluster UUIDs before and after.
    """
    status: dict[str, Any] = {
        "observedGeneration": topology.generation,
        "nodes": assessment.nodes,
        "gpus": assessment.gpus,
        "leftOutNodes": assessment.left_out.nodes,
        "leftOutGpus": assessment.left_out.gpus,
        "levelPath": assessment.effective.path,
        "levels": _levels(assessment),
        "conditions": stamped(conditions, topology.status, topology.generation, now),
    }
    if assessment.segments:
        status |= segments_status(topology, assessment.segments, children)
    if assessment.diagnostics:
        status["hints"] = [_hint(diagnostic) for diagnostic in assessment.diagnostics]
    if assessment.nodes:
        rebuilds = _rebuilds(topology, assessment, told, now)
        status["fabric"] = _fabric(assessment.health, rebuilds)
    if assessment.rails.nodes:
        status["rails"] = rails_status(assessment.rails)
    status |= _asked_for(assessment, demand)
    if published:
        status["published"] = [_published(resource) for resource in published]
    bounded: dict[str, Any] = _within_int32(fit_to_size(status))
    return bounded | {"observedGeneration": topology.generation}


def _asked_for(assessment: Assessment, demand: Demand) -> dict[str, Any]:
    """The fields about levels that workloads or the spec ask for."""
    fields: dict[str, Any] = {}
    if assessment.unavailable:
        unavailable = [{"domain": domain} for domain in assessment.unavailable]
        fields[UNAVAILABLE_LEVELS] = unavailable
    if demand.required:
        required = []
        for domain, workloads in demand.required.items():
            required.append({"domain": domain, "workloads": workloads})
        fields["requiredBy"] = required
    if demand.preferred:
        preferred = []
        for domain, workloads in demand.preferred.items():
            available = domain not in assessment.missed
            entry = {"domain": domain, "workloads": workloads, "available": available}
            preferred.append(entry)
        fields["preferredBy"] = preferred
    return fields


def _within_int32(value: Any) -> Any:
    """The value with each number in it cut to what the CRD takes (`format: int32`).

    Sums depend on what nodes claim.
    """
    if isinstance(value, dict):
        return {name: _within_int32(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_within_int32(entry) for entry in value]
    if isinstance(value, int):
        return min(value, _MOST_INT32)
    return value


def left_out(topology: Topology, most: int, now: datetime) -> dict[str, Any]:
    """The status of a ClusterTopology beyond the `most` that are kept up to date."""
    text = (
        f"Toposcope keeps only the {most} oldest ClusterTopologies up to date, "
        "and this one is newer; what it published stays unchanged; "
        "delete ClusterTopologies that are not needed"
    )
    types = [LEVELS_AVAILABLE]
    for stored in topology.status.get("conditions") or ():
        if stored["type"] not in (*types, READY):
            types.append(stored["type"])
    conditions = [Condition(kind, "Unknown", TOO_MANY, text) for kind in types]
    conditions.append(Condition(READY, "False", TOO_MANY, text))
    stamps = stamped(conditions, topology.status, topology.generation, now)
    return {**topology.status, "observedGeneration": topology.generation, "conditions": stamps}


def refused_summary(refusal: ApiError) -> Condition:
    """The `Ready` of a topology whose status the API server refuses."""
    text = (
        "The API server rejects the status, so all of it except the conditions is stale; "
        "apply the CRD of this version (manifests/crds); "
        f"if that does not help, report a bug with this message: {refusal.message}"
    )
    return Condition(READY, "False", STATUS_REFUSED, text)


def old_schema_summary(problem: str) -> Condition:
    """The `Ready` of a topology whose status is not written whole.

    The CRD is older than the controller.
    """
    return Condition(READY, "False", "OldSchema", problem)


def reduced(
    topology: Topology, refused: Mapping[str, Any], refusal: ApiError, now: datetime
) -> dict[str, Any]:
    """The status that was accepted before with the conditions of one that was refused.

    Only conditions, because a number is what is refused; the rest stays, because the next pass
    reads the levels back.
    """
    conditions = []
    for condition in refused["conditions"]:
        if condition["type"] != READY:
            conditions.append(condition)
    summary = refused_summary(refusal)
    conditions += stamped([summary], topology.status, topology.generation, now)
    status: dict[str, Any] = {**topology.status, "conditions": conditions}
    # What the condition about them says is not read back.
    status.pop(UNAVAILABLE_LEVELS, None)
    if UNAVAILABLE_LEVELS in refused:
        status[UNAVAILABLE_LEVELS] = refused[UNAVAILABLE_LEVELS]
    return status


def _levels(assessment: Assessment) -> list[dict[str, Any]]:
    """Each domain once: the API server refuses a status that names one twice, as a spec may."""
    degraded = {level.level: level for level in assessment.health.levels}
    entries = []
    for coverage in once_by_domain(assessment.coverage):
        entries.append(_level(coverage, assessment, degraded))
    return entries


def _level(
    coverage: Coverage, assessment: Assessment, degraded: Mapping[Level, DegradedLevel]
) -> dict[str, Any]:
    level = coverage.level
    entry: dict[str, Any] = {
        "domain": level.domain,
        "key": level.key,
        "domains": coverage.domains,
        "nodes": coverage.nodes,
        "missing": coverage.missing,
        "available": coverage.usable > 0 and level.domain not in assessment.unavailable,
    }
    if level in assessment.effective.expired:
        entry["expired"] = True
    if level in assessment.effective.retained:
        entry["retained"] = True
    if coverage.missing_nodes:
        entry["missingNodes"] = list(coverage.missing_nodes)
    if level in degraded:
        entry |= _degraded(degraded[level])
    return entry


def _degraded(level: DegradedLevel) -> dict[str, Any]:
    """How many domains of a level have degraded nodes, and the worst of them."""
    fields: dict[str, Any] = {"degradedDomains": level.domains}
    worst = []
    for domain in level.worst[:_MOST_DEGRADED_DOMAINS]:
        worst.append({"name": domain.name[-_MOST_NAME_CHARACTERS:], "nodes": domain.degraded})
    if worst:
        fields["degraded"] = worst
    return fields


def _hint(diagnostic: Diagnostic) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": diagnostic.key,
        "reason": diagnostic.reason,
        "nodes": diagnostic.nodes,
        "message": diagnostic.message,
    }
    if diagnostic.domain:
        entry["domain"] = diagnostic.domain
    return entry


def fresh_rebuilds(
    topology: Topology, assessment: Assessment, told: Container[tuple[str, str]] = ()
) -> tuple[Rebuild, ...]:
    """The rebuilds that are over, and not known yet.

    They are neither in the stored status nor among those that were `told`.
    """
    stored = set()
    for entry in rebuilds_before(topology.status):
        stored.add((entry["from"], entry["to"]))
    fresh = []
    for rebuild in assessment.health.fabric.rebuilds.over:
        if rebuild.pair not in stored and rebuild.pair not in told:
            fresh.append(rebuild)
    return tuple(fresh)


def rebuilds_before(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The rebuilds of fabrics that a status lists."""
    fabric = status.get("fabric") or {}
    return fabric.get("rebuilds") or ()


def _rebuilds(
    topology: Topology, assessment: Assessment, told: Container[tuple[str, str]], now: datetime
) -> list[dict[str, Any]]:
    """The latest rebuilds, newest first.

    One leaves the list when no selected node is in its new fabric any more.
    """
    entries = []
    for rebuild in fresh_rebuilds(topology, assessment, told):
        entries.append(_rebuild(rebuild, utc(now)))
    in_use = assessment.fabrics()
    rebuilds = assessment.health.fabric.rebuilds
    over = {rebuild.pair: rebuild for rebuild in rebuilds.over}
    for entry in rebuilds_before(topology.status):
        pair = (entry["from"], entry["to"])
        if pair in over:
            entries.append(_rebuild(over[pair], entry["time"]))
        elif entry["to"] in in_use:
            entries.append(dict(entry))
    return entries[:MOST_REBUILDS]


def _rebuild(rebuild: Rebuild, since: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "from": rebuild.before,
        "to": rebuild.after,
        "nodes": rebuild.nodes,
        "time": since,
    }
    if rebuild.nodes_left:
        entry["left"] = rebuild.nodes_left
    if rebuild.chassis:
        entry["chassis"] = list(rebuild.chassis)
    return entry


def _fabric(health: Health, rebuilds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    splits, small = [], []
    for split in health.fabric.splits[:MOST_FINDINGS]:
        entry = {
            "by": split.by,
            "name": split.name,
            "domains": split.domains,
            "nodes": split.nodes,
        }
        splits.append(entry)
    for domain in health.fabric.small[:MOST_FINDINGS]:
        small.append({"name": domain.name, "gpus": domain.gpus, "usual": domain.usual})
    fabric: dict[str, Any] = {
        "degradedNodes": health.count(State.DEGRADED),
        "unknownNodes": health.count(State.UNKNOWN),
        "splitDomains": len(health.fabric.splits),
        "smallDomains": len(health.fabric.small),
    }
    if splits:
        fabric["splits"] = splits
    if small:
        fabric["small"] = small
    if rebuilds:
        fabric["rebuilds"] = list(rebuilds)
    return fabric


def _published(resource: Published) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": resource.name,
        "inSync": resource.is_in_sync,
    }
    if resource.message:
        entry["message"] = resource.text
    return entry
