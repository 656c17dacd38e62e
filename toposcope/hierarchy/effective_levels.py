"""The effective levels of a topology: slow to lose one, quick to name what is missing.

An inferred topology gains a level when nearly all selected nodes carry it
(`spec.minCoveragePercent`), and keeps it as long as any node does: a node that joined a minute
before its labels must not take the rack level from every running workload. It loses the level when
no node has carried it, or the catalogue has not known it, for the grace period. No nodes, or nodes
not yet listed, are no evidence.

Grove drops the hard constraints of existing PodGangs as soon as its binding lacks their level
(operator, main of August 2026): their pods land anywhere and stay there. So its binding keeps an
expired level for as long as workloads bound to it require the level, and for the grace period after
that.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from toposcope.api.cluster_topology import USUAL_COVERAGE, Topology
from toposcope.api.levels import MAX_LEVELS, Level
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.coverage import lies_around, nested, widely_carried
from toposcope.hierarchy.table import Table

_ORDER: Final = "order of "
_LEVEL: Final = "level "
UNNEEDED: Final = "unneeded "
"""Prefixes of levels in `Absences`: whose place is another one by the labels, that no node
carries, and retained ones that no workload requires any more."""


class Absences:
    """Since when each thing has been gone.

    The controller has no other memory, and losing it only delays a verdict.

    With `single_look` no other look follows, so that a required level which is gone now counts as
    gone.
    """

    def __init__(self, *, single_look: bool = False) -> None:
        self.single_look = single_look
        self._since: dict[tuple[str, str], float] = {}

    def longer_than(self, owner: str, thing: str, *, gone: bool, grace: float, now: float) -> bool:
        """Note whether `thing` of `owner` is gone at `now`; whether it is for over `grace` seconds (0: at all)."""
        if not gone:
            self._since.pop((owner, thing), None)
            return False
        return now - self._since.setdefault((owner, thing), now) > grace or not grace

    def next_deadline(self, graces: Mapping[str, float], now: float) -> float | None:
        """Seconds until the next absence outlasts the grace period of its owner in `graces`; None when none will."""
        ends = (
            since + graces[owner] - now
            for (owner, _), since in self._since.items()
            if owner in graces
        )
        return min((left for left in ends if left >= 0), default=None)

    def keep_only(self, owner: str, prefix: str, things: Iterable[str]) -> None:
        """Forget an owner's things that begin with `prefix`, except these (named without it)."""
        if not self._since:
            return
        kept = {prefix + thing for thing in things}
        self._since = {
            key: since
            for key, since in self._since.items()
            if key[0] != owner or not key[1].startswith(prefix) or key[1] in kept
        }

    def forget(self, owner: str, but: tuple[str, ...] = ()) -> None:
        """Forget an owner, but for its things that begin with one of `but`."""
        self._since = {
            (whose, thing): since
            for (whose, thing), since in self._since.items()
            if whose != owner or thing.startswith(but)
        }


@dataclass(frozen=True, slots=True)
class EffectiveLevels:
    """The levels of a topology, and which of them published resources must no longer have."""

    levels: tuple[Level, ...]
    expired: frozenset[Level]
    """Gone from all nodes for longer than the grace period."""
    retained: frozenset[Level] = frozenset()
    """Expired ones that Grove's binding keeps for workloads."""

    @property
    def path(self) -> str:
        """The levels in one line, for people."""
        return " > ".join(level.domain for level in self.levels)


def reported(topology: Topology) -> EffectiveLevels:
    """The levels as the stored status, or the spec, has them."""
    entries = topology.status.get("levels") or ()
    levels = {
        flag: [Level(e["domain"], e["key"]) for e in entries if e.get(flag)]
        for flag in ("expired", "retained")
    }
    return EffectiveLevels(
        topology.last_levels, frozenset(levels["expired"]), frozenset(levels["retained"])
    )


def inferred_levels(
    topology: Topology | None, nodes: Table, catalogue: Catalogue
) -> tuple[Level, ...]:
    """The levels that nearly all `nodes` carry; without a topology by the default share."""
    percent = topology.min_coverage if topology else USUAL_COVERAGE
    levels = catalogue.infer(widely_carried(catalogue.level_keys, nodes, percent))
    return nested(levels, lambda level, rack, above: lies_around(level, rack, above, nodes) is True)


