"""Show in which order nodes or domains can be drained: what each costs,
and which can be down together.
"""  # noqa: D205 - a paragraph of --help

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import exit_code
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import NamedPlan, number, read, read_budgets, working
from toposcope.cli.reach import add_like, add_tolerate, repelling_document, shape_for
from toposcope.cli.slots import add_size_arguments, per_pod_for
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.budgets import Budgets
from toposcope.planning.drain_order import DrainOrder, DrainStep, Loss, units_of
from toposcope.planning.gangs import Gang
from toposcope.planning.slots import sizes_of
from toposcope.text import first_few, plural

_MAX_LOSSES: Final = 2
_MAX_GANGS: Final = 10


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
    add_like(parser)
    add_tolerate(parser)
    add_source_arguments(parser, ("table", "wide", "json", "yaml", "name"))


@on_screen("drain-order")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the order; 1 where a PodDisruptionBudget blocks one of the steps."""
    collected = Budgets()
    plan = read(arguments, has_published=bool(arguments.like), others=collected)
    budgets = read_budgets(arguments, plan.snapshot.pods or (), collected)
    capacity = plan.capacity
    shape = shape_for(arguments, plan.snapshot)
    per_pod = per_pod_for(arguments, capacity, shape)
    sizes = arguments.gpus or sizes_of(capacity, per_pod, shape)
    depth = 0
    what = "node"
    if arguments.level:
        level = plan.level(arguments.level)
        depth = capacity.levels.index(level) + 1
        what = level.domain

    with working("what each step costs"):
        units = units_of(plan.snapshot, capacity, plan.gangs, budgets, depth)
        order = DrainOrder(capacity, budgets, sizes, per_pod, shape)
        steps = list(islice(order.steps(units), arguments.steps))

    output = arguments.output
    if output in ("json", "yaml"):
        documents = [document(plan, step) for step in steps]
        tainted = repelling_document(plan.repelling_for(shape))
        fields = {"level": what, "steps": documents, "tainted": tainted}
        show_document(screen, output, fields)
    elif output == "name":
        screen.show(_drainable(plan, steps))
    else:
        is_wide = output == "wide"
        lines = list(_page(screen, plan, what, steps, units=len(units), is_wide=is_wide))
        for line in plan.uncounted(shape):
            lines.append(screen.paint(line, "yellow"))
        screen.show(lines)

    is_blocked = any(step.blocked for step in steps)
    return exit_code(is_ok=not is_blocked)


def _drainable(plan: NamedPlan, steps: Sequence[DrainStep]) -> Iterator[str]:
    """The names of the nodes that no budget blocks."""
    for step in steps:
        if not step.blocked:
            yield from _nodes(plan, step)


def _nodes(plan: NamedPlan, step: DrainStep) -> Iterator[str]:
    for place in step.unit.nodes:
        node = plan.capacity.nodes[place]
        yield node.name


def document(plan: NamedPlan, step: DrainStep) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one step; docs/check.md describes it."""
    unit = step.unit
    return {
        "name": unit.name,
        "nodes": list(_nodes(plan, step)),
        "needs": list(unit.needs),
        "gangs": [_gang(gang) for gang in unit.gangs],
        "slots": [_loss(loss) for loss in step.losses],
        "blockedBy": list(step.blocked),
    }


def _gang(gang: Gang) -> dict[str, str]:
    return {
        "kind": gang.kind,
        "namespace": gang.namespace,
        "name": gang.name,
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {
        "gpus": loss.gpus,
        "domain": loss.level.domain,
        "before": loss.before,
        "after": loss.after,
    }


def _page(
    screen: Screen,
    plan: NamedPlan,
    what: str,
    steps: Sequence[DrainStep],
    *,
    units: int,
    is_wide: bool,
) -> Iterator[str]:
    header = ["STEP", what.upper(), "NODES", "GANGS", "NEEDS", "LARGEST SLOTS LOST"]
    rows = []
    for place, step in enumerate(steps, 1):
        losses = step.losses
        if not is_wide:
            losses = losses[:_MAX_LOSSES]
        rows.append(_row(place, step, losses))
    yield from columns(screen, header, rows, right=(0, 2, 3))

    for step in steps:
        unit = step.unit
        if step.blocked:
            budgets = ", ".join(step.blocked)
            text = f"cannot go down with those above: {budgets} allows no more evictions"
            yield screen.paint(f"! {unit.name}: {text}", "yellow")
        if is_wide and unit.gangs:
            gangs = [gang.handle for gang in unit.gangs]
            names = first_few(gangs, _MAX_GANGS)
            yield f"  {unit.name} runs {names}"

    yield _together(steps, counted(units, what))
    left_out = plan.capacity.left_out
    if left_out:
        nodes = counted(len(left_out), "node")
        yield screen.paint(f"! left out: {nodes} that lack a level", "yellow")


def _row(place: int, step: DrainStep, losses: Sequence[Loss]) -> list[str]:
    unit = step.unit
    costs = []
    for loss in losses:
        slot = f"{loss.gpus:,} {loss.level.domain}"
        costs.append(f"{slot} {loss.before:,} -> {loss.after:,}")
    return [
        f"!{place}" if step.blocked else str(place),
        unit.name,
        str(len(unit.nodes)),
        str(len(unit.gangs)),
        ",".join(unit.needs) or "-",
        ", ".join(costs) or "-",
    ]


def _together(steps: Sequence[DrainStep], units: str) -> str:
    """How many steps can be done at once: those before the first that is blocked."""
    together = 0
    stopping: set[int] = set()
    for step in steps:
        if step.blocked:
            break
        together += 1
        for gang in step.unit.gangs:
            stopping.add(id(gang))

    lost = ""
    if stopping:
        gangs = counted(len(stopping), "gang")
        loses = plural(len(stopping), "loses", "lose")
        lost = f"; {gangs} {loses} pods"
    return f"The first {together} of {units} can be down together{lost}."
