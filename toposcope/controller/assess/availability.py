"""Whether the required levels still exist on live nodes: the condition that everything else serves.

A level is unavailable only on positive evidence: the nodes are listed, some are selected, and none
of them has carried it for the grace period (or none does in a single pass).
Anything less leaves the verdict as it was.
"""

from collections.abc import Collection, Container, Mapping, Sequence
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
from toposcope.controller.memory import Memory
from toposcope.hierarchy.coverage import Coverage
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.registry import TRANSLATING


def _kept_by(system: Plugin) -> str:
    """Why the binding of a system keeps a level, and what comes of it."""
    return (
        f"kept in {system.title}'s binding, "
        f"because without it {system.title} drops the hard constraints of workloads; "
        f"until a node carries it, {system.scheduler} places no gang "
        "that asks this topology for any level"
    )


_KEPT: Final = f" ({'; '.join(_kept_by(system) for system in TRANSLATING)})"


@dataclass(frozen=True, slots=True)
class Availability:
    """The condition, and the unavailable domains, sorted."""

    condition: Condition
    unavailable: tuple[str, ...]
    """The required ones."""
    missed: tuple[str, ...] = ()
    """The preferred ones."""


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
        "No node is selected, so the levels are unknown",
    )


def judge(
    topology: Topology,
    coverage: Sequence[Coverage],
    memory: Memory,
    now: float,
    *,
    required: Collection[str],
    preferred: Collection[str] = (),
    retained: Container[str] = (),
) -> Availability:
    """Judge the required domains, which make the condition, and the preferred ones.

    At least one node is selected. The message adds that `retained` domains are kept in a binding.
    """
    wanted = sorted(set(required))
    optional = sorted(set(preferred))
    memory.unavailable.keep_only([*wanted, *optional])
    carried = _Carried.by(coverage)
    unavailable = _unavailable(
        topology,
        wanted,
        carried.domains,
        reported=unavailable_levels(topology.status),
        memory=memory,
        now=now,
    )
    missed = _unavailable(
        topology,
        optional,
        carried.domains,
        reported=reported_missed(topology.status),
        memory=memory,
        now=now,
    )
    if unavailable:
        condition = _unavailable_condition(unavailable, retained)
        return Availability(condition, unavailable, missed)
    waiting = [domain for domain in wanted if domain not in carried.usable]
    if waiting and _is_undecided(topology):
        unseen = [domain for domain in wanted if domain not in carried.domains]
        condition = _waiting(topology, waiting, unseen)
        return Availability(condition, (), missed)
    text = "All required topology levels are available in the cluster topology"
    condition = Condition(LEVELS_AVAILABLE, "True", "AllTopologyLevelsAvailable", text)
    return Availability(condition, (), missed)


@dataclass(frozen=True, slots=True)
class _Carried:
    """The domains that nodes carry, and those of them that a node which takes pods carries."""

    domains: frozenset[str]
    usable: frozenset[str]

    @classmethod
    def by(cls, coverage: Sequence[Coverage]) -> "_Carried":
        # A domain that is listed twice counts as it is listed last.
        by_domain = {cover.level.domain: cover for cover in coverage}
        domains = set()
        usable = set()
        for domain, cover in by_domain.items():
            if not cover.nodes:
                continue
            domains.add(domain)
            if cover.usable:
                usable.add(domain)
        return cls(frozenset(domains), frozenset(usable))


def _unavailable(
    topology: Topology,
    domains: Sequence[str],
    carried: Container[str],
    *,
    reported: Container[str],
    memory: Memory,
    now: float,
) -> tuple[str, ...]:
    """The domains that have been gone for the grace period, or are gone and were `reported` so."""
    grace = 0.0 if memory.is_single_look else topology.grace_seconds
    unavailable = []
    for domain in domains:
        is_gone = domain not in carried
        overdue = memory.unavailable.is_overdue(domain, now, grace, is_running=is_gone)
        # A restarted controller must not take a verdict back because it has no memory.
        if overdue or (is_gone and domain in reported):
            unavailable.append(domain)
    return tuple(unavailable)


def _is_undecided(topology: Topology) -> bool:
    """Whether the stored status has no verdict."""
    before = previous(topology.status, LEVELS_AVAILABLE)
    if before is None:
        return True
    return before.get("status") == "Unknown"


def _unavailable_condition(domains: Sequence[str], retained: Container[str]) -> Condition:
    sentences = []
    for domain in domains:
        kept = _KEPT if domain in retained else ""
        sentences.append(unavailable_message(domain) + kept)
    text = "; ".join(sentences)
    return Condition(LEVELS_AVAILABLE, "False", "TopologyLevelsUnavailable", text)


def _waiting(topology: Topology, waiting: Sequence[str], unseen: Sequence[str]) -> Condition:
    """Nodes are there, but none that takes pods has the levels in `waiting`.

    None at all has those in `unseen`.
    """
    if not unseen:
        names = ", ".join(map(repr, waiting))
        text = f"Waiting for a Ready, schedulable node with level {names}"
        return Condition(LEVELS_AVAILABLE, "Unknown", "NoUsableNodes", text)
    names = " or ".join(map(repr, unseen))
    grace = topology.spec.get("gracePeriod") or "10m"
    text = (
        f"No selected node has carried level {names} yet; "
        f"without one it counts as unavailable after gracePeriod ({grace})"
    )
    return Condition(LEVELS_AVAILABLE, "Unknown", "LevelsNotSeen", text)


def reported_missed(status: Mapping[str, Any]) -> frozenset[str]:
    """The preferred levels that a stored status reports as unavailable."""
    missed = set()
    for entry in status.get("preferredBy") or ():
        if not entry["available"]:
            missed.add(entry["domain"])
    return frozenset(missed)
