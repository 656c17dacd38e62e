"""The effective levels of a topology: slow to lose a level, quick to report what is missing.

An inferred topology gains a level when nearly all selected nodes carry it
(`spec.minCoveragePercent`), and keeps it as long as any node does: a node that joined a minute
before its labels must not take the rack level from every running workload. It loses the level when
no node has carried it, or the catalogue has not known it, for the grace period. No nodes, or nodes
not yet listed, are no evidence.

A system whose binding translates levels drops the hard constraints of existing gangs as soon as
the binding lacks their level (its operator, main of August 2026): their pods land anywhere and stay
there. So the binding keeps an expired level for as long as workloads bound to it require the level,
and for the grace period after that.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from toposcope.api.cluster_topology import USUAL_COVERAGE_PERCENT, Topology
from toposcope.api.levels import MAX_LEVELS, Level
from toposcope.hierarchy.catalogue import BUILT_IN, Catalogue
from toposcope.hierarchy.coverage import idle_levels, lies_around, nested, widely_carried
from toposcope.hierarchy.table import Table
from toposcope.hierarchy.timers import Timers

Side: TypeAlias = Literal["around", "within"]
"""Where the labels put an NVLink level: around the racks, or within them."""


@dataclass(frozen=True, slots=True)
class LevelTimers:
    """The grace periods that run for the levels of one topology."""

    gone: Timers[str] = field(default_factory=Timers)
    """By label key: levels that no node carries, or that the catalogue does not know."""
    unneeded: Timers[str] = field(default_factory=Timers)
    """By label key: retained levels that no workload requires any more."""
    turned: Timers[tuple[str, Side]] = field(default_factory=Timers)
    """By domain: levels that are on this side of the racks by the labels, but on the other side in
    the status."""
    idle: Timers[str] = field(default_factory=Timers)
    """By label key: levels that add nothing above the host since this controller saw them do so."""
    busy: set[str] = field(default_factory=set)
    """Keys of levels that this controller saw add something above the host."""


@dataclass(frozen=True, slots=True)
class EffectiveLevels:
    """The levels of a topology, and which of them must leave published resources."""

    levels: tuple[Level, ...]
    expired: frozenset[Level]
    """Gone from all nodes for longer than the grace period."""
    retained: frozenset[Level] = frozenset()
    """Expired levels that a binding keeps for workloads."""

    @property
    def path(self) -> str:
        """The levels in one line, for people."""
        domains = [level.domain for level in self.levels]
        return " > ".join(domains)


def reported(topology: Topology) -> EffectiveLevels:
    """The levels of the stored status, or of the spec."""
    entries = topology.status.get("levels") or ()
    return EffectiveLevels(
        levels=topology.last_levels,
        expired=_flagged(entries, "expired"),
        retained=_flagged(entries, "retained"),
    )


def _flagged(entries: Sequence[dict[str, Any]], flag: str) -> frozenset[Level]:
    """The levels of a stored status that have the flag."""
    levels = set()
    for entry in entries:
        if entry.get(flag):
            level = Level(entry["domain"], entry["key"])
            levels.add(level)
    return frozenset(levels)


def inferred_levels(
    topology: Topology | None, nodes: Table, catalogue: Catalogue
) -> tuple[Level, ...]:
    """The levels that nearly all `nodes` carry; without a topology by the default share."""
    percent = topology.min_coverage_percent if topology else USUAL_COVERAGE_PERCENT
    carried = widely_carried(catalogue.level_keys, nodes, percent)
    levels = catalogue.infer(carried)

    def is_around(level: Level, rack: Level, above: Level | None) -> bool:
        return lies_around(level, rack, above, nodes) is True

    return nested(levels, is_around)


def unpublished_levels(
    topology: Topology,
    levels: Sequence[Level],
    nodes: Table,
    timers: LevelTimers,
    now: float,
) -> tuple[Level, ...]:
    """The broadest levels, which published lists of levels leave out because they add nothing.

    Each of their domains is one node, and the spec neither lists nor requires them. A level that
    added something before is published for the grace period after that.
    """
    if topology.levels is not None:
        return ()
    idle = idle_levels(levels, nodes)
    idle_keys = {level.key for level in idle}
    timers.busy.update(level.key for level in levels if level.key not in idle_keys)
    timers.idle.keep_only(idle_keys)
    unpublished = []
    for level in idle:
        if level.domain in topology.required:
            break
        if level.key in timers.busy:
            if not timers.idle.is_overdue(level.key, now, topology.grace_seconds):
                break
            timers.busy.discard(level.key)
        unpublished.append(level)
    return tuple(unpublished)


def effective_levels(
    topology: Topology,
    nodes: Table,
    timers: LevelTimers,
    now: float,
    *,
    catalogue: Catalogue = BUILT_IN,
    bound: Container[str] | None = (),
    retains: bool = True,
) -> EffectiveLevels:
    """The effective levels over the selected `nodes`, of which there is at least one.

    `bound` are the domains that workloads require through a binding that translates levels; None
    if unknown, so the binding keeps what it has. `retains`: such a binding is published.
    """
    look = _Look(
        topology=topology,
        nodes=nodes,
        timers=timers,
        now=now,
        catalogue=catalogue,
        bound=bound,
        retains=retains,
        before=_before(topology, catalogue),
    )
    expired = look.expired()
    timers.unneeded.keep_only([level.key for level in expired])
    if topology.levels is not None:
        return EffectiveLevels(topology.levels, expired, look.retained(expired))
    return look.inferred(expired)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the nodes of one topology."""

    topology: Topology
    nodes: Table
    timers: LevelTimers
    now: float
    catalogue: Catalogue
    bound: Container[str] | None
    retains: bool
    before: tuple[Level, ...]
    """The levels of the spec, or those that were in effect before."""

    def expired(self) -> frozenset[Level]:
        """The levels that have been gone from all nodes for longer than the grace period."""
        self.timers.gone.keep_only([level.key for level in self.before])
        reported_expired = reported(self.topology).expired
        expired = set()
        for level in self.before:
            is_gone = not self._is_carried(level)
            is_overdue = self.timers.gone.is_overdue(
                level.key, self.now, self.topology.grace_seconds, is_running=is_gone
            )
            # A restarted controller, which has no memory, must not restore a level only to remove
            # it again.
            if is_overdue or (is_gone and level in reported_expired):
                expired.add(level)
        return frozenset(expired)

    def _is_carried(self, level: Level) -> bool:
        """Whether a node carries the level, and the spec or the catalogue knows it."""
        is_listed = self.topology.levels is not None
        if not is_listed and level.key not in self.catalogue.level_keys:
            return False
        column = self.nodes.column(level.key)
        return column.distinct > 0

    def retained(self, expired: Iterable[Level]) -> frozenset[Level]:
        """The expired levels that a binding keeps."""
        retained = set()
        for level in expired:
            if self._is_retained(level):
                retained.add(level)
        return frozenset(retained)

    def _is_retained(self, level: Level) -> bool:
        """Whether a binding keeps an expired level."""
        topology = self.topology
        if topology.is_retaining or not self.retains:
            return False
        last = reported(topology)
        was_retained = level in last.retained
        if self.bound is None:
            # With Retain the binding had all levels, also those that its status says have expired.
            if was_retained or not topology.has_current_status:
                return True
            return level not in last.expired

        is_needed = level.domain in self.bound
        is_leaving = was_retained and not is_needed
        has_left = self.timers.unneeded.is_overdue(
            level.key,
            self.now,
            topology.grace_seconds,
            is_running=is_leaving,
        )
        return is_needed or (is_leaving and not has_left)

    def inferred(self, expired: frozenset[Level]) -> EffectiveLevels:
        """The levels that nodes carry, and earlier levels within their grace period."""
        carried = {}
        for level in inferred_levels(self.topology, self.nodes, self.catalogue):
            carried[level.domain] = level
        # A domain that nodes carry by another key now needs no retention: bound workloads name the
        # domain.
        gone = [level for level in expired if level.domain not in carried]
        retained = self.retained(gone)
        ordered = self._ordered(carried | self._kept(expired, carried, retained))
        return EffectiveLevels(
            levels=ordered[-MAX_LEVELS:],
            expired=expired.intersection(ordered),
            retained=retained,
        )

    def _kept(
        self,
        expired: Container[Level],
        carried: Mapping[str, Level],
        retained: Container[Level],
    ) -> dict[str, Level]:
        """The earlier levels that stay, by domain."""
        kept = {}
        for level in self.before:
            if level in expired and level not in retained and not self.topology.is_retaining:
                continue
            # A change of key takes the level from workloads that ask for it by key: only the
            # admin's configuration does that.
            successor = carried.get(level.domain, level)
            if successor.key not in self.catalogue.chosen:
                kept[level.domain] = level
        return kept

    def _ordered(self, levels: Mapping[str, Level]) -> tuple[Level, ...]:
        """The levels, broadest first."""
        ordered = []
        for domain in _order(self.catalogue, self.before):
            level = levels.get(domain)
            if level is not None:
                ordered.append(level)
        return nested(ordered, self._is_around)

    def _is_around(self, level: Level, rack: Level, above: Level | None) -> bool:
        """Whether an NVLink level stands above the racks.

        It changes sides only after the grace period, as levels disappear only after it.
        """
        around = lies_around(level, rack, above, self.nodes)
        before = self.before
        if level not in before or rack not in before:
            return around is True
        was_around = before.index(level) < before.index(rack)
        if was_around:
            has_moved = around is False
            has_left = self._is_overdue(level, "within", opposite="around", has_moved=has_moved)
            return not has_left
        has_moved = around is True
        return self._is_overdue(level, "around", opposite="within", has_moved=has_moved)

    def _is_overdue(self, level: Level, side: Side, *, opposite: Side, has_moved: bool) -> bool:
        """Whether a level has stood on the other side for the grace period."""
        timers = self.timers.turned
        timers.stop((level.domain, opposite))
        key = level.domain, side
        grace = self.topology.grace_seconds
        return timers.is_overdue(key, self.now, grace, is_running=has_moved)


def _before(topology: Topology, catalogue: Catalogue) -> tuple[Level, ...]:
    """The levels of the spec, or those that were in effect when the status was written.

    Levels that only an earlier spec named are left out.
    """
    if topology.levels is not None:
        return topology.levels
    levels = []
    for entry in topology.status.get("levels") or ():
        level = Level(entry["domain"], entry["key"])
        if topology.has_current_status or level.key in catalogue.level_keys:
            levels.append(level)
    return tuple(levels)


def _order(catalogue: Catalogue, before: Sequence[Level]) -> list[str]:
    """The domains of the catalogue, with those that it no longer knows at their old positions."""
    order = list(catalogue.domains)
    place = 0
    for level in before:
        if level.domain not in order:
            last_but_one = len(order) - 1
            order.insert(min(place, last_but_one), level.domain)
        place = order.index(level.domain) + 1
    return order
