"""The fewest pods whose move makes room for a gang in one domain."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.packing import Path
from toposcope.planning.capacity import Capacity, View
from toposcope.planning.slots import shape_of
from toposcope.snapshot.model import PodView

_Cost = tuple[int, tuple[PodView, ...]]
"""How many pods move, and which."""


@dataclass(frozen=True, slots=True)
class Freeing:
    """A domain, and the pods that have to leave it; none where it has the room already."""

    domain: Path
    pods: tuple[PodView, ...]


def freeings(
    capacity: Capacity,
    pods: Iterable[PodView],
    gpus: int,
    per_pod: int,
    depth: int,
    movable: Callable[[PodView], bool],
) -> Iterator[Freeing]:
    """For every domain of a level that can be freed for a gang of `gpus`: the fewest pods to move, the best one first.

    Only pods with GPUs are moved. The number is exact: the domains are asked for one pod of the gang more at a time.
    """
    shape, wanted = shape_of(gpus, per_pod)
    each = dict(shape.requests)[ALLOCATABLE_GPUS]
    slots = capacity.slots(View.NOW, shape)
    on_node: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.node in capacity.number and pod.requests.get(ALLOCATABLE_GPUS) and movable(pod):
            on_node.setdefault(pod.node, []).append(pod)
    members: dict[Path, list[int]] = {}
    for number, path in enumerate(capacity.paths):
        if not capacity.nodes[number].obstacle:
            members.setdefault(path[:depth], []).append(number)
    found = []
    for domain, numbers in members.items():
        missing = wanted - sum(slots[number] for number in numbers)
        costs = [
            steps
            for number in numbers
            if (
                steps := _steps(
                    capacity.nodes[number].free, on_node.get(capacity.nodes[number].name, ()), each
                )
            )
        ]
        best = _cheapest(costs, missing)
        if best is not None:
            found.append((best[0], domain, best[1]))
    for _, domain, moving in sorted(found, key=lambda one: one[:2]):
        yield Freeing(domain, moving)


def _steps(free: Mapping[str, int], pods: Sequence[PodView], each: int) -> list[_Cost]:
    """For 1, 2, ... more slots on a node: the pods to move.

    Taking the largest first moves the fewest.
    """
    steps: list[_Cost] = []
    before = left = max(0, free.get(ALLOCATABLE_GPUS, 0))
    moving: tuple[PodView, ...] = ()
    for pod in sorted(
        pods, key=lambda pod: (-pod.requests[ALLOCATABLE_GPUS], pod.namespace, pod.name)
    ):
        left += pod.requests[ALLOCATABLE_GPUS]
        moving = (*moving, pod)
        while left // each - before // each > len(steps):
            steps.append((len(moving), moving))
    return steps


def _cheapest(nodes: Sequence[Sequence[_Cost]], missing: int) -> _Cost | None:
    """The fewest pods for so many more slots: one number of slots chosen for each node.

    None where they have fewer.
    """
    if missing <= 0:
        return 0, ()
    if all(len(steps) == 1 for steps in nodes):
        chosen = sorted((steps[0] for steps in nodes), key=lambda cost: cost[0])[:missing]
        if len(chosen) < missing:
            return None
        return sum(cost for cost, _ in chosen), tuple(pod for _, pods in chosen for pod in pods)
    best: dict[int, _Cost] = {0: (0, ())}
    for steps in nodes:
        reached = dict(best)
        for slots, (cost, pods) in best.items():
            for more, (further, moving) in enumerate(steps, 1):
                total = min(slots + more, missing)
                if total not in reached or reached[total][0] > cost + further:
                    reached[total] = cost + further, (*pods, *moving)
        best = reached
    return best.get(missing)
