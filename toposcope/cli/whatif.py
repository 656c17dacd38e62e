"""Show what a change would do: drain, add nodes, admit and finish workloads, or free a domain.

Changes nothing.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from toposcope.api.levels import Level
from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS, CommandError
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import Plan, number, pair, read, read_budgets, working
from toposcope.cli.slots import add_size_arguments
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.budgets import Budgets
from toposcope.planning.capacity import View
from toposcope.planning.changes import finished
from toposcope.planning.drain_order import over_budget
from toposcope.planning.freeing import Freeing, freeings
from toposcope.planning.rehoming import Outcome, Rehomed
from toposcope.planning.required import RequiredLevels
from toposcope.planning.slots import Slots, gpus_per_pod, sizes_of, slots
from toposcope.planning.whatif import Changes, WhatIf, vacated, whatif
from toposcope.snapshot.documents import documents
from toposcope.snapshot.model import PodView
from toposcope.snapshot.problems import InputError, Problem
from toposcope.text import plural

_SHOWN = 15
"""Gangs that are named one by one: the drain of a zone concerns hundreds."""
_MOST_TRIED = 20
"""Domains of which it is tried whether the pods that have to leave find room elsewhere, the cheapest first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope whatif`."""
    parser.add_argument(
        "topology", nargs="?", metavar="TOPOLOGY", help="a ClusterTopology; default: the only one"
    )
    change = parser.add_argument_group("what changes, in this order")
    change.add_argument(
        "--finish",
        action="append",
        default=[],
        metavar="[NAMESPACE/]NAME",
        help="a gang ends; can be repeated",
    )
    change.add_argument(
        "--add", type=number, metavar="N", help="N more nodes like --like, in the domains of --in"
    )
    change.add_argument("--like", metavar="NODE", help="what the nodes of --add are like")
    change.add_argument(
        "--in", dest="domains", action="append", default=[], type=pair, metavar="LEVEL=VALUE",
        help="a domain of the nodes of --add; default: those of --like; can be repeated",
    )  # fmt: skip
    change.add_argument(
        "--drain",
        action="append",
        default=[],
        metavar="NODE|LEVEL=VALUE",
        help="a node or domain; can be repeated",
    )
    change.add_argument(
        "--admit",
        action="append",
        default=[],
        metavar="FILE",
        help="workloads to run, JSON or YAML; can be repeated",
    )
    free = parser.add_argument_group("or: which pods to move so that a gang fits")
    free.add_argument(
        "--free", type=number, metavar="GPUS", help="the size of the gang, in one domain of --level"
    )
    free.add_argument(
        "--level", help="a level; default: the narrowest one with domains of that size"
    )
    free.add_argument(
        "--priority-below", type=int, metavar="N", help="move only pods with a lower priority"
    )
    add_size_arguments(parser)
    add_source_arguments(parser, ("table", "json", "yaml"))


@on_screen("whatif")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print what changes; 1 where a gang is torn apart or waits, a workload does not fit, or nothing can be freed."""
    changing = bool(arguments.finish or arguments.add or arguments.drain or arguments.admit)
    if changing == bool(arguments.free):
        raise CommandError("give what changes (--drain, --add, --finish, --admit), or --free GPUS")
    if bool(arguments.add) != bool(arguments.like) or (arguments.domains and not arguments.add):
        raise CommandError(
            "--add N, --like NODE and --in LEVEL=VALUE belong together; --in may be left out"
        )
    budgets = Budgets()
    others, required = budgets if arguments.free or arguments.drain else None, RequiredLevels()
    plan = read(arguments, published=bool(arguments.admit), others=others, required=required)
    per_pod = arguments.gpus_per_pod or gpus_per_pod(plan.capacity)
    if arguments.free:
        return _free(
            screen,
            arguments,
            plan,
            per_pod,
            read_budgets(arguments, plan.snapshot.pods or (), budgets),
        )
    changes = _changes(arguments, plan)
    if arguments.drain and (budgets.budgets or not arguments.files):
        read_budgets(arguments, plan.snapshot.pods or (), budgets)
    held = over_budget(finished(plan.snapshot, changes.finish), budgets, changes.drain)
    with working("what changes"):
        result = whatif(plan.snapshot, arguments.topology, plan.capacity, plan.gangs, changes)
        sizes = arguments.gpus or sizes_of(plan.capacity, per_pod)
        table = _changed(result, sizes, per_pod)
    if arguments.output == "table":
        screen.show(_page(screen, result, table, held))
    else:
        show_document(screen, arguments.output, document(result, table) | {"blockedBy": [*held]})
    return EXIT_OK if result.well and not held else EXIT_PROBLEMS


def _changes(arguments: argparse.Namespace, plan: Plan) -> Changes:
    finish = tuple(gang for name in arguments.finish for gang in plan.only(name))
    drain = frozenset(name for wanted in arguments.drain for name in plan.nodes(wanted))
    add = None
    if arguments.add:
        like = plan.node(arguments.like)
        add = (
            arguments.add,
            like,
            {plan.level(level).key: value for level, value in arguments.domains},
        )
    return Changes(finish, add, drain, tuple(_admitted(arguments)))


def _admitted(arguments: argparse.Namespace) -> Iterator[Any]:
    problems: list[Problem] = []
    for document in documents(arguments.admit, problems.append, limit=arguments.from_limit):
        try:
            yield document.read(dict)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)


Change = tuple[Slots | None, Slots | None]


def _changed(result: WhatIf, sizes: Sequence[int], per_pod: int) -> list[Change]:
    """The slots before and after of each size and level where they differ."""
    capacities = (result.before, result.after)
    before, after = (
        {(row.gpus, row.level): row for row in slots(capacity, sizes, per_pod)}
        for capacity in capacities
    )
    pairs = [
        (before.get(key), after.get(key))
        for key in sorted({*before, *after}, key=lambda key: _rank(result, key))
    ]
    return [(old, new) for old, new in pairs if (old and old.fitting) != (new and new.fitting)]


def _rank(result: WhatIf, key: tuple[int, Level]) -> tuple[int, int]:
    gpus, level = key
    return gpus, result.after.levels.index(level) if level in result.after.levels else -1


def document(result: WhatIf, table: Sequence[Change]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/planning.md describes it."""
    return {
        "gangs": [_gang(gang) for gang in result.rehomed],
        "admitted": [
            {"workload": new.subject, "answer": new.answer, "fits": new.fits}
            for new in result.admitted
        ],
        "slots": [
            {
                "gpus": known.gpus,
                "domain": known.level.domain,
                "before": old and {view.value: count for view, count in old.fitting.items()},
                "after": new and {view.value: count for view, count in new.fitting.items()},
            }
            for old, new in table
            if (known := old or new)
        ],
    }


def _gang(one: Rehomed) -> dict[str, Any]:
    return {
        "kind": one.gang.kind,
        "namespace": one.gang.namespace,
        "name": one.gang.name,
        "pods": len(one.gang.placed),
        "lost": one.lost,
        "outcome": one.outcome.value,
        "level": one.level and one.level.domain,
        "required": one.required and one.required.domain,
        "domain": list(one.domain),
        "placed": [{"pod": pod.name, "node": pod.node} for pod in one.placed],
    }


def _page(
    screen: Screen, result: WhatIf, table: Sequence[Change], held: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    order = [Outcome.WAITS, Outcome.SPREADS, Outcome.MOVES, Outcome.STAYS]
    ranked = sorted(result.rehomed, key=lambda one: order.index(one.outcome))
    for gang in ranked[:_SHOWN]:
        yield screen.paint(
            f"{'!' if gang.worse else '~'} {gang.sentence}", "yellow" if gang.worse else ""
        )
    if left := ranked[_SHOWN:]:
        worse = sum(gang.worse for gang in left)
        yield f"  and {counted(len(left), 'gang')} more, {worse:,} of them marked !; -o json lists all"
    yield from (
        f"{'+' if new.fits else '!'} {new.subject}: {new.answer}" for new in result.admitted
    )
    for name, (pods, allowed) in held.items():
        text = f"! PodDisruptionBudget {name} allows {allowed:,} of {counted(pods, 'eviction')} now"
        yield screen.paint(text, "yellow")
    if result.rehomed or result.admitted or held:
        yield ""
    if not table:
        yield "No slot is lost or gained."
        return
    yield "Gangs that fit into one domain, before -> after"
    rows = []
    for row, (old, new) in enumerate(table):
        known = old or new
        if known and not _repeated(table[row : row + 2]):
            counts = [
                tuple(side.fitting[view] if side else 0 for side in (old, new)) for view in View
            ]
            cells = [f"{a:,} -> {b:,}" if a != b else f"{a:,}" for a, b in counts]
            rows.append([f"{known.gpus:,}", known.level.domain, *cells])
    yield from columns(screen, ["GPUS", "LEVEL", "NOW", "ENDED", "EMPTY"], rows, right=(0, 2, 3, 4))


def _repeated(pair: Sequence[Change]) -> bool:
    """Whether the next narrower level has the same figures: they say all."""
    sides = [[side and (side.gpus, side.fitting) for side in change] for change in pair]
    return len(sides) > 1 and sides[0] == sides[1]


def _free(
    screen: Screen, arguments: argparse.Namespace, plan: Plan, per_pod: int, budgets: Budgets
) -> int:
    """The cheapest domain whose pods find room elsewhere; without one the cheapest, and what waits then."""
    capacity = plan.capacity
    limit = arguments.priority_below

    def movable(pod: PodView) -> bool:
        held = any(not budget.allowed for budget in budgets.of(f"{pod.namespace}/{pod.name}"))
        return not held and (limit is None or pod.priority < limit)

    level = (
        plan.level(arguments.level)
        if arguments.level
        else _level_for(plan, arguments.free, per_pod)
    )
    depth = capacity.levels.index(level) + 1
    best: tuple[Freeing, tuple[Rehomed, ...]] | None = None
    with working("domains to free"):
        found = freeings(capacity, plan.counted.pods or (), arguments.free, per_pod, depth, movable)
        for _, candidate in zip(range(_MOST_TRIED), found, strict=False):
            rehomed = vacated(
                plan.snapshot,
                arguments.topology,
                plan.capacity,
                plan.gangs,
                candidate,
                arguments.free,
                per_pod,
            )
            waiting = any(gang.outcome is Outcome.WAITS for gang in rehomed)
            if best is None or not waiting:
                best = candidate, rehomed
            if not waiting:
                break
    if best is None:
        raise CommandError(
            f"no {level.domain} can be freed for {arguments.free} GPUs: none is large enough, or pods that a "
            "PodDisruptionBudget, --priority-below or a cordon protects are in the way"
        )
    freeing, rehomed = best
    if arguments.output == "table":
        screen.show(
            _freed(screen, level.domain, freeing.domain, freeing.pods, rehomed, arguments.free)
        )
    else:
        pods, gangs = (
            [f"{pod.namespace}/{pod.name}" for pod in freeing.pods],
            [_gang(gang) for gang in rehomed],
        )
        plan_document = {
            "level": level.domain,
            "domain": list(freeing.domain),
            "pods": pods,
            "gangs": gangs,
        }
        show_document(screen, arguments.output, plan_document)
    return EXIT_PROBLEMS if any(gang.worse for gang in rehomed) else EXIT_OK


def _level_for(plan: Plan, gpus: int, per_pod: int) -> Level:
    table = list(slots(plan.capacity, (gpus,), per_pod))
    if not table:
        raise CommandError(f"no domain of any level holds {gpus:,} GPUs, even on an empty cluster")
    return table[-1].level


def _freed(
    screen: Screen,
    level: str,
    domain: Sequence[str],
    moving: Sequence[PodView],
    rehomed: Sequence[Rehomed],
    gpus: int,
) -> Iterator[str]:
    where = f"{level} {'/'.join(domain[-1:])}"
    if not moving:
        yield f"{where} has room for a gang of {gpus:,} GPUs now; no pod has to move"
        return
    leave = plural(len(moving), "leaves", "leave")
    yield f"{where} takes a gang of {gpus:,} GPUs when {counted(len(moving), 'pod')} {leave} it:"
    homes = {(pod.namespace, pod.name): pod.node for gang in rehomed for pod in gang.placed}
    for pod in moving:
        to = homes.get((pod.namespace, pod.name))
        yield f"  {pod.namespace}/{pod.name} from {pod.node}" + (
            f" to {to}" if to else ", then waits"
        )
    for gang in rehomed:
        yield screen.paint(
            f"{'!' if gang.worse else '~'} {gang.sentence}", "yellow" if gang.worse else ""
        )
