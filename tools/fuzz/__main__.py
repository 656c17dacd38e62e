"""`make fuzz`: bad input of every kind for a while, as a table; exits 1 when something broke.

A failure prints its smallest case and the command that reproduces it.
"""

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Final

from tools import figures
from tools.bench.report import aligned, number
from tools.fuzz.run import Result, guided_in_child, in_child
from tools.fuzz.sizes import size_rows
from tools.fuzz.subjects import SUBJECTS

_FUZZ_SECONDS: Final = 15.0
_HEAD: Final = ("subject", "cases", "refused", "slowest", "memory grew", "what holds")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the subjects that were named, or all."""
    options = _arguments(arguments)
    seed = _seed(options.seed)
    print(f"seed {seed}")

    names = options.names or list(SUBJECTS)
    rows, findings = _fuzz_each(names, options, seed)
    print(aligned(rows), flush=True)
    tables = {}
    for row in rows[1:]:
        tables[row[0]] = [_HEAD, row]

    if not options.no_guided and options.batches is None:
        findings += _guided(names, options.seconds, seed)
    if not options.no_sizes and not options.names:
        sizes, too_large = size_rows()
        print()
        print(aligned(sizes), flush=True)
        tables["large input"] = sizes
        findings += too_large

    for finding in findings:
        print(f"\n{finding}")
    if options.write:
        figures.write("reliability", "fuzz", tables)
    return 1 if findings else 0


def _seed(chosen: int | None) -> int:
    """The seed that is given, else a random one."""
    if chosen is not None:
        return chosen
    return random.SystemRandom().randrange(10**6)


def _fuzz_each(
    names: Sequence[str], arguments: argparse.Namespace, seed: int
) -> tuple[list[tuple[str, ...]], list[str]]:
    """A table, its head first, and the findings if there are any."""
    findings = []
    rows: list[tuple[str, ...]] = [_HEAD]
    for name in names:
        result = in_child(name, arguments.seconds, seed, arguments.batches)
        row = _row(name, result)
        rows.append(row)
        if result.finding:
            again = f'make fuzz ARGS="{name} --seed {result.seed} --batches 1"'
            findings.append(f"{name}: {result.finding}\nagain: {again}")

    return rows, findings


def _row(name: str, result: Result) -> tuple[str, ...]:
    holds = "BROKEN" if result.finding else SUBJECTS[name].promise
    return (
        name,
        f"{result.cases:,}",
        f"{result.outcomes.get('refused', 0):,}",
        f"{number(result.slowest * 1000)} ms",
        f"{number(result.grew)} MiB",
        holds,
    )


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="SUBJECT", help=f"default: all of {', '.join(SUBJECTS)}"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_FUZZ_SECONDS,
        help="for each subject (default: %(default)g)",
    )
    parser.add_argument(
        "--seed", type=int, help="of the first batch; default: a random one, which is printed"
    )
    parser.add_argument(
        "--batches", type=int, help="how many batches of 100 cases, instead of --seconds"
    )
    parser.add_argument(
        "--no-guided", action="store_true", help="without the coverage-guided part (atheris)"
    )
    parser.add_argument("--no-sizes", action="store_true", help="without the oversized inputs")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/figures/reliability.json"
    )
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(SUBJECTS))
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    return given


def _guided(names: Sequence[str], seconds: float, seed: int) -> list[str]:
    """The coverage-guided part: prints a line for each subject and returns the findings."""
    findings = []
    for name in names:
        if not SUBJECTS[name].is_guided:
            continue
        outcome, finding = guided_in_child(name, seconds, seed)
        print(f"guided by coverage: {name}: {outcome}", flush=True)
        if finding:
            findings.append(f"{name}, guided: {finding}")
    return findings


if __name__ == "__main__":
    sys.exit(main())
