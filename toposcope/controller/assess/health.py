"""The health of a topology's machines: what their agents report, per domain, and the NVLink fabric between them. Pure.

Two findings about the fabric. A domain is *split* if what the hardware says is one domain is not: one cluster UUID with
several cliques, or one chassis whose nodes are in different fabrics (a tray that fell out of its clique is a domain of
its own). A domain is *small* if it has fewer GPUs than most of its siblings. Racks are bought half full, so nothing is
concluded from either. NVLink domains whose nodes are all sound are *partitions*, also if there is one node in them:
whoever runs the fabric manager made them, or the chassis has several by design. They are reported and are no finding,
and neither is a fabric that is being rebuilt (see `rebuilds`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice, takewhile
from typing import Final

from toposcope.api.conditions import FABRIC_HEALTHY, Condition
from toposcope.api.label_keys import MATRIX, NVLINK_DOMAIN, STATE
from toposcope.api.levels import Level
from toposcope.controller.assess.rebuilds import NO_REBUILDS, Rebuilds, under_way_words
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import MOST_NAMES
from toposcope.hierarchy.node import OWN_VALUES, fabric_of
from toposcope.hierarchy.table import Machines, Table
from toposcope.text import listing, plural

MOST_FINDINGS: Final = 5
"""How many split or small domains a message or status names."""
MOST_VALUES: Final = 10
"""How many domains of a level metrics name; a status names fewer."""


@dataclass(frozen=True, slots=True)
class Split:
    """One chassis, or one fabric by its cluster UUID (`by` says which), in several NVLink domains."""

    by: str
    name: str
    domains: int
    nodes: int
    within: frozenset[str] = frozenset()
    """The names of these domains, where they are partitions."""


@dataclass(frozen=True, slots=True)
class Small:
    """An NVLink domain with fewer GPUs than usual among its siblings."""

    name: str
    gpus: int
    usual: int


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """All findings, in an order that depends on names and numbers only."""

    splits: tuple[Split, ...] = ()
    small: tuple[Small, ...] = ()
    partitions: tuple[Split, ...] = ()
    rebuilds: Rebuilds = NO_REBUILDS


@dataclass(frozen=True, slots=True)
class DegradedDomain:
    """One domain with degraded nodes: the values on its path, broadest first."""

    path: tuple[str, ...]
    degraded: int

    @property
    def name(self) -> str:
        """Its own value behind those that tell it from others; no label value contains `/`."""
        return "/".join(self.path)


@dataclass(frozen=True, slots=True)
class DegradedLevel:
    """The degraded nodes at one level."""

    level: Level
    domains: int
    """Domains with at least one degraded node."""
    nodes: int
    """Degraded nodes that carry the level."""
    worst: tuple[DegradedDomain, ...]
    """The first `MOST_VALUES` domains with several nodes, most degraded nodes first.

    A domain of one node is that node: it is counted, but not named.
    """


@dataclass(frozen=True, slots=True)
class Health:
    """What the selected nodes report of their hardware."""

    gpus: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    """Nodes by `State`; nodes without an agent's report are in none."""
    degraded_nodes: tuple[str, ...] = ()
    """The first `MOST_NAMES` names, sorted."""
    levels: tuple[DegradedLevel, ...] = ()
    """The levels that degraded nodes carry."""
    fabric: FabricFacts = field(default_factory=FabricFacts)

    def count(self, state: State) -> int:
        """Nodes in that state."""
        return self.states.get(state, 0)


def health(levels: Sequence[Level], nodes: Table, rebuilds: Rebuilds = NO_REBUILDS) -> Health:
    """The health of `nodes`, whose levels are `levels`, broadest first."""
    states: Counter[str] = Counter()
    gpus = 0
    for machine, count in nodes.machines:
        states[machine.state] += count
        gpus += machine.gpus * count
    degraded = (
        [group.hardware.state == State.DEGRADED for group in nodes.groups]
        if states[State.DEGRADED]
        else ()
    )
    return Health(
        gpus=gpus,
        states={state: states[state] for state in State if states[state]},
        degraded_nodes=nodes.first_names(degraded, MOST_NAMES),
        levels=degraded_levels(levels, nodes) if states[State.DEGRADED] else (),
        fabric=fabric_facts(levels, nodes, rebuilds),
    )


