"""Show in which order nodes or domains can be drained: what each costs, and which can be down together."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS
from toposcope.cli.output import counted, first_few, show_document
from toposcope.cli.planning import Plan, number, read, read_budgets, working
from toposcope.cli.slots import add_size_arguments
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.budgets import Budgets
from toposcope.planning.drain_order import DrainOrder, Step, units_of
from toposcope.planning.slots import gpus_per_pod, sizes_of
from toposcope.text import plural


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope drain-order`."""
    parser.add_argument(
        "topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one"
    )
    parser.add_argument("--level", help="drain whole domains of this level; default: nodes")
    parser.add_argument(
        "-n", "--steps", type=number, default=10, metavar="N", help="how many; default: 10"
    )
    add_size_arguments(parser)
    add_source_arguments(parser, ("table", "wide", "json", "yaml", "name"))


@on_screen("drain-order")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the order; 1 where a PodDisruptionBudget blocks one of the steps."""
    collected = Budgets()
    plan = read(arguments, others=collected)
    budgets = read_budgets(arguments, plan.snapshot.pods or (), collected)
    per_pod = arguments.gpus_per_pod or gpus_per_pod(plan.capacity)
    sizes = arguments.gpus or sizes_of(plan.capacity, per_pod)
    depth = plan.capacity.levels.index(plan.level(arguments.level)) + 1 if arguments.level else 0
    with working("what each step costs"):
        units = units_of(plan.snapshot, plan.capacity, plan.gangs, budgets, depth)
        order = DrainOrder(plan.capacity, budgets, sizes, per_pod)
        steps = list(islice(order.steps(units), arguments.steps))
    what = plan.level(arguments.level).domain if arguments.level else "node"
    if arguments.output in ("json", "yaml"):
        show_document(
            screen,
            arguments.output,
            {"level": what, "steps": [document(plan, step) for step in steps]},
        )
    elif arguments.output == "name":
        names = plan.capacity.nodes
        screen.show(
            names[number].name for step in steps if not step.blocked for number in step.unit.nodes
        )
    else:
        screen.show(_page(screen, plan, what, steps, len(units), wide=arguments.output == "wide"))
    return EXIT_PROBLEMS if any(step.blocked for step in steps) else EXIT_OK


def document(plan: Plan, step: Step) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one step; docs/planning.md describes it."""
    unit = step.unit
    return {
        "name": unit.name,
        "nodes": [plan.capacity.nodes[number].name for number in unit.nodes],
        "needs": list(unit.needs),
        "gangs": [
            {"kind": gang.kind, "namespace": gang.namespace, "name": gang.name}
            for gang in unit.gangs
        ],
        "slots": [
            {
                "gpus": loss.gpus,
                "domain": loss.level.domain,
                "before": loss.before,
                "after": loss.after,
            }
            for loss in step.losses
        ],
        "blockedBy": list(step.blocked),
    }


def _page(
    screen: Screen, plan: Plan, what: str, steps: Sequence[Step], units: int, *, wide: bool
) -> Iterator[str]:
    header = ["STEP", what.upper(), "NODES", "GANGS", "NEEDS", "LARGEST SLOTS LOST"]
    rows = []
    for place, step in enumerate(steps, 1):
        unit, losses = step.unit, step.losses if wide else step.losses[:2]
        costs = ", ".join(
            f"{loss.gpus:,} {loss.level.domain} {loss.before:,} -> {loss.after:,}"
            for loss in losses
        )
        mark = "!" if step.blocked else ""
        row = [
            f"{mark}{place}",
            unit.name,
            str(len(unit.nodes)),
            str(len(unit.gangs)),
            ",".join(unit.needs) or "-",
        ]
        rows.append([*row, costs or "-"])
    yield from columns(screen, header, rows, right=(0, 2, 3))
    for step in steps:
        if step.blocked:
            yield screen.paint(
                f"! {step.unit.name}: not with those above: {', '.join(step.blocked)} allows no more evictions",
                "yellow",
            )
        if wide and step.unit.gangs:
            yield f"  {step.unit.name} runs {first_few([gang.handle for gang in step.unit.gangs], 10)}"
    together = next((place for place, step in enumerate(steps) if step.blocked), len(steps))
    stopping = len({id(gang) for step in steps[:together] for gang in step.unit.gangs})
    lost = (
        f"; {counted(stopping, 'gang')} {plural(stopping, 'loses', 'lose')} pods"
        if stopping
        else ""
    )
    yield f"The first {together} of {counted(units, what)} can be down together{lost}."
    if plan.capacity.left_out:
        left = len(plan.capacity.left_out)
        yield screen.paint(
            f"! not in the order: {counted(left, 'node')} that lack a level", "yellow"
        )
