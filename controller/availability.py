"""Whether the levels that are required still exist on live nodes: the condition everything else is for.

A level is unavailable only on positive evidence: the nodes are listed, some are selected, and none of them has
carried it for the grace period. Everything short of that keeps the verdict that stood.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller.conditions import LEVELS_AVAILABLE, Condition, previous
from controller.effective import Absences
from controller.spec import Topology
from topology.hierarchy import Coverage

_SAID: Final = re.compile(r"Topology level '([^']+)' is no longer available")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The condition, and the required domains that are unavailable, sorted."""

    condition: Condition
    unavailable: tuple[str, ...]


def unsynced() -> Condition:
    """Nothing can be said: the nodes have not been listed yet."""
    return Condition(LEVELS_AVAILABLE, "Unknown", "NodesNotSynced", "The nodes of the cluster have not been listed yet")


def no_nodes() -> Condition:
    """Nothing can be said: there is no node to look at."""
    return Condition(
        LEVELS_AVAILABLE, "Unknown", "NoNodes", "No node is selected; an empty cluster says nothing about its levels"
    )


def judge(
    topology: Topology, required: Iterable[str], coverage: Sequence[Coverage], absences: Absences, now: float
) -> Verdict:
    """Judge the required domains over at least one selected node."""
    by_domain = {cover.level.domain: cover for cover in coverage}
    before = previous(topology.status, LEVELS_AVAILABLE)
    said = said_unavailable(before)
    unavailable: list[str] = []
    waiting: list[str] = []
    for domain in sorted(set(required)):
        cover = by_domain.get(domain)
        gone = cover is None or not cover.nodes
        overdue = absences.longer_than(topology.uid, f"domain {domain}", gone=gone, grace=topology.grace, now=now)
        # A restarted controller must not take a verdict back for lack of memory.
        if overdue or (gone and domain in said):
            unavailable.append(domain)
        elif gone or (cover and not cover.usable):
            waiting.append(domain)
    if unavailable:
        return Verdict(
            Condition(LEVELS_AVAILABLE, "False", "TopologyLevelsUnavailable", "; ".join(map(_sentence, unavailable))),
            tuple(unavailable),
        )
    if waiting and (before is None or before.get("status") == "Unknown"):
        text = f"Waiting for a Ready, schedulable node with level {', '.join(map(repr, waiting))}"
        return Verdict(Condition(LEVELS_AVAILABLE, "Unknown", "NoNodes", text), ())
    return Verdict(
        Condition(
            LEVELS_AVAILABLE,
            "True",
            "AllTopologyLevelsAvailable",
            "All required topology levels are available in the cluster topology",
        ),
        (),
    )


def _sentence(domain: str) -> str:
    return f"Topology level '{domain}' is no longer available in the cluster topology"


def said_unavailable(condition: Mapping[str, Any] | None) -> frozenset[str]:
    """The domains that a condition, as the API server holds it, calls unavailable."""
    if condition is None or condition.get("status") != "False":
        return frozenset()
    return frozenset(_SAID.findall(str(condition.get("message"))))
