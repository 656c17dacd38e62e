"""Whether the required levels still exist on live nodes: the condition that everything else serves.

Pure.

A level is unavailable only on positive evidence: the nodes are listed, some are selected, and none
of them has carried it for the grace period (or none does, where nobody looks a second time).
Anything less leaves the verdict as it was.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.cluster_topology import Topology
from toposcope.api.conditions import (
    LEVELS_AVAILABLE,
    Condition,
    previous,
    unavailable_levels,
    unavailable_message,
)
from toposcope.hierarchy.coverage import Coverage
from toposcope.hierarchy.effective_levels import Absences

_DOMAIN: Final = "domain "
"""Prefix of required and preferred levels in `Absences`."""


_KEPT: Final = (
    " (kept in Grove's binding, because without it Grove drops the hard constraints of workloads; until a node carries "
    "it, KAI places no gang that asks this topology for any level)"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The condition, and the unavailable domains, sorted: the required ones, and the preferred ones."""

    condition: Condition
    unavailable: tuple[str, ...]
    missed: tuple[str, ...] = ()


def unsynced(why: str) -> Condition:
    """The nodes have not been listed yet."""
    text = f"The nodes of the cluster have not been listed yet: {why}"
    return Condition(LEVELS_AVAILABLE, "Unknown", "NodesNotSynced", text)


def no_nodes() -> Condition:
    """No node is selected."""
    return Condition(
        LEVELS_AVAILABLE,
        "Unknown",
        "NoNodes",
        "No node is selected; an empty cluster says nothing about its levels",
    )


def judge(
    topology: Topology,
    required: Iterable[str],
    coverage: Sequence[Coverage],
    absences: Absences,
    now: float,
    preferred: Iterable[str] = (),
    retained: Container[str] = (),
) -> Verdict:
    """Judge the required domains, which make the condition, and the preferred ones, over at least one selected node.

    `retained` ones are kept in Grove's binding, which the message adds.
    """
    by_domain = {cover.level.domain: cover for cover in coverage}
    grace = 0.0 if absences.single_look else topology.grace
    before = previous(topology.status, LEVELS_AVAILABLE)
    reported = unavailable_levels(before)

    def is_gone(domain: str) -> bool:
        cover = by_domain.get(domain)
        return cover is None or not cover.nodes

    def is_unavailable(domain: str, reported: Container[str]) -> bool:
        gone = is_gone(domain)
        overdue = absences.longer_than(
            topology.uid, _DOMAIN + domain, gone=gone, grace=grace, now=now
        )
        # A restarted controller must not take a verdict back because it has no memory.
        return overdue or (gone and domain in reported)

    wanted, optional = sorted(set(required)), sorted(set(preferred))
    absences.keep_only(topology.uid, _DOMAIN, [*wanted, *optional])
    unavailable = tuple(domain for domain in wanted if is_unavailable(domain, reported))
    reported_before = reported_missed(topology.status)
    missed = tuple(domain for domain in optional if is_unavailable(domain, reported_before))
    if unavailable:
        text = "; ".join(
            unavailable_message(domain) + _KEPT * (domain in retained) for domain in unavailable
        )
        return Verdict(
            Condition(LEVELS_AVAILABLE, "False", "TopologyLevelsUnavailable", text),
            unavailable,
            missed,
        )
    waiting = [domain for domain in wanted if is_gone(domain) or not by_domain[domain].usable]
    if waiting and (before is None or before.get("status") == "Unknown"):
        return Verdict(_waiting(topology, waiting, [*filter(is_gone, waiting)]), (), missed)
    words = "All required topology levels are available in the cluster topology"
    return Verdict(
        Condition(LEVELS_AVAILABLE, "True", "AllTopologyLevelsAvailable", words), (), missed
    )


def _waiting(topology: Topology, waiting: Sequence[str], unseen: Sequence[str]) -> Condition:
    """Nodes are there, and the levels in `waiting` on none that takes pods; those in `unseen` on none at all."""
    if not unseen:
        text = f"Waiting for a Ready, schedulable node with level {', '.join(map(repr, waiting))}"
        return Condition(LEVELS_AVAILABLE, "Unknown", "NoUsableNodes", text)
    grace = topology.spec.get("gracePeriod") or "10m"
    text = (
        f"No selected node has carried level {' or '.join(map(repr, unseen))} yet; a level that none carries within "
        f"gracePeriod ({grace}) counts as unavailable"
    )
    return Condition(LEVELS_AVAILABLE, "Unknown", "LevelsNotSeen", text)


def reported_missed(status: Mapping[str, Any]) -> frozenset[str]:
    """The preferred levels that a stored status reports as unavailable."""
    return frozenset(
        entry["domain"] for entry in status.get("preferredBy") or () if not entry["available"]
    )
