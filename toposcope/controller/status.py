"""The status of a ClusterTopology: counts and a few names, so that its size does not grow with the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import PUBLISHED, Condition, ready, stamped
from toposcope.controller.assess.assessment import Assessment
from toposcope.controller.assess.diagnostics import Hint
from toposcope.controller.assess.health import MOST_FINDINGS, DegradedLevel, Health
from toposcope.controller.assess.selection import Overlaps, disjoint_condition
from toposcope.controller.publishers.dry_run import DRY_RUN
from toposcope.controller.requirements.resolve import Askers, Resolved
from toposcope.controller.segments import Child, segments_condition, segments_status
from toposcope.controller.status_size import fitted
from toposcope.integrations.framework.published import Published
from toposcope.topology.hardware import State
from toposcope.topology.hierarchy import Coverage
from toposcope.topology.levels import Level

_MOST: Final = 64
"""As in the CRD."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Workloads by level: those that require it, and those that only prefer it. Such a level is used, not required."""

    required: Mapping[str, int] = field(default_factory=dict)
    preferred: Mapping[str, int] = field(default_factory=dict)


def demand_of(asked: Resolved, status: Mapping[str, Any], *, listed: bool) -> Demand:
    """What is asked of a topology with this status; levels that it lacks are included.

    While not all workloads are `listed`, what was asked before is asked still: one that is not listed yet has not
    stopped asking.
    """
    required = _counts(asked.required, asked.missing)
    preferred = _counts(asked.preferred)
    if not listed:
        required = _before(status.get("requiredBy")) | required
        preferred = _before(status.get("preferredBy")) | preferred
    return Demand(_bounded(required), _bounded(preferred))


def _counts(*askers: Askers) -> dict[str, int]:
    return {level: len(workloads) for asker in askers for level, workloads in asker.items()}


def _before(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    return {entry["domain"]: entry["workloads"] for entry in entries or ()}


def _bounded(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items())[:_MOST])


INVALID: Final = "InvalidSpec"
_NO_DEMAND: Final = Demand()
_MOST_DEGRADED: Final = 3
_MOST_PROBLEMS: Final = 10
_LONGEST_NAME: Final = 128
"""Both as in the CRD: domains whose levels do not nest are named by their whole path."""


def published_condition(topology: Topology, published: Sequence[Published], *, anything_served: bool) -> Condition:
    """What the `Published` condition says."""
    if topology.problems:
        shown, more = topology.problems[:_MOST_PROBLEMS], len(topology.problems) - _MOST_PROBLEMS
        text = "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
        return Condition(PUBLISHED, "False", INVALID, text)
    bad = [each for each in published if not each.in_sync and each.reason != DRY_RUN]
    if bad:
        text = "; ".join(f"{each.handle}: {each.message}" for each in bad)
        return Condition(PUBLISHED, "False", bad[0].reason, text)
    if published:
        return _published_as_wanted(published)
    if set(topology.publish.values()) == {"Never"}:
        return Condition(PUBLISHED, "True", "PublishingOff", "spec.publish says Never for every target")
    if anything_served:
        return Condition(PUBLISHED, "Unknown", "NoLevels", "There is no level to publish yet")
    text = "This cluster serves no resource to publish; install Grove, KAI or Kueue, or set spec.publish to Never"
    return Condition(PUBLISHED, "False", "NotServed", text)


def _published_as_wanted(published: Sequence[Published]) -> Condition:
    rehearsed = [each for each in published if each.reason == DRY_RUN]
    if rehearsed:  # as an admin wants it: no failure
        text = "; ".join(f"{each.handle} {each.message.splitlines()[0].rstrip(':')}" for each in rehearsed)
        return Condition(PUBLISHED, "True", DRY_RUN, f"Dry run, nothing of this is written: {text}")
    names = ", ".join(each.handle for each in published)
    return Condition(PUBLISHED, "True", "InSync", f"In sync: {names}")


def conditions_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    *,
    anything_served: bool,
    shared: Overlaps | None = None,
    children: Sequence[Child] = (),
) -> tuple[Condition, ...]:
    """All conditions, `Ready` last; `shared` are the topologies with which this one shares nodes."""
    divided = segments_condition(topology, assessment.segments, children)
    conditions = (
        *assessment.conditions,
        *([divided] if divided else []),
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
    children: Sequence[Child] = (),
) -> dict[str, Any]:
    """The whole status, as it is applied."""
    status: dict[str, Any] = {
        "observedGeneration": topology.generation,
        "nodes": assessment.nodes,
        "gpus": assessment.gpus,
        "levelPath": assessment.effective.path,
        "levels": _levels(assessment),
        "conditions": stamped(conditions, topology.status, topology.generation, now),
    }
    if assessment.segments:
        status |= segments_status(topology, assessment.segments, children)
    if assessment.hints:
        status["hints"] = [_hint(hint) for hint in assessment.hints]
    if assessment.nodes:
        status["fabric"] = _fabric(assessment.health)
    if demand.required:
        status["requiredBy"] = [{"domain": each, "workloads": count} for each, count in demand.required.items()]
    if demand.preferred:
        status["preferredBy"] = [
            {"domain": each, "workloads": count, "available": each not in assessment.missed}
            for each, count in demand.preferred.items()
        ]
    if published:
        status["published"] = [_published(each) for each in published]
    return fitted(status)


def _levels(assessment: Assessment) -> list[dict[str, Any]]:
    """Each domain once: a spec that names one twice is reported, and must not make its status one that is refused."""
    once = {coverage.level.domain: coverage for coverage in reversed(assessment.coverage)}
    degraded = {level.level: level for level in assessment.health.levels}
    return [_level(coverage, assessment, degraded) for coverage in reversed(once.values())]


def _level(coverage: Coverage, assessment: Assessment, degraded: Mapping[Level, DegradedLevel]) -> dict[str, Any]:
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
    if coverage.missing_nodes:
        entry["missingNodes"] = list(coverage.missing_nodes)
    bad = degraded.get(coverage.level)
    if bad:
        entry["degradedDomains"] = bad.domains
        if bad.worst:
            entry["degraded"] = [
                {"name": each.name[-_LONGEST_NAME:], "nodes": each.degraded} for each in bad.worst[:_MOST_DEGRADED]
            ]
    return entry


def _hint(hint: Hint) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": hint.key, "reason": hint.reason, "nodes": hint.nodes, "message": hint.message}
    return entry | ({"domain": hint.domain} if hint.domain else {})


def _fabric(health: Health) -> dict[str, Any]:
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
        fabric["small"] = [
            {"name": each.name, "gpus": each.gpus, "usual": each.usual} for each in health.fabric.small[:MOST_FINDINGS]
        ]
    return fabric


def _published(each: Published) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "apiVersion": each.api_version,
        "kind": each.kind,
        "name": each.name,
        "inSync": each.in_sync,
    }
    if each.message:
        entry["message"] = each.message
    return entry
