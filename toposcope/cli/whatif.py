"""Show what a change would do: drain, add nodes, admit and finish workloads, or free a domain.

Changes nothing.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from toposcope.api.levels import Level
from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import CommandError, exit_code
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import NamedPlan, number, pair, read, read_budgets, working
from toposcope.cli.reach import add_tolerate, repelling_document, shape_for
from toposcope.cli.slots import add_size_arguments, per_pod_for
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.budgets import Budgets
from toposcope.planning.capacity import Capacity, FreeBasis
from toposcope.planning.changes import finished
from toposcope.planning.drain_order import over_budget
from toposcope.planning.freeing import Freeing, freeings
from toposcope.planning.gangs import Gang
from toposcope.planning.rehoming import Rehomed, RehomingOutcome
from toposcope.planning.required import RequiredLevels
from toposcope.planning.slots import Slots, shape_of, sizes_of, slots
from toposcope.planning.whatif import Changes, NewNodes, WhatIf, vacated, whatif
from toposcope.snapshot.documents import documents
from toposcope.snapshot.model import PodView
from toposcope.snapshot.problems import InputError, Problem
from toposcope.snapshot.reach import PodShape
from toposcope.text import plural

_MOST_GANGS = 15
"""Gangs listed one by one: draining a zone concerns hundreds."""
_WORST_FIRST = (
    RehomingOutcome.WAITS,
    RehomingOutcome.UNCLEAR,
    RehomingOutcome.SPREADS,
    RehomingOutcome.MOVES,
    RehomingOutcome.STAYS,
)
_MOST_TRIED = 20
"""Domains, cheapest first, for which it is computed whether the leaving pods find other room."""


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
        help="end a gang; can be repeated",
    )
    change.add_argument(
        "--add",
        type=number,
        metavar="N",
        help="add N copies of the node of the first --like, in the domains of --in",
    )
    change.add_argument(
        "--in", dest="domains", action="append", default=[], type=pair, metavar="LEVEL=VALUE",
        help="a domain of the nodes of --add; default: as the node that they copy; can be repeated",
    )  # fmt: skip
    change.add_argument(
        "--drain",
        action="append",
        default=[],
        metavar="NODE|LEVEL=VALUE",
        help="drain a node or domain; can be repeated",
    )
    change.add_argument(
        "--admit",
        action="append",
        default=[],
        metavar="FILE",
        help="admit workloads, JSON or YAML; can be repeated",
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
    parser.add_argument(
        "--like",
        action="append",
        default=[],
        metavar="NODE|FILE",
        help="a file with workloads as for `check -f`: count gangs of pods like their largest; "
        "default: like the median pod with GPUs. With --add the first --like is the node to copy. "
        "Can be repeated",
    )
    add_tolerate(parser)
    add_source_arguments(parser, ("table", "json", "yaml"))


@on_screen("whatif")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print what changes; 1 where something gets worse or does not fit, or nothing can be freed."""
    _check_flags(arguments)
    _split_like(arguments)
    budgets = Budgets()
    others = budgets if arguments.free or arguments.drain else None
    plan = read(
        arguments,
        has_published=bool(arguments.admit or arguments.like),
        others=others,
        required=RequiredLevels(),
    )
    shape = shape_for(arguments, plan.snapshot)
    pods = _GangPods(shape, per_pod_for(arguments, plan.capacity, shape))
    if arguments.free:
        read_budgets(arguments, plan.snapshot.pods or (), budgets)
        return _free(screen, arguments, plan, pods, budgets)
    return _change(screen, arguments, plan, pods, budgets)


@dataclass(frozen=True, slots=True)
class _GangPods:
    """The pods of the gangs that are counted."""

    shape: PodShape
    gpus: int
    """Of one pod."""


def _split_like(arguments: argparse.Namespace) -> None:
    """Set `new_node` to the node that `--add` copies, and `like` to the files that are left."""
    arguments.new_node = None
    if arguments.add:
        arguments.new_node, *arguments.like = arguments.like


def _check_flags(arguments: argparse.Namespace) -> None:
    """Raise CommandError where flags do not belong together."""
    has_change = any((arguments.finish, arguments.add, arguments.drain, arguments.admit))
    if has_change == bool(arguments.free):
        raise CommandError("give what changes (--drain, --add, --finish, --admit), or --free GPUS")

    has_no_node = arguments.add and not arguments.like
    has_no_number = arguments.domains and not arguments.add
    if has_no_node or has_no_number:
        raise CommandError(
            "--add N, --like NODE and --in LEVEL=VALUE belong together; --in may be left out"
        )


