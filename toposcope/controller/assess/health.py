"""The health of a topology's machines by their agents' reports and NVLink fabrics: pure.

Two findings about the fabric. A domain is *split* if what the hardware says is one domain is not:
one cluster UUID with several cliques, or one chassis whose nodes are in different fabrics (a tray
that fell out of its clique is a domain of its own). A domain is *small* if it has fewer GPUs than
most of its siblings. Racks are bought half full, so nothing is concluded from either. NVLink
domains whose nodes are all sound are *partitions*, also if there is one node in them: whoever runs
the fabric manager made them, or the chassis has several by design. They are reported and are no
finding, and neither is a fabric that is being rebuilt (see `rebuilds`).
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Final

from toposcope.api.conditions import FABRIC_HEALTHY, Condition
from toposcope.api.label_keys import MATRIX, NVLINK_DOMAIN, STATE
from toposcope.api.levels import Level
from toposcope.controller.assess.rebuilds import NO_REBUILDS, Rebuilds, under_way_words
from toposcope.hardware.topology import State
from toposcope.hierarchy.coverage import MOST_NAMES
from toposcope.hierarchy.node import OWN_VALUES, Hardware, fabric_of
from toposcope.hierarchy.table import Machines, Table
from toposcope.text import listing, plural

MOST_FINDINGS: Final = 5
"""How many split or small domains a message or status names."""
MOST_VALUES: Final = 10
"""How many domains of a level metrics name; a status names fewer."""


@dataclass(frozen=True, slots=True)
class Split:
    """One chassis, or one fabric by its cluster UUID, in several NVLink domains."""

    by: str
    """`chassis` or `fabric`."""
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
    reported: dict[str, int] = {}
    for state in State:
        if states[state]:
            reported[state] = states[state]

    fabric = fabric_facts(levels, nodes, rebuilds)
    if State.DEGRADED not in reported:
        return Health(gpus=gpus, states=reported, fabric=fabric)
    is_degraded = [group.hardware.state == State.DEGRADED for group in nodes.groups]
    return Health(
        gpus=gpus,
        states=reported,
        degraded_nodes=nodes.first_names(is_degraded, MOST_NAMES),
        levels=degraded_levels(levels, nodes),
        fabric=fabric,
    )


def degraded_levels(levels: Sequence[Level], nodes: Table) -> tuple[DegradedLevel, ...]:
    """The degraded nodes by level, for the levels (broadest first) that they carry."""
    keys = [level.key for level in levels]
    nodes = nodes.expanded_for_levels(keys)
    degraded = []
    for place, group in enumerate(nodes.groups):
        if group.hardware.state == State.DEGRADED:
            degraded.append(place)

    degraded_by_level = []
    is_nested = True
    for depth, level in enumerate(levels):
        if is_nested and depth:
            above = keys[depth - 1]
            is_nested = nodes.nests(above, level.key)
        # Where the levels nest, a domain's own value says which it is.
        path_keys = [level.key] if is_nested else keys[: depth + 1]
        degraded_level = _degraded_level(level, path_keys, degraded, nodes)
        if degraded_level:
            degraded_by_level.append(degraded_level)
    return tuple(degraded_by_level)


def _degraded_level(
    level: Level, path_keys: Sequence[str], degraded: Sequence[int], nodes: Table
) -> DegradedLevel | None:
    """The degraded nodes at one level; None where none of them carries it.

    `path_keys` are the label keys that a domain is named by, `degraded` the places of the groups.
    """
    values = nodes.column(level.key).values
    path_columns = [nodes.column(key).values for key in path_keys]
    nodes_by_path: Counter[tuple[str, ...]] = Counter()
    last_values = set()
    in_own_domains = 0
    for place in degraded:
        value = values[place]
        weight = nodes.weights[place]
        if value in OWN_VALUES:
            in_own_domains += weight
        elif value is not None:
            path = tuple([column[place] or "" for column in path_columns])
            nodes_by_path[path] += weight
            last_values.add(value)
    if not nodes_by_path and not in_own_domains:
        return None

    alone = _of_one_node(values, nodes.weights, last_values)
    return DegradedLevel(
        level=level,
        domains=len(nodes_by_path) + in_own_domains,
        nodes=nodes_by_path.total() + in_own_domains,
        worst=_worst(nodes_by_path, alone),
    )


def _worst(
    nodes_by_path: Mapping[tuple[str, ...], int], alone: Collection[str]
) -> tuple[DegradedDomain, ...]:
    """The first domains, most degraded nodes first, without those `alone`, which have one node."""
    domains = []
    for path, degraded in nodes_by_path.items():
        if path[-1] not in alone:
            domain = DegradedDomain(path, degraded)
            domains.append(domain)
    worst = nsmallest(MOST_VALUES, domains, key=_most_degraded_first)
    return tuple(worst)


def _most_degraded_first(domain: DegradedDomain) -> tuple[int, tuple[str, ...]]:
    return -domain.degraded, domain.path


def _of_one_node(
    values: Sequence[str | None], weights: Sequence[int], wanted: set[str]
) -> set[str]:
    """The wanted values that one node alone has."""
    counts = dict.fromkeys(wanted, 0)
    for value, weight in zip(values, weights, strict=True):
        if value in counts:
            counts[value] += weight
    alone = set()
    for value, nodes in counts.items():
        if nodes == 1:
            alone.add(value)
    return alone


def fabric_facts(
    levels: Sequence[Level], nodes: Table, rebuilds: Rebuilds = NO_REBUILDS
) -> FabricFacts:
    """Examine the domains that span nodes; `levels` are the effective ones, broadest first.

    Nothing is concluded from fabrics that nodes are leaving or joining.
    """
    gpus_by_domain: dict[str, int] = {}
    for machine, count in nodes.machines:
        domain = machine.domain
        if domain is not None:
            before = gpus_by_domain.get(domain, 0)
            gpus_by_domain[domain] = before + machine.gpus * count
    if not gpus_by_domain:
        return FabricFacts(rebuilds=rebuilds)

    moving = rebuilds.moving
    split_fabrics = _split_fabrics(gpus_by_domain, nodes.machines, moving)
    split_chassis = _split_chassis(nodes.machines, moving)
    splits: list[Split] = []
    partitions: list[Split] = []
    intended: set[str] = set()
    for split in chain(split_fabrics, split_chassis):
        if split.within:
            partitions.append(split)
            intended |= split.within
        else:
            splits.append(split)

    around = _domains_around(gpus_by_domain, levels, nodes)
    small = []
    for finding in _small(gpus_by_domain, around):
        if finding.name not in intended and fabric_of(finding.name) not in moving:
            small.append(finding)
    return FabricFacts(
        splits=tuple(splits),
        small=tuple(small),
        partitions=tuple(partitions),
        rebuilds=rebuilds,
    )


def _partitions(within: Counter[str | None], sick: Collection[str | None]) -> frozenset[str]:
    """The domains, if nothing is wrong with a node of theirs; else none of them.

    `sick` are the domains of degraded nodes. A node whose state is not known says nothing: its
    labels are those of before.
    """
    if within.keys() & sick:
        return frozenset()
    domains = set()
    for domain in within:
        if domain:
            domains.add(domain)
    return frozenset(domains)


def _split_fabrics(
    domains: Collection[str], machines: Machines, moving: Collection[str]
) -> Iterator[Split]:
    """Fabrics with several domains."""
    fabrics = list(map(fabric_of, domains))
    several = _repeated(fabrics).difference(moving)
    if not several:
        return
    nodes_by_domain: dict[str, Counter[str | None]] = {}
    for uuid in sorted(several):
        nodes_by_domain[uuid] = Counter()
    sick = set()
    for hardware, count in machines:
        domain = hardware.domain
        if hardware.state == State.DEGRADED:
            sick.add(domain)
        if domain is None:
            continue
        uuid = fabric_of(domain)
        if uuid in several:
            nodes_by_domain[uuid][domain] += count

    for uuid, within in nodes_by_domain.items():
        yield Split(
            by="fabric",
            name=uuid,
            domains=len(within),
            nodes=within.total(),
            within=_partitions(within, sick),
        )


def _split_chassis(machines: Machines, moving: Collection[str]) -> Iterator[Split]:
    """Chassis in which several fabrics meet; a node that is a domain of its own counts as a fabric.

    A chassis without any fabric holds machines that NVLink does not leave: nothing is split there.
    Several cliques of one fabric are a finding about the fabric.
    """
    names = []
    for machine, _ in machines:
        if machine.chassis:
            names.append(machine.chassis)
    # A superset of the split ones: a chassis also repeats if only the state of its nodes differs.
    mixed = _repeated(names)
    if not mixed:
        return
    chassis_by_name = {name: _Chassis() for name in sorted(mixed)}
    for machine, count in machines:
        if machine.chassis in mixed:
            chassis = chassis_by_name[machine.chassis]
            chassis.add(machine, count)

    for name, chassis in chassis_by_name.items():
        if not chassis.is_split or not chassis.fabrics.isdisjoint(moving):
            continue
        yield Split(
            by="chassis",
            name=name,
            domains=chassis.domains,
            nodes=chassis.nodes_by_domain.total(),
            within=_partitions(chassis.nodes_by_domain, chassis.sick),
        )


class _Chassis:
    """The NVLink domains of the nodes of one chassis; None stands for nodes in no fabric."""

    def __init__(self) -> None:
        self.nodes_by_domain: Counter[str | None] = Counter()
        self.sick: set[str | None] = set()
        """Domains of degraded nodes."""

    def add(self, machine: Hardware, count: int) -> None:
        """Count `count` nodes that are such a machine."""
        self.nodes_by_domain[machine.domain] += count
        if machine.state == State.DEGRADED:
            self.sick.add(machine.domain)

    @property
    def fabrics(self) -> set[str]:
        """The cluster UUIDs of its fabrics."""
        uuids = set()
        for domain in self.nodes_by_domain:
            if domain is not None:
                uuids.add(fabric_of(domain))
        return uuids

    @property
    def is_split(self) -> bool:
        """Whether several fabrics meet in it, or one and nodes in none."""
        fabrics = len(self.fabrics)
        in_none = self.nodes_by_domain[None]
        if fabrics == 1:
            return in_none > 0
        return fabrics > 1

    @property
    def domains(self) -> int:
        """How many there are; a node in no fabric is one of its own."""
        shared = self.nodes_by_domain.keys() - {None}
        in_none = self.nodes_by_domain[None]
        return len(shared) + in_none


def _repeated(names: Collection[str]) -> set[str]:
    """The names that occur several times."""
    different = set(names)
    if len(different) == len(names):
        return set()
    repeated = set()
    for name, times in Counter(names).items():
        if times > 1:
            repeated.add(name)
    return repeated


def _domains_around(
    domains: Iterable[str], levels: Sequence[Level], nodes: Table
) -> Iterator[list[str | None]]:
    """The value of each broader level around each of the domains, as far as the levels nest.

    `levels` from the broadest down; the nearest level comes first. None where NVLink domains are
    no level.
    """
    keys = [level.key for level in levels]
    if NVLINK_DOMAIN not in keys:
        return
    broader = keys[: keys.index(NVLINK_DOMAIN)]
    around: list[str | None] = [*domains]
    nodes = nodes.expanded_for_labels(broader)
    narrow = NVLINK_DOMAIN
    for broad in reversed(broader):
        parent_of = nodes.parents(broad, narrow)
        if parent_of is None:
            return
        # A domain that is also a node's name is not among them.
        around = [parent_of.get(value) for value in around]
        yield around
        narrow = broad


def _small(
    gpus_by_domain: Mapping[str, int], around: Iterable[Sequence[str | None]]
) -> list[Small]:
    """The domains that are smaller than usual, the smallest first.

    A domain is compared with its siblings in the nearest domain around it that holds several, else
    with all. `around`: the values of each broader level around each of the domains.
    """
    largest = max(gpus_by_domain.values())
    waiting = set()
    for domain, gpus in gpus_by_domain.items():
        if gpus < largest:
            waiting.add(domain)
    small: list[Small] = []
    if not waiting:  # and the levels need not be looked at
        return small

    everything: list[None] = [None] * len(gpus_by_domain)
    for parents in chain(around, [everything]):
        for siblings in _siblings(gpus_by_domain, parents, waiting):
            if len(siblings) > 1:
                small += _smaller_than_usual(siblings, gpus_by_domain, waiting)
                waiting.difference_update(siblings)
        if not waiting:
            break
    small.sort(key=_smallest_first)
    return small


def _smallest_first(small: Small) -> tuple[int, str]:
    return small.gpus - small.usual, small.name


def _smaller_than_usual(
    siblings: Sequence[str], gpus_by_domain: Mapping[str, int], waiting: Container[str]
) -> Iterator[Small]:
    """The siblings in `waiting` that have fewer GPUs than most."""
    sizes = map(gpus_by_domain.__getitem__, siblings)
    usual = _usual(sizes)
    for domain in siblings:
        gpus = gpus_by_domain[domain]
        if gpus < usual and domain in waiting:
            yield Small(domain, gpus, usual)


def _siblings(
    domains: Iterable[str], parents: Sequence[str | None], waiting: Container[str]
) -> Iterable[list[str]]:
    """The domains by their parent, for each parent that one of those in `waiting` has."""
    children_of: dict[str | None, list[str]] = {}
    wanted = set()
    for domain, parent in zip(domains, parents, strict=True):
        children = children_of.setdefault(parent, [])
        children.append(domain)
        if domain in waiting:
            wanted.add(parent)
    return [children_of[parent] for parent in wanted]


def _usual(sizes: Iterable[int]) -> int:
    """The most common size; of two equally common ones the larger."""
    commonness = Counter(sizes)
    most = max(commonness.values())
    usual = 0
    for size, count in commonness.items():
        if count == most:
            usual = max(usual, size)
    return usual


def fabric_condition(report: Health) -> Condition:
    """The `FabricHealthy` condition: the gravest finding is its reason, all are in its message."""
    reasons: list[str] = []
    texts: list[str] = []
    for reason, text in _findings(report):
        reasons.append(reason)
        texts.append(text)
    if not reasons:
        texts.append("No node is degraded and no NVLink domain is broken")

    fabric = report.fabric
    if fabric.partitions:
        named = _named(fabric.partitions)
        texts.append(f"partitions, not faults: {named}")
    under_way = fabric.rebuilds.under_way
    if under_way:
        texts.append(under_way_words(under_way))
    message = "; ".join(texts)
    if reasons:
        return Condition(FABRIC_HEALTHY, "False", reasons[0], message)
    return Condition(FABRIC_HEALTHY, "True", "AllHealthy", message)


def _findings(report: Health) -> Iterator[tuple[str, str]]:
    """The reason and the text of each finding, the gravest first."""
    fabric = report.fabric
    if fabric.splits:
        yield "DomainsSplit", _splits(fabric.splits)
    degraded = report.count(State.DEGRADED)
    if degraded:
        yield "NodesDegraded", _degraded(degraded, report.degraded_nodes)
    if fabric.small:
        yield "DomainsSmall", _smalls(fabric.small)
    unknown = report.count(State.UNKNOWN)
    if unknown:
        yield "NodesUnknown", _unknown(unknown)


def _degraded(count: int, names: Sequence[str]) -> str:
    several = f"{count} nodes are degraded"
    who = plural(count, "1 node is degraded", several)
    named = listing(names, MOST_NAMES, count)
    return f"{who}: {named}; see the annotation {MATRIX} of each for the reason"


def _unknown(count: int) -> str:
    several = f"{count} nodes do"
    who = plural(count, "1 node does", several)
    selector = f"{STATE}={State.UNKNOWN}"
    return f"the hardware of {who} not answer; list: kubectl get nodes -l {selector}"


def _splits(splits: Sequence[Split]) -> str:
    count = len(splits)
    several = f"{count} NVLink domains are split"
    what = plural(count, "1 NVLink domain is split", several)
    named = _named(splits)
    return (
        f"{what}: {named}; "
        "unless a partition is intended, check the fabric state of the nodes that left"
    )


def _named(splits: Sequence[Split]) -> str:
    named = []
    for split in splits:
        size = f"{split.nodes} nodes in {split.domains} domains"
        text = f"{split.by} {split.name} ({size})"
        named.append(text)
    return listing(named, MOST_FINDINGS)


def _smalls(small: Sequence[Small]) -> str:
    named = []
    for domain in small:
        unit = plural(domain.gpus, "GPU")
        size = f"{domain.gpus} {unit}, usual {domain.usual}"
        named.append(f"{domain.name} ({size})")
    shown = listing(named, MOST_FINDINGS)
    count = len(small)
    several = f"{count} NVLink domains are smaller than their siblings"
    what = plural(count, "1 NVLink domain is smaller than its siblings", several)
    return f"{what}: {shown}"