def degraded_levels(levels: Sequence[Level], nodes: Table) -> tuple[DegradedLevel, ...]:
    """The degraded nodes by level, for the levels (broadest first) that they carry."""
    nodes = nodes.expanded_for_levels([level.key for level in levels])
    degraded = [i for i, group in enumerate(nodes.groups) if group.hardware.state == State.DEGRADED]
    columns = [nodes.column(level.key) for level in levels]
    results = []
    for depth, (level, column) in enumerate(zip(levels, columns, strict=True)):
        nests = all(nodes.nests(levels[i].key, levels[i + 1].key) for i in range(depth))
        path_columns = columns[depth : depth + 1] if nests else columns[: depth + 1]
        counts: Counter[tuple[str, ...]] = Counter()
        own = 0
        for i in degraded:
            if column.values[i] in OWN_VALUES:
                own += nodes.weights[i]
            elif column.values[i] is not None:
                counts[tuple([path_column.values[i] or "" for path_column in path_columns])] += (
                    nodes.weights[i]
                )
        if not counts and not own:
            continue
        alone = _of_one_node(column.values, nodes.weights, {path[-1] for path in counts})
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        several = (DegradedDomain(*entry) for entry in ranked if entry[0][-1] not in alone)
        worst = tuple(islice(several, MOST_VALUES))
        results.append(DegradedLevel(level, len(counts) + own, counts.total() + own, worst))
    return tuple(results)


def _of_one_node(
    values: Sequence[str | None], weights: Sequence[int], wanted: set[str]
) -> set[str]:
    counts = dict.fromkeys(wanted, 0)
    for value, weight in zip(values, weights, strict=True):
        if value in counts:
            counts[value] += weight
    return {value for value, nodes in counts.items() if nodes == 1}


def fabric_facts(
    levels: Sequence[Level], nodes: Table, rebuilds: Rebuilds = NO_REBUILDS
) -> FabricFacts:
    """Examine the domains that span nodes; `levels` are the effective ones, broadest first.

    Nothing is concluded from fabrics that nodes are leaving or joining.
    """
    sizes: dict[str, int] = {}
    for (domain, _, _, gpus), count in nodes.machines:
        if domain is not None:
            sizes[domain] = sizes.get(domain, 0) + gpus * count
    if not sizes:
        return FabricFacts(rebuilds=rebuilds)
    moving = rebuilds.moving
    above = [level.key for level in takewhile(lambda level: level.key != NVLINK_DOMAIN, levels)]
    nested = _around(sizes, above, nodes) if len(above) < len(levels) else ()
    found = (
        *_split_fabrics(sizes, nodes.machines, moving),
        *_split_chassis(nodes.machines, moving),
    )
    partitions = tuple(split for split in found if split.within)
    intended = frozenset[str]().union(*(partition.within for partition in partitions))
    small = tuple(
        domain
        for domain in _small(sizes, nested)
        if domain.name not in intended and fabric_of(domain.name) not in moving
    )
    return FabricFacts(
        tuple(split for split in found if not split.within), small, partitions, rebuilds
    )


def _partitions(within: Counter[str | None], sick: Collection[str | None]) -> frozenset[str]:
    """The domains, if nothing is wrong with a node of theirs (`sick`: domains of degraded nodes); else none of them.

    A node whose state is not known says nothing: its labels are those of before.
    """
    return frozenset() if within.keys() & sick else frozenset(filter(None, within))


def _split_fabrics(
    domains: Collection[str], machines: Machines, moving: Collection[str]
) -> Iterator[Split]:
    several = _repeated(list(map(fabric_of, domains))).difference(moving)
    nodes_by_domain: dict[str, Counter[str | None]] = {uuid: Counter() for uuid in sorted(several)}
    for hardware, count in machines if several else ():
        if hardware.domain is not None and (uuid := fabric_of(hardware.domain)) in several:
            nodes_by_domain[uuid][hardware.domain] += count
    sick = (
        {hardware.domain for hardware, _ in machines if hardware.state == State.DEGRADED}
        if several
        else ()
    )
    for uuid, within in nodes_by_domain.items():
        yield Split("fabric", uuid, len(within), within.total(), _partitions(within, sick))


def _split_chassis(machines: Machines, moving: Collection[str]) -> Iterator[Split]:
    """Chassis in which several fabrics meet; a node that is a domain of its own counts as a fabric of its own.

    A chassis without any fabric holds machines that NVLink does not leave: nothing is split there. Several cliques of
    one fabric are a finding about the fabric.
    """
    # A superset of the split ones: a chassis also repeats if only the state of its nodes differs.
    mixed = _repeated([chassis for (_, chassis, _, _), _ in machines if chassis])
    nodes_by_domain: dict[str, Counter[str | None]] = {name: Counter() for name in sorted(mixed)}
    sick_by_chassis: dict[str, set[str | None]] = {name: set() for name in mixed}
    for hardware, count in machines if mixed else ():
        if hardware.chassis in mixed:
            nodes_by_domain[hardware.chassis][hardware.domain] += count
            if hardware.state == State.DEGRADED:
                sick_by_chassis[hardware.chassis].add(hardware.domain)
    for name, within in nodes_by_domain.items():
        fabrics = {fabric_of(domain) for domain in within if domain is not None}
        alone = within[None]
        if fabrics.isdisjoint(moving) and (len(fabrics) > 1 or (fabrics and alone)):
            count = len(within.keys() - {None}) + alone
            yield Split(
                "chassis", name, count, within.total(), _partitions(within, sick_by_chassis[name])
            )