def effective_levels(
    topology: Topology,
    nodes: Table,
    absences: Absences,
    now: float,
    catalogue: Catalogue = BUILT_IN,
    bound: Container[str] | None = (),
) -> EffectiveLevels:
    """The effective levels over the selected `nodes` (at least one: without nodes there is no evidence).

    `bound` are the domains that workloads require through Grove's binding. None: that is not known, so the binding
    keeps what it has.
    """
    last = reported(topology)
    before = topology.levels if topology.levels is not None else _before(topology, catalogue)
    absences.keep_only(topology.uid, _LEVEL, [level.key for level in before])

    # With Retain the binding had all levels, also those that its status says have expired.
    other_spec = topology.status.get("observedGeneration") != topology.generation
    listed = catalogue.level_keys if topology.levels is None else [level.key for level in before]

    def expired(level: Level) -> bool:
        gone = level.key not in listed or not nodes.column(level.key).distinct
        overdue = absences.longer_than(
            topology.uid, _LEVEL + level.key, gone=gone, grace=topology.grace, now=now
        )
        # A restarted controller, which has no memory, must not restore a level only to remove it
        # again.
        return overdue or (gone and level in last.expired)

    def retained(level: Level) -> bool:
        if topology.retain or topology.publish.get("grove") == "Never":
            return False
        if bound is None:
            return other_spec or level in last.retained or level not in last.expired
        leaving = level in last.retained and level.domain not in bound
        left = absences.longer_than(
            topology.uid, UNNEEDED + level.key, gone=leaving, grace=topology.grace, now=now
        )
        return level.domain in bound or (leaving and not left)

    over = {level for level in before if expired(level)}
    absences.keep_only(topology.uid, UNNEEDED, [level.key for level in over])
    if topology.levels is not None:
        return EffectiveLevels(topology.levels, frozenset(over), frozenset(filter(retained, over)))
    inferred = {level.domain: level for level in inferred_levels(topology, nodes, catalogue)}
    # A domain that nodes carry by another key now needs no retention: Grove's workloads name the
    # domain.
    held = {level for level in over if level.domain not in inferred and retained(level)}
    kept = {
        level.domain: level
        for level in before
        if topology.retain or level not in over or level in held
    }
    # A change of key takes the level from workloads that ask for it by key: only the admin's
    # configuration does that.
    levels = inferred | {
        domain: x
        for domain, x in kept.items()
        if inferred.get(domain, x).key not in catalogue.chosen
    }

    def is_around(level: Level, rack: Level, above: Level | None) -> bool:
        """Whether an NVLink level stands above the racks; it changes sides after the grace period, as levels go."""
        says = lies_around(level, rack, above, nodes)
        if level not in before or rack not in before:
            return says is True
        was = before.index(level) < before.index(rack)
        other = says is not None and says != was
        about = _ORDER + level.domain
        back, forth = (" around", " within") if was else (" within", " around")
        absences.longer_than(topology.uid, about + back, gone=False, grace=topology.grace, now=now)
        turned = absences.longer_than(
            topology.uid, about + forth, gone=other, grace=topology.grace, now=now
        )
        return was != turned

    ordered = nested(
        [levels[domain] for domain in _order(catalogue, before) if domain in levels], is_around
    )
    return EffectiveLevels(
        ordered[-MAX_LEVELS:], frozenset(over.intersection(ordered)), frozenset(held)
    )


def _before(topology: Topology, catalogue: Catalogue) -> tuple[Level, ...]:
    """The levels that were in effect when the status was written, unless only a former spec named them."""
    same_spec = topology.status.get("observedGeneration") == topology.generation
    return tuple(
        level
        for entry in topology.status.get("levels") or ()
        if (level := Level(entry["domain"], entry["key"])).key in catalogue.level_keys or same_spec
    )


def _order(catalogue: Catalogue, before: Sequence[Level]) -> list[str]:
    """The domains of the catalogue, with those that it no longer knows in their former places."""
    order = list(catalogue.domains)
    for above, level in pairwise((None, *before)):
        if level is not None and level.domain not in order:
            place = order.index(above.domain) + 1 if above else 0
            order.insert(min(place, len(order) - 1), level.domain)
    return order
