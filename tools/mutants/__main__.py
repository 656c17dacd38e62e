"""`make mutants`: change code and admission policies, one small thing at a time; some test has to fail each time.

Results are kept in mutants/, and a run goes on where the last one ended; what survived unexplained is tried again.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from tools import figures
from tools.bench.report import aligned
from tools.mutants import code, policies
from tools.mutants.mutant import Mutant, changed_since, complaints, current, new_since

_HEAD: Final = ("file", "mutants", "tried", "killed", "explained", "score")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try what the arguments choose; 1 when a mutant survives that `tests/mutants.yaml` does not explain."""
    given = _parser().parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes if given.minutes else None
    explained = {name for entry in policies.KNOWN["explained"] for name in entry["mutants"]}
    changed = changed_since(given.since) if given.since else None
    found: list[Mutant] = []
    killed: dict[Mutant, bool] = {}
    left_out: list[Mutant] = []
    for kind in (code, policies):
        paths = [path for path in kind.paths() if any(fnmatch.fnmatch(path, pattern) for pattern in given.only)]
        paths = [path for path in paths if changed is None or path in changed]
        every = chosen = [mutant for path in paths for mutant in kind.mutants(path, current(path))]
        if given.since:
            chosen = [mutant for path in paths for mutant in new_since(given.since, path, kind.mutants)]
        sample = [mutant for mutant in chosen if mutant.is_in_sample(given.share, given.seed)]
        results = {mutant: dead for path in paths for mutant, dead in kind.results(path)}
        if todo := [
            mutant for mutant in sample if not (results.get(mutant) or (mutant in results and str(mutant) in explained))
        ]:
            print(f"{len(todo)} mutants in {len(paths)} files ...", flush=True)
            kind.run(todo, end and max(1.0, end - time.monotonic()))
            results = {mutant: dead for path in paths for mutant, dead in kind.results(path)}
        killed |= {mutant: results[mutant] for mutant in chosen if mutant in results}
        left_out += [mutant for mutant in sample if mutant not in results]
        found += every
    rows = [_HEAD, *_rows(found, killed, explained)]
    print(aligned(rows))
    for complaint in (wrong := list(complaints(found, killed, explained))):
        print(complaint)
    print(f"left out for want of time: {len(left_out)}")
    if given.write:
        by_folder = groupby(rows[1:], lambda row: row[0].rpartition("/")[0].strip("`"))
        tables = {f"mutants of {folder}": [_HEAD, *of_folder] for folder, of_folder in by_folder}
        figures.write("reliability", "mutants", tables)
    return 1 if wrong else 0


def _rows(found: Iterable[Mutant], killed: Mapping[Mutant, bool], explained: Collection[str]) -> Iterable[list[str]]:
    """A row for each file of which some were tried; the score is the share that a test killed."""
    for path, group in groupby(found, attrgetter("path")):
        mutants = list(group)
        tried = [mutant for mutant in mutants if mutant in killed]
        if tried:
            dead = sum(killed[mutant] for mutant in tried)
            alive = sum(not killed[mutant] and str(mutant) in explained for mutant in tried)
            counts = (f"{count:,}" for count in (len(mutants), len(tried), dead, alive))
            yield [f"`{path}`", *counts, f"{100 * dead // len(tried)} %"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "only", nargs="*", default=["*"], metavar="FILE", help="patterns, such as 'toposcope/topology/*'"
    )
    parser.add_argument("--since", metavar="REVISION", help="only lines that changed since this revision of git")
    parser.add_argument("--share", type=float, default=1.0, help="of all mutants, a sample (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="the time after which none is begun")
    parser.add_argument(
        "--write", action="store_true", help="put the tables of whole folders into docs/figures/reliability.json"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
