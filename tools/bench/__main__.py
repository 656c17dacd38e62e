"""`make bench ARGS="[NAME ...]"`: measure and print.

A figure that misses its target is news, not a failure.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tools import figures
from tools.bench.agent import memory_figures, probe_figures, start_figures
from tools.bench.bindings import bindings_figures
from tools.bench.controller import change_figures, sync_figures
from tools.bench.node_endpoint import endpoint_figures
from tools.bench.one_agent import flapping_figures, rest_figures
from tools.bench.plan_watches import plan_figures
from tools.bench.real import real_figures
from tools.bench.recompute import recompute_figures
from tools.bench.report import HEAD, Figure, aligned, rows_of
from tools.bench.rings import rings_figures
from tools.bench.snapshot_commands import look_figures, planning_figures
from tools.bench.topologies import topologies_figures
from tools.bench.ui import ui_figures

_FIGURES: Final[tuple[Callable[..., Iterator[Figure]], ...]] = (
    memory_figures,
    start_figures,
    probe_figures,
    rest_figures,
    flapping_figures,
    recompute_figures,
    sync_figures,
    change_figures,
    topologies_figures,
    real_figures,
    plan_figures,
    bindings_figures,
    endpoint_figures,
    rings_figures,
    look_figures,
    planning_figures,
    ui_figures,
)
SUBJECTS: Final = {figures.__name__.removesuffix("_figures"): figures for figures in _FIGURES}


def main() -> int:
    """Measure what was asked for; 1 when a measurement itself failed."""
    arguments = _arguments()
    print(figures.machine())
    failed = False
    for name in arguments.names or SUBJECTS:
        began = time.monotonic()
        rows, error = _measured(name, quick=arguments.quick)
        print(f"\n{name} ({time.monotonic() - began:.0f} s)")
        has_figures = len(rows) > 1
        if has_figures:
            print(aligned(rows))
        if error:
            failed = True
            print(error)
        sys.stdout.flush()
        if arguments.write and has_figures and not error:
            figures.write("performance", "bench", {name: rows})
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    names = ", ".join(SUBJECTS)
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"one of {names}; default: all",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer runs and smaller clusters",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the figures into docs/figures/performance.json",
    )

    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(SUBJECTS))
    if unknown:
        listed = ", ".join(unknown)
        parser.error(f"no such measurement: {listed}; there are {names}")
    if arguments.quick and arguments.write:
        parser.error("--write is for whole runs: leave out --quick")
    return arguments


def _measured(name: str, *, quick: bool) -> tuple[list[Sequence[str]], str]:
    """The rows of one subject, its head first, and why there are no more of them."""
    rows: list[Sequence[str]] = [HEAD]
    try:
        for figure in SUBJECTS[name](quick=quick):
            rows += rows_of(figure)  # what was measured before a failure took its time too
    except Exception as failure:  # noqa: BLE001 - the others are still worth measuring
        return rows, f"failed: {type(failure).__name__}: {failure}"
    return rows, ""


if __name__ == "__main__":
    sys.exit(main())
