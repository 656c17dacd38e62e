"""Which levels a topology has just now: slow to lose one, quick to name what is missing.

A level enters an inferred topology when every selected node carries it, and stays as long as any node does: a node
that joined a minute before its labels must not take the rack level from every running workload. It leaves when no
node has carried it for the grace period. No nodes, or nodes not yet listed, are no evidence of anything.
"""

from dataclasses import dataclass

from controller.spec import Topology
from topology.catalogue import DOMAINS, KEYS, infer_levels
from topology.hierarchy import fully_covered
from topology.levels import Level
from topology.table import Table


class Absences:
    """Since when each thing has been gone: the controller's only memory, and losing it only delays a verdict."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def longer_than(self, owner: str, thing: str, *, gone: bool, grace: float, now: float) -> bool:
        """Note whether `thing` of `owner` is gone at `now`; whether it has been for over `grace` (both in seconds)."""
        if not gone:
            self._since.pop((owner, thing), None)
            return False
        return now - self._since.setdefault((owner, thing), now) > grace

    def next_deadline(self, owner: str, grace: float, now: float) -> float | None:
        """Seconds until the next absence of `owner` outlasts `grace`; None when none will."""
        waits = [left for (who, _), since in self._since.items() if who == owner and (left := since + grace - now) >= 0]
        return min(waits, default=None)

    def forget(self, owner: str) -> None:
        """Drop everything about an owner that no longer exists."""
        self._since = {key: since for key, since in self._since.items() if key[0] != owner}


@dataclass(frozen=True, slots=True)
class Effective:
    """The levels of a topology, and those of them that published resources must no longer have."""

    levels: tuple[Level, ...]
    expired: frozenset[Level]
    """Gone from all nodes for longer than the grace period."""

    @property
    def path(self) -> str:
        """The levels in one line, for people."""
        return " > ".join(level.domain for level in self.levels)


def said_expired(topology: Topology) -> frozenset[Level]:
    """The levels that the topology's status, as the API server holds it, calls expired."""
    entries = topology.status.get("levels") or ()
    return frozenset(Level(entry["domain"], entry["key"]) for entry in entries if entry.get("expired"))


def effective_levels(topology: Topology, nodes: Table, absences: Absences, now: float) -> Effective:
    """The levels in effect over the selected `nodes` (at least one: without nodes there is no evidence)."""
    before = said_expired(topology)

    def expired(level: Level) -> bool:
        gone = not nodes.column(level.key).different
        overdue = absences.longer_than(topology.uid, level.key, gone=gone, grace=topology.grace, now=now)
        # A restarted controller must not give a level back for lack of memory, only to take it away again.
        return overdue or (gone and level in before)

    if topology.levels is not None:
        return Effective(topology.levels, frozenset(level for level in topology.levels if expired(level)))
    known = {
        level.domain: level
        for entry in topology.status.get("levels") or ()
        if (level := Level(entry["domain"], entry["key"])).domain in DOMAINS
    }
    kept = {level.domain: level for level in known.values() if topology.retain or not expired(level)}
    found = {level.domain: level for level in infer_levels(fully_covered(KEYS, nodes))} | kept
    levels = tuple(found[domain] for domain in DOMAINS if domain in found)
    return Effective(levels, frozenset(level for level in levels if topology.retain and expired(level)))