def _repeated(names: Collection[str]) -> set[str]:
    if len(set(names)) == len(names):
        return set()
    return {name for name, times in Counter(names).items() if times > 1}


def _around(
    domains: Iterable[str], broader: Sequence[str], nodes: Table
) -> Iterator[list[str | None]]:
    """The value of each broader level, nearest first, around each of the domains, as far as the levels nest."""
    around: list[str | None] = [*domains]
    nodes = nodes.expanded_for_labels(broader)
    narrow = NVLINK_DOMAIN
    for broad in reversed(broader):
        step = nodes.parents(broad, narrow)
        if step is None:
            return
        # A domain that is also a node's name is not among them.
        around = list(map(step.get, around))
        yield around
        narrow = broad


def _small(sizes: Mapping[str, int], around: Iterable[Sequence[str | None]]) -> list[Small]:
    """Compare each domain with its siblings in the nearest domain around it that holds several, else with all."""
    small: list[Small] = []
    largest = max(sizes.values())
    waiting = {domain for domain, gpus in sizes.items() if gpus < largest}
    if not waiting:  # and the levels need not be looked at
        return small
    for parents in chain(around, [[None] * len(sizes)]):
        if not waiting:
            break
        wanted = set(compress(parents, map(waiting.__contains__, sizes)))
        siblings: dict[str | None, list[str]] = {parent: [] for parent in wanted}
        for domain, parent in compress(
            zip(sizes, parents, strict=True), map(wanted.__contains__, parents)
        ):
            siblings[parent].append(domain)
        for group in siblings.values():
            if len(group) == 1:
                continue
            # The most common size; of two equally common ones the larger.
            commonness = Counter(map(sizes.__getitem__, group))
            usual, _ = max(commonness.items(), key=lambda entry: (entry[1], entry[0]))
            judged = waiting.intersection(group)
            small += [
                Small(domain, sizes[domain], usual) for domain in judged if sizes[domain] < usual
            ]
            waiting -= judged
    return sorted(small, key=lambda finding: (finding.gpus - finding.usual, finding.name))


def fabric_condition(report: Health) -> Condition:
    """The `FabricHealthy` condition; the gravest finding gives the reason, the message names them all."""
    degraded, unknown = report.count(State.DEGRADED), report.count(State.UNKNOWN)
    parts = []
    if report.fabric.splits:
        parts.append(("DomainsSplit", _splits(report.fabric.splits)))
    if degraded:
        parts.append(("NodesDegraded", _degraded(degraded, report.degraded_nodes)))
    if report.fabric.small:
        parts.append(("DomainsSmall", _smalls(report.fabric.small)))
    if unknown:
        who = "1 node does" if unknown == 1 else f"{unknown} nodes do"
        text = (
            f"the hardware of {who} not answer; list: kubectl get nodes -l {STATE}={State.UNKNOWN}"
        )
        parts.append(("NodesUnknown", text))
    texts = [text for _, text in parts] or ["No node is degraded and no NVLink domain is broken"]
    if report.fabric.partitions:
        texts.append(f"partitions, not faults: {_named(report.fabric.partitions)}")
    if report.fabric.rebuilds.under_way:
        texts.append(under_way_words(report.fabric.rebuilds.under_way))
    status, reason = ("False", parts[0][0]) if parts else ("True", "AllHealthy")
    return Condition(FABRIC_HEALTHY, status, reason, "; ".join(texts))


def _degraded(count: int, names: Sequence[str]) -> str:
    who = "1 node is degraded" if count == 1 else f"{count} nodes are degraded"
    return f"{who}: {listing(names, MOST_NAMES, count)}; see the annotation {MATRIX} of each for the reason"


def _splits(splits: Sequence[Split]) -> str:
    what = (
        "1 NVLink domain is split"
        if len(splits) == 1
        else f"{len(splits)} NVLink domains are split"
    )
    return f"{what}: {_named(splits)}; unless a partition is intended, check the fabric state of the nodes that left"


def _named(splits: Sequence[Split]) -> str:
    named = [
        f"{split.by} {split.name} ({split.nodes} nodes in {split.domains} domains)"
        for split in splits
    ]
    return listing(named, MOST_FINDINGS)


def _smalls(small: Sequence[Small]) -> str:
    named = [
        f"{domain.name} ({domain.gpus} {plural(domain.gpus, 'GPU')}, usual {domain.usual})"
        for domain in small
    ]
    several = f"{len(small)} NVLink domains are smaller than their siblings"
    what = plural(len(small), "1 NVLink domain is smaller than its siblings", several)
    return f"{what}: {listing(named, MOST_FINDINGS)}"
