"""The levels of a topology: label, nodes that carry it, domains, and what requires it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Any, NamedTuple

from toposcope.api.cluster_topology import USUAL_COVERAGE_PERCENT, Topology
from toposcope.api.conditions import HIERARCHY_CONSISTENT, NAMES_MIXED, Condition
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import (
    Coverage,
    carried_by_others,
    cover,
    crossings,
    idle_levels,
    lacking_any,
    nodes_needed,
    partly_carried,
)
from toposcope.hierarchy.effective_levels import LevelTimers, unpublished_levels
from toposcope.hierarchy.table import Table
from toposcope.integrations.framework.features import condition
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Origin, Scope
from toposcope.text import enumerated


@dataclass(frozen=True, slots=True)
class Sizes:
    """Nodes per domain of a level."""

    smallest: int
    median: int
    largest: int


@dataclass(frozen=True, slots=True)
class LevelView:
    """One level that a topology has, that it could have, or that is required and missing."""

    domain: str
    key: str
    """Empty: the level is required and missing."""
    is_in_topology: bool
    """False: it was not inferred, because only some nodes carry it."""
    domains: int
    sizes: Sizes | None
    """None: it has no domain, or sizes were not requested."""
    nodes: int
    """The number of nodes that carry it."""
    missing: int
    """The number of nodes that lack it."""
    missing_nodes: tuple[str, ...]
    """The first names of these."""
    placeholders: str
    """A few words on nodes whose label has a placeholder as its value; empty: none."""
    needed: int
    """The number of nodes that must carry a label to make it a level."""
    usable: int
    """The number of nodes that carry it and can take pods."""
    is_required_by_spec: bool
    """Whether `spec.required` names it."""
    workloads: int
    """The number of workloads that require it, by the controller's last count."""
    preferring: int
    """The number of workloads that only prefer it."""
    elsewhere: tuple[str, ...] = ()
    """Other keys of the same level, which nodes carry that lack this one."""

    @property
    def is_required(self) -> bool:
        """Whether the spec or a workload requires it."""
        return self.is_required_by_spec or self.workloads > 0

    @property
    def problem(self) -> str:
        """A few words about what is wrong with it; empty: nothing."""
        if self.is_required and not self.nodes:
            return "required, but on no node"
        if self.is_required and not self.usable:
            return "required, but on no schedulable node"
        if not self.nodes:
            return "on no node"
        if not self.is_in_topology:
            return f"not a level of the topology, because {self._too_few}"
        if not self.missing:
            return ""

        lack = f"{self.missing} nodes lack it and fall"
        if self.missing == 1:
            lack = "1 node lacks it and falls"
        return f"{lack} out of the topology{self.placeholders}"

    @property
    def _too_few(self) -> str:
        """Why it is not a level: too few nodes carry it."""
        lack = f"{self.missing:,} nodes lack"
        if self.missing == 1:
            lack = "1 node lacks"
        all_nodes = self.nodes + self.missing
        everybody = "all" if self.needed == all_nodes else "at least"
        must = f"{everybody} {self.needed:,} must carry it"
        return f"{lack} it{self.placeholders}{self._instead} and {must}"

    @property
    def _instead(self) -> str:
        """Which other keys nodes have that lack it; empty: none."""
        if not self.elsewhere:
            return ""
        keys = enumerated(self.elsewhere)
        return f" (others have {keys}: toposcope suggest divides the nodes)"


@dataclass(frozen=True, slots=True)
class _Requests:
    """Who requires or prefers levels: the spec, and workloads by the controller's last count."""

    spec: Sequence[str]
    workloads: Mapping[str, int]
    preferring: Mapping[str, int]

    @property
    def names(self) -> list[str]:
        """The names of all requested levels."""
        names = (*self.spec, *self.workloads, *self.preferring)
        return list(dict.fromkeys(names))


def _requests(topology: Topology | None) -> _Requests:
    if topology is None:
        return _Requests(spec=(), workloads={}, preferring={})
    return _Requests(
        spec=topology.required,
        workloads=_workloads(topology.status, "requiredBy"),
        preferring=_workloads(topology.status, "preferredBy"),
    )


def level_views(scope: Scope, *, sized: bool = True) -> tuple[LevelView, ...]:
    """The levels, broadest first; then levels that only some nodes carry, then missing ones.

    `sized` fills in `sizes`, which takes a look at every node.
    """
    topology = scope.topology
    requests = _requests(topology)
    percent = topology.min_coverage_percent if topology else USUAL_COVERAGE_PERCENT
    needed = nodes_needed(len(scope.nodes), percent)

    partial = _partial_levels(scope)
    table = scope.table_with(level.key for level in (*scope.levels, *partial))
    views = []
    for place, coverage in enumerate(cover(scope.levels, table)):
        path = scope.levels[: place + 1]
        sizes = _sizes(path, table) if sized else None
        views.append(_view(coverage, requests, needed=needed, sizes=sizes, is_in_topology=True))

    for level in partial:
        (coverage,) = cover([level], table)
        sizes = _sizes([level], table) if sized else None
        view = _view(coverage, requests, needed=needed, sizes=sizes, is_in_topology=False)
        other_levels = carried_by_others(level, table, scope.catalogue)
        elsewhere = tuple(other.key for other in other_levels)
        views.append(replace(view, elsewhere=elsewhere))

    for name in _unmet(requests, views):
        views.append(_missing_view(name, requests, needed=needed, nodes=len(scope.nodes)))
    return tuple(views)