def _change(
    screen: Screen,
    arguments: argparse.Namespace,
    plan: NamedPlan,
    pods: _GangPods,
    budgets: Budgets,
) -> int:
    """Show what the changes do."""
    snapshot = plan.snapshot
    capacity = plan.capacity
    changes = _changes(arguments, plan)
    if arguments.drain and (budgets.budgets or not arguments.files):
        read_budgets(arguments, snapshot.pods or (), budgets)

    without_finished = finished(snapshot, changes.finish)
    held = over_budget(without_finished, budgets, changes.drain)
    with working("what changes"):
        result = whatif(snapshot, arguments.topology, capacity, plan.gangs, changes)
        sizes = arguments.gpus or sizes_of(capacity, pods.gpus, pods.shape)
        table = list(_changed(result, sizes, pods))

    if arguments.output == "table":
        screen.show([*_page(screen, result, table, held), *_uncounted(screen, plan, pods)])
    else:
        fields = document(result, table)
        fields["blockedBy"] = list(held)
        fields["tainted"] = repelling_document(plan.repelling_for(pods.shape))
        show_document(screen, arguments.output, fields)
    return exit_code(is_ok=result.is_harmless and not held)


def _uncounted(screen: Screen, plan: NamedPlan, pods: _GangPods) -> Iterator[str]:
    for line in plan.uncounted(pods.shape):
        yield screen.paint(line, "yellow")


def _changes(arguments: argparse.Namespace, plan: NamedPlan) -> Changes:
    finish: list[Gang] = []
    for name in arguments.finish:
        finish += plan.only(name)

    drain: set[str] = set()
    for wanted in arguments.drain:
        drain.update(plan.nodes(wanted))

    add = None
    if arguments.add:
        domains = {}
        for level, value in arguments.domains:
            domains[plan.level(level).key] = value
        add = NewNodes(arguments.add, plan.node(arguments.new_node), domains)

    return Changes(tuple(finish), add, frozenset(drain), tuple(_admitted(arguments)))


@dataclass(frozen=True, slots=True)
class SlotDifference:
    """The slots of one size and level, where they differ."""

    gpus: int
    level: Level
    before: Slots | None
    after: Slots | None

    @property
    def figures(self) -> tuple[Mapping[FreeBasis, int] | None, Mapping[FreeBasis, int] | None]:
        """How many gangs fit, before and after."""
        before = self.before.fitting if self.before else None
        after = self.after.fitting if self.after else None
        return before, after

    def document(self) -> dict[str, Any]:
        """Plain values."""
        before, after = self.figures
        return {
            "gpus": self.gpus,
            "domain": self.level.domain,
            "before": _plain(before),
            "after": _plain(after),
        }


def _plain(fitting: Mapping[FreeBasis, int] | None) -> dict[str, int] | None:
    if fitting is None:
        return None
    return {view.value: count for view, count in fitting.items()}


def _admitted(arguments: argparse.Namespace) -> Iterator[Any]:
    problems: list[Problem] = []
    for document in documents(arguments.admit, problems.append, limit=arguments.from_limit):
        try:
            yield document.read(dict)
        except InputError as error:
            problems += error.problems

    if problems:
        raise InputError(*problems)


def _changed(result: WhatIf, sizes: Sequence[int], pods: _GangPods) -> Iterator[SlotDifference]:
    """The slots before and after of each size and level where they differ."""
    before = _by_size_and_level(result.before, sizes, pods)
    after = _by_size_and_level(result.after, sizes, pods)
    keys = before.keys() | after.keys()
    for key in sorted(keys, key=lambda key: _rank(result, key)):
        gpus, level = key
        change = SlotDifference(gpus, level, before.get(key), after.get(key))
        old, new = change.figures
        if old != new:
            yield change


def _by_size_and_level(
    capacity: Capacity, sizes: Sequence[int], pods: _GangPods
) -> dict[tuple[int, Level], Slots]:
    rows = slots(capacity, sizes, pods.gpus, pods.shape)
    return {(row.gpus, row.level): row for row in rows}


