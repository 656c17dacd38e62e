"""Show how well running gangs are placed: the domains each spans, and the fewest it could span."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from toposcope.cli.command import add_source_arguments, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS
from toposcope.cli.output import counted, show_document
from toposcope.cli.planning import Plan, read, working
from toposcope.cli.terminal import Screen, columns
from toposcope.planning.score import Score, Spread, scores


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
    plan = read(arguments)
    with working("scores"):
        gangs = plan.only(arguments.workload) if arguments.workload else plan.gangs
        made = scores(plan.capacity, gangs)
    shown = (
        made
        if arguments.below is None
        else [score for score in made if score.value < arguments.below]
    )
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, {"gangs": [document(score) for score in shown]})
    elif arguments.output == "name":
        screen.show(score.gang.handle for score in shown)
    else:
        screen.show(_page(screen, plan, made, shown, wide=arguments.output == "wide"))
    return EXIT_PROBLEMS if arguments.below is not None and shown else EXIT_OK


def document(score: Score) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one gang; docs/cli.md describes it."""
    gang = score.gang
    return {
        "kind": gang.kind,
        "namespace": gang.namespace,
        "name": gang.name,
        "scheduler": gang.scheduler,
        "pods": len(gang.placed),
        "gpus": gang.gpus,
        "score": round(score.value, 3),
        "betterNow": score.better_now,
        "levels": [
            {
                "domain": spread.level.domain,
                "spans": spread.spans,
                "fewestNow": spread.now,
                "fewest": spread.empty,
            }
            for spread in score.spreads
        ],
    }


def _page(
    screen: Screen, plan: Plan, made: Sequence[Score], shown: Sequence[Score], *, wide: bool
) -> Iterator[str]:
    if not shown:
        yield (
            f"no gang scores that low ({len(made):,} checked)"
            if made
            else "no gang of several GPU pods is running"
        )
    else:
        header = ["SCORE", "GANG", "KIND", "GPUS", "SPANS", "COULD NOW", "AT BEST"]
        rows = [
            [
                f"{score.value:.2f}",
                score.gang.handle,
                score.gang.kind,
                f"{score.gang.gpus:,}",
                _counts(
                    (spread, spread.spans)
                    for spread in score.spreads
                    if wide or spread.empty < spread.worst
                )
                or "-",
                _counts(
                    (spread, spread.now)
                    for spread in score.spreads
                    if score.better_now and _less(spread)
                )
                or "-",
                _counts(
                    (spread, spread.empty)
                    for spread in score.spreads
                    if spread.empty < spread.spans
                )
                or "-",
            ]
            for score in shown
        ]
        yield from columns(screen, header, rows, right=(0, 3))
    unscored = sum(len(gang.placed) > 1 for gang in plan.gangs) - len(made)
    if unscored and len(made) != 1:
        yield screen.paint(
            f"! {counted(unscored, 'gang')} not scored: a node of theirs lacks a level", "yellow"
        )
    yield from (screen.paint(line, "yellow") for line in plan.uncounted())


def _less(spread: Spread) -> bool:
    return spread.now is not None and spread.now < spread.spans


def _counts(pairs: Iterator[tuple[Spread, int | None]]) -> str:
    """`rack 4, host 8`."""
    return ", ".join(f"{spread.level.domain} {count}" for spread, count in pairs)
