"""How many gangs of a size still fit at every level: now, when work has ended, on an empty cluster.

A gang of N GPUs consists of pods of G GPUs each, ceil(N / G) of them, or of one pod where N is
smaller than G. It fits into a domain that takes all of its pods; gangs do not share GPUs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.integrations.framework.node_affinity import ANY_NODE, NodeFilter
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.snapshot.reach import PodShape


@dataclass(frozen=True, slots=True)
class Slots:
    """Gangs of one size at one level."""

    gpus: int
    level: Level
    fitting: Mapping[FreeBasis, int]
    """How many fit into single domains of the level."""
    free: int
    """Free GPUs on the nodes that take pods."""

    @property
    def fragmented_share(self) -> float:
        """The share of the free GPUs that no gang of this size can use, from 0 to 1."""
        if not self.free:
            return 0.0
        fitting_now = self.fitting[FreeBasis.NOW]
        used = fitting_now * self.gpus
        return 1 - used / self.free


def without_repeats(table: Sequence[Slots]) -> list[Slots]:
    """Without the rows that say what the next one does.

    What fits into a domain fits into the one around it.
    """
    kept = []
    for row, narrower in pairwise(table):
        is_same_size = row.gpus == narrower.gpus
        if is_same_size and row.fitting == narrower.fitting:
            continue
        kept.append(row)
    kept += table[-1:]
    return kept


def gpus_per_pod(capacity: Capacity) -> int:
    """The GPUs that most nodes have, at least one: most pods of gangs fill a node."""
    counts = Counter[int]()
    for node in capacity.nodes:
        gpus = node.total.get(ALLOCATABLE_GPUS, 0)
        if gpus > 0:  # a file may say that a node has less than none
            counts[gpus] += 1
    if not counts:
        return 1
    most = max(counts.values())
    largest = 0
    for gpus, nodes in counts.items():
        if nodes == most:
            largest = max(largest, gpus)
    return largest


def sizes_of(capacity: Capacity, per_pod: int, like: PodShape) -> tuple[int, ...]:
    """Sizes worth showing.

    A pod and its multiples by two, and what a median domain of each level holds. None is larger
    than the largest domain of the broadest level. Pods may use the nodes that `like` may.
    """
    pods = one_pod(per_pod, like.node_filter)
    sizes = set[int]()
    largest = 0
    for depth, _ in enumerate(capacity.levels, 1):
        gpus = []
        sums = capacity.sums(FreeBasis.EMPTY, pods, depth)
        for count in sums.values():
            if count:
                gpus.append(count * per_pod)
        if gpus:
            largest = max(largest, *gpus)
            sizes.add(median_low(gpus))

    size = per_pod
    while size <= largest:
        sizes.add(size)
        size *= 2
    return tuple(sorted(sizes))


def one_pod(gpus: int, node_filter: NodeFilter = ANY_NODE) -> Pods:
    """A pod that requests nothing but GPUs."""
    requests = ((ALLOCATABLE_GPUS, gpus),)
    return Pods("", 1, requests, node_filter)


def shape_of(gpus: int, per_pod: int, like: PodShape) -> tuple[Pods, int]:
    """The pods of a gang of this size, and how many there are.

    They request CPU and memory in proportion as `like` does, and may use the same nodes.
    """
    each = min(gpus, per_pod)
    pods = -(-gpus // each)
    return Pods("", 1, like.requests(each), like.node_filter), pods


def slots(
    capacity: Capacity, sizes: Sequence[int], per_pod: int, like: PodShape
) -> Iterator[Slots]:
    """Every size at every level that has domains for it on an empty cluster.

    The smallest sizes and the broadest levels come first. `like` is as in `shape_of`.
    """
    smallest = one_pod(1, like.node_filter)
    free = sum(capacity.slots(FreeBasis.NOW, smallest))
    tallies = _Tallies(capacity)
    for gpus in sizes:
        pods, wanted = shape_of(gpus, per_pod, like)
        for depth, level in enumerate(capacity.levels, 1):
            fitting = {}
            for view in FreeBasis:
                fitting[view] = tallies.gangs(view, pods, depth, wanted)
            if fitting[FreeBasis.EMPTY]:
                yield Slots(
                    gpus=gpus,
                    level=level,
                    fitting=fitting,
                    free=free,
                )


class _Tallies:
    """How many domains take how many pods; many sizes need the same."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._tallies: dict[tuple[FreeBasis, Pods, int], Counter[int]] = {}

    def gangs(self, view: FreeBasis, pods: Pods, depth: int, wanted: int) -> int:
        """How many gangs of this many pods fit, each into one domain of a level."""
        key = view, pods, depth
        tally = self._tallies.get(key)
        if tally is None:
            sums = self._capacity.sums(view, pods, depth)
            tally = Counter(sums.values())
            self._tallies[key] = tally

        gangs = 0
        for slots_there, domains in tally.items():
            in_each = slots_there // wanted
            gangs += in_each * domains
        return gangs
