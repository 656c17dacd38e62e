"""Show how many gangs of each size still fit: now, when running work has ended,
and on an empty cluster.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import NamedPlan, number, read, working
from toposcope.cli.reach import (
    add_like,
    add_tolerate,
    reach_document,
    reach_lines,
    repelling_document,
    shape_for,
)
from toposcope.cli.terminal import Screen, columns
from toposcope.integrations.framework.amounts import amounts
from toposcope.placement.room import RoomNode
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.slots import Slots, gpus_per_pod, one_pod, sizes_of, slots, without_repeats
from toposcope.snapshot.reach import PodShape, Reach
from toposcope.text import first_few, plural

_HEADER: Final = ("GPUS", "LEVEL", "NOW", "ENDED", "EMPTY", "UNUSABLE")
_LEGEND: Final = (
    "ENDED: when Jobs and pods without an owner have ended. "
    "UNUSABLE: share of the free GPUs that no gang of that size can use."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope slots`."""
    parser.add_argument(
        "topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one"
    )
    add_size_arguments(parser)
    add_like(parser)
    add_tolerate(parser)
    add_source_arguments(parser, ("table", "wide", "json", "yaml"))


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--gpus` and `--gpus-per-pod`."""
    about = "sizes of gangs; default: a pod, its doublings, and the size of a domain of each level"
    parser.add_argument("--gpus", type=_numbers, metavar="N,N,...", help=about)
    parser.add_argument(
        "--gpus-per-pod",
        type=number,
        metavar="N",
        help="default: as many as most nodes have, so pods fill nodes",
    )


def _numbers(text: str) -> tuple[int, ...]:
    numbers = {number(part.strip()) for part in text.split(",")}
    return tuple(sorted(numbers))


@on_screen("slots")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the table."""
    plan = read(arguments, has_published=bool(arguments.like))
    capacity = plan.capacity
    shape = shape_for(arguments, plan.snapshot)
    with working("slots"):
        per_pod = per_pod_for(arguments, capacity, shape)
        sizes = arguments.gpus or sizes_of(capacity, per_pod, shape)
        table = list(slots(capacity, sizes, per_pod, shape))

    counted_slots = _Counted(plan, shape, per_pod, sizes, table)
    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, document(counted_slots))
    else:
        is_wide = output == "wide"
        screen.show(_page(screen, counted_slots, is_wide=is_wide))
    return EXIT_OK


def per_pod_for(arguments: argparse.Namespace, capacity: Capacity, shape: PodShape) -> int:
    """GPUs of a pod: those of `--gpus-per-pod`, of a pod like `--like`, or of most nodes."""
    if arguments.gpus_per_pod:
        per_pod: int = arguments.gpus_per_pod
        return per_pod
    return shape.gpus if arguments.like else gpus_per_pod(capacity)


@dataclass(frozen=True, slots=True)
class _Counted:
    """What was counted, of which pods."""

    plan: NamedPlan
    shape: PodShape
    per_pod: int
    sizes: Sequence[int]
    table: Sequence[Slots]

    @property
    def reach(self) -> Reach:
        """What keeps such pods from free GPUs."""
        return Reach(self.plan.snapshot, self.plan.scope, self.shape)


def document(counted_slots: _Counted) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    plan = counted_slots.plan
    return {
        "topology": plan.scope.name or None,
        "gpusPerPod": counted_slots.per_pod,
        "nodes": len(plan.capacity.nodes),
        "leftOut": len(plan.capacity.left_out),
        "slots": [_slots(row) for row in counted_slots.table],
        "tainted": repelling_document(plan.repelling_for(counted_slots.shape)),
        **reach_document(counted_slots.reach),
    }


def _slots(row: Slots) -> dict[str, Any]:
    entry: dict[str, Any] = {"gpus": row.gpus, "domain": row.level.domain}
    for view, count in row.fitting.items():
        entry[view.value] = count
    entry["fragmented"] = round(row.fragmented_share, 3)
    return entry


def _page(screen: Screen, counted_slots: _Counted, *, is_wide: bool) -> Iterator[str]:
    plan, sizes, table = counted_slots.plan, counted_slots.sizes, counted_slots.table
    yield _heading(counted_slots)
    nodes = plan.capacity.nodes
    offering = _offering(nodes)
    shape = counted_slots.shape
    smallest = plan.capacity.slots(FreeBasis.EMPTY, one_pod(1, shape.node_filter))
    if not any(smallest):
        why = _why_none(plan, offering)
        yield screen.paint(f"! no slot can be counted: {why}", "yellow")

    shown = table if is_wide else without_repeats(table)
    rows = list(_rows(shown))
    if rows:
        yield from columns(screen, _HEADER, rows, right=(0, 2, 3, 4, 5))
        yield _LEGEND

    too_large = list(_too_large(sizes, table))
    if too_large:
        yield f"No domain holds {', '.join(too_large)} GPUs, even on an empty cluster."
    if nodes and not (sizes or offering):
        yield "No node offers whole GPUs."
    yield from _uncounted(screen, plan, shape)
    yield from reach_lines(screen, counted_slots.reach, is_wide=is_wide)


def _heading(counted_slots: _Counted) -> str:
    """What is counted, and the flags that say of which pods."""
    shape = counted_slots.shape
    pods = amounts(shape.requests(counted_slots.per_pod))
    flags = "--gpus-per-pod, --like" if shape.cpu or shape.memory else "--gpus-per-pod"
    return f"Gangs that fit into one domain, of pods with {pods} each ({flags})"


def _offering(nodes: Iterable[RoomNode]) -> int:
    """How many nodes have whole GPUs."""
    count = 0
    for node in nodes:
        if node.total.get(ALLOCATABLE_GPUS, 0) > 0:
            count += 1
    return count


def _too_large(sizes: Sequence[int], table: Sequence[Slots]) -> Iterator[str]:
    """The sizes that fit into no domain."""
    fitting = {row.gpus for row in table}
    for size in sizes:
        if size not in fitting:
            yield f"{size:,}"


def _rows(table: Iterable[Slots]) -> Iterator[list[str]]:
    """The rows of the table; a size stands in the first of its rows alone."""
    size_above = 0
    for row in table:
        size = f"{row.gpus:,}" if row.gpus != size_above else ""
        cells = [size, row.level.domain]
        for view in FreeBasis:
            cells.append(f"{row.fitting[view]:,}")
        cells.append(f"{row.fragmented_share:.0%}")
        yield cells
        size_above = row.gpus


def _uncounted(screen: Screen, plan: NamedPlan, shape: PodShape) -> Iterator[str]:
    left_out = plan.capacity.left_out
    if left_out:
        nodes = counted(len(left_out), "node")
        lack = plural(len(left_out), "lacks", "lack")
        names = first_few(left_out)
        text = f"! left out: {nodes} that {lack} a level: {names}"
        yield screen.paint(text, "yellow")
    for line in plan.uncounted(shape):
        yield screen.paint(line, "yellow")


def _why_none(plan: NamedPlan, offering: int) -> str:
    """Why no node takes a pod with GPUs, even on an empty cluster.

    `offering` is how many nodes have whole GPUs.
    """
    nodes = len(plan.capacity.nodes)
    if not nodes:
        return (
            f"no node carries every level ({plan.scope.path}); "
            "toposcope levels says what is missing"
        )
    if not offering:
        what = f"{ALLOCATABLE_GPUS} as whole GPUs, and GPUs of ResourceSlices (DRA) are not counted"
        return f"none of {counted(nodes, 'node')} offers {what}"
    with_gpus = f"{counted(offering, 'node')} with {ALLOCATABLE_GPUS}"
    have = plural(offering, "has a taint", "have taints")
    return f"{with_gpus} {have} that pods have to tolerate"
