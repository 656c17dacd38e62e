"""`make simulate`: agents, two controllers and an API server under one clock and one scheduler, from a printed seed.

The corpus (tests/fixtures/seeds.yaml) runs first, then one seed after the other. A seed gives the same run each time;
one that fails is shrunk to the fewest faults, and the command that repeats it is printed.
"""

import argparse
import logging
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import Any, Final

import yaml

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
    collect_rarely()
    logging.basicConfig(level=logging.INFO) if arguments.log else logging.disable(logging.CRITICAL)
    first = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    told: Callable[[str], None] = print if arguments.log else lambda _: None
    known = [] if arguments.seed is not None else yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    try:
        if arguments.steps:
            known, arguments.seeds = [{"seed": first, "steps": arguments.steps}], 0
        planned = [(row["seed"], steps.read(row["steps"], ACTORS)) for row in known]
    except ScheduleError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    began, real = time.process_time(), time.monotonic()
    done: list[Run] = []
    for seed, rounds in chain(planned, zip(islice(count(first), arguments.seeds), repeat(None))):
        done.append(run(seed, rounds, told))
        enough = arguments.hours and sum(one.hours for one in done) >= arguments.hours
        if done[-1].violations or enough or time.monotonic() - real > 60 * arguments.minutes:
            break
    return _report(done, began, shrink=not (arguments.no_shrink or arguments.steps))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.simulate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--hours", type=float, default=0.0, help="of cluster time; default: as many as fit into --minutes"
    )
    parser.add_argument("--minutes", type=float, default=3.0, help="of ours, at most; default: 3")
    parser.add_argument(
        "--seed", type=int, help="the first one, without the corpus; default: one that is drawn and printed"
    )
    parser.add_argument("--seeds", type=int, help="so many, one after the other")
    parser.add_argument("--steps", metavar="STEP,...;...", help="these rounds of faults, as a failed run prints them")
    parser.add_argument("--no-shrink", action="store_true", help="leave a run that failed as it is")
    parser.add_argument("--log", action="store_true", help="print what happens, and the programs' logs")
    return parser.parse_args()


def _report(done: list[Run], began: float, *, shrink: bool) -> int:
    took = time.process_time() - began
    hours = sum(one.hours for one in done)
    states = len(set().union(*(one.states for one in done)))
    faults = sum(len(steps_of) for one in done for steps_of in one.rounds[: one.played])
    print(f"{len(done)} runs, the last of seed {done[-1].seed}: {hours:.1f} hours of cluster time")
    print(f"in {took:.0f} s ({hours / took:.2f} hours a second), {faults:,} faults, {states:,} distinct states")
    checks: Counter[str] = Counter()
    for one in done:
        checks.update(one.checks)
    for name, what in INVARIANTS.items():
        if checks[name]:
            print(f"{checks[name]:>10,}  {what}")
    failed = [one for one in done if one.violations]
    for one in failed:
        least: Any = shrunk(one, lambda text: print(f"  {text}", flush=True)) if shrink else one
        for violation in least.violations:
            print(f"VIOLATION {violation}")
        text = steps.written(least.rounds[: least.played])
        print(f"seed {least.seed}, trace {least.trace}; again with:")
        print(f"  make simulate ARGS='--seed {least.seed} --steps {text}'")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
