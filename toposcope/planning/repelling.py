"""The nodes with GPUs that planning does not count, because of their taints.

Planning counts what a pod with GPUs of the cluster tolerates: what most of them tolerate, and what
the user adds.
"""

from dataclasses import dataclass, field

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.node_affinity import Taint
from toposcope.planning.capacity import Capacity
from toposcope.snapshot.filters import own_taints
from toposcope.snapshot.reach import PodShape
from toposcope.text import first_few, plural


@dataclass(slots=True)
class Repelling:
    """A taint, and the nodes that are not counted because of it."""

    taint: Taint
    gpus: int = 0
    nodes: list[str] = field(default_factory=list)

    @property
    def sentence(self) -> str:
        """`not counted: 24 GPUs on 3 nodes (a, b, c) that have the taint ...`."""
        count = len(self.nodes)
        gpus = plural(self.gpus, "GPU")
        nodes = plural(count, "node")
        have = plural(count, "has", "have")
        names = first_few(self.nodes)
        return (
            f"not counted: {self.gpus:,} {gpus} on {count:,} {nodes} ({names}) that {have} "
            f"the taint {self.taint}, except for gangs that tolerate it"
        )

    @property
    def flag(self) -> str:
        """The flag with which they are counted: `--tolerate team=vision`."""
        taint = self.taint
        if taint.value:
            return f"--tolerate {taint.key}={taint.value}"
        return f"--tolerate {taint.key}"


def repelling_taints(capacity: Capacity, like: PodShape) -> tuple[Repelling, ...]:
    """The taints that keep pods like this from nodes with GPUs, the most GPUs first.

    A node counts for the first of its taints that they do not tolerate.
    """
    by_taint: dict[Taint, Repelling] = {}
    for node in capacity.nodes:
        gpus = node.total.get(ALLOCATABLE_GPUS, 0)
        if gpus <= 0 or not node.taints:
            continue
        for taint in own_taints(node.taints):
            if like.node_filter.tolerates(taint):
                continue
            repelling = by_taint.setdefault(taint, Repelling(taint))
            repelling.gpus += gpus
            repelling.nodes.append(node.name)
            break
    all_repelling = by_taint.values()
    return tuple(sorted(all_repelling, key=_most_gpus_first))


def _most_gpus_first(repelling: Repelling) -> tuple[int, str]:
    return -repelling.gpus, str(repelling.taint)
