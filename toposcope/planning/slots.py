"""How many gangs of a size still fit: at every level, now, when running work has ended, and on an empty cluster.

A gang of N GPUs consists of pods of G GPUs each, ceil(N / G) of them, or of one pod where N is smaller than G. It fits
into a domain that takes all of its pods; gangs do not share GPUs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median_low

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.api.levels import Level
from toposcope.integrations.framework.constraints import Pods
from toposcope.planning.capacity import Capacity, View


@dataclass(frozen=True, slots=True)
class Slots:
    """Gangs of one size at one level."""

    gpus: int
    level: Level
    fitting: Mapping[View, int]
    """How many fit into single domains of the level."""
    free: int
    """Free GPUs on the nodes that take pods."""

    @property
    def fragmented(self) -> float:
        """The share of the free GPUs that no gang of this size can use, from 0 to 1."""
        return 1 - self.fitting[View.NOW] * self.gpus / self.free if self.free else 0.0


def without_repeats(table: Sequence[Slots]) -> list[Slots]:
    """Without the rows that say what the next one does: what fits into a domain fits into the one around it."""
    kept = [
        row
        for row, narrower in pairwise(table)
        if (row.gpus, row.fitting) != (narrower.gpus, narrower.fitting)
    ]
    return [*kept, *table[-1:]]


def gpus_per_pod(capacity: Capacity) -> int:
    """As many GPUs as most nodes have, at least one: gangs are mostly made of pods that fill a node."""
    offered = (node.total.get(ALLOCATABLE_GPUS, 0) for node in capacity.nodes)
    # a file may say that a node has less than none
    counts = Counter(gpus for gpus in offered if gpus > 0)
    return max(counts, key=lambda gpus: (counts[gpus], gpus), default=1)


def sizes_of(capacity: Capacity, per_pod: int) -> tuple[int, ...]:
    """Sizes that are worth a look: a pod and its multiples by two, and what a median domain of each level holds.

    None is larger than the largest domain of the broadest level.
    """
    pods = one_pod(per_pod)
    found, most = set[int](), 0
    for depth in range(1, len(capacity.levels) + 1):
        counts = [
            count * per_pod for count in capacity.sums(View.EMPTY, pods, depth).values() if count
        ]
        if counts:
            most = max(most, *counts)
            found.add(median_low(counts))
    size = per_pod
    while size <= most:
        found.add(size)
        size *= 2
    return tuple(sorted(found))


def one_pod(gpus: int) -> Pods:
    """A pod that requests nothing but GPUs."""
    return Pods("", 1, ((ALLOCATABLE_GPUS, gpus),))


def shape_of(gpus: int, per_pod: int) -> tuple[Pods, int]:
    """The pods of a gang of this size, and how many there are."""
    each = min(gpus, per_pod)
    return one_pod(each), -(-gpus // each)


def slots(capacity: Capacity, sizes: Sequence[int], per_pod: int) -> Iterator[Slots]:
    """Every size at every level that has domains for it on an empty cluster; the smallest and the broadest first."""
    free = sum(capacity.slots(View.NOW, one_pod(1)))

    @cache
    def tally(view: View, pods: Pods, depth: int) -> Sequence[tuple[int, int]]:
        """How many pods a domain takes, and how many such domains there are; many sizes ask for the same."""
        return tuple(Counter(capacity.sums(view, pods, depth).values()).items())

    for gpus in sizes:
        pods, wanted = shape_of(gpus, per_pod)
        for depth, level in enumerate(capacity.levels, 1):
            fitting = {
                view: sum(count // wanted * domains for count, domains in tally(view, pods, depth))
                for view in View
            }
            if fitting[View.EMPTY]:
                yield Slots(gpus, level, fitting, free)
