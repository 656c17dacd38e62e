"""What is amiss in the NVLink fabric between nodes, from their labels alone: pure.

Two findings. A domain is *split* where what hardware says is one is not: one cluster UUID with several cliques, or one
chassis whose nodes are in different fabrics (a tray that fell out of its clique is a domain of its own). A domain is
*small* when it has fewer GPUs than most of its siblings have. NVLink partitions can be made on purpose and racks can be
bought half full, so both are told and nothing is concluded from them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, takewhile

from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.topology.levels import Level
from toposcope.topology.node import fabric_of
from toposcope.topology.table import Machines, Table


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
