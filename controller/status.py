"""The status of a ClusterTopology: counts and a few names, so that its size does not grow with the cluster."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from controller.assess import Assessment
from controller.children import Child
from controller.conditions import PUBLISHED, Condition, ready, stamped
from controller.demand import Demand
from controller.hints import Hint
from controller.publishers.target import Published
from controller.segment_status import segments_condition, segments_status
from controller.spec import Topology
from topology.hierarchy import Coverage

INVALID: Final = "InvalidSpec"
_NO_DEMAND: Final = Demand()


def published_condition(topology: Topology, published: Sequence[Published], *, anything_served: bool) -> Condition:
    """What the `Published` condition says."""
    if topology.problems:
        return Condition(PUBLISHED, "False", INVALID, "; ".join(topology.problems))
    bad = [each for each in published if not each.in_sync]
    if bad:
        text = "; ".join(f"{each.handle}: {each.message}" for each in bad)
        return Condition(PUBLISHED, "False", bad[0].reason, text)
    if published:
        names = ", ".join(each.handle for each in published)
        return Condition(PUBLISHED, "True", "InSync", f"In sync: {names}")
    if set(topology.publish.values()) == {"Never"}:
        return Condition(PUBLISHED, "True", "PublishingOff", "spec.publish says Never for every target")
    if anything_served:
        return Condition(PUBLISHED, "Unknown", "NoLevels", "There is no level to publish yet")
    text = "This cluster serves no resource to publish; install Grove, KAI or Kueue, or set spec.publish to Never"
    return Condition(PUBLISHED, "False", "NotServed", text)


def status_of(
    topology: Topology,
    assessment: Assessment,
    published: Sequence[Published],
    now: datetime,
    *,
    anything_served: bool,
    demand: Demand = _NO_DEMAND,
    children: Sequence[Child] = (),
) -> dict[str, Any]:
    """The whole status, as it is applied."""
    divided = segments_condition(topology, assessment.segments, children)
    conditions = (
        *assessment.conditions,
        *([divided] if divided else []),
        published_condition(topology, published, anything_served=anything_served),
    )
    status: dict[str, Any] = {
        "observedGeneration": topology.generation,
        "nodes": assessment.nodes,
        "gpus": assessment.gpus,
        "levelPath": assessment.effective.path,
        "levels": _levels(assessment),
        "conditions": stamped((*conditions, ready(conditions)), topology.status, topology.generation, now),
    }
    if assessment.segments:
        status |= segments_status(topology, assessment.segments, children)
    if assessment.hints:
        status["hints"] = [_hint(each) for each in assessment.hints]
    if demand.required:
        status["requiredBy"] = [{"domain": each, "workloads": count} for each, count in demand.required.items()]
    if demand.preferred:
        status["preferredBy"] = [
            {"domain": each, "workloads": count, "available": each not in assessment.missed}
            for each, count in demand.preferred.items()
        ]
    if published:
        status["published"] = [_published(each) for each in published]
    return status


def _levels(assessment: Assessment) -> list[dict[str, Any]]:
    """Each domain once: a spec that names one twice is reported, and must not make its status one that is refused."""
    once = {coverage.level.domain: coverage for coverage in reversed(assessment.coverage)}
    return [_level(coverage, assessment) for coverage in reversed(once.values())]


def _level(coverage: Coverage, assessment: Assessment) -> dict[str, Any]:
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
    return entry


def _hint(hint: Hint) -> dict[str, Any]:
    entry: dict[str, Any] = {"key": hint.key, "reason": hint.reason, "nodes": hint.nodes, "message": hint.message}
    return entry | ({"domain": hint.domain} if hint.domain else {})


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