def _unmet(requests: _Requests, views: Iterable[LevelView]) -> list[str]:
    """The requested levels that are not among these, by name."""
    present: set[str] = set()
    for view in views:
        present.update((view.domain, view.key))
    return [name for name in requests.names if name not in present]


def _partial_levels(scope: Scope) -> tuple[Level, ...]:
    """The levels that the topology could have if more nodes carried them."""
    if scope.origin is Origin.SPEC:
        return ()
    table = scope.table_with(scope.catalogue.level_keys)
    partial: list[Level] = []
    for best in partly_carried(scope.levels, table, scope.catalogue):
        partial.append(best)
        partial += carried_by_others(best, table, scope.catalogue)
    return tuple(partial)


def _view(
    coverage: Coverage,
    requests: _Requests,
    *,
    needed: int,
    sizes: Sizes | None,
    is_in_topology: bool,
) -> LevelView:
    """A level that some nodes carry, or that the topology has."""
    level = coverage.level
    return LevelView(
        domain=level.domain,
        key=level.key,
        is_in_topology=is_in_topology,
        domains=coverage.domains,
        sizes=sizes,
        nodes=coverage.nodes,
        missing=coverage.missing,
        missing_nodes=coverage.missing_nodes,
        placeholders=coverage.placeholders,
        needed=needed,
        usable=coverage.usable,
        is_required_by_spec=level.domain in requests.spec or level.key in requests.spec,
        workloads=requests.workloads.get(level.domain, 0),
        preferring=requests.preferring.get(level.domain, 0),
    )


def _missing_view(name: str, requests: _Requests, *, needed: int, nodes: int) -> LevelView:
    """A requested level that the cluster does not have."""
    return LevelView(
        domain=name,
        key="",
        is_in_topology=False,
        domains=0,
        sizes=None,
        nodes=0,
        missing=nodes,
        missing_nodes=(),
        placeholders="",
        needed=needed,
        usable=0,
        is_required_by_spec=name in requests.spec,
        workloads=requests.workloads.get(name, 0),
        preferring=requests.preferring.get(name, 0),
    )


def unpublished_of(scope: Scope) -> tuple[Level, ...]:
    """The broadest levels that add nothing above the host, and that the spec does not ask for."""
    if scope.topology is None:
        return idle_levels(scope.levels, scope.table())
    return unpublished_levels(
        scope.topology, scope.levels, scope.table(), timers=LevelTimers(), now=0.0
    )


def left_out_of(scope: Scope) -> list[NodeView]:
    """The nodes that lack one of the levels."""
    table = scope.table()
    lacking = lacking_any(scope.levels, table)
    if not lacking:
        return []

    left_out = []
    for node, group in zip(scope.nodes, table.group_of_node, strict=True):
        if lacking[group]:
            left_out.append(node)
    return left_out


class Crossings(NamedTuple):
    """Domain values that lie under two parents, one sentence each."""

    problems: list[str]
    notes: list[str]
    """Reused names, which are fine for schedulers that use the whole path."""


def crossings_of(scope: Scope) -> Crossings:
    """What crosses; the controller, which knows who schedules, decides whether that is a problem.

    Without its verdict about the spec as it is now, only reused names are none.
    """
    computed = Crossings(problems=[], notes=[])
    for crossing in crossings(scope.levels, scope.table()):
        sentences = computed.notes if crossing.is_reused else computed.problems
        sentences.append(crossing.sentence)

    topology = scope.topology
    verdict = condition({"status": topology.status}, HIERARCHY_CONSISTENT) if topology else None
    if topology is None or verdict is None:
        return computed

    return _as_reported(computed, verdict, is_current=topology.has_current_status)


def _as_reported(computed: Crossings, verdict: Condition, *, is_current: bool) -> Crossings:
    """What crosses, by the controller's verdict where that is about this spec."""
    crossed = bool(computed.problems or computed.notes)
    is_inconsistent = verdict.status == "False"
    if crossed and is_inconsistent and verdict.reason == NAMES_MIXED:
        return Crossings(problems=[verdict.message], notes=[])
    if not is_current:
        return computed
    if verdict.status == "True":
        return Crossings(problems=[], notes=[*computed.problems, *computed.notes])
    if is_inconsistent and not computed.problems:
        return Crossings(problems=[verdict.message], notes=computed.notes)

    return computed


def _sizes(path: Sequence[Level], table: Table) -> Sizes | None:
    """The sizes of the last level's domains; all values down to it identify a domain."""
    counts = Counter(_carried_paths(path, table))
    if not counts:
        return None
    sizes = list(counts.values())
    return Sizes(
        smallest=min(sizes),
        median=median_low(sizes),
        largest=max(sizes),
    )


def _carried_paths(path: Sequence[Level], table: Table) -> Iterator[tuple[str | None, ...]]:
    """The values at these levels of each node that carries the last level."""
    columns = [table.values(level.key) for level in path]
    for values in zip(*columns, strict=True):
        if values[-1] is not None:
            yield values


def _workloads(status: Mapping[str, Any], field: str) -> dict[str, int]:
    """The number of workloads per level, as a field of a checked status has it."""
    counts: dict[str, int] = {}
    for entry in status.get(field) or ():
        domain = entry["domain"]
        counts[domain] = entry["workloads"]
    return counts
