"""`make simulate`: agents, two controllers and an API server under one clock, from a seed.

The corpus (tests/fixtures/seeds.yaml) runs first, then one seed after the other. A seed gives the
same run each time; one that fails is shrunk to the fewest faults, and the command that repeats it
is printed.
"""

import argparse
import logging
import os
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, count, islice, repeat, takewhile
from math import inf
from pathlib import Path
from typing import Any, Final

import yaml

from tools import figures
from tools.chaos.schedule import ScheduleError
from tools.chaos.violations import INVARIANTS
from tools.simulate import steps
from tools.simulate.runs import Run, run, shrunk
from tools.simulate.world import ACTORS
from toposcope.controller.loop import collect_rarely

CORPUS: Final = Path(__file__).parents[2] / "tests/fixtures/seeds.yaml"


def main() -> int:
    """Simulate; 1 when something did not hold."""
    arguments = _arguments()
    _prepare(log=arguments.log)
    first = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    known = [] if arguments.seed is not None else yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    try:
        if arguments.steps:
            known, arguments.seeds = [{"seed": first, "steps": arguments.steps}], 0
        planned = [
            (row["seed"], steps.read(row["steps"], ACTORS), row.get("settles", inf))
            for row in known
        ]
    except ScheduleError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    began = time.monotonic()
    done: list[Run] = []

    def goes_on(_planned: _Planned) -> bool:
        failed = any(ran.violations for ran in done)
        enough = arguments.hours and sum(ran.hours for ran in done) >= arguments.hours
        return not (failed or enough or time.monotonic() - began > 60 * arguments.minutes)

    drawn = zip(islice(count(first), arguments.seeds), repeat(None), repeat(inf))
    for ran in _runs(takewhile(goes_on, chain(planned, drawn)), log=arguments.log):
        done.append(ran)  # noqa: PERF402 - `goes_on` looks at it in between
    took = time.monotonic() - began
    return _report(
        done, took, shrink=not (arguments.no_shrink or arguments.steps), write=arguments.write
    )


_Planned = tuple[int, steps.Rounds | None, float]


def _prepare(*, log: bool = False) -> None:
    collect_rarely()
    logging.basicConfig(level=logging.INFO) if log else logging.disable(logging.CRITICAL)


def _runs(planned: Iterable[_Planned], *, log: bool) -> Iterator[Run]:
    """What is planned, in its order, on every CPU: each process runs one seed at a time.

    One that logs runs alone.
    """
    if log:
        yield from (run(seed, rounds, print, settles=settles) for seed, rounds, settles in planned)
        return
    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        ahead: deque[Future[Run]] = deque()
        for seed, rounds, settles in planned:
            ahead.append(pool.submit(run, seed, rounds, settles=settles))
            if len(ahead) > processes:
                yield ahead.popleft().result()
        yield from (future.result() for future in ahead)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.simulate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--hours",
        type=float,
        default=0.0,
        help="of cluster time; default: as many as fit into --minutes",
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="of ours, at most; default: 3")
    parser.add_argument(
        "--seed",
        type=int,
        help="the first one, without the corpus; default: one that is drawn and printed",
    )
    parser.add_argument("--seeds", type=int, help="so many, one after the other")
    parser.add_argument(
        "--steps",
        metavar="STEP,...;...",
        help="these rounds of faults, as a failed run prints them",
    )
    parser.add_argument("--no-shrink", action="store_true", help="leave a run that failed as it is")
    parser.add_argument(
        "--write", action="store_true", help="put the result into docs/figures/reliability.json"
    )
    parser.add_argument(
        "--log", action="store_true", help="print what happens, and the programs' logs"
    )
    return parser.parse_args()


def _report(done: list[Run], took: float, *, shrink: bool, write: bool) -> int:
    figure = _figure(done, took)
    for name, text in figure.items():
        print(f"{name + ':':<17}{text}")
    if write:
        figures.write("reliability", "simulate", {"simulation": [[*figure], [*figure.values()]]})
    checks: Counter[str] = Counter()
    for run_done in done:
        checks.update(run_done.checks)
    for name, what in INVARIANTS.items():
        if checks[name]:
            print(f"{checks[name]:>10,}  {what}")
    failed = [run_done for run_done in done if run_done.violations]
    for run_done in failed:
        _print_failure(run_done, shrink=shrink)
    return int(bool(failed))


def _figure(done: list[Run], took: float) -> dict[str, str]:
    """What was simulated, by the names of columns."""
    hours = sum(run_done.hours for run_done in done)
    cpu_seconds = sum(run_done.seconds for run_done in done)
    faults = 0
    states: set[int] = set()
    violations: list[str] = []
    for run_done in done:
        faults += sum(len(schedule) for schedule in run_done.rounds[: run_done.played])
        states |= run_done.states
        violations += map(str, run_done.violations)
    return {
        "simulated": f"{len(done)} runs, the last of seed {done[-1].seed}",
        "cluster time": f"{hours:,.1f} hours",
        "hours a second": f"{hours / took:.2f} ({hours / cpu_seconds:.2f} of CPU time)",
        "faults": f"{faults:,}",
        "distinct states": f"{len(states):,}",
        "found": "; ".join(violations) or "nothing",
    }


def _print_failure(failed: Run, *, shrink: bool) -> None:
    """Print the violations of the fewest faults that show one, and how to see it again."""
    least: Any = failed
    if shrink:
        least = shrunk(failed, _print_indented)
    for violation in least.violations:
        print(f"VIOLATION {violation}")
    text = steps.written(least.rounds[: least.played])
    print(f"seed {least.seed}, trace {least.trace}; again with:")
    print(f"  make simulate ARGS='--seed {least.seed} --steps {text}'")


def _print_indented(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
