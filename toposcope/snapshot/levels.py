"""Each level of a topology: its label, how many nodes carry it, how many domains it has, and who requires it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import median_low
from typing import Any, NamedTuple

from toposcope.api.cluster_topology import USUAL_COVERAGE
from toposcope.api.conditions import HIERARCHY_CONSISTENT, NAMES_MIXED
from toposcope.api.levels import Level
from toposcope.hierarchy.coverage import cover, crossings, lacking_any, nodes_needed, partly_carried
from toposcope.integrations.framework.features import condition
from toposcope.snapshot.model import NodeView
from toposcope.snapshot.scope import Origin, Scope


@dataclass(frozen=True, slots=True)
class Sizes:
    """Nodes per domain of a level."""

    smallest: int
    median: int
    largest: int


@dataclass(frozen=True, slots=True)
class LevelView:
    """One level of a topology, one that it could have, or one that is required and missing (`key` is empty then)."""

    domain: str
    key: str
    in_topology: bool
    """False for a level that was not inferred because only some nodes carry it."""
    domains: int
    sizes: Sizes | None
    """None: it has no domain, or sizes were not requested."""
    nodes: int
    missing: int
    missing_nodes: tuple[str, ...]
    """The first names."""
    placeholders: str
    """How many of them carry the label with a value that names no place, in words; empty if none does."""
    needed: int
    """Nodes that must carry a label to make it a level."""
    usable: int
    """Nodes that carry it and can take pods."""
    by_spec: bool
    """Whether `spec.required` names it."""
    workloads: int
    """Workloads that require it, by the controller's last count."""
    preferring: int
    """Workloads that only prefer it."""

    @property
    def required(self) -> bool:
        """Whether the spec or a workload requires it."""
        return self.by_spec or self.workloads > 0

    @property
    def problem(self) -> str:
        """What is wrong with it, in a few words; empty if nothing is."""
        if self.required and not self.nodes:
            return "required, but on no node"
        if self.required and not self.usable:
            return "required, but on no schedulable node"
        if not self.nodes:
            return "on no node"
        if not self.in_topology:
            lack = "1 node lacks" if self.missing == 1 else f"{self.missing:,} nodes lack"
            everybody = "all" if self.needed == self.nodes + self.missing else "at least"
            why = f"{lack} it{self.placeholders} and {everybody} {self.needed:,} must carry it"
            return f"not a level of the topology, because {why}"
        if self.missing:
            lack = (
                "1 node lacks it and falls"
                if self.missing == 1
                else f"{self.missing} nodes lack it and fall"
            )
            return f"{lack} out of the topology{self.placeholders}"
        return ""


def level_views(scope: Scope, *, sized: bool = True) -> tuple[LevelView, ...]:
    """The levels, broadest first; then those that only some nodes carry, then those that are required and missing.

    `sized`: with `sizes`, which takes a look at every node.
    """
    spec = scope.topology.required if scope.topology else ()
    status = scope.topology.status if scope.topology else {}
    workloads, preferring = _workloads(status, "requiredBy"), _workloads(status, "preferredBy")
    partial: tuple[Level, ...] = ()
    if scope.origin is not Origin.SPEC:
        partial = partly_carried(
            scope.levels, scope.table_with(scope.catalogue.level_keys), scope.catalogue
        )
    table = scope.table_with(level.key for level in (*scope.levels, *partial))
    needed = nodes_needed(
        len(scope.nodes), scope.topology.min_coverage if scope.topology else USUAL_COVERAGE
    )
    coverage = (*cover(scope.levels, table), *(cover([level], table)[0] for level in partial))
    views = []
    for place, covered in enumerate(coverage):
        name, key = covered.level.domain, covered.level.key
        inside = place < len(scope.levels)
        path = scope.levels[: place + 1] if inside else (covered.level,)
        views.append(
            LevelView(
                domain=name,
                key=key,
                in_topology=inside,
                domains=covered.domains,
                sizes=_sizes([table.values(level.key) for level in path]) if sized else None,
                nodes=covered.nodes,
                missing=covered.missing,
                missing_nodes=covered.missing_nodes,
                placeholders=covered.placeholders,
                needed=needed,
                usable=covered.usable,
                by_spec=name in spec or key in spec,
                workloads=workloads.get(name, 0),
                preferring=preferring.get(name, 0),
            )
        )
    known = {name for level in (*scope.levels, *partial) for name in (level.domain, level.key)}
    for name in dict.fromkeys((*spec, *workloads, *preferring)):
        if name not in known:
            requested = name in spec, workloads.get(name, 0), preferring.get(name, 0)
            views.append(
                LevelView(
                    name, "", False, 0, None, 0, len(scope.nodes), (), "", needed, 0, *requested
                )
            )
    return tuple(views)


def left_out_of(scope: Scope) -> list[NodeView]:
    """The nodes that lack one of the levels."""
    table = scope.table()
    lacking = lacking_any(scope.levels, table)
    return (
        [*compress(scope.nodes, map(lacking.__getitem__, table.group_of_node))] if lacking else []
    )


class Crossings(NamedTuple):
    """Domain values that lie under two parents, one sentence each."""

    problems: list[str]
    notes: list[str]
    """Reused names, which are ordinary to schedulers that go by the whole path."""


def crossings_of(scope: Scope) -> Crossings:
    """Reused names are a problem where the controller, which knows who schedules, says that somebody mixes them."""
    crossed = crossings(scope.levels, scope.table())
    said = (
        condition({"status": scope.topology.status}, HIERARCHY_CONSISTENT)
        if scope.topology
        else None
    )
    if crossed and said and (said.status, said.reason) == ("False", NAMES_MIXED):
        return Crossings([said.message], [])
    return Crossings(
        *(
            [clash.sentence for clash in crossed if clash.reused is reused]
            for reused in (False, True)
        )
    )


def _sizes(columns: Sequence[Sequence[str | None]]) -> Sizes | None:
    """Of the domains: a domain is the path of values of all levels down to the last of `columns`."""
    counts = Counter(path for path in zip(*columns, strict=True) if path[-1] is not None)
    if not counts:
        return None
    sizes = list(counts.values())
    return Sizes(min(sizes), median_low(sizes), max(sizes))


def _workloads(status: Mapping[str, Any], name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in status.get(name) or ():
        if isinstance(entry, dict) and isinstance(entry.get("workloads"), int):
            found[str(entry.get("domain", ""))] = entry["workloads"]
    return found
