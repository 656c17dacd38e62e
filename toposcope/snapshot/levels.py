"""Each level of a topology: which label carries it, on how many nodes, into how many domains, and who needs it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from toposcope.snapshot.scope import Origin, Scope
from toposcope.topology.hierarchy import cover, crossings
from toposcope.topology.levels import Level


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many nodes the domains of a level hold: the smallest, the middle one, the largest."""

    smallest: int
    median: int
    largest: int


@dataclass(frozen=True, slots=True)
class LevelView:
    """One level of a topology, one that could be, or one that is asked for and is not there (`key` is empty then)."""

    domain: str
    key: str
    in_topology: bool
    """False for a level that only some nodes carry, which is why it was not inferred."""
    domains: int
    sizes: Sizes | None
    """None: it has no domain, or nobody asked."""
    nodes: int
    missing: int
    missing_nodes: tuple[str, ...]
    """The first names."""
    usable: int
    """Nodes that carry it and take pods."""
    by_spec: bool
    """Whether `spec.required` names it."""
    workloads: int
    """Workloads that require it, as the controller counted them last."""
    preferring: int
    """Workloads that only prefer it."""

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
        if not self.in_topology:
            lack = "1 node lacks" if self.missing == 1 else f"{self.missing} nodes lack"
            return f"no level of the topology, because {lack} it"
        if self.missing:
            lack = "1 node lacks it and falls" if self.missing == 1 else f"{self.missing} nodes lack it and fall"
            return f"{lack} out of the topology"
        return ""


def level_views(scope: Scope, *, sized: bool = True) -> tuple[LevelView, ...]:
    """The levels, broadest first; then those that only some nodes carry, then what is required and not there at all.

    `sized`: with `sizes`, for which every node is looked at.
    """
    spec = scope.topology.required if scope.topology else ()
    status = scope.topology.status if scope.topology else {}
    workloads, preferring = _workloads(status, "requiredBy"), _workloads(status, "preferredBy")
    partial = _partly_covered(scope)
    table = scope.table_with(level.key for level in (*scope.levels, *partial))
    coverage = (*cover(scope.levels, table), *(cover([level], table)[0] for level in partial))
    found = []
    for place, each in enumerate(coverage):
        name, key = each.level.domain, each.level.key
        inside = place < len(scope.levels)
        path = scope.levels[: place + 1] if inside else (each.level,)
        found.append(
            LevelView(
                domain=name,
                key=key,
                in_topology=inside,
                domains=each.domains,
                sizes=_sizes([table.values(level.key) for level in path]) if sized else None,
                nodes=each.nodes,
                missing=each.missing,
                missing_nodes=each.missing_nodes,
                usable=each.usable,
                by_spec=name in spec or key in spec,
                workloads=workloads.get(name, 0),
                preferring=preferring.get(name, 0),
            )
        )
    known = {name for level in (*scope.levels, *partial) for name in (level.domain, level.key)}
    for name in dict.fromkeys((*spec, *workloads, *preferring)):
        if name not in known:
            asked = name in spec, workloads.get(name, 0), preferring.get(name, 0)
            found.append(LevelView(name, "", False, 0, None, 0, len(scope.nodes), (), 0, *asked))
    return tuple(found)


def _partly_covered(scope: Scope) -> tuple[Level, ...]:
    """What inference would take if every node carried it: the best covered key of each domain that has no level."""
    if scope.origin is Origin.SPEC:
        return ()
    taken = {level.domain for level in scope.levels}
    table = scope.table_with(scope.catalogue.level_keys)
    found = []
    for domain, keys in scope.catalogue.keys.items():
        counts = {key: len(table) - table.column(key).missing for key in keys}
        key = max(counts, key=counts.__getitem__, default="")
        if domain not in taken and counts.get(key):
            found.append(Level(domain, key))
    return tuple(found)


def crossed(scope: Scope) -> list[str]:
    """Which domain values lie under two parents, one sentence each."""
    return crossings(scope.levels, scope.table())


def _sizes(columns: Sequence[Sequence[str | None]]) -> Sizes | None:
    """Of the domains that are told apart by the values of all levels down to the last of `columns`."""
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
