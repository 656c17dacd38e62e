"""Show how many gangs of each size still fit: now, when running work has ended, and on an empty cluster."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK, CommandError
from toposcope.cli.output import counted, first_few, show_document
from toposcope.cli.planning import Plan, number, read, working
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.capacity import View
from toposcope.planning.slots import Slots, gpus_per_pod, one_pod, sizes_of, slots, without_repeats
from toposcope.text import plural

_LEGEND: Final = "ENDED: when Jobs and pods without an owner have ended. UNUSABLE: of the free GPUs, by no gang of that size."


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
    return tuple(sorted({number(part.strip()) for part in text.split(",")}))


@on_screen("slots")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the table."""
    plan = read(arguments)
    if not plan.capacity.nodes:
        raise CommandError(
            f"no node carries every level ({plan.scope.path}); toposcope levels says what is missing"
        )
    with working("slots"):
        per_pod = arguments.gpus_per_pod or gpus_per_pod(plan.capacity)
        sizes = arguments.gpus or sizes_of(plan.capacity, per_pod)
        table = list(slots(plan.capacity, sizes, per_pod))
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document(plan, per_pod, table))
    else:
        screen.show(_page(screen, plan, sizes, per_pod, table, wide=arguments.output == "wide"))
    return EXIT_OK


def document(plan: Plan, per_pod: int, table: Sequence[Slots]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/cli.md describes it."""
    return {
        "topology": plan.scope.name or None,
        "gpusPerPod": per_pod,
        "nodes": len(plan.capacity.nodes),
        "leftOut": len(plan.capacity.left_out),
        "slots": [
            {
                "gpus": row.gpus,
                "domain": row.level.domain,
                **{view.value: count for view, count in row.fitting.items()},
                "fragmented": round(row.fragmented, 3),
            }
            for row in table
        ],
    }


def _page(
    screen: Screen,
    plan: Plan,
    sizes: Sequence[int],
    per_pod: int,
    table: Sequence[Slots],
    *,
    wide: bool,
) -> Iterator[str]:
    capacity = plan.capacity
    yield f"Gangs that fit into one domain, of pods with {per_pod} {plural(per_pod, 'GPU')} each (--gpus-per-pod)"
    header = ["GPUS", "LEVEL", "NOW", "ENDED", "EMPTY", "UNUSABLE"]
    rows, before = [], 0
    for row in table if wide else without_repeats(table):
        counts = [f"{row.fitting[view]:,}" for view in View]
        size = f"{row.gpus:,}" if row.gpus != before else ""
        rows.append([size, row.level.domain, *counts, f"{row.fragmented:.0%}"])
        before = row.gpus
    offering = sum(node.total.get(ALLOCATABLE_GPUS, 0) > 0 for node in capacity.nodes)
    if not any(capacity.slots(View.EMPTY, one_pod(1))):
        yield screen.paint(
            f"! no slot can be counted: {_why_none(len(capacity.nodes), offering)}", "yellow"
        )
    if rows:
        yield from columns(screen, header, rows, right=(0, 2, 3, 4, 5))
        yield _LEGEND
    if too_large := [f"{size:,}" for size in sizes if all(row.gpus != size for row in table)]:
        yield f"No domain holds {', '.join(too_large)} GPUs, even on an empty cluster."
    if not sizes and not offering:
        yield "No node offers whole GPUs."
    if capacity.left_out:
        nodes = counted(len(capacity.left_out), "node")
        lack = plural(len(capacity.left_out), "lacks", "lack")
        yield screen.paint(
            f"! left out: {nodes} that {lack} a level: {first_few(capacity.left_out)}", "yellow"
        )
    yield from (screen.paint(line, "yellow") for line in plan.uncounted())


def _why_none(nodes: int, offering: int) -> str:
    """Why no node takes a pod with GPUs, even on an empty cluster; `offering` nodes have whole ones."""
    if not offering:
        what = f"{ALLOCATABLE_GPUS} as whole GPUs, and GPUs of ResourceSlices (DRA) are not counted"
        return f"none of {counted(nodes, 'node')} offers {what}"
    have = plural(offering, "has a taint", "have taints")
    return f"{counted(offering, 'node')} with {ALLOCATABLE_GPUS} {have} that pods have to tolerate"
