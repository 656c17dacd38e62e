"""How the machines of a topology are: what their agents say and what is amiss between them, in numbers and words."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice, takewhile
from typing import Final

from toposcope.api.conditions import FABRIC_HEALTHY, Condition
from toposcope.api.label_keys import MATRIX, NVLINK_DOMAIN, STATE
from toposcope.topology.hardware import State
from toposcope.topology.hierarchy import MOST_NAMES
from toposcope.topology.levels import Level
from toposcope.topology.node import OWN, fabric_of
from toposcope.topology.table import Machines, Table
from toposcope.topology.text import plural


@dataclass(frozen=True, slots=True)
class Split:
    """One chassis, or one fabric by its cluster UUID (`by` tells which), in several NVLink domains."""

    by: str
    name: str
    domains: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Small:
    """An NVLink domain with fewer GPUs than is usual among its siblings."""

    name: str
    gpus: int
    usual: int


@dataclass(frozen=True, slots=True)
class FabricFacts:
    """Everything found, in an order that depends on names and numbers only."""

    splits: tuple[Split, ...] = ()
    small: tuple[Small, ...] = ()


def fabric_facts(levels: Sequence[Level], nodes: Table) -> FabricFacts:
    """Look at the domains that span nodes; `levels` are those in effect, broadest first."""
    sizes, splits = nodes.of_machines(_sizes_and_splits)
    if not sizes:
        return FabricFacts()
    above = [level.key for level in takewhile(lambda level: level.key != NVLINK_DOMAIN, levels)]
    nested = _around(sizes, above, nodes) if len(above) < len(levels) else ()
    return FabricFacts(splits=splits, small=tuple(_small(sizes, nested)))


def _sizes(machines: Machines) -> Mapping[str, int]:
    """The GPUs of each domain that spans nodes."""
    sizes: dict[str, int] = {}
    for (domain, _, _, gpus), count in machines:
        if domain is not None:
            sizes[domain] = sizes.get(domain, 0) + gpus * count
    return sizes


def _sizes_and_splits(machines: Machines) -> tuple[Mapping[str, int], tuple[Split, ...]]:
    sizes = _sizes(machines)
    return sizes, (*_split_fabrics(sizes, machines), *_split_chassis(machines))


def _split_fabrics(domains: Collection[str], machines: Machines) -> Iterator[Split]:
    several = _repeated(list(map(fabric_of, domains)))
    found: dict[str, Counter[str]] = {uuid: Counter() for uuid in sorted(several)}
    for hardware, count in machines if several else ():
        if hardware.domain is not None and (uuid := fabric_of(hardware.domain)) in several:
            found[uuid][hardware.domain] += count
    for uuid, within in found.items():
        yield Split("fabric", uuid, len(within), within.total())


def _split_chassis(machines: Machines) -> Iterator[Split]:
    """Chassis in which several fabrics meet; a node that is a domain of its own counts as a fabric of its own.

    A chassis without any fabric holds machines that NVLink does not leave: nothing is split there. Several cliques of
    one fabric are told of the fabric.
    """
    # More than the mixed ones: where only the state of its nodes differs, one fabric will be found.
    mixed = _repeated([chassis for (_, chassis, _, _), _ in machines if chassis])
    found: dict[str, Counter[str | None]] = {name: Counter() for name in sorted(mixed)}
    for hardware, count in machines if mixed else ():
        if hardware.chassis in mixed:
            found[hardware.chassis][hardware.domain] += count
    for name, within in found.items():
        fabrics = {fabric_of(domain) for domain in within if domain is not None}
        alone = within[None]
        if len(fabrics) > 1 or (fabrics and alone):
            yield Split("chassis", name, len(within.keys() - {None}) + alone, within.total())


def _repeated(names: Collection[str]) -> set[str]:
    if len(set(names)) == len(names):
        return set()
    return {name for name, times in Counter(names).items() if times > 1}


def _around(domains: Iterable[str], broader: Sequence[str], nodes: Table) -> Iterator[list[str | None]]:
    """The value of each broader level, from the nearest, around each of the domains, as far as the levels nest."""
    around: list[str | None] = [*domains]
    nodes = nodes.told_by(broader)
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
    """Compare each domain with those of the nearest domain around it that holds several, else with all."""
    found: list[Small] = []
    largest = max(sizes.values())
    waiting = {value for value, gpus in sizes.items() if gpus < largest}
    if not waiting:  # and nothing need be asked of the levels
        return found
    for parents in chain(around, [[None] * len(sizes)]):
        if not waiting:
            break
        asked = set(compress(parents, map(waiting.__contains__, sizes)))
        siblings: dict[str | None, list[str]] = {parent: [] for parent in asked}
        for value, parent in compress(zip(sizes, parents, strict=True), map(asked.__contains__, parents)):
            siblings[parent].append(value)
        for group in siblings.values():
            if len(group) == 1:
                continue
            # The size that most have; of two that are equally common the larger.
            commonness = Counter(map(sizes.__getitem__, group))
            usual, _ = max(commonness.items(), key=lambda entry: (entry[1], entry[0]))
            judged = waiting.intersection(group)
            found += [Small(value, sizes[value], usual) for value in judged if sizes[value] < usual]
            waiting -= judged
    return sorted(found, key=lambda small: (small.gpus - small.usual, small.name))


MOST_VALUES: Final = 10
"""How many domains of a level are told apart, in metrics; a status names fewer."""


@dataclass(frozen=True, slots=True)
class DegradedDomain:
    """One domain with degraded nodes: the values on its path, broadest first."""

    path: tuple[str, ...]
    degraded: int

    @property
    def name(self) -> str:
        """Its own value behind those that it takes to tell it from others; `/` is in no label value."""
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

    A domain of one node is that node: it is counted, and not told by name.
    """


