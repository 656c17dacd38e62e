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
    collect_rarely()
    logging.basicConfig(level=logging.INFO) if arguments.log else logging.disable(logging.CRITICAL)
    first = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    told: Callable[[str], None] = print if arguments.log else lambda _: None
    known = [] if arguments.seed is not None else yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    try:
        if arguments.steps:
            known, arguments.seeds = [{"seed": first, "steps": arguments.steps}], 0
        planned = [(row["seed"], steps.read(row["steps"], ACTORS), row.get("settles", inf)) for row in known]
    except ScheduleError as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 2
    began, real = time.process_time(), time.monotonic()
    done: list[Run] = []
    drawn = zip(islice(count(first), arguments.seeds), repeat(None), repeat(inf))
    for seed, rounds, settles in chain(planned, drawn):
        done.append(run(seed, rounds, told, settles=settles))
        enough = arguments.hours and sum(one.hours for one in done) >= arguments.hours
        if done[-1].violations or enough or time.monotonic() - real > 60 * arguments.minutes:
            break
    return _report(done, began, shrink=not (arguments.no_shrink or arguments.steps), write=arguments.write)


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
    parser.add_argument("--write", action="store_true", help="put the result into docs/figures/reliability.json")
    parser.add_argument("--log", action="store_true", help="print what happens, and the programs' logs")
    return parser.parse_args()


def _report(done: list[Run], began: float, *, shrink: bool, write: bool) -> int:
    took = time.process_time() - began
    hours = sum(one.hours for one in done)
    failed = [one for one in done if one.violations]
    figure = {
        "simulated": f"{len(done)} runs, the last of seed {done[-1].seed}",
        "cluster time": f"{hours:,.1f} hours",
        "CPU time": f"{took:,.0f} s ({hours / took:.2f} hours a second)",
        "faults": f"{sum(len(schedule) for one in done for schedule in one.rounds[: one.played]):,}",
        "distinct states": f"{len(set().union(*(one.states for one in done))):,}",
        "found": "; ".join(str(violation) for one in failed for violation in one.violations) or "nothing",
    }
    print("\n".join(f"{name + ':':<17}{text}" for name, text in figure.items()))
    if write:
        figures.write("reliability", "simulate", {"simulation": [[*figure], [*figure.values()]]})
    checks: Counter[str] = Counter()
    for one in done:
        checks.update(one.checks)
    for name, what in INVARIANTS.items():
        if checks[name]:
            print(f"{checks[name]:>10,}  {what}")
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
