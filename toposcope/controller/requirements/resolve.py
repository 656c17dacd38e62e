"""From what workloads ask for to the domains that each ClusterTopology is required to have: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from toposcope.integrations.framework.level_requests import LevelRequest, WorkloadRef
from toposcope.topology.catalogue import BUILT_IN, Catalogue
from toposcope.topology.levels import Level

MAIN: Final = "cluster"
"""The ClusterTopology that hears of levels which no topology has."""

Askers = Mapping[str, tuple[WorkloadRef, ...]]
"""Who asks for each level."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What workloads ask of one topology."""

    required: Askers = field(default_factory=dict)
    """By domain: levels that the topology has."""
    missing: Askers = field(default_factory=dict)
    """By domain where one can be told, else by label key: levels that it lacks."""
    preferred: Askers = field(default_factory=dict)
    """By either: workloads that prefer a level, of those it has or lacks, and do not require it as well."""


def resolve(
    levels: Mapping[str, Sequence[Level]],
    needs: Mapping[WorkloadRef, Sequence[LevelRequest]],
    catalogue: Catalogue = BUILT_IN,
) -> dict[str, Resolved]:
    """What `needs` ask of each topology in `levels` (its effective levels, by the topology's name).

    A need concerns the topology that it names, and none when that is not ours. One that names none concerns every
    topology that has the level; where none has it, the one called `cluster`, or all.
    """
    named = {name: {term: x.domain for x in of for term in (x.domain, x.key)} for name, of in levels.items()}
    required: dict[str, _Collected] = {name: {} for name in levels}
    missing: dict[str, _Collected] = {name: {} for name in levels}
    preferred: dict[str, _Collected] = {name: {} for name in levels}
    for need, askers in _by_need(needs).items():
        candidates = [name for name in levels if need.topology in (None, name)]
        having = [name for name in candidates if need.term in named[name]]
        for name in having:
            (required if need.required else preferred)[name].setdefault(named[name][need.term], {}).update(askers)
        if having:
            continue
        for name in [MAIN] if MAIN in candidates else candidates:
            lacking = _lacking(need, named[name], catalogue)
            if lacking is not None:
                (missing if need.required else preferred)[name].setdefault(lacking, {}).update(askers)
    return {
        name: Resolved(
            _tuples(required[name]),
            _tuples(missing[name]),
            _tuples(_only_preferring(preferred[name], {**missing[name], **required[name]})),
        )
        for name in levels
    }


_Collected = dict[str, dict[WorkloadRef, None]]


def _only_preferring(preferred: _Collected, required: _Collected) -> _Collected:
    """Those who prefer a level without those who require it too; levels that nobody is left for are left out."""
    left = {
        level: {asker: None for asker in askers if asker not in required.get(level, ())}
        for level, askers in preferred.items()
    }
    return {level: askers for level, askers in left.items() if askers}


def _by_need(needs: Mapping[WorkloadRef, Sequence[LevelRequest]]) -> dict[LevelRequest, dict[WorkloadRef, None]]:
    """Thousands of workloads ask for the same few levels."""
    found: dict[LevelRequest, dict[WorkloadRef, None]] = {}
    for workload, asked in needs.items():
        for need in asked:
            found.setdefault(need, {})[workload] = None
    return found


def _lacking(need: LevelRequest, named: Mapping[str, str], catalogue: Catalogue) -> str | None:
    """What to call a level that a topology lacks; None: nothing is known to be amiss.

    A label of the catalogue stands for its domain, so that a level which goes keeps its name when it has left the
    inferred levels. Where the domain is there by another label it is the label that is missing; pod affinity may well
    find it on the nodes, as it may any label that is not of the catalogue.
    """
    domain = catalogue.domain_of.get(need.term)
    if domain is not None and domain not in named:
        return domain
    return None if need.any_label else need.term


def _tuples(collected: _Collected) -> dict[str, tuple[WorkloadRef, ...]]:
    return {name: tuple(askers) for name, askers in sorted(collected.items())}
