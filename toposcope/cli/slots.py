"""Show how many gangs of each size still fit: now, when running work has ended,
and on an empty cluster.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK, CommandError
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import Plan, number, read, working
from toposcope.cli.terminal import Screen, columns
from toposcope.placement.room import Node
from toposcope.planning.capacity import View
from toposcope.planning.slots import Slots, gpus_per_pod, one_pod, sizes_of, slots, without_repeats
from toposcope.text import first_few, plural

_HEADER: Final = ("GPUS", "LEVEL", "NOW", "ENDED", "EMPTY", "UNUSABLE")
_LEGEND: Final = (
    "ENDED: when Jobs and pods without an owner have ended. "
    "UNUSABLE: of the free GPUs, by no gang of that size."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope slots`."""
    parser.add_argument(
        "topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one"
    )
    add_size_arguments(parser)
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
    plan = read(arguments)
    capacity = plan.capacity
    if not capacity.nodes:
        raise CommandError(
            f"no node carries every level ({plan.scope.path}); "
            "toposcope levels says what is missing"
        )

    with working("slots"):
        per_pod = arguments.gpus_per_pod or gpus_per_pod(capacity)
        sizes = arguments.gpus or sizes_of(capacity, per_pod)
        table = list(slots(capacity, sizes, per_pod))

    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, document(plan, per_pod, table))
    else:
        is_wide = output == "wide"
        lines = _page(screen, plan, sizes, per_pod, table, is_wide=is_wide)
        screen.show(lines)
    return EXIT_OK


def document(plan: Plan, per_pod: int, table: Sequence[Slots]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "topology": plan.scope.name or None,
        "gpusPerPod": per_pod,
        "nodes": len(plan.capacity.nodes),
        "leftOut": len(plan.capacity.left_out),
        "slots": [_slots(row) for row in table],
    }


def _slots(row: Slots) -> dict[str, Any]:
    entry: dict[str, Any] = {"gpus": row.gpus, "domain": row.level.domain}
    for view, count in row.fitting.items():
        entry[view.value] = count
    entry["fragmented"] = round(row.fragmented, 3)
    return entry


def _page(
    screen: Screen,
    plan: Plan,
    sizes: Sequence[int],
    per_pod: int,
    table: Sequence[Slots],
    *,
    is_wide: bool,
) -> Iterator[str]:
    gpus = plural(per_pod, "GPU")
    pods = f"pods with {per_pod} {gpus} each"
    yield f"Gangs that fit into one domain, of {pods} (--gpus-per-pod)"
    nodes = plan.capacity.nodes
    offering = _offering(nodes)
    smallest = plan.capacity.slots(View.EMPTY, one_pod(1))
    if not any(smallest):
        why = _why_none(len(nodes), offering)
        yield screen.paint(f"! no slot can be counted: {why}", "yellow")

    shown = table if is_wide else without_repeats(table)
    rows = list(_rows(shown))
    if rows:
        yield from columns(screen, _HEADER, rows, right=(0, 2, 3, 4, 5))
        yield _LEGEND

    too_large = list(_too_large(sizes, table))
    if too_large:
        yield f"No domain holds {', '.join(too_large)} GPUs, even on an empty cluster."
    if not (sizes or offering):
        yield "No node offers whole GPUs."
    yield from _uncounted(screen, plan)


def _offering(nodes: Iterable[Node]) -> int:
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
        for view in View:
            cells.append(f"{row.fitting[view]:,}")
        cells.append(f"{row.fragmented:.0%}")
        yield cells
        size_above = row.gpus


def _uncounted(screen: Screen, plan: Plan) -> Iterator[str]:
    left_out = plan.capacity.left_out
    if left_out:
        nodes = counted(len(left_out), "node")
        lack = plural(len(left_out), "lacks", "lack")
        names = first_few(left_out)
        text = f"! left out: {nodes} that {lack} a level: {names}"
        yield screen.paint(text, "yellow")
    for line in plan.uncounted():
        yield screen.paint(line, "yellow")


def _why_none(nodes: int, offering: int) -> str:
    """Why no node takes a pod with GPUs, even on an empty cluster.

    `offering` is how many nodes have whole GPUs.
    """
    if not offering:
        what = f"{ALLOCATABLE_GPUS} as whole GPUs, and GPUs of ResourceSlices (DRA) are not counted"
        return f"none of {counted(nodes, 'node')} offers {what}"
    with_gpus = f"{counted(offering, 'node')} with {ALLOCATABLE_GPUS}"
    have = plural(offering, "has a taint", "have taints")
    return f"{with_gpus} {have} that pods have to tolerate"
