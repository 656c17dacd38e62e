"""`make fuzz`: bad input of every kind for a while, as a table; 1 when something broke.

A failure prints its smallest case and the command that makes it again.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Final

from tools import figures
from tools.bench.report import aligned, number
from tools.fuzz.child import Ending, guided_in_child, in_child
from tools.fuzz.engine import Result
from tools.fuzz.sizes import size_rows
from tools.fuzz.subjects import SUBJECTS

_SECONDS: Final = 15.0
_HEAD: Final = ("subject", "cases", "refused", "slowest", "memory grew", "what holds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SUBJECT", help=f"default: all of {', '.join(SUBJECTS)}")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for each subject (default: %(default)g)")
    parser.add_argument("--seed", type=int, help="where the cases begin; printed when it is not given")
    parser.add_argument("--batches", type=int, help="so many batches of 100 cases instead of seconds")
    parser.add_argument("--no-guided", action="store_true", help="without the coverage-guided part (atheris)")
    parser.add_argument("--no-sizes", action="store_true", help="without the inputs that are bad by being large")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/figures/reliability.json")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(SUBJECTS))
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}")
    names = given.names or list(SUBJECTS)
    findings = []
    rows: list[tuple[str, ...]] = [_HEAD]
    for name in names:
        ending = in_child(name, given.seconds, seed, given.batches)
        rows.append(_row(name, ending))
        findings += _finding(name, ending)
    print(aligned(rows), flush=True)
    tables = {"input": rows}
    if not given.no_guided and given.batches is None:
        findings += _guided([name for name in names if SUBJECTS[name].guided], given.seconds, seed)
    if not given.no_sizes and not given.names:
        print()
        tables["large input"], wrong = size_rows()
        print(aligned(tables["large input"]), flush=True)
        findings += wrong
    for finding in findings:
        print(f"\n{finding}")
    if given.write:
        figures.write("reliability", "fuzz", tables)
    return 1 if findings else 0


def _row(name: str, ending: Ending) -> tuple[str, ...]:
    result = ending.result or Result(name)
    return (
        name,
        f"{result.cases:,}",
        f"{result.outcomes['refused']:,}",
        f"{number(result.slowest * 1000)} ms",
        f"{number(ending.grew)} MiB",
        "BROKEN" if ending.finding else SUBJECTS[name].promise,
    )


def _finding(name: str, ending: Ending) -> list[str]:
    if not ending.finding:
        return []
    seed = ending.result.seed if ending.result else ending.seed
    again = f'make fuzz ARGS="{name} --seed {seed} --batches 1"'
    return [f"{name}: {ending.finding}\nagain: {again}"]


def _guided(names: Sequence[str], seconds: float, seed: int) -> list[str]:
    """The coverage-guided part, told in a line a subject."""
    findings = []
    for name in names:
        told, finding = guided_in_child(name, seconds, seed)
        print(f"guided by coverage: {name}: {told}", flush=True)
        findings += [f"{name}, guided: {finding}"] if finding else []
    return findings


if __name__ == "__main__":
    sys.exit(main())
