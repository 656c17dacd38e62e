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
from itertools import chain, count, islice, takewhile
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

_Planned = tuple[int, steps.Rounds | None, float]
CORPUS: Final = Path(__file__).parents[2] / "tests/fixtures/seeds.yaml"


def main() -> int:
    """Simulate; 1 when something did not hold."""
    arguments = _arguments()
    _prepare(log=arguments.log)
    first = arguments.seed
    if first is None:
        first = secrets.randbelow(1 << 31)
    seeds = arguments.seeds
    if arguments.steps:
        seeds = 0
    try:
        planned = _known_rounds(arguments, first)
    except ScheduleError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2

    began = time.monotonic()
    done: list[Run] = []

    def goes_on(_: _Planned) -> bool:
        minutes = (time.monotonic() - began) / 60
        if minutes > arguments.minutes or any(ran.violations for ran in done):
            return False
        if not arguments.hours:
            return True
        hours = sum(ran.hours for ran in done)
        return bool(hours < arguments.hours)

    drawn = _drawn(first, seeds)
    wanted = takewhile(goes_on, chain(planned, drawn))
    for ran in _runs(wanted, log=arguments.log):
        done.append(ran)  # noqa: PERF402 - `goes_on` looks at it in between

    took = time.monotonic() - began
    may_shrink = not arguments.no_shrink and not arguments.steps
    return _report(done, took, shrink=may_shrink, write=arguments.write)


def _known_rounds(arguments: argparse.Namespace, first: int) -> list[_Planned]:
    """The rounds that were given; without a seed those of the corpus. Raises ScheduleError."""
    rows: list[dict[str, Any]] = []
    if arguments.steps:
        rows.append({"seed": first, "steps": arguments.steps})
    elif arguments.seed is None:
        text = CORPUS.read_text(encoding="utf-8")
        rows += yaml.load(text, yaml.CSafeLoader)

    planned: list[_Planned] = []
    for row in rows:
        rounds = steps.read(row["steps"], ACTORS)
        settles = row.get("settles", inf)
        planned.append((row["seed"], rounds, settles))
    return planned


def _drawn(first: int, seeds: int | None) -> Iterator[_Planned]:
    """So many seeds, each with rounds of its own; without a number for ever."""
    for seed in islice(count(first), seeds):
        yield seed, None, inf


def _prepare(*, log: bool = False) -> None:
    collect_rarely()
    logging.basicConfig(level=logging.INFO) if log else logging.disable(logging.CRITICAL)


def _runs(planned: Iterable[_Planned], *, log: bool) -> Iterator[Run]:
    """What is planned, in its order, on every CPU: each process runs one seed at a time.

    A run that logs runs alone.
    """
    if log:
        for seed, rounds, settles in planned:
            yield run(seed, rounds, print, settles=settles)
        return

    processes = os.cpu_count() or 1
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        ahead: deque[Future[Run]] = deque()
        for seed, rounds, settles in planned:
            future = pool.submit(run, seed, rounds, settles=settles)
            ahead.append(future)
            if len(ahead) > processes:
                yield ahead.popleft().result()
        for future in ahead:
            yield future.result()


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
    parser.add_argument(
        "--minutes",
        type=float,
        default=3.0,
        help="of ours, at most; default: 3",
    )
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
    parser.add_argument(
        "--no-shrink",
        action="store_true",
        help="leave a run that failed as it is",
    )
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
        title = f"{name}:"
        print(f"{title:<17}{text}")
    if write:
        rows = [list(figure), list(figure.values())]
        figures.write("reliability", "simulate", {"simulation": rows})

    checks: Counter[str] = Counter()
    for ran in done:
        checks.update(ran.checks)
    for name, what in INVARIANTS.items():
        count = checks[name]
        if count:
            print(f"{count:>10,}  {what}")

    failures = 0
    for ran in done:
        if ran.violations:
            failures += 1
            _print_failure(ran, shrink=shrink)
    return 1 if failures else 0


def _figure(done: list[Run], took: float) -> dict[str, str]:
    """What was simulated, by the names of columns."""
    hours = 0.0
    cpu_seconds = 0.0
    faults = 0
    states: set[int] = set()
    violations: list[str] = []
    for ran in done:
        hours += ran.hours
        cpu_seconds += ran.seconds
        states |= ran.states
        violations += map(str, ran.violations)
        played = ran.rounds[: ran.played]
        for schedule in played:
            faults += len(schedule)

    violations_text = "; ".join(violations)
    if not violations_text:
        violations_text = "nothing"
    last = done[-1].seed
    speed = hours / took
    speed_of_cpu = hours / cpu_seconds
    return {
        "simulated": f"{len(done)} runs, the last of seed {last}",
        "cluster time": f"{hours:,.1f} hours",
        "hours a second": f"{speed:.2f} ({speed_of_cpu:.2f} of CPU time)",
        "faults": f"{faults:,}",
        "distinct states": f"{len(states):,}",
        "found": violations_text,
    }


def _print_failure(failed: Run, *, shrink: bool) -> None:
    """Print the violations of the fewest faults that show one, and how to see it again."""
    least: Any = failed
    if shrink:
        least = shrunk(failed, _print_indented)
    for violation in least.violations:
        print(f"VIOLATION {violation}")

    seed = least.seed
    played = least.rounds[: least.played]
    text = steps.written(played)
    print(f"seed {seed}, trace {least.trace}; again with:")
    print(f"  make simulate ARGS='--seed {seed} --steps \"{text}\"'")


def _print_indented(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
