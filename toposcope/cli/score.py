"""Show how well running gangs are placed: the domains each spans, and the fewest it could span."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import exit_code
from toposcope.cli.kept import kept_gang_document
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import NamedPlan, read, working
from toposcope.cli.reach import add_tolerate, repelling_document
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.gangs import Gang
from toposcope.planning.kept import KeptResult
from toposcope.planning.kept_gangs import KeptGang
from toposcope.planning.kept_words import kept_lines
from toposcope.planning.required import RequiredLevels
from toposcope.planning.score import Score, Spread, scores

_HEADER: Final = ("SCORE", "GANG", "KIND", "GPUS", "SPANS", "COULD NOW", "AT BEST")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope score`."""
    parser.add_argument(
        "workload", nargs="?", metavar="[NAMESPACE/]NAME", help="one gang; default: all that run"
    )
    parser.add_argument(
        "--topology", metavar="NAME", help="a ClusterTopology; default: the only one"
    )
    about = "show only gangs that score less, and exit with 1 if there are any; from 0 to 1"
    parser.add_argument("--below", type=_share, metavar="SCORE", help=about)
    add_tolerate(parser)
    add_source_arguments(parser)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0

    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a score; give a number from 0 to 1, such as 0.8"
        )
    return share


@on_screen("score")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the scores; 1 where one is below `--below`."""
    plan = read(arguments, required=RequiredLevels())
    with working("scores"):
        gangs = plan.only(arguments.workload) if arguments.workload else plan.gangs
        every_score = scores(plan.capacity, gangs)
        kept = list(_kept(plan, gangs))

    shown = list(every_score)
    if arguments.below is not None:
        shown = list(_below(arguments.below, every_score))

    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, _whole_document(plan, shown, kept))
    elif arguments.output == "name":
        screen.show(score.gang.handle for score in shown)
    else:
        is_wide = arguments.output == "wide"
        table = list(_table(screen, shown, kept, is_wide=is_wide))
        screen.show(_page(screen, plan, table, kept, checked=len(every_score)))

    return exit_code(is_ok=arguments.below is None or not shown)


def _kept(plan: NamedPlan, gangs: Sequence[Gang]) -> Iterator[KeptGang]:
    """The gangs that require a level, of these."""
    names = {gang.key for gang in gangs}
    for kept in plan.kept:
        if kept.gang.key in names:
            yield kept


def _whole_document(
    plan: NamedPlan, shown: Sequence[Score], kept: Sequence[KeptGang]
) -> dict[str, Any]:
    return {
        "gangs": [document(score) for score in shown],
        "kept": [kept_gang_document(gang) for gang in kept],
        "tainted": repelling_document(plan.repelling),
    }


def _below(limit: float, every_score: Sequence[Score]) -> Iterator[Score]:
    for score in every_score:
        if score.value < limit:
            yield score


def document(score: Score) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one gang; docs/check.md describes it."""
    gang = score.gang
    return {
        "kind": gang.kind,
        "namespace": gang.namespace,
        "name": gang.name,
        "scheduler": gang.scheduler,
        "pods": len(gang.placed),
        "gpus": gang.gpus,
        "score": round(score.value, 3),
        "betterNow": score.can_improve,
        "levels": [_level(spread) for spread in score.spreads],
    }


def _level(spread: Spread) -> dict[str, Any]:
    return {
        "domain": spread.level.domain,
        "spans": spread.spans,
        "fewestNow": spread.now,
        "fewest": spread.empty,
    }


def _table(
    screen: Screen, shown: Sequence[Score], kept: Sequence[KeptGang], *, is_wide: bool
) -> Iterator[str]:
    """The scores; with a column KEPT where some gang requires a level."""
    if not shown:
        return
    header = list(_HEADER)
    rows = [_row(score, is_wide=is_wide) for score in shown]
    if kept:
        results = {gang.gang.key: gang.result.value for gang in kept}
        header.append("KEPT")
        for score, row in zip(shown, rows, strict=True):
            row.append(results.get(score.gang.key, "-"))
    yield from columns(screen, header, rows, right=(0, 3))


def _page(
    screen: Screen,
    plan: NamedPlan,
    table: Sequence[str],
    kept: Sequence[KeptGang],
    *,
    checked: int,
) -> Iterator[str]:
    if table:
        yield from table
    elif checked:
        yield f"no gang scores that low ({checked:,} checked)"
    else:
        yield "no gang of several GPU pods is running"

    for gang in kept:
        style = "red" if gang.result is KeptResult.VIOLATION else "yellow"
        for line in kept_lines(gang):
            yield screen.paint(f"! {gang.gang.handle}: {line}", style)

    unscored = _scorable(plan) - checked
    if unscored and checked != 1:
        text = f"! {counted(unscored, 'gang')} not scored: they run on nodes that lack a level"
        yield screen.paint(text, "yellow")

    for line in plan.uncounted():
        yield screen.paint(line, "yellow")


def _scorable(plan: NamedPlan) -> int:
    """How many gangs have several pods."""
    count = 0
    for gang in plan.gangs:
        if len(gang.placed) > 1:
            count += 1
    return count


def _row(score: Score, *, is_wide: bool) -> list[str]:
    gang = score.gang
    spans = []
    for spread in score.spreads:
        if is_wide or spread.empty < spread.worst:
            spans.append(f"{spread.level.domain} {spread.spans}")
    return [
        f"{score.value:.2f}",
        gang.handle,
        gang.kind,
        f"{gang.gpus:,}",
        ", ".join(spans) or "-",
        ", ".join(_could_now(score)) or "-",
        ", ".join(_at_best(score)) or "-",
    ]


def _could_now(score: Score) -> Iterator[str]:
    """The levels at which it could span fewer domains now."""
    if score.can_improve:
        for spread in score.spreads:
            if spread.now is not None and spread.now < spread.spans:
                yield f"{spread.level.domain} {spread.now}"


def _at_best(score: Score) -> Iterator[str]:
    """The levels at which it could span fewer domains on an empty cluster."""
    for spread in score.spreads:
        if spread.empty < spread.spans:
            yield f"{spread.level.domain} {spread.empty}"