def _rank(result: WhatIf, key: tuple[int, Level]) -> tuple[int, int]:
    """Sorts by size, and levels of one size from the broadest."""
    gpus, level = key
    levels = result.after.levels
    if level not in levels:
        return gpus, -1
    return gpus, levels.index(level)


def document(result: WhatIf, table: Sequence[SlotDifference]) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print; docs/check.md describes it."""
    admitted = []
    for new in result.admitted:
        admitted.append({"workload": new.subject, "answer": new.answer, "fits": new.fits})
    return {
        "gangs": [_gang(gang) for gang in result.rehomed],
        "admitted": admitted,
        "slots": [change.document() for change in table],
    }


def _gang(rehomed: Rehomed) -> dict[str, Any]:
    gang = rehomed.gang
    return {
        "kind": gang.kind,
        "namespace": gang.namespace,
        "name": gang.name,
        "pods": len(gang.placed),
        "lost": rehomed.lost,
        "outcome": rehomed.outcome.value,
        "broken": list(rehomed.broken),
        "level": rehomed.level.domain if rehomed.level else None,
        "required": rehomed.required.domain if rehomed.required else None,
        "domain": list(rehomed.domain),
        "placed": list(_placed(rehomed)),
    }


def _placed(rehomed: Rehomed) -> Iterator[dict[str, str]]:
    for pod in rehomed.placed:
        yield {"pod": pod.name, "node": pod.node}


def _page(
    screen: Screen,
    result: WhatIf,
    table: Sequence[SlotDifference],
    held: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
    yield from _rehomed(screen, result.rehomed)
    for new in result.admitted:
        sign = "+" if new.fits else "!"
        yield f"{sign} {new.subject}: {new.answer}"
    for name, (pods, allowed) in held.items():
        evictions = counted(pods, "eviction")
        text = f"! PodDisruptionBudget {name} allows {allowed:,} of {evictions} now"
        yield screen.paint(text, "yellow")

    if result.rehomed or result.admitted or held:
        yield ""
    if not table:
        yield "No slot is lost or gained."
        return

    yield "Gangs that fit into one domain, before -> after"
    rows = [_row(change) for change in _without_repeats(table)]
    header = ["GPUS", "LEVEL", "NOW", "ENDED", "EMPTY"]
    yield from columns(screen, header, rows, right=(0, 2, 3, 4))


def _rehomed(screen: Screen, gangs: Sequence[Rehomed]) -> Iterator[str]:
    """The outcome for each gang that loses pods, the worst first."""
    ranked = sorted(gangs, key=lambda gang: _WORST_FIRST.index(gang.outcome))
    for gang in ranked[:_MOST_GANGS]:
        yield _sentence(screen, gang)

    others = ranked[_MOST_GANGS:]
    if others:
        worse = _worse(others)
        more = counted(len(others), "gang")
        yield f"  and {more} more, {worse:,} of them marked !; -o json lists all"


def _worse(gangs: Sequence[Rehomed]) -> int:
    """How many gangs are worse off."""
    return sum(gang.is_worse for gang in gangs)


def _sentence(screen: Screen, gang: Rehomed) -> str:
    if gang.is_worse:
        return screen.paint(f"! {gang.sentence}", "yellow")
    return f"~ {gang.sentence}"


def _without_repeats(table: Sequence[SlotDifference]) -> Iterator[SlotDifference]:
    """The changes, but for those that the next narrower level repeats: it says all."""
    for place, change in enumerate(table, 1):
        following = table[place] if place < len(table) else None
        if following is None or not _repeats(change, following):
            yield change


def _repeats(change: SlotDifference, following: SlotDifference) -> bool:
    return change.gpus == following.gpus and change.figures == following.figures


def _row(change: SlotDifference) -> list[str]:
    before, after = change.figures
    row = [f"{change.gpus:,}", change.level.domain]
    for view in FreeBasis:
        old = before[view] if before else 0
        new = after[view] if after else 0
        cell = f"{old:,}"
        if old != new:
            cell += f" -> {new:,}"
        row.append(cell)
    return row


def _free(
    screen: Screen,
    arguments: argparse.Namespace,
    plan: NamedPlan,
    pods: _GangPods,
    budgets: Budgets,
) -> int:
    """Show the cheapest domain whose pods find room elsewhere, else the cheapest of all."""
    gpus = arguments.free
    level = _level_to_free(arguments, plan, pods)
    with working("domains to free"):
        freed = _best(arguments, plan, pods, level, budgets)
    if freed is None:
        raise CommandError(
            f"no {level.domain} can be freed for {gpus} GPUs: none is large enough, pods that "
            "a PodDisruptionBudget, --priority-below or a cordon protects are in the way, or "
            "pods without GPUs hold too much of CPU or memory"
        )

    if arguments.output == "table":
        page = _freed_page(screen, freed, level, gpus)
        screen.show([*page, *_uncounted(screen, plan, pods)])
    else:
        fields = freed.document(level)
        fields["tainted"] = repelling_document(plan.repelling_for(pods.shape))
        show_document(screen, arguments.output, fields)
    return exit_code(is_ok=not _worse(freed.rehomed))


@dataclass(frozen=True, slots=True)
class _Freed:
    """A domain to free, and the outcome for each gang that leaves it."""

    freeing: Freeing
    rehomed: tuple[Rehomed, ...]

    def document(self, level: Level) -> dict[str, Any]:
        """What `-o json` and `-o yaml` print; docs/check.md describes it."""
        return {
            "level": level.domain,
            "domain": list(self.freeing.domain),
            "pods": [f"{pod.namespace}/{pod.name}" for pod in self.freeing.pods],
            "gangs": [_gang(gang) for gang in self.rehomed],
        }


def _best(
    arguments: argparse.Namespace, plan: NamedPlan, pods: _GangPods, level: Level, budgets: Budgets
) -> _Freed | None:
    """The cheapest domain after whose freeing no gang waits, else the cheapest of all."""
    capacity = plan.capacity
    gpus = arguments.free

    def is_movable(pod: PodView) -> bool:
        for budget in budgets.of(f"{pod.namespace}/{pod.name}"):
            if not budget.allowed:
                return False
        limit = arguments.priority_below
        return limit is None or pod.priority < limit

    candidates = freeings(
        capacity,
        plan.counted.pods or (),
        gpus,
        per_pod=pods.gpus,
        like=pods.shape,
        depth=capacity.levels.index(level) + 1,
        movable=is_movable,
    )
    cheapest: _Freed | None = None
    for freeing in islice(candidates, _MOST_TRIED):
        rehomed = vacated(
            plan.snapshot,
            arguments.topology,
            capacity,
            plan.gangs,
            freeing=freeing,
            gang=shape_of(gpus, pods.gpus, pods.shape),
        )
        freed = _Freed(freeing, rehomed)
        if not any(gang.is_waiting_or_unclear for gang in rehomed):
            return freed
        cheapest = cheapest or freed
    return cheapest


def _freed_page(screen: Screen, freed: _Freed, level: Level, gpus: int) -> Iterator[str]:
    value = "/".join(freed.freeing.domain[-1:])
    where = f"{level.domain} {value}"
    moving = freed.freeing.pods
    if not moving:
        yield f"{where} has room for a gang of {gpus:,} GPUs now; no pod has to move"
        return

    count = len(moving)
    pods = counted(count, "pod")
    leave = plural(count, "leaves", "leave")
    yield f"{where} takes a gang of {gpus:,} GPUs when {pods} {leave} it:"
    new_nodes = {}
    for gang in freed.rehomed:
        for pod in gang.placed:
            new_nodes[pod.namespace, pod.name] = pod.node

    for pod in moving:
        new_node = new_nodes.get((pod.namespace, pod.name))
        then = f" to {new_node}" if new_node else ", then waits"
        yield f"  {pod.namespace}/{pod.name} from {pod.node}{then}"
    for gang in freed.rehomed:
        yield _sentence(screen, gang)


def _level_to_free(arguments: argparse.Namespace, plan: NamedPlan, pods: _GangPods) -> Level:
    """The level that `--level` names, else the narrowest with domains of that size."""
    if arguments.level:
        return plan.level(arguments.level)

    table = list(slots(plan.capacity, (arguments.free,), pods.gpus, pods.shape))
    if not table:
        left_out = "".join(f"; {line.removeprefix('! ')}" for line in plan.uncounted(pods.shape))
        raise CommandError(
            f"no domain of any level holds {arguments.free:,} GPUs, even on an empty cluster"
            + left_out
        )
    return table[-1].level
