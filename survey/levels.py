"""Each level of a topology: which label carries it, on how many nodes, into how many domains, and who needs it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from survey.scope import Scope
from topology.hierarchy import cover, crossings


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many nodes the domains of a level hold: the smallest, the middle one, the largest."""

    smallest: int
    median: int
    largest: int


@dataclass(frozen=True, slots=True)
class LevelView:
    """One level of a topology, or one that is asked for and is not there (`key` is empty then)."""

    domain: str
    key: str
    domains: int
    sizes: Sizes | None
    """None: it has no domain."""
    nodes: int
    missing: int
    missing_nodes: tuple[str, ...]
    """The first names."""
    usable: int
    """Nodes that carry it and take pods."""
    by_spec: bool
    """Whether `spec.required` names it."""
    workloads: int
    """Workloads that ask for it, as the controller counted them last."""

    @property
    def required(self) -> bool:
        """Whether anybody needs it."""
        return self.by_spec or self.workloads > 0

    @property
    def amiss(self) -> str:
        """What is wrong with it in a few words; empty when nothing is."""
        if self.required and not self.nodes:
            return "required and on no node"
        if self.required and not self.usable:
            return "required and on no node that takes pods"
        if not self.nodes:
            return "on no node"
        if self.missing:
            lack = "1 node lacks it and falls" if self.missing == 1 else f"{self.missing} nodes lack it and fall"
            return f"{lack} out of the topology"
        return ""


def survey_levels(scope: Scope) -> tuple[LevelView, ...]:
    """The levels, broadest first, then what is required and is no level of the topology."""
    table = scope.table()
    coverage = cover(scope.levels, table)
    columns = [table.column(level.key).values for level in scope.levels]
    spec = scope.topology.required if scope.topology else ()
    workloads = _workloads(scope.topology.status if scope.topology else {})
    found = []
    for depth, each in enumerate(coverage, 1):
        name = each.level.domain
        found.append(
            LevelView(
                domain=name,
                key=each.level.key,
                domains=each.domains,
                sizes=_sizes(columns[:depth]),
                nodes=each.nodes,
                missing=each.missing,
                missing_nodes=each.missing_nodes,
                usable=each.usable,
                by_spec=name in spec or each.level.key in spec,
                workloads=workloads.pop(name, 0),
            )
        )
    known = {name for level in scope.levels for name in (level.domain, level.key)}
    absent = {name: workloads.get(name, 0) for name in (*spec, *workloads) if name not in known}
    found += [
        LevelView(name, "", 0, None, 0, len(scope.nodes), (), 0, by_spec=name in spec, workloads=count)
        for name, count in absent.items()
    ]
    return tuple(found)


def crossed(scope: Scope) -> list[str]:
    """Which domain values lie under two parents, one sentence each."""
    return crossings(scope.levels, scope.table())


def _sizes(columns: list[list[str | None]]) -> Sizes | None:
    """Of the domains that are told apart by the values of all levels down to the last of `columns`."""
    counts = Counter(path for path in zip(*columns, strict=True) if path[-1] is not None)
    if not counts:
        return None
    sizes = list(counts.values())
    return Sizes(min(sizes), median_low(sizes), max(sizes))


def _workloads(status: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in status.get("requiredBy") or ():
        if isinstance(entry, dict) and isinstance(entry.get("workloads"), int):
            found[str(entry.get("domain", ""))] = entry["workloads"]
    return found