def degraded_levels(levels: Sequence[Level], nodes: Table) -> tuple[DegradedLevel, ...]:
    """The degraded nodes by level, for the levels (broadest first) that they carry."""
    nodes = nodes.readable([level.key for level in levels])
    places = [place for place, kind in enumerate(nodes.kinds) if kind.hardware.state == State.DEGRADED]
    columns = [nodes.column(level.key) for level in levels]
    found = []
    for depth, (level, column) in enumerate(zip(levels, columns, strict=True)):
        nests = all(nodes.nests(levels[i].key, levels[i + 1].key) for i in range(depth))
        around = columns[depth : depth + 1] if nests else columns[: depth + 1]
        counts: Counter[tuple[str, ...]] = Counter()
        named = 0
        for place in places:
            if column.values[place] in OWN:
                named += nodes.weights[place]
            elif column.values[place] is not None:
                counts[tuple([each.values[place] or "" for each in around])] += nodes.weights[place]
        if not counts and not named:
            continue
        alone = _of_one_node(column.values, nodes.weights, {path[-1] for path in counts})
        ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        several = (DegradedDomain(*entry) for entry in ranked if entry[0][-1] not in alone)
        worst = tuple(islice(several, MOST_VALUES))
        found.append(DegradedLevel(level, len(counts) + named, counts.total() + named, worst))
    return tuple(found)


def _of_one_node(values: Sequence[str | None], weights: Sequence[int], asked: set[str]) -> set[str]:
    """Those of the values that only one node carries."""
    counts = dict.fromkeys(asked, 0)
    for value, weight in zip(values, weights, strict=True):
        if value in counts:
            counts[value] += weight
    return {value for value, nodes in counts.items() if nodes == 1}


MOST_FINDINGS: Final = 5
"""How many split or small domains a message or status names."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the selected nodes say of their hardware."""

    gpus: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    """Nodes by `State`; those without an agent's word are in none."""
    degraded_nodes: tuple[str, ...] = ()
    """The first `MOST_NAMES` names, sorted."""
    levels: tuple[DegradedLevel, ...] = ()
    """The levels that degraded nodes carry."""
    fabric: FabricFacts = field(default_factory=FabricFacts)

    def count(self, state: State) -> int:
        """Nodes in that state."""
        return self.states.get(state, 0)


def health(levels: Sequence[Level], nodes: Table) -> Health:
    """The health of `nodes`, whose levels are `levels`, broadest first."""
    gpus, states = nodes.of_machines(_gpus_and_states)
    degraded = (kind.hardware.state == State.DEGRADED for kind in nodes.kinds) if states[State.DEGRADED] else ()
    return Health(
        gpus=gpus,
        states={state: states[state] for state in State if states[state]},
        degraded_nodes=nodes.first_names(degraded, MOST_NAMES),
        levels=degraded_levels(levels, nodes) if states[State.DEGRADED] else (),
        fabric=fabric_facts(levels, nodes),
    )


def _gpus_and_states(machines: Machines) -> tuple[int, Counter[str]]:
    states: Counter[str] = Counter()
    total = 0
    for (_, _, state, gpus), count in machines:
        states[state] += count
        total += gpus * count
    return total, states


def fabric_condition(found: Health) -> Condition:
    """The condition about it; the gravest finding gives the reason, the message has them all."""
    degraded, unknown = found.count(State.DEGRADED), found.count(State.UNKNOWN)
    parts = []
    if found.fabric.splits:
        parts.append(("DomainsSplit", _splits(found.fabric.splits)))
    if degraded:
        parts.append(("NodesDegraded", _degraded(degraded, found.degraded_nodes)))
    if found.fabric.small:
        parts.append(("DomainsSmall", _smalls(found.fabric.small)))
    if unknown:
        who = "1 node does" if unknown == 1 else f"{unknown} nodes do"
        text = f"the hardware of {who} not answer; list: kubectl get nodes -l {STATE}={State.UNKNOWN}"
        parts.append(("NodesUnknown", text))
    if not parts:
        return Condition(FABRIC_HEALTHY, "True", "AllHealthy", "No node is degraded and no NVLink domain is broken")
    return Condition(FABRIC_HEALTHY, "False", parts[0][0], "; ".join(text for _, text in parts))


def _degraded(count: int, names: Sequence[str]) -> str:
    who = "1 node is degraded" if count == 1 else f"{count} nodes are degraded"
    return f"{who}: {', '.join(names)}{_more(count - len(names))}; the annotation {MATRIX} of each tells why"


def _splits(found: Sequence[Split]) -> str:
    named = ", ".join(
        f"{each.by} {each.name} ({each.nodes} nodes in {each.domains} domains)" for each in found[:MOST_FINDINGS]
    )
    what = "1 NVLink domain is split" if len(found) == 1 else f"{len(found)} NVLink domains are split"
    return (
        f"{what}: {named}{_more(len(found) - MOST_FINDINGS)}; unless a partition is meant, look at the fabric "
        "state of the nodes that left"
    )


def _smalls(found: Sequence[Small]) -> str:
    named = ", ".join(
        f"{each.name} ({each.gpus} {plural(each.gpus, 'GPU')}, usual {each.usual})" for each in found[:MOST_FINDINGS]
    )
    what = (
        "1 NVLink domain is smaller than its siblings"
        if len(found) == 1
        else f"{len(found)} NVLink domains are smaller than their siblings"
    )
    return f"{what}: {named}{_more(len(found) - MOST_FINDINGS)}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
