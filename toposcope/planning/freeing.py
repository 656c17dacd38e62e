"""The fewest pods whose move makes room for a gang in one domain."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.integrations.framework.packing import Path, Requests, add_pods, times_by_name
from toposcope.planning.capacity import Capacity, FreeBasis, with_amounts
from toposcope.planning.slots import shape_of
from toposcope.snapshot.model import PodView
from toposcope.snapshot.reach import PodShape

_Moved = tuple[PodView, ...]
"""Pods that move; the fewer, the better."""
_MOST_CHOICES: Final = 1_000
"""Choices of pods of one node that are tried."""


@dataclass(frozen=True, slots=True)
class Freeing:
    """A domain, and the pods that have to leave it; none where it has the room already."""

    domain: Path
    pods: tuple[PodView, ...]


def freeings(
    capacity: Capacity,
    pods: Iterable[PodView],
    gpus: int,
    *,
    per_pod: int,
    like: PodShape,
    depth: int,
    movable: Callable[[PodView], bool],
) -> Iterator[Freeing]:
    """For every domain of a level that can be freed for a gang of `gpus`: the fewest pods to move.

    The best domain comes first. Only pods with GPUs are moved. The number is exact, unless CPU or
    memory is short on a node whose pods allow more choices than are tried.
    """
    shape, wanted = shape_of(gpus, per_pod, like)
    slots = capacity.slots(FreeBasis.NOW, shape)
    slots_when_empty = capacity.slots(FreeBasis.EMPTY, shape)
    on_node = _movable_on(capacity, pods, movable)

    candidates: list[Freeing] = []
    members = _open_members(capacity, depth)
    for domain, numbers in members.items():
        missing = wanted
        by_node = []
        for number in numbers:
            missing -= slots[number]
            node = capacity.nodes[number]
            movable_here = on_node.get(node.name, ())
            if not (movable_here and slots_when_empty[number]):
                continue
            steps = _steps(node.free, movable_here, shape.requests)
            if steps:
                by_node.append(steps)

        moved = _fewest(by_node, missing)
        if moved is not None:
            candidates.append(Freeing(domain, moved))
    yield from sorted(candidates, key=_fewest_first)


def _fewest_first(freeing: Freeing) -> tuple[int, Path]:
    return len(freeing.pods), freeing.domain


def _movable_on(
    capacity: Capacity, pods: Iterable[PodView], movable: Callable[[PodView], bool]
) -> dict[str, list[PodView]]:
    """By node: the pods with GPUs that may move."""
    on_node: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.node not in capacity.number:
            continue
        if pod.requests.get(ALLOCATABLE_GPUS) and movable(pod):
            pods_there = on_node.setdefault(pod.node, [])
            pods_there.append(pod)
    return on_node


def _open_members(capacity: Capacity, depth: int) -> dict[Path, list[int]]:
    """By domain: its nodes that take pods."""
    members: dict[Path, list[int]] = {}
    for number, path in enumerate(capacity.paths):
        node = capacity.nodes[number]
        if node.obstacle:
            continue
        domain = path[:depth]
        numbers = members.setdefault(domain, [])
        numbers.append(number)
    return members


def _steps(free: Mapping[str, int], pods: Sequence[PodView], requests: Requests) -> list[_Moved]:
    """For 1, 2, ... more slots on a node: the fewest pods to move."""
    steps: list[_Moved] = []
    slots_before = times_by_name(free, requests)
    largest_first = sorted(pods, key=_largest_first)
    for count in range(1, len(pods) + 1):
        moved = _best_of(free, largest_first, count, requests)
        gained = _slots_without(free, moved, requests) - slots_before
        while len(steps) < gained:
            steps.append(moved)
    return steps


def _best_of(
    free: Mapping[str, int], pods: Sequence[PodView], count: int, requests: Requests
) -> _Moved:
    """The `count` pods that leave the most slots when they move.

    Those with the most GPUs do, unless something else is short: then others are tried.
    """
    best = tuple(pods[:count])
    most = _slots_without(free, best, requests)
    gpus_alone = []
    for resource, amount in requests:
        if resource == ALLOCATABLE_GPUS:
            gpus_alone.append((resource, amount))
    bound = _slots_without(free, best, gpus_alone)
    if most == bound:
        return best
    for moved in islice(combinations(pods, count), _MOST_CHOICES):
        slots = _slots_without(free, moved, requests)
        if slots > most:
            best, most = moved, slots
    return best


def _slots_without(free: Mapping[str, int], moved: _Moved, requests: Requests) -> int:
    """How many pods fit on a node once these have left it."""
    released: dict[str, int] = {}
    for pod in moved:
        held = pod.requests.items()
        add_pods(released, held, 1)
    offered = with_amounts(free, released)
    return times_by_name(offered, requests)


def _largest_first(pod: PodView) -> tuple[int, str, str]:
    return -pod.requests[ALLOCATABLE_GPUS], pod.namespace, pod.name


def _fewest(nodes: Sequence[Sequence[_Moved]], missing: int) -> _Moved | None:
    """The fewest pods that make this many more slots, by some slots on each node.

    None where the nodes cannot make as many.
    """
    if missing <= 0:
        return ()
    if all(len(steps) == 1 for steps in nodes):
        return _fewest_of_single(nodes, missing)

    best: dict[int, _Moved] = {0: ()}
    for steps in nodes:
        best = _with_node(best, steps, missing)
    return best.get(missing)


def _fewest_of_single(nodes: Sequence[Sequence[_Moved]], missing: int) -> _Moved | None:
    """The fewest pods where each node can make one slot: those of the nodes with the fewest."""
    moves = [steps[0] for steps in nodes]
    if len(moves) < missing:
        return None
    moves.sort(key=len)
    fewest = moves[:missing]
    return tuple(chain.from_iterable(fewest))


def _with_node(
    best: Mapping[int, _Moved], steps: Sequence[_Moved], missing: int
) -> dict[int, _Moved]:
    """The fewest pods by number of slots, once a node gives none, one or more of them."""
    reached = dict(best)
    for slots, moved in best.items():
        for more, further in enumerate(steps, 1):
            total = min(slots + more, missing)
            fewest = reached.get(total)
            pods = len(moved) + len(further)
            if fewest is None or len(fewest) > pods:
                reached[total] = (*moved, *further)
    return reached
